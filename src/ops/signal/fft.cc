#include "ops/signal/fft.h"

#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

namespace tessera {
namespace {

using Complex = Fft::Complex;

constexpr int kRadices[] = {4, 2, 3, 5, 7, 11, 13};
constexpr int kMostRadix = 13;

Complex operator+(Complex a, Complex b) { return {a.re + b.re, a.im + b.im}; }
Complex operator-(Complex a, Complex b) { return {a.re - b.re, a.im - b.im}; }
Complex operator*(Complex a, Complex b) { return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}; }

Result<Tensor> complex_table(int64_t n) {
  TRY_ASSIGN(t, Tensor::allocate(DType::c128, Shape{n}));
  return std::move(t);
}
Complex* complexes(Tensor& t) { return static_cast<Complex*>(t.mutable_data()); }

}  // namespace

// The angle is brought into the first eighth of the circle in whole numbers, so that sine and cosine see a small and
// almost exact argument.
Complex unit_root(int64_t k, int64_t n) {
  const int64_t eighths = 8 * k;
  const int octant = static_cast<int>(eighths / n);
  const int64_t rest = eighths % n;
  const double angle =
      static_cast<double>(octant % 2 ? n - rest : rest) * (std::numbers::pi / 4) / static_cast<double>(n);
  double c = std::cos(angle), s = std::sin(angle);
  if (octant % 4 == 1 || octant % 4 == 2) std::swap(c, s);
  if (octant >= 2 && octant < 6) c = -c;
  if (octant >= 4) s = -s;
  return {c, s};
}

Result<Tensor> Fft::roots(int64_t n, bool inverse) {
  TRY_ASSIGN(t, complex_table(n));
  Complex* w = complexes(t);
  for (int64_t k = 0; k < n; ++k) {
    w[k] = unit_root(k, n);
    if (!inverse) w[k].im = -w[k].im;
  }
  return std::move(t);
}

Result<Fft> Fft::make(int64_t n, bool inverse) {
  if (n < 1 || n > int64_t{1} << 40) return invalid("there is no Fourier transform of {} points", n);
  Fft f;
  f.n_ = n;
  f.sign_ = inverse ? 1 : -1;
  int64_t rest = n;
  for (const int radix : kRadices)
    for (; rest % radix == 0; rest /= radix) f.radices_[f.stages_++] = radix;
  if (rest > 1) {
    TRY(f.prepare_convolution());
  } else {
    TRY_ASSIGN(w, roots(n, inverse));
    f.roots_ = std::move(w);
  }
  return f;
}

// 2 j k = j j + k k - (k - j)(k - j) makes the sum a convolution with the conjugated chirp.
Status Fft::prepare_convolution() {
  int64_t length = 1;
  while (length < 2 * n_ - 1) length *= 2;
  TRY_ASSIGN(inner, make(length, false));
  TRY_ASSIGN(chirp, complex_table(n_));
  TRY_ASSIGN(filter, complex_table(length));
  TRY_ASSIGN(work, complex_table(inner.work()));
  Complex *c = complexes(chirp), *f = complexes(filter);
  std::memset(static_cast<void*>(f), 0, static_cast<size_t>(filter.bytes()));
  int64_t square = 0;  // k * k modulo 2 n
  for (int64_t k = 0; k < n_; ++k) {
    const Complex w = unit_root(square, 2 * n_);
    c[k] = {w.re, sign_ * w.im};
    f[k] = {w.re / static_cast<double>(length), -sign_ * w.im / static_cast<double>(length)};
    if (k > 0) f[length - k] = f[k];
    square = (square + 2 * k + 1) % (2 * n_);
  }
  inner.transform(f, complexes(work));
  convolution_ = std::make_shared<const Fft>(std::move(inner));
  chirp_ = std::move(chirp);
  filter_ = std::move(filter);
  return {};
}

void Fft::transform(Complex* x, Complex* work) const {
  if (convolution_) return convolve(x, work);
  mixed_radix(x, work);
}

