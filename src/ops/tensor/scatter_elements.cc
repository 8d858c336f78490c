// ScatterElements (and Scatter, its first name): the data with y[index[i][j]][j] = updates[i][j] for axis 0, and
// likewise for the others.
#include "ops/indices.h"
#include "ops/tensor/along_axis.h"
#include "ops/tensor/scatter.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = 0;
  Reduction reduction = Reduction::none;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  return parse_reduction(a, p.reduction);
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  TRY(check_along_axis(c, 1, p.axis));
  if (c.rank(2) != c.rank(1)) return c.refuse(2, "the shape of input 1");
  for (int k = 0; k < c.rank(1); ++k)
    if (const D a = c.dim(1, k), b = c.dim(2, k); known(a) && known(b) && number(a) != number(b))
      return c.refuse(2, "the shape of input 1");
  return c.set(0, c.dims(0));
}

Status compute(const Params& p, Call& call) {
  const Shape& data = call.shape(0);
  const int axis = *normalize_axis(p.axis, data.rank());
  const DType t = call.dtype(0);
  if (!reducible(t, p.reduction)) return call.refuse(0, "a type that the reduction knows");
  TRY_ASSIGN(indices, Indices::checked(call, 1, data[axis]));
  TRY(copy_input(call));
  if (!call.out(0) || call.count(1) == 0) return {};
  const AxisRows rows(data, call.shape(1), axis);
  with_reduction(t, p.reduction, call.in(2), call.out(0), [&](auto put) {
    rows.each(0, rows.rows(), [&](int64_t k, int64_t at) { put(k, at + indices[k] * rows.step()); });
  });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | in_arg(2) | out_arg(0), kEveryType}, {in_arg(1), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {11, 13, 16, 18}, kScatterVersions[] = {9, 11};

constexpr Op scatter(const char* name, std::span<const int16_t> versions) {
  return {.domain = "",
          .name = name,
          .versions = versions,
          .parse = parse_params<Params, parse>,
          .shape = shape_with<Params, int64_t, shape<int64_t>>,
          .kernels = kKernels,
          .inplace = in_arg(0)};
}

}  // namespace

extern constexpr Op kScatterElements = scatter("ScatterElements", kVersions);
extern constexpr Op kScatter = scatter("Scatter", kScatterVersions);
extern constexpr OpInference kScatterElementsInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kScatterInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
