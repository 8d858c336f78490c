// DFT — the discrete Fourier transform along one axis, of real ([..., 1]) or complex ([..., 2]) numbers.
#include <algorithm>

#include "ops/signal/fft.h"
#include "ops/signal/lengths.h"

namespace tessera {
namespace {

struct Params {
  bool inverse = false, onesided = false;
  int64_t axis = -2;  // without an axis input
};
Status parse(Attrs& a, Params& p) {
  a.get("inverse", p.inverse);
  a.get("onesided", p.onesided);
  if (a.version() < 20) {
    p.axis = 1;
    a.get("axis", p.axis);
  }
  return {};
}

// Any axis but the last, which holds real and imaginary parts.
std::optional<int> signal_axis(int64_t axis, int rank) {
  const auto at = normalize_axis(axis, rank);
  return at && *at < rank - 1 ? at : std::nullopt;
}

template <class D>
Status check_parts(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) < 2) return c.refuse(0, "a signal axis and a last one of size 1 or 2");
  const D parts = c.dim(0, c.rank(0) - 1);
  if (!known(parts)) return {};
  if (number(parts) != 1 && number(parts) != 2) return c.refuse(0, "a last axis of size 1 (real) or 2 (complex)");
  if (p.onesided && number(parts) != (p.inverse ? 2 : 1))
    return c.refuse(0,
                    p.inverse ? "complex numbers for a one-sided inverse" : "real numbers for a one-sided transform");
  return {};
}

// dft_length, or what stands for it.
template <class D>
Result<D> length_of(const Params& p, ShapeCall<D>& c, const D& have) {
  if (!c.has(1)) {
    const D n = p.onesided && p.inverse ? D(2) * (have - D(1)) : have;
    if (known(n) && number(n) < 1) return c.refuse(0, "a signal of more values along the transformed axis");
    return n;
  }
  const auto n = known_scalar(c, 1);
  if (!n || !known(*n)) return n.value_or(c.fresh());
  if (number(*n) < 1) return c.refuse(1, format("a positive dft_length (got {})", number(*n)));
  if (number(*n) > kMostPaddedLength && !(known(have) && number(*n) / 2 <= number(have)))
    return c.refuse(1,
                    format("a dft_length of at most {} or twice the signal's (got {})", kMostPaddedLength, number(*n)));
  return *n;
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  TRY(check_parts(p, c));
  const int rank = c.rank(0);
  int64_t axis = p.axis;
  bool sure = true;
  if (c.has(1)) TRY(check_scalar(c, 1));
  if (c.has(2)) {
    TRY(check_scalar(c, 2));
    const auto given = known_scalar(c, 2);
    if (sure = given && known(*given); sure) axis = number(*given);
  }
  if (!sure || (std::is_same_v<D, int64_t> && c.has(1) && !c.content(1))) return c.unknown(0, rank);
  const auto at = signal_axis(axis, rank);
  if (!at) return c.refuse(0, format("a tensor that has the signal axis {}", axis));
  DimVec<D> out(c.dims(0));
  TRY_ASSIGN(n, length_of(p, c, c.dim(0, *at)));
  out[*at] = p.onesided && !p.inverse ? floor_div(n, D(2)) + D(1) : n;
  out[rank - 1] = p.onesided && p.inverse ? D(1) : D(2);
  return c.set(0, out);
}

// One line of the input, cut or padded to the transform's length.
struct Line {
  int64_t have, step;  // elements along the axis, and how far apart they are
  int parts;
};
template <class T, class C>
void read_line(const Line& line, const T* x, int64_t n, typename Fft<C>::Complex* out) {
  const int64_t count = std::min(n, line.have);
  for (int64_t k = 0; k < count; ++k) {
    const T* v = x + k * line.step;
    out[k] = {static_cast<C>(v[0]), line.parts == 2 ? static_cast<C>(v[1]) : C{0}};
  }
  std::fill(out + count, out + n, typename Fft<C>::Complex{0, 0});
}
// The spectrum of a real signal from its first half: what is there of bins beyond is mirrored, and the parts that a
// real signal cannot have are not looked at.
template <class Complex>
void mirror(int64_t n, Complex* x) {
  x[0].im = 0;
  for (int64_t k = 1; 2 * k <= n; ++k) {
    if (2 * k == n) x[k].im = 0;
    x[n - k] = {x[k].re, 2 * k == n ? 0 : -x[k].im};
  }
}

