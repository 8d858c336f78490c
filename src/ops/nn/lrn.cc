// LRN — each element divided by a power of the squares of its neighbours across channels.
#include <cmath>

#include "kernels/vmath.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  float alpha = 1e-4f, beta = 0.75f, bias = 1;
  int64_t size = 0;
};
Status parse(Attrs& a, Params& p) {
  a.get("alpha", p.alpha);
  a.get("beta", p.beta);
  a.get("bias", p.bias);
  a.get("size", p.size);
  if (p.size < 1) return a.refuse("size", "at least 1");
  return {};
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  if (c.rank(0) < 2) return c.refuse(0, "at least a batch and a channel dimension");
  return c.set(0, c.dims(0));
}

constexpr int64_t kColumns = 256;

// y = x / (bias + alpha / size * sum)^beta
void divide(const Call& call, const Params& p, const float* x, const double* sum, float* y, int64_t n) {
  float base[kColumns];
  for (int64_t j = 0; j < n; ++j)
    base[j] = static_cast<float>(static_cast<double>(p.bias) +
                                 static_cast<double>(p.alpha) / static_cast<double>(p.size) * sum[j]);
  binary_f32(call.target(), Binary::pow, base, 1, &p.beta, 0, base, n);
  binary_f32(call.target(), Binary::div, x, 1, base, 1, y, n);
}
void divide(const Call&, const Params& p, const double* x, const double* sum, double* y, int64_t n) {
  const double factor = static_cast<double>(p.alpha) / static_cast<double>(p.size);
  for (int64_t j = 0; j < n; ++j)
    y[j] = x[j] / std::pow(static_cast<double>(p.bias) + factor * sum[j], static_cast<double>(p.beta));
}

template <class T>
Status compute(const Params& p, Call& call) {
  const Shape& s = call.shape(0);
  const int64_t channels = s[1], inner = s.count(2, s.rank()), blocks = ceil_div(inner, kColumns);
  const int64_t before = (p.size - 1) / 2, after = p.size - 1 - before;
  call.parallel(s[0] * channels * blocks, [&](int64_t task, int) {
    const int64_t column = task % blocks * kColumns, n = std::min(kColumns, inner - column);
    const int64_t item = task / blocks / channels, c = task / blocks % channels;
    const int64_t last = after < channels - 1 - c ? c + after : channels - 1;
    double sum[kColumns] = {};
    for (int64_t k = before < c ? c - before : 0; k <= last; ++k) {
      const T* x = call.in<T>(0) + (item * channels + k) * inner + column;
      for (int64_t j = 0; j < n; ++j) sum[j] += static_cast<double>(x[j]) * static_cast<double>(x[j]);
    }
    const int64_t at = (item * channels + c) * inner + column;
    divide(call, p, call.in<T>(0) + at, sum, call.out<T>(0) + at, n);
  });
  return {};
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute<float>>},
                               {kAllSame<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 13};

}  // namespace

extern constexpr Op kLRN{.domain = "",
                         .name = "LRN",
                         .versions = kVersions,
                         .parse = parse_params<Params, parse>,
                         .shape = shape_with<Params, int64_t, shape<int64_t>>,
                         .kernels = kKernels};
extern constexpr OpInference kLRNInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
