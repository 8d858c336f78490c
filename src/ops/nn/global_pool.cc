// GlobalAveragePool, GlobalMaxPool, GlobalLpPool: one number for each channel of each sample.
#include <cmath>

#include "kernels/pool.h"
#include "kernels/rows.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  float p = 2;  // GlobalLpPool
};

// Version 1 has a real exponent, later ones a whole one.
Status parse(Attrs& a, Params& p) {
  int64_t whole = 2;
  if (a.version() < 2)
    a.get("p", p.p);
  else
    a.get("p", whole), p.p = static_cast<float>(whole);
  if (!(p.p > 0)) return a.refuse("p", "a number above 0");
  return {};
}

template <class D>
Status shape(const void*, ShapeCall<D>& c) {
  if (c.rank(0) < 2) return c.refuse(0, "a batch, channels and spatial dimensions");
  DimVec<D> out{c.dim(0, 0), c.dim(0, 1)};
  while (out.size() < c.rank(0)) out.push(D(1));
  return c.set(0, out);
}

struct Planes {
  int64_t count, size;
  explicit Planes(const Shape& x) : count(x[0] * x[1]), size(x.count(2, x.rank())) {}
};

template <RowReduce R>
Status compute_float(const void*, Call& call) {
  const Planes s(call.shape(0));
  reduce_rows(call.target(), call.threads(), R, call.in<float>(0), call.out<float>(0), s.count, s.size);
  return {};
}

// Small planes many at a time, large ones in parts.
Status compute_float_average(const void* params, Call& call) {
  constexpr int64_t kSmall = 1 << 12, kElements = 1 << 14;
  const Planes s(call.shape(0));
  if (s.size == 0 || s.size > kSmall) return compute_float<RowReduce::mean>(params, call);
  const float* x = call.in<float>(0);
  float* y = call.out<float>(0);
  const int64_t per_chunk = std::max<int64_t>(1, kElements / s.size);
  call.parallel(ceil_div(s.count, per_chunk), [&](int64_t chunk, int) {
    const int64_t first = chunk * per_chunk;
    pool_means(call.target(), x + first * s.size, std::min(per_chunk, s.count - first), s.size, y + first);
  });
  return {};
}

// fn(plane's first element) for every plane.
template <class T, class F>
void each_plane(Call& call, F&& fn) {
  const Planes s(call.shape(0));
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  call.parallel(s.count, [&](int64_t i, int) { y[i] = fn(x + i * s.size, s.size); });
}

Status compute_average(const void*, Call& call) {
  each_plane<double>(call, [](const double* x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    return sum / static_cast<double>(n);
  });
  return {};
}

Status compute_max(const void*, Call& call) {
  each_plane<double>(call, [](const double* x, int64_t n) {
    double best = -INFINITY;
    for (int64_t i = 0; i < n; ++i)
      if (x[i] > best || std::isnan(x[i])) best = x[i];
    return best;
  });
  return {};
}

template <class T>
Status compute_lp(const Params& p, Call& call) {
  each_plane<T>(call, [&](const T* x, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double v = std::abs(static_cast<double>(x[i]));
      sum += p.p == 2 ? v * v : p.p == 1 ? v : std::pow(v, static_cast<double>(p.p));
    }
    return static_cast<T>(p.p == 2 ? std::sqrt(sum) : std::pow(sum, 1 / static_cast<double>(p.p)));
  });
  return {};
}

constexpr Kernel kAverageKernels[] = {{kAllSame<float>, compute_float_average}, {kAllSame<double>, compute_average}};
constexpr Kernel kMaxKernels[] = {{kAllSame<float>, compute_float<RowReduce::max>}, {kAllSame<double>, compute_max}};
constexpr Kernel kLpKernels[] = {{kAllSame<float>, compute_with<Params, compute_lp<float>>},
                                 {kAllSame<double>, compute_with<Params, compute_lp<double>>}};
constexpr int16_t kVersions[] = {1, 22};
constexpr int16_t kLpVersions[] = {1, 2, 22};

}  // namespace

extern constexpr Op kGlobalAveragePool{.domain = "",
                                       .name = "GlobalAveragePool",
                                       .versions = kVersions,
                                       .shape = shape<int64_t>,
                                       .kernels = kAverageKernels};
extern constexpr Op kGlobalMaxPool{
    .domain = "", .name = "GlobalMaxPool", .versions = kVersions, .shape = shape<int64_t>, .kernels = kMaxKernels};
extern constexpr Op kGlobalLpPool{.domain = "",
                                  .name = "GlobalLpPool",
                                  .versions = kLpVersions,
                                  .parse = parse_params<Params, parse>,
                                  .shape = shape<int64_t>,
                                  .kernels = kLpKernels};
extern constexpr OpInference kGlobalAveragePoolInference{.shape = shape<Dim>};
extern constexpr OpInference kGlobalMaxPoolInference{.shape = shape<Dim>};
extern constexpr OpInference kGlobalLpPoolInference{.shape = shape<Dim>};

}  // namespace tessera
