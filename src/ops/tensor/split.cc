// Split — a tensor cut into parts along an axis: of given lengths, or of equal ones with a shorter last.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = 0;
  int parts = 1;
  bool uneven = false;  // the last part may be shorter
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  p.parts = static_cast<int>(a.node().outputs.size());
  int64_t wanted = p.parts;
  if (a.version() >= 18 && a.has("num_outputs")) {
    a.get("num_outputs", wanted);
    p.uneven = true;
  }
  if (wanted != p.parts) return a.refuse("num_outputs", format("the {} outputs that the node has", p.parts));
  return {};
}

// Versions 2 and 11 have the lengths as an attribute, version 1 as either.
Status upgrade(ir::Annotator& graph, ir::NodeId id, int since) {
  return since < 13 ? attribute_to_input(graph, id, "split", 1) : Status{};
}

template <class D>
Status equal_parts(const Params& p, ShapeCall<D>& c, int axis, DimVec<D>& out) {
  const D whole = c.dim(0, axis), parts(p.parts);
  const D part = !p.uneven      ? floor_div(whole, parts)
                 : known(whole) ? D(number(whole) / p.parts + (number(whole) % p.parts != 0))
                                : ceil_division(whole, parts);
  const D last = p.uneven ? whole - part * D(p.parts - 1) : part;
  if (known(whole)) {
    if (number(last) < 0) return c.refuse(0, format("an axis {} that {} parts fit in", axis, p.parts));
    if (!p.uneven && number(whole) % p.parts)
      return c.refuse(0, format("an axis {} that divides into {} equal parts", axis, p.parts));
  }
  for (int o = 0; o < p.parts; ++o) {
    out[axis] = o + 1 < p.parts ? part : last;
    TRY(c.set(o, out));
  }
  return {};
}

template <class D>
Status given_parts(const Params& p, ShapeCall<D>& c, int axis, std::span<const D> lengths, DimVec<D>& out) {
  if (static_cast<int>(lengths.size()) != p.parts) return c.refuse(1, format("{} lengths, one per output", p.parts));
  D sum = 0;
  for (const D& n : lengths) {
    int64_t total = 0;
    if (known(n) && number(n) < 0) return c.refuse(1, format("lengths of at least 0 (one is {})", number(n)));
    if (known(n) && known(sum) && !checked_add(number(sum), number(n), &total))
      return c.refuse(1, "lengths whose sum is the size of the axis");
    sum = sum + n;
  }
  const D whole = c.dim(0, axis);
  if (known(whole) && known(sum) && number(whole) != number(sum))
    return c.refuse(1, format("lengths whose sum is {}, the size of axis {}", number(whole), axis));
  for (int o = 0; o < p.parts; ++o) {
    out[axis] = lengths[static_cast<size_t>(o)];
    TRY(c.set(o, out));
  }
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const auto axis = normalize_axis(p.axis, c.rank(0));
  if (!axis) return c.refuse(0, format("a tensor with an axis {}", p.axis));
  DimVec<D> out(c.dims(0));
  if (!c.has(1)) return equal_parts(p, c, *axis, out);
  if (c.rank(1) != 1) return c.refuse(1, "a list of lengths");
  if (const auto lengths = c.content(1)) return given_parts(p, c, *axis, *lengths, out);
  for (int o = 0; o < p.parts; ++o) {
    out[*axis] = c.fresh();
    TRY(set_partly(c, o, out));
  }
  return {};
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  const Params& p = *static_cast<const Params*>(params);
  TRY(shape(p, c));
  const auto elements = c.content(0);
  const auto lengths = c.has(1) ? c.content(1) : std::optional<std::span<const Dim>>{};
  if (!elements || c.rank(0) != 1 || (c.has(1) && !lengths)) return {};
  const auto n = static_cast<int64_t>(elements->size());
  size_t at = 0;
  for (int o = 0; o < p.parts; ++o) {
    const Dim length = lengths ? (*lengths)[static_cast<size_t>(o)] : Dim(ceil_div(n, p.parts));
    if (!length.known()) return {};
    const size_t part = std::min(static_cast<size_t>(length.value()), elements->size() - at);
    c.set_content(o, elements->subspan(at, part));
    at += part;
  }
  return {};
}

Status compute(const Params& p, Call& call) {
  const Slices all = call.shape(0).around(*normalize_axis(p.axis, call.shape(0).rank()));
  const int64_t row = all.length * all.inner;
  int64_t at = 0;
  for (int o = 0; o < call.outputs(); ++o) {
    int64_t part = 0;
    if (call.wants(o)) {
      TRY_ASSIGN(y, output_memory(call, o));
      part = all.outer ? call.out_count(o) / all.outer : 0;
      const int64_t dims[] = {all.outer, part}, from[] = {row, 1}, to[] = {part, 1};
      copy_strided(call, call.dtype(0), dims, call.in(0), {at, from}, y, {0, to});
    } else if (call.has(1)) {
      part = call.integer(1, o) * all.inner;
    } else {
      part = ceil_div(all.length, p.parts) * all.inner;
    }
    at += part;
  }
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0) | kRestOut, kEveryType},
                               {in_arg(1), kIndexTypes | kFloats}};  // version 1 has lengths of the type of the data
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1, 2, 11, 13, 18};

}  // namespace

extern constexpr Op kSplit{.domain = "",
                           .name = "Split",
                           .versions = kVersions,
                           .parse = parse_params<Params, parse>,
                           .shape = shape_with<Params, int64_t, shape<int64_t>>,
                           .kernels = kKernels,
                           .shape_inputs = in_arg(1),
                           .upgrade = upgrade};
extern constexpr OpInference kSplitInference{.shape = infer_shape};

}  // namespace tessera
