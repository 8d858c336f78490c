#include "passes/rewrite.h"

#include <algorithm>
#include <unordered_map>

#include "ops/resolve.h"
#include "passes/infer.h"

namespace tessera {

namespace {

// True if the newest form of an operator is also what the default operator set `opset` has.
bool is_in(const Op& op, int opset) {
  if (*op.domain) return std::string_view(op.domain) == "com.microsoft" || std::string_view(op.domain) == "ai.onnx.ml";
  return op.versions.back() <= opset;
}

}  // namespace

Replacement::Replacement(const Match& match, ir::Graph& graph, Sayable sayable)
    : patch_(graph),
      name_(graph.node(match.root()).name),
      root_output_(graph.node(match.root()).outputs[0]),
      sayable_(sayable) {
  for (const Match::Bound& n : match.nodes()) {
    had_.push_back(graph.node(n.id).op);
    if (!n.shared) patch_.remove(n.id);
  }
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
  const Op* known = find_op(n.domain, n.op_type);
  if (!known) {
    is_sayable_ = false;
  } else if (sayable_.opset && !is_in(*known, sayable_.opset)) {
    // An operator that takes the place of itself has types that its version takes.
    const bool stays = std::find(had_.begin(), had_.end(), known) != had_.end();
    if (stays && sayable_.is_same_since(*known, sayable_.opset))
      n.version = sayable_.opset;
    else
      is_sayable_ = false;
  }
  return patch_.node(std::move(n), std::move(inputs), 1, name_.empty() ? n.op_type : name_);
}

class Rewriter {
 public:
  Rewriter(std::span<const Rule* const> rules, const RewriteOptions& options, int stage)
      : settings_(&options.settings), left_(options.most), sayable_(options.sayable) {
    for (const Rule* rule : rules) {
      if (rule->level > options.level || rule->stage != stage) continue;
      if (std::find(options.disabled.begin(), options.disabled.end(), rule->name) != options.disabled.end()) continue;
      for (const char* text : rule->patterns) {
        Pattern pattern = Pattern::parse(text);
        if (const Op* root = find_op(pattern.domain, pattern.op)) patterns_[root].push_back({rule, std::move(pattern)});
      }
    }
  }

  // New nodes are appended to the list, so they are looked at in the same pass.
  Status run(ir::Graph& graph, std::vector<const ir::Graph*> outer = {}) {
    std::vector<const ir::Graph*> inner = outer;
    inner.push_back(&graph);
    const MatchScope scope{settings_, outer};
    for (ir::NodeId id = 0; id < graph.nodes().size() && left_ > 0; ++id) {
      if (graph.node(id).dead) continue;
      Status status;
      ir::for_each_subgraph(graph.node(id), [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
        if (status.ok()) status = run(*sub, inner);
      });
      TRY(std::move(status));
      TRY(rewrite_node(scope, graph, id));
    }
    return {};
  }
  RewriteCounts counts() && { return std::move(counts_); }

 private:
  struct Compiled {
    const Rule* rule;
    Pattern pattern;
  };

  Status rewrite_node(const MatchScope& scope, ir::Graph& graph, ir::NodeId id) {
    const auto rooted = patterns_.find(graph.node(id).op);
    if (rooted == patterns_.end() || graph.node(id).outputs.empty()) return {};
    for (const Compiled& c : rooted->second) {
      const std::optional<Match> m = match(c.pattern, scope, graph, id);
      if (!m || !only_first_outputs(graph, *m)) continue;
      Replacement replacement(*m, graph, sayable_);
      if (!c.rule->apply(*m, replacement) || !replacement.is_sayable_) continue;
      const auto first = static_cast<ir::NodeId>(graph.nodes().size());
      const auto first_value = static_cast<ir::ValueId>(graph.values().size());
      TRY(replacement.patch_.apply());
      TRY(remove_unread(graph, *m));
      TRY(finish(graph, first, first_value));
      ++counts_[c.rule->name];
      --left_;
      return {};
    }
    return {};
  }

  // Rules speak of first outputs; a node whose others are read stays as it is.
  static bool only_first_outputs(const ir::Graph& graph, const Match& m) {
    for (const Match::Bound& n : m.nodes()) {
      const auto& out = graph.node(n.id).outputs;
      for (size_t o = 1; o < out.size(); ++o)
        if (out[o] != ir::kNone && (graph.value(out[o]).is_output || !graph.readers(out[o]).empty())) return false;
    }
    return true;
  }

  // Readers come before what they read.
  static Status remove_unread(ir::Graph& graph, const Match& m) {
    for (const Match::Bound& n : m.nodes()) {
      const ir::Node& node = graph.node(n.id);
      const ir::ValueId out = node.outputs[0];
      if (node.dead || graph.value(out).is_output || !graph.readers(out).empty()) continue;
      ir::Patch patch(graph);
      patch.remove(n.id);
      TRY(patch.apply());
    }
    return {};
  }

  static Status finish(ir::Graph& graph, ir::NodeId first, ir::ValueId first_value) {
    for (ir::ValueId v = first_value; v < graph.values().size(); ++v) infer_constant(graph, v);
    TRY(resolve(graph, {.first = first}));
    for (ir::NodeId id = first; id < graph.nodes().size(); ++id) TRY(infer_node(graph, id));
    return {};
  }

  const RewriteSettings* settings_;
  std::unordered_map<const Op*, std::vector<Compiled>> patterns_;  // by the operator of their root
  RewriteCounts counts_;
  int64_t left_;
  Sayable sayable_;
};

Result<RewriteCounts> rewrite(ir::Graph& graph, std::span<const Rule* const> rules, const RewriteOptions& options) {
  int stages = 0;
  for (const Rule* rule : rules) stages = std::max(stages, rule->stage + 1);
  RewriteCounts counts;
  RewriteOptions left = options;
  for (int stage = 0; stage < stages; ++stage) {
    Rewriter rewriter(rules, left, stage);
    TRY(rewriter.run(graph));
    for (const auto& [name, times] : std::move(rewriter).counts()) {
      counts[name] += times;
      left.most -= times;
    }
  }
  return counts;
}

}  // namespace tessera