// Stockham's form: every stage writes the other array, and the result comes out in order.
void Fft::mixed_radix(Complex* x, Complex* work) const {
  Complex *from = x, *to = work;
  int64_t length = n_, step = 1;
  for (int k = 0; k < stages_; ++k) {
    length /= radices_[k];
    stage(radices_[k], length, step, from, to);
    step *= radices_[k];
    std::swap(from, to);
  }
  if (from != x) std::memcpy(static_cast<void*>(x), from, static_cast<size_t>(n_) * sizeof(Complex));
}

// x is [radix][groups][step], y is [groups][radix][step]: transforms of `radix` points, each turned by its twiddle.
void Fft::stage(int radix, int64_t groups, int64_t step, const Complex* x, Complex* y) const {
  const Complex* w = table(roots_);
  const int64_t apart = groups * step;
  if (radix != 2 && radix != 4) return stage_odd(radix, groups, step, x, y);
  for (int64_t q = 0; q < groups; ++q) {
    const Complex *in = x + q * step, w1 = w[q * step];
    Complex* out = y + q * radix * step;
    if (radix == 2) {
      for (int64_t k = 0; k < step; ++k) {
        const Complex a = in[k], b = in[k + apart];
        out[k] = a + b;
        out[k + step] = (a - b) * w1;
      }
      continue;
    }
    const Complex w2 = w[2 * q * step], w3 = w[3 * q * step];
    for (int64_t k = 0; k < step; ++k) {
      const Complex a = in[k], b = in[k + apart], c = in[k + 2 * apart], d = in[k + 3 * apart];
      const Complex even = a + c, odd = b + d, low = a - c, high = b - d;
      const Complex turned{-sign_ * high.im, sign_ * high.re};
      out[k] = even + odd;
      out[k + step] = (low + turned) * w1;
      out[k + 2 * step] = (even - odd) * w2;
      out[k + 3 * step] = (low - turned) * w3;
    }
  }
}

// Inputs r and radix - r meet the same cosine and opposite sines: each pair is added and subtracted first.
void Fft::stage_odd(int radix, int64_t groups, int64_t step, const Complex* x, Complex* y) const {
  const Complex* w = table(roots_);
  const int64_t apart = groups * step;
  const int half = radix / 2;
  Complex root[kMostRadix], twiddle[kMostRadix], sum[kMostRadix / 2 + 1], difference[kMostRadix / 2 + 1];
  for (int r = 0; r < radix; ++r) root[r] = w[r * (n_ / radix)];
  for (int64_t q = 0; q < groups; ++q) {
    for (int r = 0; r < radix; ++r) twiddle[r] = w[r * q * step];
    for (int64_t k = 0; k < step; ++k) {
      const Complex* in = x + q * step + k;
      Complex* out = y + q * radix * step + k;
      Complex total = in[0];
      for (int r = 1; r <= half; ++r) {
        sum[r] = in[r * apart] + in[(radix - r) * apart];
        difference[r] = in[r * apart] - in[(radix - r) * apart];
        total = total + sum[r];
      }
      out[0] = total;
      for (int j = 1; j <= half; ++j) {
        Complex even = in[0], odd{0, 0};
        for (int r = 1; r <= half; ++r) {
          const Complex c = root[r * j % radix];
          even = even + Complex{c.re * sum[r].re, c.re * sum[r].im};
          odd = odd + Complex{-c.im * difference[r].im, c.im * difference[r].re};
        }
        out[j * step] = (even + odd) * twiddle[j];
        out[(radix - j) * step] = (even - odd) * twiddle[radix - j];
      }
    }
  }
}

// The inverse transform of the convolution is a forward one of the conjugate, conjugated.
void Fft::convolve(Complex* x, Complex* work) const {
  const Complex *c = table(chirp_), *f = table(filter_);
  const int64_t length = convolution_->n_;
  Complex *a = work, *inner = work + length;
  for (int64_t k = 0; k < n_; ++k) a[k] = x[k] * c[k];
  std::memset(static_cast<void*>(a + n_), 0, static_cast<size_t>(length - n_) * sizeof(Complex));
  convolution_->transform(a, inner);
  for (int64_t k = 0; k < length; ++k) {
    a[k] = a[k] * f[k];
    a[k].im = -a[k].im;
  }
  convolution_->transform(a, inner);
  for (int64_t k = 0; k < n_; ++k) x[k] = Complex{a[k].re, -a[k].im} * c[k];
}

}  // namespace tessera
