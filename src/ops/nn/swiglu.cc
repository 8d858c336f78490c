// SwiGLU — a * sigmoid(alpha * a) * b: a gate through Swish times a linear part of the same shape.
#include <cmath>

#include "kernels/vmath.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  float alpha = 1;
};
Status parse(Attrs& a, Params& p) {
  a.get("alpha", p.alpha);
  return {};
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  if (c.rank(0) != c.rank(1)) return c.refuse(1, "the shape of the gate");
  DimVec<D> out(c.dims(0));
  for (int k = 0; k < out.size(); ++k) {
    const D b = c.dim(1, k);
    if (known(out[k]) && known(b) && number(out[k]) != number(b)) return c.refuse(1, "the shape of the gate");
    if (!known(out[k])) out[k] = b;
  }
  return c.set(0, out);
}

Status compute_float(const Params& p, Call& call) {
  const float *a = call.in<float>(0), *b = call.in<float>(1);
  float* y = call.out<float>(0);
  for_pieces(call, call.out_count(0), [&](int64_t begin, int64_t n) {
    constexpr int64_t kBlock = 512;
    float gate[kBlock];
    for (int64_t at = begin; at < begin + n; at += kBlock) {
      const int64_t count = std::min(kBlock, begin + n - at);
      for (int64_t i = 0; i < count; ++i) gate[i] = p.alpha * a[at + i];
      unary_f32(call.target(), Unary::sigmoid, gate, gate, count);
      for (int64_t i = 0; i < count; ++i) y[at + i] = a[at + i] * gate[i] * b[at + i];
    }
  });
  return {};
}

Status compute_double(const Params& p, Call& call) {
  const double *a = call.in<double>(0), *b = call.in<double>(1);
  auto* y = call.out<double>(0);
  const double alpha = static_cast<double>(p.alpha);
  for_pieces(call, call.out_count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) y[i] = a[i] / (1 + std::exp(-alpha * a[i])) * b[i];
  });
  return {};
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute_float>},
                               {kAllSame<double>, compute_with<Params, compute_double>}};
constexpr int16_t kVersions[] = {28};

}  // namespace

extern constexpr Op kSwiGLU{.domain = "",
                            .name = "SwiGLU",
                            .versions = kVersions,
                            .parse = parse_params<Params, parse>,
                            .shape = shape_with<Params, int64_t, shape<int64_t>>,
                            .kernels = kKernels,
                            .inplace = in_arg(0) | in_arg(1)};
extern constexpr OpInference kSwiGLUInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
