// SequenceInsert, SequenceErase, SequenceAt, SequenceLength — single elements of a sequence.
#include "ops/sequence/sequences.h"

namespace tessera {
namespace {

// The dtype of a sequence is that of its tensors, however little the model declares of the sequence.
void insert_type(TypeCall& c) {
  const DType dtype = c.in[0].dtype == DType::undefined && c.in.size() > 1 ? c.in[1].dtype : c.in[0].dtype;
  c.out[0] = {Kind::sequence, dtype, Kind::tensor};
}

Status insert(Call& call) {
  if (!call.is_tensor(1)) return call.refuse(1, "a tensor");
  TRY_ASSIGN(v, take_sequence(call, 0));
  Sequence& s = *v.own_sequence();
  const DType dtype = call.dtype(1);
  if (s.element != dtype && s.element != DType::undefined)
    return call.refuse(1, "a tensor of type {} like the sequence", name_of(s.element));
  s.element = dtype;
  const auto size = static_cast<int64_t>(s.items.size());
  int64_t at = size;
  if (call.has(2)) {
    TRY_ASSIGN(position, position_in(call, 2, size, true));
    at = position;
  }
  TRY_ASSIGN(t, call.take(1));
  s.items.insert(s.items.begin() + at, std::move(t));
  call.set(0, std::move(v));
  return {};
}

// Elements of the result may be those of the sequence or the new one.
Status infer_insert(const ir::Node&, const void*, DimPool&, std::span<const Fact* const> in, std::span<Fact> out) {
  if (!in[1] || !in[1]->shape || !in[0] || !in[0]->element || !in[0]->element->shape) return {};
  if (*in[0]->element->shape == *in[1]->shape) out[0] = Fact::sequence(Fact::tensor(in[1]->dtype, in[1]->shape));
  return {};
}

Status erase(Call& call) {
  TRY_ASSIGN(v, take_sequence(call, 0));
  Sequence& s = *v.own_sequence();
  const auto size = static_cast<int64_t>(s.items.size());
  int64_t at = size - 1;
  if (call.has(1)) {
    TRY_ASSIGN(position, position_in(call, 1, size));
    at = position;
  }
  if (at < 0) return call.refuse(0, "a sequence with an element to erase");
  s.items.erase(s.items.begin() + at);
  call.set(0, std::move(v));
  return {};
}

Status infer_same(const ir::Node&, const void*, DimPool&, std::span<const Fact* const> in, std::span<Fact> out) {
  if (in[0] && in[0]->kind == Kind::sequence) out[0] = *in[0];
  return {};
}

void element_type(TypeCall& c) { c.out[0] = {c.in[0].inner, c.in[0].dtype, Kind::tensor}; }

Status at(Call& call) {
  TRY_ASSIGN(v, read_sequence(call, 0));
  const Sequence& s = *v.sequence();
  TRY_ASSIGN(position, position_in(call, 1, static_cast<int64_t>(s.items.size())));
  call.set(0, s.items[static_cast<size_t>(position)]);
  return {};
}

Status infer_at(const ir::Node&, const void*, DimPool&, std::span<const Fact* const> in, std::span<Fact> out) {
  if (in[0] && in[0]->element && in[0]->element->is_tensor()) out[0] = *in[0]->element;
  return {};
}

Status length(Call& call) {
  TRY_ASSIGN(v, read_sequence(call, 0));
  *call.out<int64_t>(0) = static_cast<int64_t>(v.sequence()->items.size());
  return {};
}

template <class D>
Status scalar(ShapeCall<D>& c) {
  return c.set(0, DimVec<D>{});
}
Status infer_length(const ir::Node&, const void*, DimPool&, std::span<const Fact* const>, std::span<Fact> out) {
  out[0] = Fact::tensor(DType::i64, std::vector<Dim>{});
  return {};
}

constexpr TypeRule kInsertTypes[] = {{in_arg(1), kEveryType}, {in_arg(2), kIndexTypes}};
constexpr TypeRule kLengthTypes[] = {{out_arg(0), set_of(DType::i64)}};
constexpr Kernel kInsert[] = {{kInsertTypes, compute_plain<insert>}};
constexpr Kernel kErase[] = {{kPositionTypes, compute_plain<erase>}};
constexpr Kernel kAt[] = {{kPositionTypes, compute_plain<at>}};
constexpr Kernel kLength[] = {{kLengthTypes, compute_plain<length>}};
constexpr int16_t kVersions[] = {11};

}  // namespace

extern constexpr Op kSequenceInsert{
    .domain = "", .name = "SequenceInsert", .versions = kVersions, .types = insert_type, .kernels = kInsert};
extern constexpr OpInference kSequenceInsertInference{.infer = infer_insert};
extern constexpr Op kSequenceErase{
    .domain = "", .name = "SequenceErase", .versions = kVersions, .types = type_sequence_of_input, .kernels = kErase};
extern constexpr OpInference kSequenceEraseInference{.infer = infer_same};
extern constexpr Op kSequenceAt{
    .domain = "", .name = "SequenceAt", .versions = kVersions, .types = element_type, .kernels = kAt};
extern constexpr OpInference kSequenceAtInference{.infer = infer_at};
extern constexpr Op kSequenceLength{.domain = "",
                                    .name = "SequenceLength",
                                    .versions = kVersions,
                                    .types = type_always<DType::i64>,
                                    .shape = shape_plain<int64_t, scalar<int64_t>>,
                                    .kernels = kLength};
extern constexpr OpInference kSequenceLengthInference{.infer = infer_length};

}  // namespace tessera
