#include "ir/inline.h"

#include <algorithm>
#include <map>

#include "ir/patch.h"

namespace tessera::ir {

// Copies of body nodes, with the caller's attributes and values in place of the function's.
class Inliner {
 public:
  Inliner(Graph& graph, NodeId call, const Function& function)
      : call_(graph.node(call)), call_id_(call), function_(function), patch_(graph) {}

  Status run() {
    const Graph& body = *function_.body;
    if (call_.inputs.size() > body.inputs().size() || call_.outputs.size() > body.outputs().size())
      return invalid_graph("{}: the function takes {} inputs and gives {} outputs", call_.title(), body.inputs().size(),
                           body.outputs().size());
    map_.assign(body.values().size(), kNone);
    for (size_t i = 0; i < call_.inputs.size(); ++i) map_[body.inputs()[i]] = call_.inputs[i];
    // Results the body computes go straight into the call's outputs.
    std::vector<ValueId> direct(body.values().size(), kNone);
    for (size_t i = 0; i < call_.outputs.size(); ++i) {
      const ValueId inner = body.outputs()[i];
      if (body.value(inner).source == Source::node && direct[inner] == kNone) direct[inner] = call_.outputs[i];
    }
    TRY_ASSIGN(order, topological_order(body));
    patch_.remove(call_id_);
    for (const NodeId id : order) copy_node(body, id, direct);
    for (size_t i = 0; i < call_.outputs.size(); ++i) {
      const ValueId inner = body.outputs()[i], outer = call_.outputs[i];
      if (outer == kNone || direct[inner] == outer) continue;
      Node identity;
      identity.op_type = "Identity";
      identity.version = call_.version ? call_.version : 1;
      for (const auto& [domain, version] : function_.opsets)
        if (domain.empty()) identity.version = static_cast<int>(version);
      identity.name = call_.name + "/output";
      patch_.node_into(std::move(identity), {map_[inner]}, {outer});
    }
    return patch_.apply();
  }

  // A private copy of a subgraph with the attributes that refer to the caller's filled in.
  std::shared_ptr<Graph> copy_subgraph(const Graph& sub, bool outermost) const {
    auto copy = std::make_shared<Graph>(sub);
    GraphEditor{*copy}.each_node([&](Node& n) { n.attributes = attributes(n.attributes, false); });
    if (outermost) GraphEditor{*copy}.relink(map_);
    return copy;
  }

 private:
  // Reaches into a fresh copy, which nobody else sees yet.
  struct GraphEditor {
    Graph& graph;
    template <class F>
    void each_node(F&& f) {
      Annotator a(graph);
      for (NodeId i = 0; i < graph.nodes().size(); ++i) f(a.node(i));
    }
    void relink(const std::vector<ValueId>& map) { Annotator(graph).relink_captures(map); }
  };

  std::vector<Attribute> attributes(const std::vector<Attribute>& from, bool outermost) const {
    std::vector<Attribute> out;
    for (const Attribute& a : from) {
      Attribute b = a;
      if (!a.ref.empty()) {
        const Attribute* value = call_.find(a.ref);
        for (const Attribute& d : function_.attribute_defaults)
          if (!value && d.name == a.ref) value = &d;
        if (!value) continue;  // optional and not given: absent in the body too
        b = *value;
        b.name = a.name;
      } else if (auto* graphs = std::get_if<std::vector<std::shared_ptr<Graph>>>(&b.value)) {
        for (auto& g : *graphs) g = copy_subgraph(*g, outermost);
      }
      out.push_back(std::move(b));
    }
    return out;
  }

  void copy_node(const Graph& body, NodeId id, const std::vector<ValueId>& direct) {
    const Node& n = body.node(id);
    Node copy;
    copy.name = call_.name.empty() ? n.name : format("{}/{}", call_.name, n.name.empty() ? n.op_type : n.name);
    copy.op_type = n.op_type;
    copy.domain = n.domain;
    copy.overload = n.overload;
    copy.version = n.version;
    copy.attributes = attributes(n.attributes, true);
    std::vector<ValueId> inputs;
    for (const ValueId in : n.inputs) inputs.push_back(in == kNone ? kNone : map_value(body, in));
    // Trailing absent inputs mean the same as no inputs there.
    while (!inputs.empty() && inputs.back() == kNone) inputs.pop_back();
    std::vector<ValueId> outputs;
    for (const ValueId out : n.outputs) {
      if (out == kNone) {
        outputs.push_back(kNone);
        continue;
      }
      map_[out] = direct[out] != kNone ? direct[out] : patch_.value(format("{}/{}", call_.name, body.value(out).name));
      outputs.push_back(map_[out]);
    }
    patch_.node_into(std::move(copy), std::move(inputs), std::move(outputs));
  }

