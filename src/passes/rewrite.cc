#include "passes/rewrite.h"

#include <algorithm>
#include <unordered_map>

#include "ops/resolve.h"
#include "passes/infer.h"

namespace tessera {

Replacement::Replacement(const Match& match, ir::Graph& graph)
    : patch_(graph), name_(graph.node(match.root()).name), root_output_(graph.node(match.root()).outputs[0]) {
  for (const auto& [name, id] : match.nodes()) patch_.remove(id);
}

ir::ValueId Replacement::node(std::string_view op, std::vector<ir::ValueId> inputs,
                              std::vector<ir::Attribute> attributes) {
  while (!inputs.empty() && inputs.back() == ir::kNone) inputs.pop_back();
  ir::Node n;
  n.name = name_;
  const size_t dot = op.rfind('.');
  if (dot != op.npos) n.domain = op.substr(0, dot);
  n.op_type = dot == op.npos ? op : op.substr(dot + 1);
  n.version = n.domain.empty() ? kNewestOpset : 1;
  n.attributes = std::move(attributes);
  made_.push_back(find_op(n.domain, n.op_type));
  return patch_.node(std::move(n), std::move(inputs), 1, name_.empty() ? n.op_type : name_);
}

namespace {

// True if the newest form of an operator is also what the default operator set `opset` has.
bool is_in(const Op* op, int opset) {
  if (!op) return false;
  if (*op->domain)
    return std::string_view(op->domain) == "com.microsoft" || std::string_view(op->domain) == "ai.onnx.ml";
  return op->versions.back() <= opset;
}

}  // namespace

class Rewriter {
 public:
  Rewriter(std::span<const Rule* const> rules, const RewriteOptions& options)
      : left_(options.most), opset_(options.opset) {
    for (const Rule* rule : rules) {
      if (rule->level > options.level) continue;
      if (std::find(options.disabled.begin(), options.disabled.end(), rule->name) != options.disabled.end()) continue;
      for (const char* text : rule->patterns) {
        Pattern pattern = Pattern::parse(text);
        if (const Op* root = find_op(pattern.domain, pattern.op)) patterns_[root].push_back({rule, std::move(pattern)});
      }
    }
  }

  // New nodes are appended to the list, so they are looked at in the same pass.
  Status run(ir::Graph& graph) {
    for (ir::NodeId id = 0; id < graph.nodes().size() && left_ > 0; ++id) {
      if (graph.node(id).dead) continue;
      Status status;
      ir::for_each_subgraph(graph.node(id), [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
        if (status.ok()) status = run(*sub);
      });
      TRY(std::move(status));
      TRY(rewrite_node(graph, id));
    }
    return {};
  }
  RewriteCounts counts() && { return std::move(counts_); }

 private:
  struct Compiled {
    const Rule* rule;
    Pattern pattern;
  };

  Status rewrite_node(ir::Graph& graph, ir::NodeId id) {
    const auto rooted = patterns_.find(graph.node(id).op);
    if (rooted == patterns_.end() || graph.node(id).outputs.empty()) return {};
    for (const Compiled& c : rooted->second) {
      const std::optional<Match> m = match(c.pattern, graph, id);
      if (!m || !only_first_outputs(graph, *m)) continue;
      Replacement replacement(*m, graph);
      if (!c.rule->apply(*m, replacement)) continue;
      if (opset_ && !std::all_of(replacement.made_.begin(), replacement.made_.end(),
                                 [&](const Op* op) { return is_in(op, opset_); }))
        continue;
      const auto first = static_cast<ir::NodeId>(graph.nodes().size());
      TRY(replacement.patch_.apply());
      TRY(finish(graph, first));
      ++counts_[c.rule->name];
      --left_;
      return {};
    }
    return {};
  }

  // Rules speak of first outputs; a node whose others are read stays as it is.
  static bool only_first_outputs(const ir::Graph& graph, const Match& m) {
    for (const auto& [name, id] : m.nodes()) {
      const auto& out = graph.node(id).outputs;
      for (size_t o = 1; o < out.size(); ++o)
        if (out[o] != ir::kNone && (graph.value(out[o]).is_output || !graph.readers(out[o]).empty())) return false;
    }
    return true;
  }

  static Status finish(ir::Graph& graph, ir::NodeId first) {
    TRY(resolve(graph, {.first = first}));
    for (ir::NodeId id = first; id < graph.nodes().size(); ++id) TRY(infer_node(graph, id));
    return {};
  }

  std::unordered_map<const Op*, std::vector<Compiled>> patterns_;  // by the operator of their root
  RewriteCounts counts_;
  int64_t left_;
  int opset_;
};

Result<RewriteCounts> rewrite(ir::Graph& graph, std::span<const Rule* const> rules, const RewriteOptions& options) {
  Rewriter rewriter(rules, options);
  TRY(rewriter.run(graph));
  return std::move(rewriter).counts();
}

}  // namespace tessera
