// Pad — borders of a constant, of mirrored, repeated or wrapped elements.
#include "ops/tensor/padding.h"

namespace tessera {
namespace {

struct Params {
  PadMode mode = PadMode::constant;
  float value = 0;  // versions 1 and 2
};
Status parse(Attrs& a, Params& p) {
  static constexpr std::string_view kModes[] = {"constant", "reflect", "edge", "wrap"};
  int mode = 0;
  a.get_choice("mode", mode, kModes);
  p.mode = static_cast<PadMode>(mode);
  a.get("value", p.value);
  return {};
}

// Versions 1 and 2 have the pads as an attribute.
Status upgrade(ir::Annotator& graph, ir::NodeId id, int since) {
  TRY(since < 2 ? attribute_to_input(graph, id, "paddings", 1) : Status{});
  return since < 11 ? attribute_to_input(graph, id, "pads", 1) : Status{};
}

// Pads per axis of the data: [0] before, [1] after. An error text, or null.
template <class D>
const char* spread(int rank, std::span<const D> pads, const DimVec<int64_t>* axes, DimVec<D> (&sides)[2]) {
  for (int i = 0; i < rank; ++i)
    for (DimVec<D>& side : sides) side.push(D(0));
  bool mask[kMaxRank];
  if (axes && !mark_axes(axes->span(), rank, mask)) return "distinct axes that input 0 has";
  const int count = axes ? axes->size() : rank;
  if (static_cast<int>(pads.size()) != 2 * count) return "two pads per axis";
  for (int i = 0; i < count; ++i) {
    const int axis = axes ? *normalize_axis((*axes)[i], rank) : i;
    for (int side = 0; side < 2; ++side) sides[side][axis] = pads[static_cast<size_t>(side * count + i)];
  }
  return nullptr;
}

// Why a dimension cannot be padded so; null if it can.
const char* check_axis(PadMode mode, int64_t dim, int64_t before, int64_t after, int64_t* padded) {
  int64_t kept, sum;
  if (before < -dim || after < -dim || !checked_add(dim, std::min<int64_t>(before, 0), &kept) ||
      (kept += std::min<int64_t>(after, 0)) < 0)
    return "pads that take away no more than there is";
  if (!checked_add(dim, before, &sum) || !checked_add(sum, after, padded)) return "pads that memory can hold";
  const int64_t most = std::max(before, after);
  if (mode != PadMode::constant && most > 0 && kept == 0) return "elements to repeat along every padded axis";
  if (mode == PadMode::reflect && most > 0 && most >= kept) return "reflected pads smaller than the axis";
  return nullptr;
}

// The list of axes as numbers; false if it is not known.
template <class D>
bool known_axes(ShapeCall<D>& c, DimVec<int64_t>& out) {
  const auto list = known_list(c, 3);
  if (!list) return false;
  for (const D& a : list->span()) {
    if (!known(a)) return false;
    out.push(number(a));
  }
  return true;
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  if (c.rank(1) > 2) return c.refuse(1, "a list of pads");
  if (c.has(2) && known(c.count(2)) && number(c.count(2)) != 1) return c.refuse(2, "one value");
  if (c.has(3) && known(c.count(3)) && number(c.count(3)) > rank) return c.refuse(3, "distinct axes that input 0 has");
  DimVec<int64_t> axes;
  if (c.has(3) && !known_axes(c, axes)) return c.unknown(0, rank);
  const auto pads = c.content(1);
  if (!pads) return c.unknown(0, rank);
  DimVec<D> sides[2], out;
  if (const char* wanted = spread(rank, *pads, c.has(3) ? &axes : nullptr, sides)) return c.refuse(1, wanted);
  for (int i = 0; i < rank; ++i) {
    const D dim = c.dim(0, i), before = sides[0][i], after = sides[1][i];
    if (!known(dim) || !known(before) || !known(after)) {
      out.push(dim + before + after);
      continue;
    }
    int64_t padded = 0;
    if (const char* wanted = check_axis(p.mode, number(dim), number(before), number(after), &padded))
      return c.refuse(1, format("{} (axis {})", wanted, i));
    out.push(D(padded));
  }
  return c.set(0, out);
}

Status compute(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  DimVec<int64_t> sides[2];
  const DimVec<int64_t> axes = call.has(3) ? list_of(call, 3) : DimVec<int64_t>();
  const std::span<const int64_t> pads(call.in<int64_t>(1), static_cast<size_t>(call.count(1)));
  if (const char* wanted = spread(shape.rank(), pads, call.has(3) ? &axes : nullptr, sides))
    return call.refuse(1, std::string_view(wanted));
  Padding padding;
  for (int i = 0; i < shape.rank(); ++i) padding.add(shape[i], sides[0][i], sides[1][i]);
  if (call.has(2)) return pad_input(call, padding, p.mode, call.in(2));
  alignas(16) unsigned char value[16] = {};
  if (p.value != 0) encode(call.dtype(0), value, 0, 1, &p.value);
  return pad_input(call, padding, p.mode, p.value != 0 ? value : nullptr);
}

constexpr TypeRule kTypes[] = {
    {in_arg(0) | in_arg(2) | out_arg(0), kEveryType}, {in_arg(1), set_of(DType::i64)}, {in_arg(3), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1, 2, 11, 13, 18, 19, 21, 23, 24, 25};

}  // namespace

extern constexpr Op kPad{.domain = "",
                         .name = "Pad",
                         .versions = kVersions,
                         .parse = parse_params<Params, parse>,
                         .shape = shape_with<Params, int64_t, shape<int64_t>>,
                         .kernels = kKernels,
                         .shape_inputs = in_arg(1) | in_arg(3),
                         .upgrade = upgrade};
extern constexpr OpInference kPadInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
