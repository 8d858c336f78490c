// Patch: the only way to edit a graph. It stages new nodes and constants, checks them, then applies everything at once;
// if the check fails the graph is as it was. Costs what it touches, not the size of the graph; cycles are left to
// verify().
#pragma once
#include "ir/graph.h"

namespace tessera::ir {

class Patch {
 public:
  explicit Patch(Graph& graph) : graph_(graph), next_value_(static_cast<ValueId>(graph.values().size())) {}

  // A new node with `outputs` fresh values; returns the first. Names derive from `hint`.
  ValueId node(Node prototype, std::vector<ValueId> inputs, size_t outputs = 1, std::string_view hint = "node");
  // A new node that takes over existing values as its outputs (their old producer must go in this patch).
  void node_into(Node prototype, std::vector<ValueId> inputs, std::vector<ValueId> outputs);
  // A fresh value without producer, to be named as an output of node_into.
  ValueId value(std::string_view hint);
  ValueId constant(Tensor tensor, std::string_view hint = "constant");
  // Everyone who read `old_value` reads `now` instead. A graph output keeps its name: `now` is renamed to it.
  void replace(ValueId old_value, ValueId now);
  void remove(NodeId node);
  void set_input(NodeId node, size_t index, ValueId value);

  Status apply();

 private:
  Status check() const;
  void move_readers(ValueId from, ValueId to);
  void drop_reader(NodeId node, ValueId value);
  struct NewValue {
    std::string hint;
    NodeId producer = kNone;
    uint32_t output = 0;
    Tensor constant;
  };
  struct InputEdit {
    NodeId node;
    size_t index;
    ValueId value;
  };
  Graph& graph_;
  ValueId next_value_;
  std::vector<NewValue> new_values_;
  std::vector<Node> new_nodes_;
  std::vector<std::pair<ValueId, ValueId>> replacements_;
  std::vector<NodeId> removed_;
  std::vector<InputEdit> edits_;
};

// Notes about a graph that change no edge: facts found by inference, the operator of a node.
class Annotator {
 public:
  explicit Annotator(Graph& graph) : graph_(graph) {}
  void set_fact(ValueId id, Fact fact) { graph_.values_[id].fact = std::move(fact); }
  void resolve(NodeId id, const Op* op, int since, std::shared_ptr<const void> params) {
    Node& n = graph_.nodes_[id];
    n.op = op;
    n.since = since;
    n.params = std::move(params);
  }
  // Attributes and inputs of one node, for bringing an old version to the current form.
  Node& node(NodeId id) { return graph_.nodes_[id]; }
  ValueId add_constant(Tensor tensor, std::string_view hint);
  // Every node of this subgraph that read `own` reads `outer` of the enclosing graph instead.
  void read_outer(ValueId own, const Graph& enclosing, ValueId outer);
  // Lets go of memory that is there only while a session is created; those weights cannot be read afterwards. Here and
  // in subgraphs.
  void forget_passing_weights();
  // Makes a value an output of the graph too, the last one; nothing changes if it is one already.
  void add_output(ValueId id) {
    if (graph_.values_[id].is_output) return;
    graph_.values_[id].is_output = true;
    graph_.outputs_.push_back(id);
  }
  // After copying a subgraph into another enclosing graph: captured value v now means map[v].
  void relink_captures(std::span<const ValueId> map);

 private:
  Graph& graph_;
};

}  // namespace tessera::ir