  ValueId map_value(const Graph& body, ValueId in) {
    if (map_[in] == kNone && body.weight_of(in)) {
      const Result<Tensor> t = body.weight_of(in)->tensor();
      if (t.ok()) map_[in] = patch_.constant(*t, body.value(in).name);
    }
    return map_[in];
  }

  const Node call_;
  NodeId call_id_;
  const Function& function_;
  Patch patch_;
  std::vector<ValueId> map_;  // body value -> value of the enclosing graph
};

Status inline_call(Graph& graph, NodeId node, const Function& function) { return Inliner(graph, node, function).run(); }

namespace {

using Key = std::tuple<std::string_view, std::string_view, std::string_view>;
using Table = std::map<Key, const Function*>;

// Names of functions that a graph calls, its subgraphs included (their depth is capped by the reader).
void collect_calls(const Graph& graph, const Table& table, std::vector<const Function*>& out) {
  for (const Node& n : graph.nodes()) {
    if (const auto it = table.find({n.domain, n.op_type, n.overload}); it != table.end()) out.push_back(it->second);
    for_each_subgraph(n,
                      [&](const std::string&, const std::shared_ptr<Graph>& sub) { collect_calls(*sub, table, out); });
  }
}

int64_t count_nodes(const Graph& graph) {
  auto n = static_cast<int64_t>(graph.nodes().size());
  for (const Node& node : graph.nodes())
    for_each_subgraph(node, [&](const std::string&, const std::shared_ptr<Graph>& sub) { n += count_nodes(*sub); });
  return n;
}

// Depth-first over the call graph with an explicit stack; a grey function met again is a cycle. `unfolded` gets the
// number of nodes each function stands for, at most kEndless.
constexpr int64_t kEndless = int64_t{1} << 40;
Status refuse_recursion(const Model& model, const Table& table, std::map<const Function*, int64_t>& unfolded) {
  enum class Colour : uint8_t { white, grey, black };
  std::map<const Function*, Colour> colour;
  struct Frame {
    const Function* function;
    std::vector<const Function*> calls;
    size_t next = 0;
  };
  for (const Function& root : model.functions) {
    if (colour[&root] != Colour::white) continue;
    std::vector<Frame> stack;
    const auto enter = [&](const Function* f) {
      colour[f] = Colour::grey;
      stack.push_back({f, {}, 0});
      collect_calls(*f->body, table, stack.back().calls);
    };
    enter(&root);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next == top.calls.size()) {
        colour[top.function] = Colour::black;
        int64_t size = count_nodes(*top.function->body);
        for (const Function* callee : top.calls) size = std::min(kEndless, size + unfolded[callee]);
        unfolded[top.function] = size;
        stack.pop_back();
        continue;
      }
      const Function* callee = top.calls[top.next++];
      if (colour[callee] == Colour::grey) return invalid_graph("function {} calls itself", quote(callee->name));
      if (colour[callee] == Colour::white) enter(callee);
    }
  }
  return {};
}

Status inline_graph(Graph& graph, const Table& table) {
  for (NodeId i = 0; i < graph.nodes().size(); ++i) {  // grows while calls unfold
    if (graph.node(i).dead) continue;
    const Node& n = graph.node(i);
    const auto it = table.find({n.domain, n.op_type, n.overload});
    if (it != table.end()) {
      TRY(inline_call(graph, i, *it->second));
      continue;
    }
    Status status;
    for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<Graph>& sub) {
      if (status.ok()) status = inline_graph(*sub, table);
    });
    if (!status.ok()) return status;
  }
  return {};
}

}  // namespace

Status inline_functions(Model& model) {
  if (model.functions.empty()) return {};
  Table table;
  int64_t nodes = count_nodes(*model.graph);
  for (const Function& f : model.functions) {
    if (!table.emplace(Key{f.domain, f.name, f.overload}, &f).second)
      return invalid_graph("function {} is defined twice", quote(f.name));
    nodes += count_nodes(*f.body);
  }
  std::map<const Function*, int64_t> unfolded;
  TRY(refuse_recursion(model, table, unfolded));
  std::vector<const Function*> calls;
  collect_calls(*model.graph, table, calls);
  int64_t total = 0;
  for (const Function* f : calls) total = std::min(kEndless, total + unfolded[f]);
  const int64_t most = std::max<int64_t>(100'000, 64 * nodes);
  if (total > most) return invalid_graph("unfolding the model's functions gives more nodes than allowed ({})", most);
  return inline_graph(*model.graph, table);
}

}  // namespace tessera::ir
