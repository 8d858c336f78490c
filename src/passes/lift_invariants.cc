#include "passes/lift_invariants.h"

#include "ir/patch.h"

namespace tessera {
namespace {

// Where the states of a node that repeats its body stand.
struct States {
  size_t count = 0, first_input = 0;  // of the node
  size_t body_input = 0, body_output = 0;
};

States states_of(const ir::Node& n) {
  if (!n.domain.empty()) return {};
  if (n.op_type == "Loop" && n.inputs.size() > 2) return {n.inputs.size() - 2, 2, 2, 1};
  const ir::Attribute* scans = n.op_type == "Scan" ? n.find("num_scan_inputs") : nullptr;
  const auto* number = scans ? std::get_if<int64_t>(&scans->value) : nullptr;
  // Before version 9 the first input of Scan is not the body's, and states have a batch.
  if (!number || n.since < 9 || *number < 0 || static_cast<size_t>(*number) > n.inputs.size()) return {};
  return {n.inputs.size() - static_cast<size_t>(*number), 0, 0, 0};
}

// What a value is a copy of.
ir::ValueId source(const ir::Graph& graph, ir::ValueId v) {
  for (const ir::ValueInfo* info = &graph.value(v); info->source == ir::Source::node; info = &graph.value(v)) {
    const ir::Node& n = graph.node(info->producer);
    if (n.op_type != "Identity" || !n.domain.empty() || n.inputs.size() != 1 || n.inputs[0] == ir::kNone) break;
    v = n.inputs[0];
  }
  return v;
}

int64_t lift(const ir::Graph& graph, const ir::Node& n, ir::Graph& body) {
  int64_t lifted = 0;
  const States s = states_of(n);
  for (size_t k = 0; k < s.count; ++k) {
    if (s.body_input + k >= body.inputs().size() || s.body_output + k >= body.outputs().size()) break;
    const ir::ValueId state = body.inputs()[s.body_input + k], outer = n.inputs[s.first_input + k];
    if (outer == ir::kNone || source(body, body.outputs()[s.body_output + k]) != state) continue;
    if (body.readers(state).empty()) continue;
    ir::Annotator(body).read_outer(state, graph, outer);
    ++lifted;
  }
  return lifted;
}

}  // namespace

int64_t lift_invariants(ir::Graph& graph) {
  int64_t lifted = 0;
  for (const ir::Node& n : graph.nodes()) {
    if (n.dead) continue;
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>& body) {
      lifted += lift(graph, n, *body) + lift_invariants(*body);
    });
  }
  return lifted;
}

}  // namespace tessera
