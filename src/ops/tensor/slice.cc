// Slice — every step-th element between start and end along some axes, as in x[start:end:step].
#include "ops/movement.h"

namespace tessera {
namespace {

// Version 1 has the lists as attributes.
Status upgrade(ir::Annotator& graph, ir::NodeId id, int since) {
  if (since >= 10) return {};
  TRY(attribute_to_input(graph, id, "starts", 1));
  TRY(attribute_to_input(graph, id, "ends", 2));
  return attribute_to_input(graph, id, "axes", 3);
}

// One axis: elements start, start + step, ...; count of them.
struct Range {
  int64_t start, step, count;
};

// The standard clamps a start to an element, or for forward steps to one past the last.
Range range_of(int64_t dim, int64_t start, int64_t end, int64_t step) {
  if (dim == 0) return {0, step, 0};
  start = std::clamp<int64_t>(start < 0 ? start + dim : start, 0, step > 0 ? dim : dim - 1);
  end = std::clamp<int64_t>(end < 0 ? end + dim : end, step > 0 ? 0 : -1, step > 0 ? dim : dim - 1);
  if (step > 0 ? start >= end : start <= end) return {0, step, 0};
  const uint64_t distance = static_cast<uint64_t>(step > 0 ? end - start : start - end) - 1;
  const uint64_t stride = step > 0 ? static_cast<uint64_t>(step) : uint64_t{0} - static_cast<uint64_t>(step);
  return {start, step, static_cast<int64_t>(distance / stride) + 1};
}

int64_t count_of(int64_t dim, int64_t start, int64_t end, int64_t step, ShapeCall<int64_t>&) {
  return range_of(dim, start, end, step).count;
}

constexpr int64_t kFar = INT32_MAX;  // exporters write this for "to the end"

// A bound as it is clamped into [0, dim]; nothing when its sign is not known.
std::optional<Dim> clamped(const Dim& dim, const Dim& v) {
  if (v == dim || (v.known() && v.value() >= kFar)) return dim;
  if (v.known() && v.value() <= -kFar) return Dim(0);
  if (v.known() && v.value() < 0) return dim_max(dim + v, Dim(0));
  if (v.known() && v.value() == 0) return Dim(0);
  if (!never_negative(v)) return {};
  return dim_min(v, dim);
}

Dim count_of(const Dim& dim, const Dim& start, const Dim& end, const Dim& step, ShapeCall<Dim>& c) {
  if (!step.known()) return c.fresh();
  if (dim.known() && start.known() && end.known())
    return Dim(range_of(dim.value(), start.value(), end.value(), step.value()).count);
  if (step.value() < 0) {
    const bool whole =
        start.known() && (start.value() >= kFar || start.value() == -1) && end.known() && end.value() <= -kFar;
    return whole ? ceil_division(dim, Dim(0) - step) : c.fresh();
  }
  const auto first = clamped(dim, start), last = clamped(dim, end);
  if (!first || !last) return c.fresh();
  if (*last == dim && start.known() && start.value() < 0) return ceil_division(dim_min(Dim(-start.value()), dim), step);
  Dim length = *last - *first;
  if (*last == dim && start.known()) length = dim - start;
  if (!never_negative(length)) length = dim_max(length, Dim(0));
  return ceil_division(length, step);
}

// Starts, ends and steps per axis of the data; axes that are not named are taken whole.
template <class D>
struct Bounds {
  DimVec<D> start, end, step;
  bool sliced[kMaxRank] = {};

