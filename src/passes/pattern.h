// Patterns over a graph, written as text:
//
//   mm: MatMul(a, dq: DequantizeLinear(#w, #scale, #zp?))
//
// A word is a value and binds its name; a name that stands twice means the same value. "#w" is a constant, "zp?" may be
// absent. "Op(...)" is the producer of a value, and "name:" before it binds the node. "Op~(a, b)" takes its first two
// inputs in either order. An inner node is read by nobody outside of the pattern; the outermost one is the root.
// "Op*(...)" may be read by others too, and so may what stands inside of it: these nodes go only if nobody reads them
// any more. A constant of an enclosing graph is a constant.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"
#include "passes/settings.h"

namespace tessera {

struct Pattern {
  std::string bind;  // of the value, or of the node if op is not empty
  std::string op, domain;
  bool constant = false, optional = false, commutes = false, shared = false;
  std::vector<Pattern> inputs;

  // The text is part of the program: a mistake in it is a mistake of ours, found by every test that reads the rules.
  static Pattern parse(std::string_view text);
};

// What rules see beside their match.
struct MatchScope {
  const RewriteSettings* settings;
  std::span<const ir::Graph* const> outer;  // the graphs around the one that is looked at, the innermost last
};

// What the names of a pattern stand for in a graph.
class Match {
 public:
  struct Bound {
    std::string bind;
    ir::NodeId id;
    bool shared;
  };
  Match(const MatchScope& scope, const ir::Graph& graph) : scope_(&scope), graph_(&graph) {}

  const ir::Graph& graph() const { return *graph_; }
  const RewriteSettings& settings() const { return *scope_->settings; }
  ir::NodeId root() const { return nodes_[0].id; }
  const std::vector<Bound>& nodes() const { return nodes_; }  // the root first, readers before producers
  const ir::Node& node(std::string_view name) const;
  bool has_node(std::string_view name) const;
  // kNone if absent.
  ir::ValueId value(std::string_view name) const;
  bool has(std::string_view name) const { return value(name) != ir::kNone; }
  const Fact& fact(std::string_view name) const { return graph_->value(value(name)).fact; }
  // What is known of output 0 of a node.
  const Fact& fact_of(std::string_view node_name) const { return graph_->value(node(node_name).outputs[0]).fact; }
  // Null if the name is bound to no constant.
  const Weight* weight(std::string_view name) const;
  // The elements of a constant; empty if they cannot be had.
  Tensor tensor(std::string_view name) const;
  // True for a constant of one element that is within a relative 1e-4 of `number`.
  bool is_number(std::string_view name, double number) const;
  // An attribute of a node, or what the standard takes for it.
  int64_t integer(std::string_view node, std::string_view attribute, int64_t otherwise) const;
  float real(std::string_view node, std::string_view attribute, float otherwise) const;

 private:
  friend class Matcher;
  const MatchScope* scope_;
  const ir::Graph* graph_;
  std::vector<Bound> nodes_;
  std::map<std::string, ir::ValueId, std::less<>> values_;
};

// The match of `pattern` with `root` as its outermost node.
std::optional<Match> match(const Pattern& pattern, const MatchScope& scope, const ir::Graph& graph, ir::NodeId root);

}  // namespace tessera
