// ConcatFromSequence — the tensors of a sequence side by side, along an axis of theirs or a new one.
#include "ops/movement.h"
#include "ops/sequence/sequences.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = 0;
  bool new_axis = false;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  int64_t new_axis = 0;
  a.get("new_axis", new_axis);
  if (new_axis != 0 && new_axis != 1) return a.refuse("new_axis", "0 or 1");
  p.new_axis = new_axis == 1;
  return {};
}

void types(TypeCall& c) { c.out[0] = {Kind::tensor, c.in[0].dtype, Kind::tensor}; }

// The dimensions of one element as they stand in the result, whose axis is `axis`.
std::vector<int64_t> aligned(const Params& p, const Tensor& t, int axis) {
  std::vector<int64_t> dims(t.shape().dims().begin(), t.shape().dims().end());
  if (p.new_axis) dims.insert(dims.begin() + axis, 1);
  return dims;
}

Status compute(const Params& p, Call& call) {
  TRY_ASSIGN(v, read_sequence(call, 0));
  const std::vector<Value>& items = v.sequence()->items;
  if (items.empty()) return call.refuse(0, "at least one tensor");
  for (const Value& item : items)
    if (!item.tensor()) return call.refuse(0, "a sequence of tensors");
  const Tensor& first = *items[0].tensor();
  const auto axis = normalize_axis(p.axis, first.shape().rank() + (p.new_axis ? 1 : 0));
  if (!axis) return call.refuse(0, "tensors with axis {}, the first is {}", p.axis, items[0].describe());
  std::vector<int64_t> dims = aligned(p, first, *axis);
  int64_t length = 0;
  for (const Value& item : items) {
    std::vector<int64_t> own = aligned(p, *item.tensor(), *axis);
    const bool ranks = own.size() == dims.size();
    if (ranks && !checked_add(length, own[static_cast<size_t>(*axis)], &length))
      return call.refuse(0, "a length that fits in 63 bits");
    if (ranks) own[static_cast<size_t>(*axis)] = dims[static_cast<size_t>(*axis)];
    if (own != dims || item.tensor()->dtype() != first.dtype())
      return call.refuse(0, "tensors that agree outside axis {}, there are {} and {}", *axis, items[0].describe(),
                         item.describe());
  }
  dims[static_cast<size_t>(*axis)] = length;
  TRY_ASSIGN(shape, Shape::checked(dims));
  const Slices out = shape.around(*axis);
  TRY(call.allocate(0, first.dtype(), std::move(shape)));
  void* y = call.out(0);
  if (!y) return {};
  clear_sub_byte(first.dtype(), y, call.out_count(0));
  int64_t at = 0;
  for (const Value& item : items) {
    if (call.cancelled()) return call.stopped();
    const Tensor& t = *item.tensor();
    const int64_t block = out.outer ? t.count() / out.outer : 0;
    for (int64_t o = 0; o < out.outer; ++o)
      copy_elements(t.dtype(), t.data(), o * block, y, o * out.length * out.inner + at, block);
    at += block;
  }
  return {};
}

Status infer(const ir::Node&, const void* params, DimPool& dims, std::span<const Fact* const> in, std::span<Fact> out) {
  const Params& p = *static_cast<const Params*>(params);
  if (!in[0] || !in[0]->element || !in[0]->element->shape) return {};
  std::vector<Dim> shape(*in[0]->element->shape);
  const auto axis = normalize_axis(p.axis, static_cast<int>(shape.size()) + (p.new_axis ? 1 : 0));
  if (!axis) return {};
  if (p.new_axis)
    shape.insert(shape.begin() + *axis, dims.fresh());
  else
    shape[static_cast<size_t>(*axis)] = dims.fresh();
  out[0].shape = std::move(shape);
  return {};
}

constexpr Kernel kKernels[] = {{{}, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {11};

}  // namespace

extern constexpr Op kConcatFromSequence{.domain = "",
                                        .name = "ConcatFromSequence",
                                        .versions = kVersions,
                                        .parse = parse_params<Params, parse>,
                                        .types = types,
                                        .kernels = kKernels};
extern constexpr OpInference kConcatFromSequenceInference{.infer = infer};

}  // namespace tessera
