// Graph: nodes and the values between them. Read freely; edited only through Patch (patch.h), built only through
// GraphBuilder. Ids are indexes and stay valid: what a patch removes leaves a dead entry behind until compact().
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "core/weight.h"
#include "ir/fact.h"

namespace tessera {

struct Op;  // ops/op.h

namespace ir {

using ValueId = uint32_t;
using NodeId = uint32_t;
inline constexpr uint32_t kNone = ~uint32_t{0};  // an absent optional input or output; no producer

class Graph;

// The numbers of ONNX's AttributeProto.AttributeType.
enum class AttrType : uint8_t {
  undefined,
  f,
  i,
  s,
  t,
  g,
  floats,
  ints,
  strings,
  tensors,
  graphs,
  sparse_tensor,
  sparse_tensors,
  type_proto,
  type_protos
};

struct Attribute {
  using Payload = std::variant<std::monostate, int64_t, float, std::string, std::vector<int64_t>, std::vector<float>,
                               std::vector<std::string>, std::vector<Weight>, std::vector<std::shared_ptr<Graph>>,
                               std::vector<SparseWeight>, std::vector<Fact>>;
  std::string name;
  AttrType type = AttrType::undefined;
  Payload value;        // one-element vectors for t, g, sparse_tensor and type_proto
  std::string ref;      // inside a function: the caller's attribute that takes this place
  std::string unknown;  // wire bytes of fields this version does not know, kept for writing back

  static Attribute integer(std::string name, int64_t v) { return {std::move(name), AttrType::i, v, {}, {}}; }
  static Attribute real(std::string name, float v) { return {std::move(name), AttrType::f, v, {}, {}}; }
  static Attribute text(std::string name, std::string v) {
    return {std::move(name), AttrType::s, std::move(v), {}, {}};
  }
  static Attribute integers(std::string name, std::vector<int64_t> v) {
    return {std::move(name), AttrType::ints, std::move(v), {}, {}};
  }
  static Attribute tensor(std::string name, Tensor t) {
    return {std::move(name), AttrType::t, std::vector<Weight>{Weight::from(std::move(t))}, {}, {}};
  }
};

struct WrittenForm;

struct Node {
  std::string name, op_type, domain, overload;  // the default domain is ""
  int version = 0;                              // of the domain's opset that is in force here
  std::vector<ValueId> inputs, outputs;         // kNone where absent
  std::vector<Attribute> attributes;
  std::string unknown;
  bool dead = false;

  // Set when the node is resolved against the operator table (ops/resolve.h).
  const Op* op = nullptr;
  int since = 0;                               // the version of the operator that the opset means
  std::shared_ptr<const void> params;          // attributes as the operator's own struct
  std::shared_ptr<const WrittenForm> written;  // where resolving changed its form: as its own operator set has it

  const Attribute* find(std::string_view attribute) const;
  // "node 'name' (Op)": how messages speak of it.
  std::string title() const;
};

// What a node looks like in a file: its attributes, and for each input there the index of the node's own (-1: absent).
struct WrittenForm {
  std::vector<Attribute> attributes;
  std::vector<int> inputs;
};

enum class Source : uint8_t {
  undefined,    // named by a reader only; an error once the graph is complete
  input,        // of the graph
  initializer,  // a weight
  node,         // an output of a node
  captured,     // a value of the enclosing graph
};

struct ValueInfo {
  std::string name;
  Fact fact;
  Source source = Source::undefined;
  bool is_input = false;  // also for initializers that the caller may override
  bool is_output = false;
  NodeId producer = kNone;  // source node
  uint32_t weight = kNone;  // source initializer: index into weights()
  ValueId outer = kNone;    // source captured: id in the parent graph
  std::string unknown;      // of its ValueInfoProto
};

class Graph {
 public:
  explicit Graph(std::shared_ptr<DimPool> dims = std::make_shared<DimPool>()) : dims_(std::move(dims)) {}

  const std::string& name() const { return name_; }
  const std::vector<Node>& nodes() const { return nodes_; }
  const std::vector<ValueInfo>& values() const { return values_; }
  const Node& node(NodeId id) const { return nodes_[id]; }
  const ValueInfo& value(ValueId id) const { return values_[id]; }
  const std::vector<ValueId>& inputs() const { return inputs_; }
  const std::vector<ValueId>& outputs() const { return outputs_; }
  const std::vector<Weight>& weights() const { return weights_; }
  const Weight* weight_of(ValueId id) const {
    return values_[id].source == Source::initializer ? &weights_[values_[id].weight] : nullptr;
  }
  // kNone if the graph has no value of that name.
  ValueId find(std::string_view value_name) const;
  // The live nodes that read a value, themselves or through a subgraph. Built at the first call, kept by patches.
  const std::vector<NodeId>& readers(ValueId id) const;
  DimPool& dims() const { return *dims_; }
  const std::shared_ptr<DimPool>& dims_ptr() const { return dims_; }
  const std::string& unknown() const { return unknown_; }
  const std::string& doc() const { return doc_; }

