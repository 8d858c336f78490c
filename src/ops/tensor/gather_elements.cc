// GatherElements — y[i][j] = data[index[i][j]][j] for axis 0, and likewise for the others.
#include "ops/indices.h"
#include "ops/tensor/along_axis.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = 0;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  TRY(check_along_axis(c, 1, p.axis));
  return c.set(0, c.dims(1));
}

Status compute(const Params& p, Call& call) {
  const Shape& data = call.shape(0);
  const int axis = *normalize_axis(p.axis, data.rank());
  TRY_ASSIGN(indices, Indices::checked(call, 1, data[axis]));
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const AxisRows rows(data, call.shape(1), axis);
  const DType t = call.dtype(0);
  with_mover(t, call.in(0), y, [&](auto move) {
    for_blocks(call, t, rows.rows(), rows.row_length(), [&](int64_t begin, int64_t end) {
      rows.each(begin, end, [&](int64_t k, int64_t at) { move(at + indices[k] * rows.step(), k); });
    });
  });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {11, 13};

}  // namespace

extern constexpr Op kGatherElements{.domain = "",
                                    .name = "GatherElements",
                                    .versions = kVersions,
                                    .parse = parse_params<Params, parse>,
                                    .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                    .kernels = kKernels};
extern constexpr OpInference kGatherElementsInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
