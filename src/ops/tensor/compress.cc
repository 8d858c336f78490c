// Compress — the slices along an axis (or the elements) for which a condition holds.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  std::optional<int64_t> axis;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  return {};
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  const Params& p = *static_cast<const Params*>(params);
  if (!p.axis) return c.set(0, DimVec<Dim>{c.fresh()});
  const auto axis = normalize_axis(*p.axis, c.rank(0));
  if (!axis) return c.refuse(0, format("a tensor with an axis {}", *p.axis));
  DimVec<Dim> out(c.dims(0));
  out[*axis] = c.fresh();
  return c.set(0, out);
}

Status compute(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  const auto axis = p.axis ? normalize_axis(*p.axis, shape.rank()) : std::optional<int>(0);
  if (!axis) return call.refuse(0, "a tensor with an axis {}", *p.axis);
  if (call.shape(1).rank() != 1) return call.refuse(1, "a list");
  const Slices s = p.axis ? shape.around(*axis) : Slices{1, shape.count(), 1};
  const bool* condition = call.in<bool>(1);
  const int64_t asked = std::min(call.count(1), s.length);  // what a condition says past the end is ignored
  const int64_t kept = std::count(condition, condition + asked, true);
  DimVec<int64_t> out;
  if (p.axis) out.append(shape.dims());
  if (p.axis)
    out[*axis] = kept;
  else
    out.push(kept);
  const DType t = call.dtype(0);
  TRY(call.allocate(0, t, Shape(out.span())));
  TRY_ASSIGN(y, output_memory(call));
  if (!y || kept == 0) return {};
  const auto each = [&](auto block) {
    for_blocks(call, t, s.outer, s.length * s.inner, [&](int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o)
        for (int64_t i = 0, k = o * kept; i < asked; ++i)
          if (condition[i]) block((o * s.length + i) * s.inner, k++ * s.inner);
    });
  };
  if (s.inner == 1)
    with_mover(t, call.in(0), y, each);
  else
    each([&](int64_t from, int64_t to) { copy_elements(t, call.in(0), from, y, to, s.inner); });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), set_of(DType::boolean)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {9, 11, 28};

}  // namespace

extern constexpr Op kCompress{
    .domain = "", .name = "Compress", .versions = kVersions, .parse = parse_params<Params, parse>, .kernels = kKernels};
extern constexpr OpInference kCompressInference{.shape = infer_shape};

}  // namespace tessera