// The transform computed in C.
template <class T, class C>
Status transform(const Params& p, Call& call) {
  using Complex = typename Fft<C>::Complex;
  const Shape& in = call.shape(0);
  const int rank = in.rank();
  const int axis = *signal_axis(call.has(2) ? call.integer(2, 0) : p.axis, rank);
  const bool real_out = p.onesided && p.inverse;
  const int64_t out_length = call.out_shape(0)[axis], inner = in.count(axis + 1, rank - 1), outer = in.count(0, axis);
  if (call.out_count(0) == 0) return {};
  const Line line{in[axis], inner * in[rank - 1], static_cast<int>(in[rank - 1])};
  const int64_t n = !p.onesided || p.inverse ? out_length : call.has(1) ? call.integer(1, 0) : line.have;
  TRY_ASSIGN(fft, Fft<C>::make(n, p.inverse));
  const int64_t room = n + fft.work();
  TRY_ASSIGN(memory, Tensor::allocate(sizeof(C) == 4 ? DType::c64 : DType::c128, Shape{call.threads(), room}));
  const int out_parts = real_out ? 1 : 2;
  const C scale = p.inverse ? 1 / static_cast<C>(n) : 1;
  const int64_t lines = outer * inner, each = std::max<int64_t>(1, (1 << 12) / n);
  call.parallel(ceil_div(lines, each), [&](int64_t chunk, int lane) {
    Complex* z = static_cast<Complex*>(memory.mutable_data()) + lane * room;
    for (int64_t i = chunk * each; i < std::min(lines, (chunk + 1) * each) && !call.cancelled(); ++i) {
      const int64_t o = i / inner, k = i % inner;
      read_line<T, C>(line, call.in<T>(0) + (o * line.have * inner + k) * line.parts, n, z);
      if (real_out) mirror(n, z);
      fft.transform(z, z + n);
      T* y = call.out<T>(0) + (o * out_length * inner + k) * out_parts;
      for (int64_t j = 0; j < out_length; ++j, y += inner * out_parts) {
        y[0] = static_cast<T>(z[j].re * scale);
        if (!real_out) y[1] = static_cast<T>(z[j].im * scale);
      }
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

template <class T>
Status compute(const Params& p, Call& call) {
  const Shape& in = call.shape(0);
  const int axis = *signal_axis(call.has(2) ? call.integer(2, 0) : p.axis, in.rank());
  const bool complex = in[in.rank() - 1] == 2 && !p.onesided;
  const bool brief = complex && std::max(in[axis], call.out_shape(0)[axis]) <= kMostSingle;
  return std::is_same_v<T, float> && brief ? transform<T, float>(p, call) : transform<T, double>(p, call);
}

template <class T>
constexpr TypeRule kTypes[] = {
    {in_arg(0) | out_arg(0), set_of(dtype_of<T>), std::is_same_v<T, float> ? kHalfFloats : TypeSet{}},
    {in_arg(1), kIndexTypes},
    {in_arg(2), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Params, compute<float>>},
                               {kTypes<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {17, 20};

}  // namespace

extern constexpr Op kDFT{.domain = "",
                         .name = "DFT",
                         .versions = kVersions,
                         .parse = parse_params<Params, parse>,
                         .shape = shape_with<Params, int64_t, shape<int64_t>>,
                         .kernels = kKernels,
                         .shape_inputs = in_arg(1) | in_arg(2)};
extern constexpr OpInference kDFTInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
