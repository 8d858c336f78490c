// InstanceNormalization — each channel of each item to mean 0 and variance 1, then scaled and shifted by channel.
#include "ops/nn/channel_norm.h"

namespace tessera {
namespace {

struct Params {
  float epsilon = 1e-5f;
};
Status parse(Attrs& a, Params& p) {
  a.get("epsilon", p.epsilon);
  return {};
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  if (c.rank(0) < 2) return c.refuse(0, "at least a batch and a channel dimension");
  for (int i : {1, 2}) TRY(want_list(c, i, c.dim(0, 1), "one element per channel of input 0"));
  return c.set(0, c.dims(0));
}

template <class T>
Status compute(const Params& p, Call& call) {
  return normalise_groups<T>(call, std::max<int64_t>(1, call.shape(0)[1]), false, p.epsilon);
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute<float>>},
                               {kAllSame<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 6, 22};

}  // namespace

extern constexpr Op kInstanceNormalization{.domain = "",
                                           .name = "InstanceNormalization",
                                           .versions = kVersions,
                                           .parse = parse_params<Params, parse>,
                                           .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                           .kernels = kKernels,
                                           .inplace = in_arg(0)};
extern constexpr OpInference kInstanceNormalizationInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
