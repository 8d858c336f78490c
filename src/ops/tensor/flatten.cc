// Flatten — a matrix of the elements: the dimensions before the axis make the rows, the others the columns.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = 1;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  if (p.axis < -rank || p.axis > rank) return c.refuse(0, format("at least {} dimensions, as axis asks", p.axis));
  const int64_t axis = p.axis < 0 ? p.axis + rank : p.axis;
  D sides[2] = {1, 1};
  for (int i = 0; i < rank; ++i) sides[i >= axis] = sides[i >= axis] * c.dim(0, i);
  return c.set(0, DimVec<D>{sides[0], sides[1]});
}

Status compute(Call& call) { return copy_input(call); }

constexpr Kernel kKernels[] = {{kAnyType, compute_plain<compute>}};
constexpr int16_t kVersions[] = {1, 9, 11, 13, 21, 23, 24, 25};

}  // namespace

extern constexpr Op kFlatten{.domain = "",
                             .name = "Flatten",
                             .versions = kVersions,
                             .parse = parse_params<Params, parse>,
                             .shape = shape_with<Params, int64_t, shape<int64_t>>,
                             .kernels = kKernels,
                             .view = 0};
extern constexpr OpInference kFlattenInference{.shape = shape_keeping_content<shape_with<Params, Dim, shape<Dim>>>};

}  // namespace tessera
