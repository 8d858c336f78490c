#include "capi/model_editor.h"

#include <algorithm>
#include <set>

#include "capi/guard.h"
#include "capi/not_implemented.h"
#include "capi/session.h"

namespace tessera::capi {
namespace {

constexpr int kDeepestType = 16;
constexpr int64_t kSmallestBorrowed = 128;  // bytes: smaller ones may be shapes, which are read early

Result<Fact> fact_of(const OrtTypeInfo& type, DimPool& dims, int depth = 0);

Result<Fact> tensor_fact(const OrtTensorTypeAndShapeInfo& info, DimPool& dims) {
  Fact fact;
  fact.kind = Kind::tensor;
  fact.dtype = dtype_of_onnx(info.type);
  if (fact.dtype == DType::undefined) return invalid("a tensor has element type {}", static_cast<int>(info.type));
  if (!info.has_shape) return fact;
  fact.shape.emplace();
  for (size_t i = 0; i < info.dims.size(); ++i) {
    const int64_t d = info.dims[i];
    if (d < -1) return invalid("dimension {} is {}, wanted a size, or -1 where it is unknown", i, d);
    if (d >= 0)
      fact.shape->push_back(Dim(d));
    else
      fact.shape->push_back(info.symbols[i].empty() ? dims.fresh() : dims.symbol(info.symbols[i]));
  }
  return fact;
}

Result<Fact> container_fact(Kind kind, const std::shared_ptr<const OrtTypeInfo>& element, DimPool& dims, int depth) {
  Fact fact;
  fact.kind = kind;
  if (!element) return fact;
  TRY_ASSIGN(inner, fact_of(*element, dims, depth + 1));
  fact.element = std::make_shared<const Fact>(std::move(inner));
  return fact;
}

Result<Fact> fact_of(const OrtTypeInfo& type, DimPool& dims, int depth) {
  if (depth > kDeepestType) return invalid("a type is nested more than {} deep", kDeepestType);
  switch (type.kind) {
    case ONNX_TYPE_TENSOR: return tensor_fact(type.tensor, dims);
    case ONNX_TYPE_SPARSETENSOR: {
      TRY_ASSIGN(fact, tensor_fact(type.tensor, dims));
      fact.kind = Kind::sparse_tensor;
      return fact;
    }
    case ONNX_TYPE_SEQUENCE: return container_fact(Kind::sequence, type.sequence.element, dims, depth);
    case ONNX_TYPE_OPTIONAL: return container_fact(Kind::optional, type.optional.contained, dims, depth);
    case ONNX_TYPE_MAP: {
      TRY_ASSIGN(fact, container_fact(Kind::map, type.map.value, dims, depth));
      fact.key = dtype_of_onnx(type.map.key);
      return fact;
    }
    default: return invalid("a value has a type of kind {}", static_cast<int>(type.kind));
  }
}

Result<std::vector<ValueSpec>> specs_of(const std::vector<const OrtValueInfo*>& values, DimPool& dims) {
  std::vector<ValueSpec> out;
  for (const OrtValueInfo* v : values) {
    ValueSpec spec{v->name, {}};
    if (v->type) {
      auto fact = fact_of(*v->type, dims);
      if (!fact.ok()) return fact.take_status().in(quote(v->name));
      spec.fact = *fact;
    }
    out.push_back(std::move(spec));
  }
  return out;
}

// The client may free what is not marked as borrowed once the session is there.
Result<Tensor> kept(const OrtGraph::Initializer& initializer) {
  const Tensor& tensor = *initializer.value->value.tensor();
  const BytesPtr& bytes = tensor.storage();
  if (initializer.borrowed || !bytes || bytes->origin() != Bytes::Origin::borrowed || bytes->context()) return tensor;
  return copy_of(tensor);
}

ModelAddition::AddedNode added(const OrtNode& node) {
  ModelAddition::AddedNode out;
  out.node.name = node.name;
  out.node.op_type = node.op;
  out.node.domain = node.domain;
  for (const auto& a : node.attributes) out.node.attributes.push_back(a->attribute);
  out.inputs = node.inputs;
  out.outputs = node.outputs;
  return out;
}

}  // namespace

Status add_to(EditableModel& model, const OrtModel& from) {
  if (!from.graph) return invalid("the model has no graph; call AddGraphToModel first");
  const OrtGraph& graph = *from.graph;
  ModelAddition addition;
  addition.opsets = from.opsets;
  addition.graph_name = graph.name;
  if (graph.inputs_set) {
    TRY_ASSIGN(inputs, specs_of(graph.inputs, model.dims()));
    addition.inputs = std::move(inputs);
  }
  if (graph.outputs_set) {
    TRY_ASSIGN(outputs, specs_of(graph.outputs, model.dims()));
    addition.outputs = std::move(outputs);
  }
  for (const auto& [name, initializer] : graph.initializers) {
    TRY_ASSIGN(tensor, kept(initializer));
    addition.initializers.emplace_back(name, std::move(tensor));
  }
  for (const OrtNode* n : graph.nodes) addition.nodes.push_back(added(*n));
  return model.add(addition);
}

namespace {

// Types.

template <ONNXType kind>
Status tensor_type(const OrtTensorTypeAndShapeInfo* info, OrtTypeInfo** out) {
  TRY(not_null({{"tensor_info", info}, {"type_info", out}}));
  auto made = std::make_unique<OrtTypeInfo>();
  made->kind = kind;
  made->tensor = *info;
  *out = made.release();
  return {};
}

Status map_type(ONNXTensorElementDataType key, const OrtTypeInfo* value, OrtTypeInfo** out) {
  TRY(not_null({{"map_value_type", value}, {"type_info", out}}));
  auto made = std::make_unique<OrtTypeInfo>();
  made->kind = ONNX_TYPE_MAP;
  made->map = {key, std::make_shared<const OrtTypeInfo>(*value)};
  *out = made.release();
  return {};
}

Status sequence_type(const OrtTypeInfo* element, OrtTypeInfo** out) {
  TRY(not_null({{"sequence_type", element}, {"type_info", out}}));
  auto made = std::make_unique<OrtTypeInfo>();
  made->kind = ONNX_TYPE_SEQUENCE;
  made->sequence.element = std::make_shared<const OrtTypeInfo>(*element);
  *out = made.release();
  return {};
}

Status optional_type(const OrtTypeInfo* contained, OrtTypeInfo** out) {
  TRY(not_null({{"contained_type", contained}, {"type_info", out}}));
  auto made = std::make_unique<OrtTypeInfo>();
  made->kind = ONNX_TYPE_OPTIONAL;
  made->optional.contained = std::make_shared<const OrtTypeInfo>(*contained);
  *out = made.release();
  return {};
}

// Parts.

Status create_value_info(const char* name, const OrtTypeInfo* type, OrtValueInfo** out) {
  TRY(not_null({{"name", name}, {"type_info", type}, {"value_info", out}}));
  if (!*name) return invalid("name is empty");
  auto made = std::make_unique<OrtValueInfo>();
  made->name = name;
  made->type = std::make_unique<const OrtTypeInfo>(*type);
  *out = made.release();
  return {};
}

Status copy_names(const char* what, const char* const* from, size_t count, std::vector<std::string>& to) {
  if (count) TRY(not_null({{what, from}}));
  for (size_t i = 0; i < count; ++i) {
    if (!from[i]) return invalid("{}: name {} is null", what, i);
    to.emplace_back(from[i]);
  }
  return {};
}

// Takes the attributes over, unless the node is refused.
Status create_node(const char* op, const char* domain, const char* name, const char* const* inputs, size_t input_count,
                   const char* const* outputs, size_t output_count, OrtOpAttr** attributes, size_t attribute_count,
                   OrtNode** out) {
  TRY(not_null({{"operator_name", op}, {"domain_name", domain}, {"node_name", name}, {"node", out}}));
  if (!*op) return invalid("operator_name is empty");
  if (attribute_count) TRY(not_null({{"attributes", attributes}}));
  auto node = std::make_unique<OrtNode>();
  node->op = op;
  node->domain = plain_domain(domain);
  node->name = name;
  TRY(copy_names("input_names", inputs, input_count, node->inputs));
  TRY(copy_names("output_names", outputs, output_count, node->outputs));
  std::set<const OrtOpAttr*> distinct;
  for (size_t i = 0; i < attribute_count; ++i) {
    TRY(not_null({{"an attribute", attributes[i]}}));
    if (!distinct.insert(attributes[i]).second) return invalid("attribute {} comes twice", i);
  }
  node->attributes.reserve(attribute_count);
  for (const auto* names : {&node->inputs, &node->outputs})
    for (const std::string& n : *names) node->own_values[n].name = n;
  for (size_t i = 0; i < attribute_count; ++i) node->attributes.emplace_back(attributes[i]);
  *out = node.release();
  return {};
}

Status create_graph(OrtGraph** out) {
  TRY(not_null({{"graph", out}}));
  *out = new OrtGraph;
  return {};
}

Status check_editable(const OrtGraph& graph) {
  if (graph.whole) return invalid("the graph is a view of another one, and cannot be changed");
  return {};
}

// Refuses null, values that are in a graph already, and a name that comes twice.
Status check_new_values(const char* what, OrtValueInfo* const* values, size_t count) {
  std::set<std::string_view> names;
  for (size_t i = 0; i < count; ++i) {
    if (!values[i]) return invalid("{}: entry {} is null", what, i);
    if (values[i]->graph) return invalid("{}: {} is in a graph already", what, quote(values[i]->name));
    if (!names.insert(values[i]->name).second) return invalid("{}: {} comes twice", what, quote(values[i]->name));
  }
  return {};
}

// Takes the entries over: they are null afterwards. Nothing is taken when one is refused.
Status set_values(OrtGraph& graph, const char* what, OrtValueInfo** values, size_t count,
                  std::vector<const OrtValueInfo*>& list, bool& is_set) {
  TRY(check_editable(graph));
  if (count) TRY(not_null({{what, values}}));
  TRY(check_new_values(what, values, count));
  list.clear();
  for (size_t i = 0; i < count; ++i) {
    list.push_back(&graph.adopt(std::unique_ptr<OrtValueInfo>(values[i])));
    values[i] = nullptr;
  }
  is_set = true;
  return {};
}

Status set_inputs(OrtGraph* graph, OrtValueInfo** values, size_t count) {
  TRY(not_null({{"graph", graph}}));
  return set_values(*graph, "inputs", values, count, graph->inputs, graph->inputs_set);
}

Status set_outputs(OrtGraph* graph, OrtValueInfo** values, size_t count) {
  TRY(not_null({{"graph", graph}}));
  return set_values(*graph, "outputs", values, count, graph->outputs, graph->outputs_set);
}

// Takes `tensor` over, unless it is refused.
Status add_initializer(OrtGraph* graph, const char* name, OrtValue* tensor, bool borrowed) {
  TRY(not_null({{"graph", graph}, {"name", name}, {"tensor", tensor}}));
  TRY(check_editable(*graph));
  if (!*name) return invalid("an initializer has an empty name");
  if (!tensor->value.tensor())
    return invalid("initializer {} is {}, wanted a tensor", quote(name), tensor->value.describe());
  if (graph->initializer(name)) return invalid("initializer {} is added twice", quote(name));
  if (graph->initializer_values.count(tensor)) return invalid("the value of {} is in the graph already", quote(name));
  if (borrowed && tensor->value.tensor()->bytes() < kSmallestBorrowed)
    return invalid("initializer {} has {} bytes; one of less than {} is added with data_is_external = false",
                   quote(name), tensor->value.tensor()->bytes(), kSmallestBorrowed);
  graph->initializer_index[name] = graph->initializers.size();
  graph->initializer_values.insert(tensor);
  graph->initializers.emplace_back(name, OrtGraph::Initializer{std::unique_ptr<OrtValue>(tensor), borrowed});
  OrtValueInfo& info = graph->use(name);
  if (!info.type) info.type = std::make_unique<const OrtTypeInfo>(type_info_of(tensor->value));
  return {};
}

// Takes `node` over, unless it is refused.
Status add_node(OrtGraph* graph, OrtNode* node) {
  TRY(not_null({{"graph", graph}, {"node", node}}));
  TRY(check_editable(*graph));
  if (node->graph) return invalid("the node {} is in a graph already", quote(node->name));
  for (const auto* names : {&node->inputs, &node->outputs})
    for (const std::string& n : *names)
      if (!n.empty()) graph->use(n);
  node->graph = graph;
  node->id = graph->owned_nodes.size();
  graph->nodes.push_back(node);
  graph->owned_nodes.emplace_back(node);
  return {};
}

Status create_model(const char* const* domains, const int* versions, size_t count, OrtModel** out) {
  TRY(not_null({{"model", out}}));
  if (count) TRY(not_null({{"domain_names", domains}, {"opset_versions", versions}}));
  auto made = std::make_unique<OrtModel>();
  for (size_t i = 0; i < count; ++i) {
    TRY(not_null({{"a domain name", domains[i]}}));
    if (versions[i] < 1) return invalid("operator set {} has version {}", quote(domains[i]), versions[i]);
    const std::string domain = plain_domain(domains[i]);
    for (const auto& [known, version] : made->opsets)
      if (known == domain) return invalid("operator set {} comes twice", quote(domain));
    made->opsets.emplace_back(domain, versions[i]);
  }
  *out = made.release();
  return {};
}

// Takes `graph` over, unless it is refused.
Status add_graph(OrtModel* model, OrtGraph* graph) {
  TRY(not_null({{"model", model}, {"graph", graph}}));
  TRY(check_editable(*graph));
  if (model->graph) return invalid("the model has a graph already");
  if (graph->model) return invalid("the graph is in a model already");
  graph->model = model;
  model->graph.reset(graph);
  return {};
}

// Sessions.

Status session_from_model(const OrtEnv* env, const OrtModel* model, const OrtSessionOptions* options,
                          OrtSession** out) {
  TRY(not_null({{"env", env}, {"model", model}, {"out", out}}));
  EditableModel editable;
  TRY(add_to(editable, *model));
  return open_session(env, options, nullptr, out,
                      [&](const SessionOptions& own, const OrtSessionOptions&) { return editable.open(own); });
}

Status opset_of(const OrtSession* session, const char* domain, int* out) {
  TRY(not_null({{"session", session}, {"domain", domain}, {"opset", out}}));
  const Model& model = session->editing ? session->editing->model.model() : session->session->model();
  const int64_t version = model.opset(plain_domain(domain));
  if (!version) return error(Code::fail, "the model uses no operator set {}", quote(domain));
  *out = static_cast<int>(version);
  return {};
}

Status check_editing(const OrtSession& session) {
  if (session.editing) return {};
  return error(Code::fail, "the session is not being edited; make one with CreateModelEditorSession");
}

Status apply(OrtSession* session, OrtModel* model) {
  TRY(not_null({{"session", session}, {"model", model}}));
  TRY(check_editing(*session));
  return add_to(session->editing->model, *model);
}

Status finalize(OrtSession* session, const OrtSessionOptions* options, OrtPrepackedWeightsContainer* container) {
  TRY(not_null({{"session", session}}));
  if (!session->editing) return {};  // done already
  return finish_editing(*session, options, container);
}

OrtModelEditorApi make_table() {
  OrtModelEditorApi table = not_implemented_table<OrtModelEditorApi>;
  table.CreateTensorTypeInfo = slot<tensor_type<ONNX_TYPE_TENSOR>>;
  table.CreateSparseTensorTypeInfo = slot<tensor_type<ONNX_TYPE_SPARSETENSOR>>;
  table.CreateMapTypeInfo = slot<map_type>;
  table.CreateSequenceTypeInfo = slot<sequence_type>;
  table.CreateOptionalTypeInfo = slot<optional_type>;
  table.CreateValueInfo = slot<create_value_info>;
  table.CreateNode = slot<create_node>;
  table.CreateGraph = slot<create_graph>;
  table.SetGraphInputs = slot<set_inputs>;
  table.SetGraphOutputs = slot<set_outputs>;
  table.AddInitializerToGraph = slot<add_initializer>;
  table.AddNodeToGraph = slot<add_node>;
  table.CreateModel = slot<create_model>;
  table.AddGraphToModel = slot<add_graph>;
  table.CreateSessionFromModel = slot<session_from_model>;
  table.CreateModelEditorSession = slot<edit_path>;
  table.CreateModelEditorSessionFromArray = slot<edit_array>;
  table.SessionGetOpsetForDomain = slot<opset_of>;
  table.ApplyModelToModelEditorSession = slot<apply>;
  table.FinalizeModelEditorSession = slot<finalize>;
  return table;
}

}  // namespace

const OrtModelEditorApi* model_editor_api() noexcept {
  static const OrtModelEditorApi table = make_table();
  return &table;
}

}  // namespace tessera::capi
