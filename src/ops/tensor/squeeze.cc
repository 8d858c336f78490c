// Squeeze, Unsqueeze: dimensions of one taken away or added. No element moves.
#include "ops/movement.h"

namespace tessera {
namespace {

// Before version 13 the axes are an attribute.
Status upgrade(ir::Annotator& graph, ir::NodeId id, int since) {
  return since < 13 ? attribute_to_input(graph, id, "axes", 1) : Status{};
}

// The numbers in the list of axes; nothing when one of them is not known.
template <class D>
std::optional<DimVec<int64_t>> known_axes(ShapeCall<D>& c) {
  const auto list = known_list(c, 1);
  if (!list) return {};
  DimVec<int64_t> out;
  for (const D& a : list->span()) {
    if (!known(a)) return {};
    out.push(number(a));
  }
  return out;
}

template <class D>
Status squeeze_all(ShapeCall<D>& c) {
  DimVec<D> out;
  for (const D& d : c.dims(0)) {
    if (!known(d)) return c.unknown(0);
    if (number(d) != 1) out.push(d);
  }
  return c.set(0, out);
}

template <class D>
Status squeeze(ShapeCall<D>& c) {
  if (!c.has(1)) return squeeze_all(c);
  if (c.rank(1) > 1) return c.refuse(1, "a list of axes");
  if (const D n = c.count(1); known(n) && number(n) > kMaxRank) return c.refuse(1, "at most one axis per dimension");
  const auto axes = known_axes(c);
  if (!axes) return c.unknown(0);
  bool gone[kMaxRank] = {};
  const int rank = c.rank(0);
  for (const int64_t a : axes->span()) {
    const auto axis = normalize_axis(a, rank);
    if (!axis) return c.refuse(1, format("axes from -{} to {} (one is {})", rank, rank - 1, a));
    gone[*axis] = true;
  }
  DimVec<D> out;
  for (int i = 0; i < rank; ++i) {
    const D d = c.dim(0, i);
    if (!gone[i]) out.push(d);
    if (gone[i] && known(d) && number(d) != 1) return c.refuse(0, format("a dimension of 1 at axis {}", i));
  }
  return c.set(0, out);
}

template <class D>
Status unsqueeze(ShapeCall<D>& c) {
  if (c.rank(1) > 1) return c.refuse(1, "a list of axes");
  const D count = c.count(1);
  if (!known(count)) return c.unknown(0);
  if (number(count) + c.rank(0) >= kMaxRank) return c.refuse(1, "fewer axes than the largest rank allows");
  const int rank = c.rank(0) + static_cast<int>(number(count));
  const auto axes = known_axes(c);
  if (!axes) return c.unknown(0, rank);
  bool added[kMaxRank];
  if (!mark_axes(axes->span(), rank, added)) return c.refuse(1, format("distinct axes from -{} to {}", rank, rank - 1));
  DimVec<D> out;
  for (int i = 0, from = 0; i < rank; ++i) out.push(added[i] ? D(1) : c.dim(0, from++));
  return c.set(0, out);
}

Status compute(Call& call) { return copy_input(call); }

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};
constexpr int16_t kVersions[] = {1, 11, 13, 21, 23, 24, 25};

constexpr Op view(const char* name, ShapeFn* shape) {
  return {.domain = "",
          .name = name,
          .versions = kVersions,
          .shape = shape,
          .kernels = kKernels,
          .shape_inputs = in_arg(1),
          .view = 0,
          .upgrade = upgrade};
}

}  // namespace

extern constexpr Op kSqueeze = view("Squeeze", shape_plain<int64_t, squeeze<int64_t>>);
extern constexpr Op kUnsqueeze = view("Unsqueeze", shape_plain<int64_t, unsqueeze<int64_t>>);
extern constexpr OpInference kSqueezeInference{.shape = shape_keeping_content<shape_plain<Dim, squeeze<Dim>>>};
extern constexpr OpInference kUnsqueezeInference{.shape = shape_keeping_content<shape_plain<Dim, unsqueeze<Dim>>>};

}  // namespace tessera
