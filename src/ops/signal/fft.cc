#include "ops/signal/fft.h"

#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>

namespace tessera {
namespace {

constexpr int kRadices[] = {4, 2, 3, 5, 7, 11, 13};
constexpr int kMostRadix = 13;

template <class C>
concept Pair = std::is_same_v<C, Fft<float>::Complex> || std::is_same_v<C, Fft<double>::Complex>;

template <Pair C>
C operator+(C a, C b) {
  return {a.re + b.re, a.im + b.im};
}
template <Pair C>
C operator-(C a, C b) {
  return {a.re - b.re, a.im - b.im};
}
template <Pair C>
C operator*(C a, C b) {
  return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
}

template <class C>
Result<Tensor> complex_table(int64_t n) {
  TRY_ASSIGN(t, Tensor::allocate(sizeof(C) == 8 ? DType::c64 : DType::c128, Shape{n}));
  return std::move(t);
}
template <class C>
C* complexes(Tensor& t) {
  return static_cast<C*>(t.mutable_data());
}

}  // namespace

// The angle is brought into the first eighth of the circle in whole numbers, so that sine and cosine see a small and
// almost exact argument.
UnitRoot unit_root(int64_t k, int64_t n) {
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

template <class T>
Result<Tensor> Fft<T>::roots(int64_t n, bool inverse) {
  TRY_ASSIGN(t, complex_table<Complex>(n));
  Complex* w = complexes<Complex>(t);
  for (int64_t k = 0; k < n; ++k) {
    const UnitRoot root = unit_root(k, n);
    w[k] = {static_cast<T>(root.re), static_cast<T>(inverse ? root.im : -root.im)};
  }
  return std::move(t);
}

template <class T>
Result<Fft<T>> Fft<T>::make(int64_t n, bool inverse) {
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
template <class T>
Status Fft<T>::prepare_convolution() {
  int64_t length = 1;
  while (length < 2 * n_ - 1) length *= 2;
  TRY_ASSIGN(inner, make(length, false));
  TRY_ASSIGN(chirp, complex_table<Complex>(n_));
  TRY_ASSIGN(filter, complex_table<Complex>(length));
  TRY_ASSIGN(work, complex_table<Complex>(inner.work()));
  Complex *c = complexes<Complex>(chirp), *f = complexes<Complex>(filter);
  std::memset(static_cast<void*>(f), 0, static_cast<size_t>(filter.bytes()));
  int64_t square = 0;  // k * k modulo 2 n
  for (int64_t k = 0; k < n_; ++k) {
    const UnitRoot w = unit_root(square, 2 * n_);
    const auto scale = static_cast<double>(length);
    c[k] = {static_cast<T>(w.re), sign_ * static_cast<T>(w.im)};
    f[k] = {static_cast<T>(w.re / scale), -sign_ * static_cast<T>(w.im / scale)};
    if (k > 0) f[length - k] = f[k];
    square = (square + 2 * k + 1) % (2 * n_);
  }
  inner.transform(f, complexes<Complex>(work));
  convolution_ = std::make_shared<const Fft>(std::move(inner));
  chirp_ = std::move(chirp);
  filter_ = std::move(filter);
  return {};
}

template <class T>
void Fft<T>::transform(Complex* x, Complex* work) const {
  if (convolution_) return convolve(x, work);
  mixed_radix(x, work);
}

// Stockham's form: every stage writes the other array, and the result comes out in order.
template <class T>
void Fft<T>::mixed_radix(Complex* x, Complex* work) const {
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
template <class T>
void Fft<T>::stage(int radix, int64_t groups, int64_t step, const Complex* x, Complex* y) const {
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
template <class T>
void Fft<T>::stage_odd(int radix, int64_t groups, int64_t step, const Complex* x, Complex* y) const {
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
template <class T>
void Fft<T>::convolve(Complex* x, Complex* work) const {
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

template class Fft<float>;
template class Fft<double>;

}  // namespace tessera
