// SequenceConstruct, SequenceEmpty — sequences of given tensors.
#include "ops/sequence/sequences.h"

namespace tessera {
namespace {

Status construct(Call& call) {
  auto out = std::make_shared<Sequence>();
  out->element = call.dtype(0);
  for (int i = 0; i < call.inputs(); ++i) {
    if (!call.is_tensor(i)) return call.refuse(i, "a tensor");
    TRY_ASSIGN(v, call.take(i));
    out->items.push_back(std::move(v));
  }
  call.set(0, std::move(out));
  return {};
}

Status infer_construct(const ir::Node&, const void*, DimPool& dims, std::span<const Fact* const> in,
                       std::span<Fact> out) {
  if (in.empty() || !in[0]) return {};
  Fact element = Fact::tensor(in[0]->dtype, in[0]->shape);
  for (const Fact* f : in) {
    if (!f || !f->shape || !element.shape || f->shape->size() != element.shape->size()) {
      element.shape.reset();
      break;
    }
    for (size_t i = 0; i < f->shape->size(); ++i)
      if (!((*element.shape)[i] == (*f->shape)[i])) (*element.shape)[i] = dims.fresh();
  }
  out[0] = Fact::sequence(std::move(element));
  return {};
}

struct Empty {
  DType dtype = DType::f32;
};
Status parse(Attrs& a, Empty& p) {
  a.get("dtype", p.dtype);
  return {};
}
void empty_type(TypeCall& c) { c.out[0] = {Kind::sequence, static_cast<const Empty*>(c.params)->dtype, Kind::tensor}; }
Status empty(const Empty& p, Call& call) {
  auto out = std::make_shared<Sequence>();
  out->element = p.dtype;
  call.set(0, std::move(out));
  return {};
}

constexpr TypeRule kSame[] = {{in_arg(0) | kRestIn, kEveryType}};
constexpr Kernel kConstruct[] = {{kSame, compute_plain<construct>}};
constexpr Kernel kEmpty[] = {{{}, compute_with<Empty, empty>}};
constexpr int16_t kVersions[] = {11};

}  // namespace

extern constexpr Op kSequenceConstruct{.domain = "",
                                       .name = "SequenceConstruct",
                                       .versions = kVersions,
                                       .types = type_sequence_of_input,
                                       .kernels = kConstruct};
extern constexpr OpInference kSequenceConstructInference{.infer = infer_construct};
extern constexpr Op kSequenceEmpty{.domain = "",
                                   .name = "SequenceEmpty",
                                   .versions = kVersions,
                                   .parse = parse_params<Empty, parse>,
                                   .types = empty_type,
                                   .kernels = kEmpty};
extern constexpr OpInference kSequenceEmptyInference{};

}  // namespace tessera
