#include "ops/contrib/contrib.h"

namespace tessera::contrib {

Status check(const Arity& arity, const ir::Node& n) {
  if (n.inputs.size() > arity.inputs)
    return invalid_graph("the operator has at most {} inputs, got {}", arity.inputs, n.inputs.size());
  if (n.outputs.size() > arity.outputs)
    return invalid_graph("the operator has at most {} outputs, got {}", arity.outputs, n.outputs.size());
  for (int i = 0; i < 32; ++i)
    if ((arity.required >> i & 1) &&
        (static_cast<size_t>(i) >= n.inputs.size() || n.inputs[static_cast<size_t>(i)] == ir::kNone))
      return invalid_graph("input {} is missing", i);
  return {};
}

ir::ValueId list(Composer& c, std::vector<int64_t> values) {
  Result<Tensor> t = Tensor::of<int64_t>(Shape{static_cast<int64_t>(values.size())}, values);
  return t.ok() ? c.constant(std::move(*t)) : ir::kNone;
}

std::vector<ir::Attribute> keep_attributes(Composer& c, std::initializer_list<std::string_view> names) {
  std::vector<ir::Attribute> out;
  for (const std::string_view name : names)
    if (const ir::Attribute* a = c.attrs().node().find(name)) out.push_back(*a);
  return out;
}

}  // namespace tessera::contrib
