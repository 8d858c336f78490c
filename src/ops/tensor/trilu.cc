// Trilu — the upper or lower triangle of the last two dimensions, zeros elsewhere.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  bool upper = true;
};
Status parse(Attrs& a, Params& p) {
  a.get("upper", p.upper);
  return {};
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  if (c.rank(0) < 2) return c.refuse(0, "at least two dimensions");
  if (c.has(1) && known(c.count(1)) && number(c.count(1)) != 1) return c.refuse(1, "a scalar");
  return c.set(0, c.dims(0));
}

Status compute(const Params& p, Call& call) {
  TRY(copy_input(call));
  void* y = call.out(0);
  if (!y || call.out_count(0) == 0) return {};
  const Shape& shape = call.shape(0);
  const DType t = call.dtype(0);
  const int64_t rows = shape[shape.rank() - 2], columns = shape[shape.rank() - 1];
  const int64_t k = std::clamp<int64_t>(call.has(1) ? *call.in<int64_t>(1) : 0, -rows, columns);
  for_blocks(call, t, shape.count(0, shape.rank() - 1), columns, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      // The first column of the upper triangle, or the first behind the lower.
      const int64_t edge = std::clamp<int64_t>(row % rows + k + (p.upper ? 0 : 1), 0, columns), at = row * columns;
      if (p.upper)
        fill_elements(t, y, at, edge, nullptr);
      else
        fill_elements(t, y, at + edge, columns - edge, nullptr);
    }
  });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {14};

}  // namespace

extern constexpr Op kTrilu{.domain = "",
                           .name = "Trilu",
                           .versions = kVersions,
                           .parse = parse_params<Params, parse>,
                           .shape = shape_with<Params, int64_t, shape<int64_t>>,
                           .kernels = kKernels,
                           .inplace = in_arg(0)};
extern constexpr OpInference kTriluInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
