#include "ir/patch.h"

#include <algorithm>

namespace tessera::ir {
ValueId Patch::node(Node prototype, std::vector<ValueId> inputs, size_t outputs, std::string_view hint) {
  const auto first = static_cast<ValueId>(next_value_ + new_values_.size());
  const auto id = static_cast<NodeId>(graph_.nodes().size() + new_nodes_.size());
  prototype.inputs = std::move(inputs);
  prototype.outputs.clear();
  for (size_t i = 0; i < outputs; ++i) {
    prototype.outputs.push_back(static_cast<ValueId>(first + i));
    NewValue v;
    v.hint = hint;
    v.producer = id;
    v.output = static_cast<uint32_t>(i);
    new_values_.push_back(std::move(v));
  }
  new_nodes_.push_back(std::move(prototype));
  return first;
}

void Patch::node_into(Node prototype, std::vector<ValueId> inputs, std::vector<ValueId> outputs) {
  prototype.inputs = std::move(inputs);
  prototype.outputs = std::move(outputs);
  new_nodes_.push_back(std::move(prototype));
}

ValueId Patch::value(std::string_view hint) {
  new_values_.emplace_back().hint = hint;
  return static_cast<ValueId>(next_value_ + new_values_.size() - 1);
}

ValueId Patch::constant(Tensor tensor, std::string_view hint) {
  NewValue v;
  v.hint = hint;
  v.constant = std::move(tensor);
  new_values_.push_back(std::move(v));
  return static_cast<ValueId>(next_value_ + new_values_.size() - 1);
}

void Patch::replace(ValueId old_value, ValueId now) { replacements_.push_back({old_value, now}); }
void Patch::remove(NodeId node) { removed_.push_back(node); }
void Patch::set_input(NodeId node, size_t index, ValueId value) { edits_.push_back({node, index, value}); }

Status Patch::check() const {
  const ValueId end = static_cast<ValueId>(next_value_ + new_values_.size());
  const auto gone = [&](NodeId id) { return std::find(removed_.begin(), removed_.end(), id) != removed_.end(); };
  const auto replaced = [&](ValueId v) {
    return std::any_of(replacements_.begin(), replacements_.end(), [&](const auto& r) { return r.first == v; });
  };
  const auto made_anew = [&](ValueId v) {
    return std::any_of(new_nodes_.begin(), new_nodes_.end(), [&](const Node& n) {
      return std::find(n.outputs.begin(), n.outputs.end(), v) != n.outputs.end();
    });
  };
  for (const Node& n : new_nodes_) {
    for (const ValueId in : n.inputs)
      if (in != kNone && in >= end) return invalid_graph("a rewrite gives {} an input that does not exist", n.title());
    for (const ValueId out : n.outputs)
      if (out < next_value_ && graph_.value(out).producer != kNone && !gone(graph_.value(out).producer))
        return invalid_graph("a rewrite gives {} a second producer", quote(graph_.value(out).name));
  }
  for (const NodeId id : removed_)
    for (const ValueId out : graph_.node(id).outputs) {
      if (out == kNone || made_anew(out) || replaced(out)) continue;
      const auto& readers = graph_.readers(out);
      if (graph_.value(out).is_output || !std::all_of(readers.begin(), readers.end(), gone))
        return invalid_graph("a rewrite removes {} which is still read", quote(graph_.value(out).name));
    }
  return {};
}

void Patch::move_readers(ValueId from, ValueId to) {
  std::vector<NodeId> readers = std::move(graph_.readers_[from]);
  graph_.readers_[from].clear();
  for (const NodeId id : readers) {
    Node& n = graph_.nodes_[id];
    std::replace(n.inputs.begin(), n.inputs.end(), from, to);
    for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<Graph>& sub) {
      for (ValueInfo& v : sub->values_)
        if (v.source == Source::captured && v.outer == from) v.outer = to;
    });
    graph_.readers_[to].push_back(id);
  }
  if (!graph_.values_[from].is_output) return;
  std::replace(graph_.outputs_.begin(), graph_.outputs_.end(), from, to);
  ValueInfo &was = graph_.values_[from], &is = graph_.values_[to];
  graph_.by_name_.erase(was.name);
  graph_.by_name_.erase(is.name);
  std::swap(was.name, is.name);
  std::swap(was.is_output, is.is_output);
  graph_.by_name_.emplace(was.name, from);
  graph_.by_name_.emplace(is.name, to);
}

