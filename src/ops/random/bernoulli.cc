// Bernoulli — one with the probability that the input's element states, else zero.
#include "core/convert.h"
#include "ops/elementwise.h"
#include "ops/random/random.h"

namespace tessera {
namespace {

struct Params {
  std::optional<DType> dtype;
  std::optional<float> seed;
};
Status parse(Attrs& a, Params& p) {
  a.get("dtype", p.dtype);
  a.get("seed", p.seed);
  return {};
}

void types(TypeCall& c) {
  const Params& p = *static_cast<const Params*>(c.params);
  c.out[0] = p.dtype ? TypeDesc{Kind::tensor, *p.dtype, Kind::tensor} : c.in[0];
}

Status compute(const Params& p, Call& call) {
  const RandomStream random(call, p.seed);
  const double* x = call.in<double>(0);
  void* y = call.out(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) {
      const int64_t drawn = random.uniform(i) < x[i];
      encode(call.out_dtype(0), y, i, 1, &drawn);
    }
  });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0), set_of(DType::f64), kHalfFloats | set_of(DType::f32)},
                               {out_arg(0), kNumbers | set_of(DType::boolean)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {15, 22};

}  // namespace

extern constexpr Op kBernoulli{.domain = "",
                               .name = "Bernoulli",
                               .versions = kVersions,
                               .parse = parse_params<Params, parse>,
                               .types = types,
                               .shape = shape_of_input<int64_t>,
                               .kernels = kKernels,
                               .random = true};
extern constexpr OpInference kBernoulliInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
