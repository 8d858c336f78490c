// Building the graphs of random models, and computing their values node by node.
#include <cstring>

#include "formats/onnx/writer.h"
#include "random_model.h"
#include "session/session.h"

namespace tessera::testing {
namespace {

void collect_reads(const RandomGraph& graph, std::set<std::string>& out) {
  std::set<std::string> own, read;
  for (const RandomInput& i : graph.inputs) own.insert(i.name);
  for (const auto& c : graph.constants) own.insert(c.first);
  for (const RandomNode& n : graph.nodes) {
    own.insert(n.outputs.begin(), n.outputs.end());
    const std::set<std::string> more = reads_of(n);
    read.insert(more.begin(), more.end());
  }
  read.insert(graph.outputs.begin(), graph.outputs.end());
  for (const std::string& name : read)
    if (!own.contains(name)) out.insert(name);
}

Result<std::shared_ptr<ir::Graph>> build(const RandomGraph& from, const Scope& facts, std::shared_ptr<DimPool> dims) {
  ir::GraphBuilder g(dims);
  g.describe("random", "", "");
  for (const RandomInput& i : from.inputs) {
    Fact fact = fact_of(i.value);
    if (!i.ranked && fact.is_tensor()) fact.shape.reset();
    for (size_t k = 0; fact.shape && k < i.symbols.size(); ++k)
      if (!i.symbols[k].empty()) (*fact.shape)[k] = dims->symbol(i.symbols[k]);
    TRY(g.input(i.name, fact));
  }
  for (const auto& [name, tensor] : from.constants) TRY(g.initializer(name, Weight::from(tensor)));
  for (const std::string& o : from.outputs) {
    const auto it = facts.find(o);
    Fact fact = it == facts.end() ? Fact{} : fact_of(it->second);
    fact.shape.reset();
    g.output(o, fact);
  }
  for (const RandomNode& n : from.nodes) {
    ir::Node node;
    node.op_type = n.op;
    node.domain = n.domain;
    node.name = n.outputs.empty() ? n.op : n.outputs[0];
    node.attributes = n.attributes;
    for (const auto& [name, body] : n.bodies) {
      TRY_ASSIGN(graph, build(*body, facts, dims));
      node.attributes.push_back({name, ir::AttrType::g, std::vector<std::shared_ptr<ir::Graph>>{graph}, {}, {}});
    }
    const std::vector<std::string_view> in(n.inputs.begin(), n.inputs.end()), out(n.outputs.begin(), n.outputs.end());
    TRY(g.node(std::move(node), in, out));
  }
  return g.finish();
}

// Equal tensors laid side by side along a new first axis.
Result<Value> stacked(const std::vector<Value>& items) {
  const Tensor* first = items[0].tensor();
  if (!first) return invalid("a scan output is no tensor");
  std::vector<int64_t> dims(first->shape().dims().begin(), first->shape().dims().end());
  dims.insert(dims.begin(), static_cast<int64_t>(items.size()));
  TRY_ASSIGN(out, Tensor::allocate(first->dtype(), Shape(dims)));
  if (is_sub_byte(first->dtype())) return invalid("packed scan outputs are not interpreted");
  for (size_t i = 0; i < items.size(); ++i) {
    const Tensor* t = items[i].tensor();
    if (!t || t->dtype() != first->dtype() || !(t->shape() == first->shape()))
      return invalid("scan outputs differ in type or shape");
    const size_t n = static_cast<size_t>(t->count()), bytes = static_cast<size_t>(t->bytes());
    if (t->dtype() == DType::string)
      std::copy_n(t->values<std::string>().begin(), n, static_cast<std::string*>(out.mutable_data()) + i * n);
    else if (bytes)
      std::memcpy(static_cast<char*>(out.mutable_data()) + i * bytes, t->data(), bytes);
  }
  return Value(out);
}

// Element i of the first axis.
Result<Value> slice_of(const Tensor& from, int64_t i) {
  const Shape shape(from.shape().dims().subspan(1));
  TRY_ASSIGN(out, Tensor::allocate(from.dtype(), shape));
  const size_t bytes = static_cast<size_t>(out.bytes());
  if (from.dtype() == DType::string)
    std::copy_n(from.values<std::string>().begin() + i * out.count(), out.count(),
                static_cast<std::string*>(out.mutable_data()));
  else if (bytes)
    std::memcpy(out.mutable_data(), static_cast<const char*>(from.data()) + static_cast<size_t>(i) * bytes, bytes);
  return Value(out);
}

Result<bool> truth(const Value& v) {
  const Tensor* t = v.tensor();
  if (!t || t->dtype() != DType::boolean || t->count() != 1) return invalid("{} is no condition", v.describe());
  return t->values<bool>()[0];
}

}  // namespace

const RandomGraph* RandomNode::body(std::string_view attribute) const {
  for (const auto& [name, graph] : bodies)
    if (name == attribute) return graph.get();
  return nullptr;
}

int RandomGraph::node_count() const {
  int n = static_cast<int>(nodes.size());
  for (const RandomNode& node : nodes)
    for (const auto& body : node.bodies) n += body.second->node_count();
  return n;
}

std::set<std::string> reads_of(const RandomNode& node) {
  std::set<std::string> out(node.inputs.begin(), node.inputs.end());
  for (const auto& body : node.bodies) collect_reads(*body.second, out);
  out.erase("");
  return out;
}

Fact fact_of(const Value& value) {
  if (const Tensor* t = value.tensor())
    return Fact::tensor(t->dtype(), std::vector<Dim>(t->shape().dims().begin(), t->shape().dims().end()));
  if (const Sequence* s = value.sequence()) {
    if (s->element != DType::undefined) return Fact::sequence(Fact::tensor(s->element));
    Fact element = s->items.empty() ? Fact{} : fact_of(s->items[0]);
    element.shape.reset();
    return Fact::sequence(element);
  }
  if (const Map* m = value.map()) {
    Fact out;
    out.kind = Kind::map;
    const auto element = [&](const auto& entries) {
      return entries.empty() ? Fact::tensor(DType::f32) : fact_of(entries.begin()->second);
    };
    out.key = m->entries.index() == 0 ? DType::i64 : DType::string;
    out.element = std::make_shared<Fact>(std::visit(element, m->entries));
    return out;
  }
  return {};
}

bool same_bits(const Value& a, const Value& b) {
  if (const Sequence* x = a.sequence()) {
    const Sequence* y = b.sequence();
    return y && std::equal(x->items.begin(), x->items.end(), y->items.begin(), y->items.end(), same_bits);
  }
  if (const Map* x = a.map()) {
    const Map* y = b.map();
    if (!y || x->entries.index() != y->entries.index()) return false;
    const auto same = [&](const auto& m) {
      const auto& other = std::get<std::decay_t<decltype(m)>>(y->entries);
      return std::equal(m.begin(), m.end(), other.begin(), other.end(), [](const auto& p, const auto& q) {
        return p.first == q.first && same_bits(p.second, q.second);
      });
    };
    return std::visit(same, x->entries);
  }
  const Tensor *x = a.tensor(), *y = b.tensor();
  if (!x || !y) return !x && !y && a.is_none() == b.is_none() && !b.sequence() && !b.map();
  if (x->dtype() != y->dtype() || !(x->shape() == y->shape())) return false;
  if (x->dtype() == DType::string)
    return std::equal(x->values<std::string>().begin(), x->values<std::string>().end(),
                      y->values<std::string>().begin());
  return x->bytes() == 0 || std::memcmp(x->data(), y->data(), static_cast<size_t>(x->bytes())) == 0;
}

Result<Model> to_model(const RandomModel& from, const Scope& facts) {
  Model out;
  out.ir_version = 10;
  out.opsets = {{"", from.opset}, {"ai.onnx.ml", from.ml_opset}};
  TRY_ASSIGN(graph, build(from.graph, facts, std::make_shared<DimPool>()));
  out.graph = graph;
  return out;
}

Status Interpreter::run(const RandomNode& node, const std::set<std::string>& constants, Scope& scope) const {
  Result<std::vector<Value>> out = node.op == "If"            ? run_if(node, scope)
                                   : node.op == "Loop"        ? run_loop(node, scope)
                                   : node.op == "Scan"        ? run_scan(node, scope)
                                   : node.op == "SequenceMap" ? run_sequence_map(node, scope)
                                                              : run_alone(node, constants, scope);
  if (!out.ok()) return out.take_status();
  for (size_t i = 0; i < node.outputs.size(); ++i)
    if (!node.outputs[i].empty()) scope[node.outputs[i]] = (*out)[i];
  return {};
}

Result<std::vector<Value>> Interpreter::run_alone(const RandomNode& node, const std::set<std::string>& constants,
                                                  const Scope& scope) const {
  RandomModel one;
  one.opset = opset_;
  one.ml_opset = ml_opset_;
  std::vector<Value> inputs;
  for (const std::string& name : reads_of(node)) {
    const auto it = scope.find(name);
    if (it == scope.end()) return invalid("{} has no value", quote(name));
    if (constants.contains(name)) {
      one.graph.constants[name] = *it->second.tensor();
    } else {
      one.graph.inputs.push_back({name, it->second});
      inputs.push_back(it->second);
    }
  }
  for (const std::string& name : node.outputs)
    if (!name.empty()) one.graph.outputs.push_back(name);
  one.graph.nodes.push_back(node);
  TRY_ASSIGN(model, to_model(one));
  TRY_ASSIGN(bytes, onnx::write_model(model));
  SessionOptions options;
  options.threads = 1;
  TRY_ASSIGN(session, Session::from_bytes(borrow_bytes(bytes.data(), bytes.size()), options));
  std::vector<Value> got(one.graph.outputs.size()), out;
  TRY(session->run(inputs, got));
  size_t next = 0;
  for (const std::string& name : node.outputs) out.push_back(name.empty() ? Value() : got[next++]);
  return out;
}

Result<Scope> Interpreter::run(const RandomGraph& graph, const std::vector<Value>& inputs, const Scope& outer) const {
  Scope scope = outer;
  std::set<std::string> constants;
  for (size_t i = 0; i < graph.inputs.size(); ++i) scope[graph.inputs[i].name] = inputs[i];
  for (const auto& [name, tensor] : graph.constants) {
    scope[name] = tensor;
    constants.insert(name);
  }
  for (const RandomNode& node : graph.nodes)
    if (Status s = run(node, constants, scope); !s.ok())
      return std::move(s).in(format("{} alone, of {}", node.op, node.outputs.empty() ? "" : node.outputs[0]));
  return scope;
}

Result<std::vector<Value>> Interpreter::run_body(const RandomGraph& body, const std::vector<Value>& inputs,
                                                 const Scope& outer) const {
  TRY_ASSIGN(scope, run(body, inputs, outer));
  std::vector<Value> out;
  for (const std::string& name : body.outputs) out.push_back(scope[name]);
  return out;
}

Result<std::vector<Value>> Interpreter::run_if(const RandomNode& node, const Scope& scope) const {
  TRY_ASSIGN(yes, truth(scope.at(node.inputs[0])));
  return run_body(*node.body(yes ? "then_branch" : "else_branch"), {}, scope);
}

Result<std::vector<Value>> Interpreter::run_loop(const RandomNode& node, const Scope& scope) const {
  int64_t most = INT64_MAX;
  if (!node.inputs[0].empty()) most = scope.at(node.inputs[0]).tensor()->values<int64_t>()[0];
  bool again = true;
  if (!node.inputs[1].empty()) {
    TRY_ASSIGN(yes, truth(scope.at(node.inputs[1])));
    again = yes;
  }
  const RandomGraph& body = *node.body("body");
  std::vector<Value> carried;
  for (size_t i = 2; i < node.inputs.size(); ++i) carried.push_back(scope.at(node.inputs[i]));
  std::vector<std::vector<Value>> scanned(body.outputs.size() - 1 - carried.size());
  for (int64_t k = 0; k < most && again; ++k) {
    if (k > 1000) return invalid("the loop does not end");
    TRY_ASSIGN(number, Tensor::scalar<int64_t>(k));
    TRY_ASSIGN(condition, Tensor::scalar<bool>(true));
    std::vector<Value> in{number, condition};
    in.insert(in.end(), carried.begin(), carried.end());
    TRY_ASSIGN(out, run_body(body, in, scope));
    TRY_ASSIGN(yes, truth(out[0]));
    again = yes;
    for (size_t i = 0; i < carried.size(); ++i) carried[i] = out[1 + i];
    for (size_t i = 0; i < scanned.size(); ++i) scanned[i].push_back(out[1 + carried.size() + i]);
  }
  for (const auto& items : scanned) {
    if (items.empty()) return run_alone(node, {}, scope);  // the shape of nothing is the loop's own affair
    TRY_ASSIGN(all, stacked(items));
    carried.push_back(all);
  }
  return carried;
}

Result<std::vector<Value>> Interpreter::run_scan(const RandomNode& node, const Scope& scope) const {
  const RandomGraph& body = *node.body("body");
  size_t scans = 0;
  for (const ir::Attribute& a : node.attributes)
    if (a.name == "num_scan_inputs") scans = static_cast<size_t>(std::get<int64_t>(a.value));
  const size_t states = node.inputs.size() - scans;
  std::vector<Value> carried;
  for (size_t i = 0; i < states; ++i) carried.push_back(scope.at(node.inputs[i]));
  const int64_t length = scope.at(node.inputs[states]).tensor()->shape()[0];
  std::vector<std::vector<Value>> scanned(body.outputs.size() - states);
  for (int64_t k = 0; k < length; ++k) {
    std::vector<Value> in = carried;
    for (size_t i = states; i < node.inputs.size(); ++i) {
      TRY_ASSIGN(slice, slice_of(*scope.at(node.inputs[i]).tensor(), k));
      in.push_back(slice);
    }
    TRY_ASSIGN(out, run_body(body, in, scope));
    for (size_t i = 0; i < states; ++i) carried[i] = out[i];
    for (size_t i = 0; i < scanned.size(); ++i) scanned[i].push_back(out[states + i]);
  }
  for (const auto& items : scanned) {
    if (items.empty()) return run_alone(node, {}, scope);
    TRY_ASSIGN(all, stacked(items));
    carried.push_back(all);
  }
  return carried;
}

Result<std::vector<Value>> Interpreter::run_sequence_map(const RandomNode& node, const Scope& scope) const {
  const RandomGraph& body = *node.body("body");
  const Sequence* first = scope.at(node.inputs[0]).sequence();
  std::vector<std::shared_ptr<Sequence>> lists;
  for (size_t o = 0; o < body.outputs.size(); ++o) lists.push_back(std::make_shared<Sequence>());
  if (first->items.empty()) return run_alone(node, {}, scope);
  for (size_t k = 0; k < first->items.size(); ++k) {
    std::vector<Value> in;
    for (const std::string& name : node.inputs) {
      const Sequence* s = scope.at(name).sequence();
      if (s && k >= s->items.size()) return invalid("sequences of different lengths");
      in.push_back(s ? s->items[k] : scope.at(name));
    }
    TRY_ASSIGN(out, run_body(body, in, scope));
    for (size_t o = 0; o < lists.size(); ++o) {
      lists[o]->items.push_back(out[o]);
      if (out[o].tensor()) lists[o]->element = out[o].tensor()->dtype();
    }
  }
  return std::vector<Value>(lists.begin(), lists.end());
}

}  // namespace tessera::testing
