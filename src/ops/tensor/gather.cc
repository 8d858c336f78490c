// Gather — slices of the data along an axis, picked by indices.
#include "ops/indices.h"
#include "ops/movement.h"

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
  const auto axis = normalize_axis(p.axis, c.rank(0));
  if (!axis) return c.refuse(0, format("a tensor with an axis {}", p.axis));
  if (c.rank(0) - 1 + c.rank(1) >= kMaxRank) return c.refuse(1, "a smaller rank");
  const auto dims = c.dims(0);
  const auto at = static_cast<size_t>(*axis);
  DimVec<D> out(dims.first(at));
  out.append(c.dims(1));
  out.append(dims.subspan(at + 1));
  return c.set(0, out);
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  TRY(shape(*static_cast<const Params*>(params), c));
  const auto elements = c.content(0), indices = c.content(1);
  if (!elements || !indices || c.rank(0) != 1 || static_cast<int64_t>(indices->size()) > kMostContent) return {};
  std::vector<Dim> out;
  const auto n = static_cast<int64_t>(elements->size());
  for (const Dim& i : *indices) {
    if (!i.known() || i.value() < -n || i.value() >= n) return {};
    out.push_back((*elements)[static_cast<size_t>(i.value() < 0 ? i.value() + n : i.value())]);
  }
  c.set_content(0, out);
  return {};
}

Status compute(const Params& p, Call& call) {
  const Slices s = call.shape(0).around(*normalize_axis(p.axis, call.shape(0).rank()));
  TRY_ASSIGN(indices, Indices::checked(call, 1, s.length));
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const DType t = call.dtype(0);
  const void* x = call.in(0);
  const int64_t picks = call.count(1);
  const auto each = [&](auto block) {
    for_blocks(call, t, s.outer * picks, s.inner, [&](int64_t begin, int64_t end) {
      int64_t outer = begin / picks, pick = begin % picks;
      for (int64_t k = begin; k < end; ++k) {
        block((outer * s.length + indices[pick]) * s.inner, k * s.inner);
        if (++pick == picks) ++outer, pick = 0;
      }
    });
  };
  if (s.inner == 1)
    with_mover(t, x, y, each);
  else
    each([&](int64_t from, int64_t to) { copy_elements(t, x, from, y, to, s.inner); });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1, 11, 13};

}  // namespace

extern constexpr Op kGather{.domain = "",
                            .name = "Gather",
                            .versions = kVersions,
                            .parse = parse_params<Params, parse>,
                            .shape = shape_with<Params, int64_t, shape<int64_t>>,
                            .kernels = kKernels};
extern constexpr OpInference kGatherInference{.shape = infer_shape};

}  // namespace tessera
