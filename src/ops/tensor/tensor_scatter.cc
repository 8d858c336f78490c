// TensorScatter — a cache with an update written into it along the sequence axis, from a place of each batch element's
// own.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = -2;
  int circular = 0;
};
Status parse(Attrs& a, Params& p) {
  static constexpr std::string_view kModes[] = {"linear", "circular"};
  a.get("axis", p.axis);
  a.get_choice("mode", p.circular, kModes);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const auto axis = normalize_axis(p.axis, c.rank(0));
  if (!axis || *axis == 0) return c.refuse(0, format("a tensor with an axis {} behind the batch", p.axis));
  if (c.rank(1) != c.rank(0)) return c.refuse(1, format("rank {}, as input 0 has", c.rank(0)));
  for (int k = 0; k < c.rank(0); ++k) {
    const D have = c.dim(0, k), got = c.dim(1, k);
    if (!known(have) || !known(got)) continue;
    if (k == *axis ? number(got) > number(have) : number(got) != number(have))
      return c.refuse(1, "the shape of input 0, at most as long along the axis");
  }
  if (c.has(2)) {
    if (c.rank(2) != 1) return c.refuse(2, "a list of indices");
    const D batch = c.dim(0, 0), n = c.dim(2, 0);
    if (known(batch) && known(n) && number(batch) != number(n))
      return c.refuse(2, format("{} indices, one per batch element", number(batch)));
  }
  return c.set(0, c.dims(0));
}

Status compute(const Params& p, Call& call) {
  const Shape& cache = call.shape(0);
  const int axis = *normalize_axis(p.axis, cache.rank());
  const Slices s = cache.around(axis);
  const int64_t length = call.shape(1)[axis], per_batch = cache.count(1, axis);
  const int64_t* places = call.maybe<int64_t>(2);
  for (int64_t b = 0; places && b < cache[0]; ++b)
    if (places[b] < 0 || (!p.circular && places[b] > s.length - length))
      return call.refuse(2, "places from 0 to {} (element {} is {})", s.length - length, b, places[b]);
  TRY(copy_input(call));
  void* y = call.out(0);
  if (!y || call.count(1) == 0) return {};
  const DType t = call.dtype(0);
  for_blocks(call, t, s.outer, length * s.inner, [&](int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const int64_t place = places ? places[o / per_batch] % s.length : 0;
      const int64_t first = std::min(length, s.length - place), from = o * length, to = o * s.length;
      copy_elements(t, call.in(1), from * s.inner, y, (to + place) * s.inner, first * s.inner);
      copy_elements(t, call.in(1), (from + first) * s.inner, y, to * s.inner, (length - first) * s.inner);
    }
  });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | in_arg(1) | out_arg(0), kEveryType}, {in_arg(2), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {24};

}  // namespace

extern constexpr Op kTensorScatter{.domain = "",
                                   .name = "TensorScatter",
                                   .versions = kVersions,
                                   .parse = parse_params<Params, parse>,
                                   .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                   .kernels = kKernels,
                                   .inplace = in_arg(0)};
extern constexpr OpInference kTensorScatterInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
