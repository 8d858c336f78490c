// EyeLike — a matrix of the input's shape with ones on a diagonal.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  std::optional<DType> dtype;
  int64_t k = 0;
};
Status parse(Attrs& a, Params& p) {
  a.get("dtype", p.dtype);
  a.get("k", p.k);
  return {};
}

void types(TypeCall& c) {
  const auto& dtype = static_cast<const Params*>(c.params)->dtype;
  c.out[0] = {Kind::tensor, dtype.value_or(c.in[0].dtype), Kind::tensor};
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  if (c.rank(0) != 2) return c.refuse(0, "a matrix");
  return c.set(0, c.dims(0));
}

Status compute(const Params& p, Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y) return {};
  const DType t = call.out_dtype(0);
  const int64_t rows = call.shape(0)[0], columns = call.shape(0)[1];
  fill_elements(t, y, 0, rows * columns, nullptr);
  if (p.k <= -rows || p.k >= columns) return {};
  const double one = 1;
  for (int64_t row = std::max<int64_t>(0, -p.k); row < rows && row + p.k < columns; ++row)
    encode(t, y, row * columns + row + p.k, 1, &one);
  return {};
}

constexpr TypeSet kTypeSet = kNumbers | set_of(DType::boolean);
constexpr TypeRule kTypes[] = {{in_arg(0), kTypeSet}, {out_arg(0), kTypeSet}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {9, 22};

}  // namespace

extern constexpr Op kEyeLike{.domain = "",
                             .name = "EyeLike",
                             .versions = kVersions,
                             .parse = parse_params<Params, parse>,
                             .types = types,
                             .shape = shape_with<Params, int64_t, shape<int64_t>>,
                             .kernels = kKernels,
                             .header_only = in_arg(0)};
extern constexpr OpInference kEyeLikeInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
