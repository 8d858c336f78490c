#include "ir/graph.h"

#include <algorithm>
#include <queue>

namespace tessera {

int64_t Model::opset(std::string_view opset_domain) const {
  for (const auto& [name, version] : opsets)
    if (name == opset_domain) return version;
  return 0;
}

namespace ir {

const Attribute* Node::find(std::string_view attribute) const {
  for (const Attribute& a : attributes)
    if (a.name == attribute) return &a;
  return nullptr;
}

std::string Node::title() const {
  const std::string type = domain.empty() ? op_type : domain + "." + op_type;
  return name.empty() ? format("node {}", quote(type)) : format("node {} ({})", quote(name), type);
}

ValueId Graph::find(std::string_view value_name) const {
  const auto it = by_name_.find(value_name);
  return it == by_name_.end() ? kNone : it->second;
}

std::string Graph::unused_name(std::string_view hint) {
  std::string name(hint);
  while (find(name) != kNone) name = format("{}_{}", hint, next_number_++);
  return name;
}

const std::vector<NodeId>& Graph::readers(ValueId id) const {
  if (readers_.size() != values_.size()) {
    readers_.assign(values_.size(), {});
    for (NodeId i = 0; i < nodes_.size(); ++i)
      if (!nodes_[i].dead) for_each_read(nodes_[i], [&](ValueId v) { readers_[v].push_back(i); });
  }
  return readers_[id];
}

ValueId GraphBuilder::use(std::string_view name) {
  auto& by_name = graph_->by_name_;
  if (const auto it = by_name.find(name); it != by_name.end()) return it->second;
  const auto id = static_cast<ValueId>(graph_->values_.size());
  by_name.emplace(std::string(name), id);
  graph_->values_.emplace_back().name = std::string(name);
  return id;
}

namespace {

Fact fact_of(const Weight& weight) {
  return Fact::tensor(weight.dtype, std::vector<Dim>(weight.shape.dims().begin(), weight.shape.dims().end()));
}

// Of an input with a default. What a run gives may be as large as the model declares, not only as the default is.
Fact overridable(const Fact& declared, const Fact& initial) {
  Fact out = merge(declared, initial);
  if (declared.shape) out.shape = declared.shape;
  return out;
}

}  // namespace

Status GraphBuilder::input(std::string_view name, Fact fact, std::string unknown) {
  const ValueId id = use(name);
  ValueInfo& v = graph_->values_[id];
  if (v.is_input || v.source == Source::node) return invalid_graph("graph input {} is defined twice", quote(name));
  if (v.source == Source::undefined) v.source = Source::input;
  v.is_input = true;
  v.fact = v.source == Source::initializer ? overridable(fact, v.fact) : merge(fact, v.fact);
  v.unknown = std::move(unknown);
  graph_->inputs_.push_back(id);
  return {};
}

void GraphBuilder::output(std::string_view name, Fact fact, std::string unknown) {
  const ValueId id = use(name);
  ValueInfo& v = graph_->values_[id];
  v.is_output = true;
  v.fact = merge(fact, v.fact);
  if (v.unknown.empty()) v.unknown = std::move(unknown);
  graph_->outputs_.push_back(id);
}

void GraphBuilder::value_info(std::string_view name, Fact fact, std::string unknown) {
  // A type may be stated for a name nobody uses: remembered only if something else names it.
  if (const auto it = graph_->by_name_.find(name); it != graph_->by_name_.end()) {
    ValueInfo& v = graph_->values_[it->second];
    v.fact = merge(v.fact, fact);
    if (v.unknown.empty()) v.unknown = std::move(unknown);
  }
}

Status GraphBuilder::initializer(std::string_view name, Weight weight) {
  const ValueId id = use(name);
  ValueInfo& v = graph_->values_[id];
  if (v.source == Source::initializer || v.source == Source::node)
    return invalid_graph("initializer {} is defined twice", quote(name));
  v.source = Source::initializer;
  v.weight = static_cast<uint32_t>(graph_->weights_.size());
  const Fact fact = fact_of(weight);
  if (!compatible(fact, v.fact))
    return invalid_graph("initializer {} is {} but is declared as {}", quote(name), fact.str(), v.fact.str());
  v.fact = v.is_input ? overridable(v.fact, fact) : fact;
  graph_->weights_.push_back(std::move(weight));
  return {};
}

Status GraphBuilder::node(Node node, std::span<const std::string_view> inputs,
                          std::span<const std::string_view> outputs) {
  const auto id = static_cast<NodeId>(graph_->nodes_.size());
  node.inputs.reserve(inputs.size());
  node.outputs.reserve(outputs.size());
  for (const std::string_view name : inputs) node.inputs.push_back(name.empty() ? kNone : use(name));
  for (const std::string_view name : outputs) {
    const ValueId out = name.empty() ? kNone : use(name);
    node.outputs.push_back(out);
    if (out == kNone) continue;
    ValueInfo& v = graph_->values_[out];
    if (v.source != Source::undefined)
      return invalid_graph("{}: its output {} is defined already", node.title(), quote(name));
    v.source = Source::node;
    v.producer = id;
  }
  graph_->nodes_.push_back(std::move(node));
  return {};
}

void GraphBuilder::describe(std::string_view name, std::string_view doc, std::string unknown) {
  graph_->name_ = std::string(name);
  graph_->doc_ = std::string(doc);
  graph_->unknown_ = std::move(unknown);
}

void GraphBuilder::fix_initializers() {
  std::erase_if(graph_->inputs_, [&](ValueId id) { return graph_->values_[id].source == Source::initializer; });
  for (ValueInfo& v : graph_->values_)
    if (v.source == Source::initializer && v.is_input) {
      v.is_input = false;
      v.fact = fact_of(graph_->weights_[v.weight]);
    }
}

Status GraphBuilder::bind_scopes(Graph& graph) { return bind(graph, {}); }

// Makes the nearest enclosing definition of `name` visible in `graph`, one link per level. Depth is capped by the
// reader.
ValueId GraphBuilder::capture(Graph& graph, std::span<Graph* const> parents, std::string_view name) {
  if (const ValueId here = graph.find(name); here != kNone && graph.values_[here].source != Source::undefined)
    return here;
  if (parents.empty()) return kNone;
  const ValueId outer = capture(*parents.back(), parents.first(parents.size() - 1), name);
  if (outer == kNone) return kNone;
  ValueId id = graph.find(name);
  if (id == kNone) {
    id = static_cast<ValueId>(graph.values_.size());
    graph.by_name_.emplace(std::string(name), id);
    graph.values_.emplace_back().name = std::string(name);
  }
  graph.values_[id].source = Source::captured;
  graph.values_[id].outer = outer;
  graph.values_[id].fact = parents.back()->values_[outer].fact;
  return id;
}

Status GraphBuilder::bind(Graph& graph, std::span<Graph* const> parents) {
  for (ValueId id = 0; id < graph.values_.size(); ++id) {
    if (graph.values_[id].source != Source::undefined) continue;
    const std::string name = graph.values_[id].name;
    if (capture(graph, parents, name) != kNone) continue;
    for (const Node& n : graph.nodes_)
      if (std::find(n.inputs.begin(), n.inputs.end(), id) != n.inputs.end())
        return invalid_graph("{}: its input {} is defined nowhere", n.title(), quote(name));
    if (graph.values_[id].is_output) return invalid_graph("graph output {} is defined nowhere", quote(name));
  }
  std::vector<Graph*> chain(parents.begin(), parents.end());
  chain.push_back(&graph);
  for (NodeId i = 0; i < graph.nodes_.size(); ++i) {
    Status status;
    for_each_subgraph(graph.nodes_[i], [&](const std::string&, const std::shared_ptr<Graph>& sub) {
      if (status.ok()) status = bind(*sub, chain);
    });
    if (!status.ok()) return std::move(status).in(graph.nodes_[i].title());
  }
  return {};
}

namespace {

// Names one cycle among the nodes that a topological sort could not place.
Status cycle_error(const Graph& graph, const std::vector<uint32_t>& waiting) {
  NodeId at = 0;
  while (graph.node(at).dead || waiting[at] == 0) ++at;
  // Walk to an unplaced producer until a node repeats: from there on it is a cycle, backwards.
  std::vector<NodeId> path;
  std::vector<uint32_t> seen(graph.nodes().size(), kNone);
  while (seen[at] == kNone) {
    seen[at] = static_cast<uint32_t>(path.size());
    path.push_back(at);
    NodeId next = kNone;
    for_each_read(graph.node(at), [&](ValueId v) {
      const NodeId producer = graph.value(v).producer;
      if (producer != kNone && waiting[producer] > 0) next = producer;
    });
    at = next;
  }
  // Forwards, from the node listed first.
  std::vector<NodeId> cycle(path.rbegin(), path.rend() - seen[at]);
  std::rotate(cycle.begin(), std::min_element(cycle.begin(), cycle.end()), cycle.end());
  const auto name = [&](NodeId id) {
    return quote(graph.node(id).name.empty() ? graph.node(id).op_type : graph.node(id).name);
  };
  std::string text;
  for (const NodeId id : cycle) {
    text += name(id) + " -> ";
    if (text.size() > 600) {
      text += "... -> ";
      break;
    }
  }
  return invalid_graph("the graph has a cycle: {}{}", text, name(cycle[0]));
}

// Calls f(producer) for every node whose output `node` reads, itself or through a subgraph.
template <class F>
void for_each_producer(const Graph& graph, const Node& node, F&& f) {
  for_each_read(node, [&](ValueId id) {
    if (graph.value(id).producer != kNone) f(graph.value(id).producer);
  });
}

}  // namespace

Result<std::vector<NodeId>> topological_order(const Graph& graph) {
  const auto n = static_cast<NodeId>(graph.nodes().size());
  std::vector<uint32_t> waiting(n, 0), begin(n + 1, 0);
  for (NodeId i = 0; i < n; ++i)
    if (!graph.node(i).dead)
      for_each_producer(graph, graph.node(i), [&](NodeId p) {
        ++begin[p + 1];
        ++waiting[i];
      });
  for (NodeId i = 0; i < n; ++i) begin[i + 1] += begin[i];
  std::vector<NodeId> readers(begin[n]), cursor(begin.begin(), begin.end() - 1);
  for (NodeId i = 0; i < n; ++i)
    if (!graph.node(i).dead) for_each_producer(graph, graph.node(i), [&](NodeId p) { readers[cursor[p]++] = i; });

  std::priority_queue<NodeId, std::vector<NodeId>, std::greater<>> ready;
  size_t live = 0;
  for (NodeId i = 0; i < n; ++i) {
    if (graph.node(i).dead) continue;
    ++live;
    if (waiting[i] == 0) ready.push(i);
  }
  std::vector<NodeId> order;
  order.reserve(live);
  while (!ready.empty()) {
    const NodeId i = ready.top();
    ready.pop();
    order.push_back(i);
    for (uint32_t k = begin[i]; k < begin[i + 1]; ++k)
      if (--waiting[readers[k]] == 0) ready.push(readers[k]);
  }
  if (order.size() != live) return cycle_error(graph, waiting);
  return order;
}

Status verify(const Graph& graph) {
  const size_t n = graph.values().size();
  for (NodeId i = 0; i < graph.nodes().size(); ++i) {
    const Node& node = graph.node(i);
    if (node.dead) continue;
    for (const ValueId in : node.inputs)
      if (in != kNone && (in >= n || graph.value(in).source == Source::undefined))
        return invalid_graph("{}: one of its inputs is defined nowhere", node.title());
    for (const ValueId out : node.outputs)
      if (out != kNone && (out >= n || graph.value(out).producer != i))
        return invalid_graph("{}: one of its outputs belongs to another node", node.title());
    Status status;
    for_each_subgraph(node, [&](const std::string&, const std::shared_ptr<Graph>& sub) {
      if (status.ok()) status = verify(*sub);
    });
    if (!status.ok()) return std::move(status).in(node.title());
  }
  for (const ValueId out : graph.outputs())
    if (graph.value(out).source == Source::undefined)
      return invalid_graph("graph output {} is defined nowhere", quote(graph.value(out).name));
  const auto order = topological_order(graph);
  return order.ok() ? Status{} : Status(order.status().code(), order.status().message());
}

}  // namespace ir
}  // namespace tessera
