// GroupNormalization — groups of channels of each item to mean 0 and variance 1, then scaled and shifted.
#include "ops/nn/channel_norm.h"

namespace tessera {
namespace {

struct Params {
  int64_t num_groups = 0;
  float epsilon = 1e-5f;
  bool per_group = false;  // version 18: scale and bias have one element per group, later one per channel
};
Status parse(Attrs& a, Params& p) {
  a.get("num_groups", p.num_groups);
  a.get("epsilon", p.epsilon);
  p.per_group = a.version() < 21;
  if (p.num_groups < 1) return a.refuse("num_groups", "at least 1");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) < 2) return c.refuse(0, "at least a batch and a channel dimension");
  const D channels = c.dim(0, 1);
  if (known(channels) && number(channels) % p.num_groups != 0)
    return c.refuse(0, format("a number of channels that {} groups divide", p.num_groups));
  for (int i : {1, 2}) {
    TRY(want_list(c, i, p.per_group ? D(p.num_groups) : channels,
                  p.per_group ? "one element per group" : "one element per channel of input 0"));
  }
  return c.set(0, c.dims(0));
}

template <class T>
Status compute(const Params& p, Call& call) {
  return normalise_groups<T>(call, p.num_groups, p.per_group, p.epsilon);
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute<float>>},
                               {kAllSame<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {18, 21};

}  // namespace

extern constexpr Op kGroupNormalization{.domain = "",
                                        .name = "GroupNormalization",
                                        .versions = kVersions,
                                        .parse = parse_params<Params, parse>,
                                        .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                        .kernels = kKernels,
                                        .inplace = in_arg(0)};
extern constexpr OpInference kGroupNormalizationInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
