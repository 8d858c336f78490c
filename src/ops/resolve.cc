#include "ops/resolve.h"

#include <algorithm>

#include "ir/patch.h"
#include "ops/compose.h"

namespace tessera {
namespace {

Status not_found(const ir::Node& n, const ResolveOptions& options) {
  const char* dot = n.domain.empty() ? "" : ".";
  for (const auto& op : options.extra)
    if (n.domain == op->traits().domain && n.op_type == op->traits().name)
      return not_implemented("the custom operator {}{}{} is there from version {} on, the model imports version {}",
                             n.domain, dot, n.op_type, op->traits().since, n.version);
  return not_implemented("the operator {}{}{} is not in this library", n.domain, dot, n.op_type);
}

Status resolve_custom(ir::Graph& graph, ir::NodeId id, const CustomOp& op) {
  TRY_ASSIGN(state, op.open(graph.node(id)));
  ir::Annotator(graph).resolve(id, &op.op(), op.traits().since, std::shared_ptr<const void>(std::move(state)));
  return {};
}

Status resolve_node(ir::Graph& graph, ir::NodeId id, const ResolveOptions& options) {
  const ir::Node& n = graph.node(id);
  if (const CustomOp* custom = find_custom(options.extra, n)) return resolve_custom(graph, id, *custom);
  const Op* op = find_op(n.domain, n.op_type);
  if (!op) return not_found(n, options);
  if (n.domain.empty() && n.version > kNewestOpset && !options.allow_newer)
    return invalid_graph(
        "operator set {} is newer than {}, the newest this library knows; session.allow_newer_opsets = 1 takes it for "
        "that one",
        n.version, kNewestOpset);
  const auto newer = std::upper_bound(op->versions.begin(), op->versions.end(), n.version);
  if (newer == op->versions.begin())
    return invalid_graph("the operator does not exist in operator set {}; it came with {}", n.version,
                         op->versions.front());
  const int since = *(newer - 1);
  if (op->compose) {
    Composer composer(graph, id, since);
    TRY(op->compose(composer));
    return composer.apply();
  }
  ir::Annotator annotator(graph);
  if (op->upgrade) TRY(op->upgrade(annotator, id, since));
  std::shared_ptr<const void> params;
  if (op->parse) {
    Attrs attrs(graph.node(id), since);
    TRY(op->parse(attrs, &params));
  }
  annotator.resolve(id, op, since, std::move(params));
  return {};
}

}  // namespace

Status resolve(ir::Graph& graph, const ResolveOptions& options) {
  for (ir::NodeId i = options.first; i < graph.nodes().size(); ++i) {  // grows while composed operators unfold
    if (graph.node(i).dead || graph.node(i).op) continue;
    Status status = resolve_node(graph, i, options);
    if (status.ok())
      ir::for_each_subgraph(graph.node(i), [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
        if (status.ok()) status = resolve(*sub, {options.extra, 0, options.allow_newer});
      });
    if (!status.ok()) return std::move(status).in(graph.node(i).title());
  }
  return {};
}

}  // namespace tessera
