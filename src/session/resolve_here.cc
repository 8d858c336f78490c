#include "session/resolve_here.h"

#include <algorithm>

#include "ops/op.h"
#include "ops/resolve.h"

namespace tessera {
namespace {

// Operators of the graph and its subgraphs that are not here, as "ai.onnx:Conv".
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

Status resolve_here(ir::Graph& graph, const SessionOptions& options) {
  TRY(check_operators(graph, options));
  Status s = resolve(graph, {.extra = options.custom_ops, .allow_newer = options.allow_newer_opsets});
  if (!s.ok()) TRY(check_operators(graph, options));  // parts that composed operators unfold to
  return s;
}

}  // namespace tessera
