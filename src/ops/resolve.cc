#include "ops/resolve.h"

#include <algorithm>

#include "ir/patch.h"
#include "ops/arity.h"
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

// Brings an old form of an operator to the current one, and remembers what it was.
Status upgrade_node(const Op& op, ir::Annotator& annotator, ir::NodeId id, int since) {
  const std::vector<ir::ValueId> inputs = annotator.node(id).inputs;
  ir::WrittenForm written{annotator.node(id).attributes, {}};
  TRY(op.upgrade(annotator, id, since));
  ir::Node& n = annotator.node(id);
  if (n.inputs == inputs && n.attributes.size() == written.attributes.size()) return {};
  std::vector<bool> taken(n.inputs.size(), false);
  for (const ir::ValueId in : inputs) {
    size_t at = 0;
    while (at < n.inputs.size() && (in == ir::kNone || taken[at] || n.inputs[at] != in)) ++at;
    if (at < taken.size()) taken[at] = true;
    written.inputs.push_back(at < taken.size() ? static_cast<int>(at) : -1);
  }
  n.written = std::make_shared<const ir::WrittenForm>(std::move(written));
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
    TRY(check_arity(n));
    Composer composer(graph, id, since);
    TRY(op->compose(composer));
    return composer.apply();
  }
  ir::Annotator annotator(graph);
  if (op->upgrade) TRY(upgrade_node(*op, annotator, id, since));
  TRY(check_arity(graph.node(id)));
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
