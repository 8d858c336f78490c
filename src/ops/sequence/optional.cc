// Optional, OptionalGetElement, OptionalHasElement — a value that may not be there.
#include "ops/op.h"

namespace tessera {
namespace {

struct Params {
  std::optional<Fact> type;  // of the element, where there is no input
};
Status parse(Attrs& a, Params& p) {
  const bool given = !a.node().inputs.empty() && a.node().inputs[0] != ir::kNone;
  if (const ir::Attribute* type = a.node().find("type")) {
    const auto* facts = std::get_if<std::vector<Fact>>(&type->value);
    if (!facts || facts->empty()) return a.refuse("type", "a type");
    p.type = (*facts)[0];
  } else if (!given) {
    return invalid_graph("it has neither an input nor the attribute 'type'");
  }
  return {};
}

void optional_type(TypeCall& c) {
  const Params& p = *static_cast<const Params*>(c.params);
  if (c.in[0].kind != Kind::unknown) {
    c.out[0] = {Kind::optional, c.in[0].dtype, c.in[0].kind};
  } else if (p.type) {
    const Fact* inner = &*p.type;
    while (inner->element) inner = inner->element.get();
    c.out[0] = {Kind::optional, inner->dtype, p.type->kind};
  }
}

Status make_optional(const Params&, Call& call) {
  if (!call.has(0)) return call.set(0, None{}), Status{};
  TRY_ASSIGN(v, call.take(0));
  call.set(0, std::move(v));
  return {};
}

Status infer_optional(const ir::Node&, const void* params, DimPool&, std::span<const Fact* const> in,
                      std::span<Fact> out) {
  const Params& p = *static_cast<const Params*>(params);
  if (!in.empty() && in[0] && in[0]->kind != Kind::unknown)
    out[0] = Fact::optional(*in[0]);
  else if (p.type)
    out[0] = Fact::optional(*p.type);
  return {};
}

// A value that is no optional is its own element.
void element_type(TypeCall& c) {
  c.out[0] = c.in[0].kind == Kind::optional ? TypeDesc{c.in[0].inner, c.in[0].dtype, Kind::tensor} : c.in[0];
}

Status get_element(Call& call) {
  TRY_ASSIGN(v, call.take(0));
  if (v.is_none() || v.empty()) return invalid("input 0 is an empty optional, wanted one with an element");
  call.set(0, std::move(v));
  return {};
}

Status infer_element(const ir::Node&, const void*, DimPool&, std::span<const Fact* const> in, std::span<Fact> out) {
  if (!in[0] || in[0]->kind == Kind::unknown) return {};
  if (in[0]->kind != Kind::optional)
    out[0] = *in[0];
  else if (in[0]->element)
    out[0] = *in[0]->element;
  return {};
}

Status has_element(Call& call) {
  bool there = call.is_tensor(0);
  if (!there && call.has(0)) {
    TRY_ASSIGN(v, call.value(0));
    there = !v.is_none();
  }
  *call.out<bool>(0) = there;
  return {};
}

template <class D>
Status scalar(ShapeCall<D>& c) {
  return c.set(0, DimVec<D>{});
}
Status infer_has(const ir::Node&, const void*, DimPool&, std::span<const Fact* const>, std::span<Fact> out) {
  out[0] = Fact::tensor(DType::boolean, std::vector<Dim>{});
  return {};
}

constexpr TypeRule kHasTypes[] = {{out_arg(0), set_of(DType::boolean)}};
constexpr Kernel kMake[] = {{{}, compute_with<Params, make_optional>}};
constexpr Kernel kGet[] = {{{}, compute_plain<get_element>}};
constexpr Kernel kHas[] = {{kHasTypes, compute_plain<has_element>}};
constexpr int16_t kOptionalVersions[] = {15, 28};
constexpr int16_t kElementVersions[] = {15, 18, 28};

}  // namespace

extern constexpr Op kOptional{.domain = "",
                              .name = "Optional",
                              .versions = kOptionalVersions,
                              .parse = parse_params<Params, parse>,
                              .types = optional_type,
                              .kernels = kMake};
extern constexpr OpInference kOptionalInference{.infer = infer_optional};
extern constexpr Op kOptionalGetElement{
    .domain = "", .name = "OptionalGetElement", .versions = kElementVersions, .types = element_type, .kernels = kGet};
extern constexpr OpInference kOptionalGetElementInference{.infer = infer_element};
extern constexpr Op kOptionalHasElement{.domain = "",
                                        .name = "OptionalHasElement",
                                        .versions = kElementVersions,
                                        .types = type_always<DType::boolean>,
                                        .shape = shape_plain<int64_t, scalar<int64_t>>,
                                        .kernels = kHas};
extern constexpr OpInference kOptionalHasElementInference{.infer = infer_has};

}  // namespace tessera
