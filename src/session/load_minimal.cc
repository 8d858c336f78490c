// Loading without signatures, inference or rewrites: nodes in file order, shapes found when inputs arrive.
#include <algorithm>

#include "ops/op.h"
#include "ops/resolve.h"
#include "session/load_steps.h"

namespace tessera {
namespace {

// Operators of the graph and its subgraphs that this library was linked without, as "ai.onnx:Conv".
void list_missing(const ir::Graph& graph, const SessionOptions& options, std::vector<std::string>& out) {
  for (const ir::Node& n : graph.nodes()) {
    if (n.dead) continue;
    ir::for_each_subgraph(
        n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) { list_missing(*sub, options, out); });
    if (n.op || find_op(n.domain, n.op_type) || find_custom(options.custom_ops, n)) continue;
    std::string name = (n.domain.empty() ? "ai.onnx" : n.domain) + ":" + n.op_type;
    if (std::find(out.begin(), out.end(), name) == out.end()) out.push_back(std::move(name));
  }
}

Status check_operators(const ir::Graph& graph, const SessionOptions& options) {
  std::vector<std::string> missing;
  list_missing(graph, options, missing);
  std::string names;
  for (const std::string& name : missing) names += (names.empty() ? "" : ", ") + name;
  if (names.empty()) return {};
  return not_implemented(
      "this library was built without {}; add that to its list of operators, or run `tessera trim` with this model",
      names);
}

}  // namespace

Result<LoadedModel> load_model(BytesPtr bytes, ExternalData& external, const PackFile* packs,
                               const SessionOptions& options) {
  LoadedModel out;
  PhaseTimer timer;
  TRY(read_graph(std::move(bytes), external, options, nullptr, out, timer));
  TRY(check_operators(*out.model.graph, options));
  if (Status s = resolve(*out.model.graph, {.extra = options.custom_ops, .allow_newer = options.allow_newer_opsets});
      !s.ok()) {
    TRY(check_operators(*out.model.graph, options));  // parts that composed operators unfold to
    return s;
  }
  TRY(start_custom(*out.model.graph));
  timer.lap(out.phase_ns.resolve);
  TRY_ASSIGN(order, ir::topological_order(*out.model.graph));
  timer.lap(out.phase_ns.order);
  TRY(make_plan(order, external, packs, options, out, timer));
  return out;
}

}  // namespace tessera
