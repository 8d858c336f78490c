#include "passes/check_signatures.h"

#include <limits>

#include "ops/signatures.h"

namespace tessera {
namespace {

Status check_counts(const ir::Node& n, const spec::Signature& s) {
  const auto check = [&](std::string_view what, size_t got, int least, int most) -> Status {
    if (static_cast<int>(got) >= least && static_cast<int>(got) <= most) return {};
    if (least == most) return invalid_graph("it has {} {}, wanted {}", got, what, least);
    if (most == spec::Signature::kUnbounded) return invalid_graph("it has {} {}, wanted at least {}", got, what, least);
    return invalid_graph("it has {} {}, wanted {} to {}", got, what, least, most);
  };
  TRY(check("inputs", n.inputs.size(), s.min_inputs(), s.max_inputs()));
  TRY(check("outputs", n.outputs.size(), s.min_outputs(), s.max_outputs()));
  for (size_t i = 0; i < n.inputs.size(); ++i) {
    const spec::Argument* a = s.input(static_cast<int>(i));
    if (a && a->option == spec::ArgumentOption::single && n.inputs[i] == ir::kNone)
      return invalid_graph("its input {} ({}) is absent, but not optional", i, a->name());
  }
  return {};
}

Status check_attributes(const ir::Node& n, const spec::Signature& s) {
  for (const ir::Attribute& a : n.attributes) {
    const spec::Attribute* known = s.attribute(a.name);
    if (!known)
      return invalid_graph("it has the attribute {}, which version {} of the operator does not know", quote(a.name),
                           static_cast<int>(s.since_version));
    if (a.ref.empty() && known->type != static_cast<uint8_t>(a.type))
      return invalid_graph("its attribute {} has the wrong type", quote(a.name));
  }
  for (const spec::Attribute& a : s.attributes())
    if (a.required && !n.find(a.name())) return invalid_graph("it lacks the attribute {}", quote(a.name()));
  return {};
}

}  // namespace

Status check_signatures(const ir::Graph& graph, std::span<const std::shared_ptr<const CustomOp>> custom) {
  for (const ir::Node& n : graph.nodes()) {
    if (n.dead) continue;
    Status status;
    const spec::Signature* s = find_custom(custom, n) ? nullptr : spec::find_signature(n.domain, n.op_type, n.version);
    if (s) {
      // An operator that a later set has again, as GroupNormalization, was never taken away.
      if (s->deprecated && spec::find_signature(n.domain, n.op_type, std::numeric_limits<int>::max())->deprecated)
        status = invalid_graph("the operator is no longer part of operator set {}", n.version);
      if (status.ok()) status = check_counts(n, *s);
      if (status.ok()) status = check_attributes(n, *s);
    }
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
      if (status.ok()) status = check_signatures(*sub, custom);
    });
    if (!status.ok()) return std::move(status).in(n.title());
  }
  return {};
}

}  // namespace tessera
