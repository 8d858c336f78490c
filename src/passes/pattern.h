// Patterns over a graph, written as text:
//
//   mm: MatMul(a, dq: DequantizeLinear(#w, #scale, #zp?))
//
// A word is a value and binds its name; a name that stands twice means the same value. "#w" is a constant, "zp?" may be
// absent. "Op(...)" is the producer of a value, and "name:" before it binds the node. "Op~(a, b)" takes its first two
// inputs in either order. An inner node is read by nobody outside of the pattern; the outermost one is the root.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/graph.h"

namespace tessera {

struct Pattern {
  std::string bind;  // of the value, or of the node if op is not empty
  std::string op, domain;
  bool constant = false, optional = false, commutes = false;
  std::vector<Pattern> inputs;

  // The text is part of the program: a mistake in it is a mistake of ours, found by every test that reads the rules.
  static Pattern parse(std::string_view text);
};

// What the names of a pattern stand for in a graph.
class Match {
 public:
  explicit Match(const ir::Graph& graph) : graph_(&graph) {}

  const ir::Graph& graph() const { return *graph_; }
  ir::NodeId root() const { return nodes_[0].second; }
  const std::vector<std::pair<std::string, ir::NodeId>>& nodes() const { return nodes_; }  // the root first
  const ir::Node& node(std::string_view name) const;
  // kNone if absent.
  ir::ValueId value(std::string_view name) const;
  bool has(std::string_view name) const { return value(name) != ir::kNone; }
  const Fact& fact(std::string_view name) const { return graph_->value(value(name)).fact; }
  // The elements of a constant; empty if they cannot be had.
  Tensor tensor(std::string_view name) const;
  // True for a constant of one element that is within a relative 1e-4 of `number`.
  bool is_number(std::string_view name, double number) const;
  // An attribute of a node, or what the standard takes for it.
  int64_t integer(std::string_view node, std::string_view attribute, int64_t otherwise) const;
  float real(std::string_view node, std::string_view attribute, float otherwise) const;

 private:
  friend class Matcher;
  const ir::Graph* graph_;
  std::vector<std::pair<std::string, ir::NodeId>> nodes_;
  std::map<std::string, ir::ValueId, std::less<>> values_;
};

// The match of `pattern` with `root` as its outermost node.
std::optional<Match> match(const Pattern& pattern, const ir::Graph& graph, ir::NodeId root);

}  // namespace tessera