 private:
  friend class GraphBuilder;
  friend class Patch;
  friend class Annotator;

  // The hint itself if it is free, else the hint with a number.
  std::string unused_name(std::string_view hint);

  std::string name_, doc_, unknown_;
  uint64_t next_number_ = 0;
  std::vector<Node> nodes_;
  std::vector<ValueInfo> values_;
  std::vector<Weight> weights_;
  std::vector<ValueId> inputs_, outputs_;
  mutable std::vector<std::vector<NodeId>> readers_;
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view s) const { return std::hash<std::string_view>{}(s); }
  };
  std::unordered_map<std::string, ValueId, Hash, std::equal_to<>> by_name_;
  std::shared_ptr<DimPool> dims_;
};

// Assembles a graph in any order of declaration. Every name has one definition; a second one is an error.
class GraphBuilder {
 public:
  explicit GraphBuilder(std::shared_ptr<DimPool> dims = std::make_shared<DimPool>())
      : graph_(std::make_shared<Graph>(std::move(dims))) {}

  Status input(std::string_view name, Fact fact, std::string unknown = {});
  void output(std::string_view name, Fact fact, std::string unknown = {});
  void value_info(std::string_view name, Fact fact, std::string unknown = {});
  Status initializer(std::string_view name, Weight weight);
  // Inputs and outputs by name, "" for an absent one.
  Status node(Node node, std::span<const std::string_view> inputs, std::span<const std::string_view> outputs);
  // The id of a name, defined so far or not.
  ValueId use(std::string_view name);
  void describe(std::string_view name, std::string_view doc, std::string unknown);
  DimPool& dims() { return graph_->dims(); }
  const std::shared_ptr<DimPool>& dims_ptr() const { return graph_->dims_; }
  size_t node_count() const { return graph_->nodes_.size(); }

  // Before IR version 4 every initializer is listed among the inputs too, and is constant all the same.
  void fix_initializers();
  // The graph. Names nobody defines stay Source::undefined until bind_scopes.
  std::shared_ptr<Graph> finish() { return std::move(graph_); }
  // Connects subgraphs to the values they capture, and refuses names that nobody defines, in `graph` and below.
  static Status bind_scopes(Graph& graph);

 private:
  static Status bind(Graph& graph, std::span<Graph* const> parents);
  static ValueId capture(Graph& graph, std::span<Graph* const> parents, std::string_view name);
  std::shared_ptr<Graph> graph_;
};

// Every subgraph in the attributes of a node, with the attribute's name.
template <class F>
void for_each_subgraph(const Node& node, F&& f) {
  for (const Attribute& a : node.attributes)
    if (const auto* graphs = std::get_if<std::vector<std::shared_ptr<Graph>>>(&a.value))
      for (const auto& g : *graphs) f(a.name, g);
}

// Calls f for every value that the subgraphs of a node capture.
template <class F>
void for_each_capture(const Node& node, F&& f) {
  for_each_subgraph(node, [&](const std::string&, const std::shared_ptr<Graph>& sub) {
    for (const ValueInfo& v : sub->values())
      if (v.source == Source::captured) f(v.outer);
  });
}

// Calls f for every value a node reads: its inputs, and what its subgraphs capture.
template <class F>
void for_each_read(const Node& node, F&& f) {
  for (const ValueId in : node.inputs)
    if (in != kNone) f(in);
  for_each_capture(node, f);
}

// Live nodes so that producers come before readers: the listed order where that is valid already, else by smallest
// index among the ready. A cycle is an error that names its nodes.
Result<std::vector<NodeId>> topological_order(const Graph& graph);

// Checks what must hold of any graph: ids in range, one producer per value, no cycle, outputs defined; subgraphs too.
Status verify(const Graph& graph);

}  // namespace ir

// A model-local function: a graph whose attributes may refer to the caller's.
struct Function {
  std::string domain, name, overload;
  std::vector<std::string> attribute_names;       // without default
  std::vector<ir::Attribute> attribute_defaults;  // with default
  std::vector<std::pair<std::string, int64_t>> opsets;
  std::shared_ptr<ir::Graph> body;
  std::string unknown;
};

// Everything a model file says.
struct Model {
  int64_t ir_version = 0;
  std::string producer_name, producer_version, domain, doc;
  int64_t model_version = 0;
  std::vector<std::pair<std::string, int64_t>> opsets;  // domain, version; the default domain is ""
  std::vector<std::pair<std::string, std::string>> metadata;
  std::vector<Function> functions;
  std::shared_ptr<ir::Graph> graph;
  std::string unknown;  // wire bytes of unknown fields, and of training_info

  int64_t opset(std::string_view opset_domain) const;  // 0 if not imported
};

}  // namespace tessera