void Patch::drop_reader(NodeId node, ValueId value) {
  auto& readers = graph_.readers_[value];
  const auto it = std::find(readers.begin(), readers.end(), node);
  if (it != readers.end()) readers.erase(it);
}

Status Patch::apply() {
  TRY(check());
  if (!graph_.values_.empty()) graph_.readers(0);  // from here on the table is kept by hand
  for (const NodeId id : removed_) {
    Node& n = graph_.nodes_[id];
    n.dead = true;
    for_each_read(n, [&](ValueId v) { drop_reader(id, v); });
    for (const ValueId out : n.outputs)
      if (out != kNone) {
        graph_.values_[out].source = Source::undefined;
        graph_.values_[out].producer = kNone;
      }
  }
  Annotator annotator(graph_);
  for (NewValue& v : new_values_) {
    if (!v.constant.empty()) {
      annotator.add_constant(std::move(v.constant), v.hint);
    } else {
      ValueInfo info;
      info.name = graph_.unused_name(v.hint);
      info.source = Source::node;
      info.producer = v.producer;
      graph_.by_name_.emplace(info.name, static_cast<ValueId>(graph_.values_.size()));
      graph_.values_.push_back(std::move(info));
    }
  }
  graph_.readers_.resize(graph_.values_.size());
  for (Node& n : new_nodes_) {
    const auto id = static_cast<NodeId>(graph_.nodes_.size());
    for (const ValueId out : n.outputs)
      if (out != kNone) {
        graph_.values_[out].source = Source::node;
        graph_.values_[out].producer = id;
      }
    for_each_read(n, [&](ValueId v) { graph_.readers_[v].push_back(id); });
    graph_.nodes_.push_back(std::move(n));
  }
  for (const InputEdit& e : edits_) {
    const ValueId was = graph_.nodes_[e.node].inputs[e.index];
    if (was != kNone) drop_reader(e.node, was);
    graph_.nodes_[e.node].inputs[e.index] = e.value;
    if (e.value != kNone) graph_.readers_[e.value].push_back(e.node);
  }
  for (const auto& [old_value, now] : replacements_) move_readers(old_value, now);
  return {};
}

ValueId Annotator::add_constant(Tensor tensor, std::string_view hint) {
  ValueInfo info;
  info.name = graph_.unused_name(hint);
  info.source = Source::initializer;
  info.weight = static_cast<uint32_t>(graph_.weights_.size());
  info.fact =
      Fact::tensor(tensor.dtype(), std::vector<Dim>(tensor.shape().dims().begin(), tensor.shape().dims().end()));
  graph_.weights_.push_back(Weight::from(std::move(tensor)));
  const auto id = static_cast<ValueId>(graph_.values_.size());
  graph_.by_name_.emplace(info.name, id);
  graph_.values_.push_back(std::move(info));
  return id;
}

void Annotator::read_outer(ValueId own, const Graph& enclosing, ValueId outer) {
  ValueInfo info;
  info.name = graph_.unused_name(enclosing.value(outer).name);
  info.fact = enclosing.value(outer).fact;
  info.source = Source::captured;
  info.outer = outer;
  const auto captured = static_cast<ValueId>(graph_.values_.size());
  graph_.by_name_.emplace(info.name, captured);
  graph_.values_.push_back(std::move(info));
  for (Node& n : graph_.nodes_) {
    if (n.dead) continue;
    std::replace(n.inputs.begin(), n.inputs.end(), own, captured);
    for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<Graph>& sub) {
      for (ValueInfo& v : sub->values_)
        if (v.source == Source::captured && v.outer == own) v.outer = captured;
    });
  }
  graph_.readers_.clear();
}

void Annotator::forget_passing_weights() {
  for (Weight& w : graph_.weights_)
    if (w.is_passing()) {
      w.range = {};
      w.decoded = {};
    }
  for (const Node& n : graph_.nodes_)
    for_each_subgraph(
        n, [](const std::string&, const std::shared_ptr<Graph>& sub) { Annotator(*sub).forget_passing_weights(); });
}

void Annotator::relink_captures(std::span<const ValueId> map) {
  for (ValueInfo& v : graph_.values_) {
    if (v.source != Source::captured) continue;
    v.outer = map[v.outer];
    if (v.outer == kNone) v.source = Source::undefined;
  }
}

}  // namespace tessera::ir