  // An error text, or null. The axes are numbers by now.
  const char* fill(int rank, const DimVec<D>& starts, const DimVec<D>& ends, const DimVec<int64_t>* axes,
                   const DimVec<D>* steps) {
    for (int i = 0; i < rank; ++i) {
      start.push(D(0));
      end.push(D(INT64_MAX));
      step.push(D(1));
    }
    if (starts.size() != ends.size() || (axes && axes->size() != starts.size()) ||
        (steps && steps->size() != starts.size()))
      return "lists of starts, ends, axes and steps of one length";
    if (starts.size() > rank) return "at most as many bounds as input 0 has dimensions";
    for (int i = 0; i < starts.size(); ++i) {
      const auto axis = normalize_axis(axes ? (*axes)[i] : i, rank);
      if (!axis || sliced[*axis]) return "distinct axes that input 0 has";
      sliced[*axis] = true;
      start[*axis] = starts[i];
      end[*axis] = ends[i];
      if (steps) step[*axis] = (*steps)[i];
      if (known(step[*axis]) && number(step[*axis]) == 0) return "steps other than zero";
    }
    return nullptr;
  }
};

// Bounds when the content of all lists is at hand; nothing, and an ok status, when some list is not known.
template <class D>
Status known_bounds(ShapeCall<D>& c, std::optional<Bounds<D>>& out) {
  for (int i = 1; i < 5; ++i) {
    if (!c.has(i)) continue;
    if (c.rank(i) != 1) return c.refuse(i, "a list");
    if (const D n = c.dim(i, 0); known(n) && number(n) > c.rank(0))
      return c.refuse(i, "at most as many elements as input 0 has dimensions");
  }
  const auto starts = known_list(c, 1), ends = known_list(c, 2);
  std::optional<DimVec<D>> axes, steps;
  if (c.has(3)) axes = known_list(c, 3);
  if (c.has(4)) steps = known_list(c, 4);
  if (!starts || !ends || (c.has(3) && !axes) || (c.has(4) && !steps)) return {};
  DimVec<int64_t> numbers;
  for (int i = 0; axes && i < axes->size(); ++i) {
    if (!known((*axes)[i])) return {};
    numbers.push(number((*axes)[i]));
  }
  out.emplace();
  if (const char* wanted = out->fill(c.rank(0), *starts, *ends, axes ? &numbers : nullptr, steps ? &*steps : nullptr))
    return c.refuse(1, wanted);
  return {};
}

template <class D>
Status shape(ShapeCall<D>& c) {
  std::optional<Bounds<D>> b;
  TRY(known_bounds(c, b));
  if (!b) return c.unknown(0, c.rank(0));
  DimVec<D> out(c.dims(0));
  for (int i = 0; i < out.size(); ++i)
    if (b->sliced[i]) out[i] = count_of(out[i], b->start[i], b->end[i], b->step[i], c);
  return c.set(0, out);
}

Status infer_shape(const void*, ShapeCall<Dim>& c) {
  TRY(shape(c));
  const auto dims = known_dims(c, 0);
  std::optional<Bounds<Dim>> b;
  TRY(known_bounds(c, b));
  if (!dims || !b) return {};
  int64_t strides[kMaxRank], offset = 0;
  strides_of(dims->span(), strides);
  DimVec<int64_t> counts(*dims);
  for (int i = 0; i < dims->size(); ++i) {
    if (!b->sliced[i]) continue;
    if (!b->start[i].known() || !b->end[i].known() || !b->step[i].known()) return {};
    const Range r = range_of((*dims)[i], b->start[i].value(), b->end[i].value(), b->step[i].value());
    counts[i] = r.count;
    offset += r.start * strides[i];
    strides[i] *= r.count > 1 ? r.step : 1;
  }
  strided_content(c, counts.span(), offset, {strides, static_cast<size_t>(dims->size())});
  return {};
}

Status compute(Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const Shape& shape = call.shape(0);
  const DimVec<int64_t> axes = call.has(3) ? list_of(call, 3) : DimVec<int64_t>(),
                        steps = call.has(4) ? list_of(call, 4) : DimVec<int64_t>();
  Bounds<int64_t> b;
  if (const char* wanted = b.fill(shape.rank(), list_of(call, 1), list_of(call, 2), call.has(3) ? &axes : nullptr,
                                  call.has(4) ? &steps : nullptr))
    return call.refuse(1, std::string_view(wanted));
  int64_t strides[kMaxRank], out_strides[kMaxRank], offset = 0;
  strides_of(shape.dims(), strides);
  strides_of(call.out_shape(0).dims(), out_strides);
  for (int i = 0; i < shape.rank(); ++i) {
    if (!b.sliced[i]) continue;
    const Range r = range_of(shape[i], b.start[i], b.end[i], b.step[i]);
    offset += r.start * strides[i];
    strides[i] *= r.count > 1 ? r.step : 1;
  }
  const auto rank = static_cast<size_t>(shape.rank());
  copy_strided(call, call.dtype(0), call.out_shape(0).dims(), call.in(0), {offset, {strides, rank}}, y,
               {0, {out_strides, rank}});
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType},
                               {in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};
constexpr int16_t kVersions[] = {1, 10, 11, 13};

}  // namespace

extern constexpr Op kSlice{.domain = "",
                           .name = "Slice",
                           .versions = kVersions,
                           .shape = shape_plain<int64_t, shape<int64_t>>,
                           .kernels = kKernels,
                           .shape_inputs = in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4),
                           .upgrade = upgrade};
extern constexpr OpInference kSliceInference{.shape = infer_shape};

}  // namespace tessera
