// LpNormalization — each line along an axis divided by its L1 or L2 norm; a line of zeros stays zero.
#include <cmath>

#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = -1, p = 2;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  a.get("p", p.p);
  TRY(a.done());
  if (p.p != 1 && p.p != 2) return a.refuse("p", "1 or 2");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (!normalize_axis(p.axis, c.rank(0))) return c.refuse(0, format("a tensor that has axis {}", p.axis));
  return c.set(0, c.dims(0));
}

// Lines that lie side by side are summed together, kBlock of them.
template <class T>
void normalize(const Slices& s, bool squares, int64_t n, const T* x, T* y) {
  constexpr int64_t kBlock = 64;
  double norm[kBlock] = {};
  for (int64_t j = 0; j < s.length; ++j)
    for (int64_t i = 0; i < n; ++i) {
      const auto v = static_cast<double>(x[j * s.inner + i]);
      norm[i] += squares ? v * v : std::fabs(v);
    }
  for (int64_t i = 0; i < n; ++i) {
    if (squares) norm[i] = std::sqrt(norm[i]);
    if (norm[i] == 0) norm[i] = 1;
  }
  for (int64_t j = 0; j < s.length; ++j)
    for (int64_t i = 0; i < n; ++i)
      y[j * s.inner + i] = static_cast<T>(static_cast<double>(x[j * s.inner + i]) / norm[i]);
}

template <class T>
Status compute(const Params& p, Call& call) {
  constexpr int64_t kBlock = 64;
  if (call.count(0) == 0) return {};
  const Slices s = call.shape(0).around(*normalize_axis(p.axis, call.shape(0).rank()));
  const int64_t per_slice = ceil_div(s.inner, kBlock), blocks = s.outer * per_slice;
  const int64_t each = std::max<int64_t>(1, (1 << 14) / (s.length * std::min(kBlock, s.inner)));
  call.parallel(ceil_div(blocks, each), [&](int64_t chunk, int) {
    for (int64_t b = chunk * each; b < std::min(blocks, (chunk + 1) * each) && !call.cancelled(); ++b) {
      const int64_t first = b % per_slice * kBlock, at = b / per_slice * s.length * s.inner + first;
      normalize(s, p.p == 2, std::min(kBlock, s.inner - first), call.in<T>(0) + at, call.out<T>(0) + at);
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute<float>>},
                               {kAllSame<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 22};

}  // namespace

extern constexpr Op kLpNormalization{.domain = "",
                                     .name = "LpNormalization",
                                     .versions = kVersions,
                                     .parse = parse_params<Params, parse>,
                                     .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                     .kernels = kKernels,
                                     .inplace = in_arg(0)};
extern constexpr OpInference kLpNormalizationInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
