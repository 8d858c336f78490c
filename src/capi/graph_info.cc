// Looking at graphs, nodes and values.
#include <algorithm>
#include <set>

#include "capi/graph.h"
#include "capi/guard.h"
#include "capi/metadata.h"
#include "capi/topics.h"
#include "session/edit_model.h"

struct OrtExternalInitializerInfo {
  std::string path;
  int64_t offset = 0;
  size_t size = 0;
};

namespace tessera::capi {
namespace {

template <class T>
void release(T* object) {
  delete object;
}

// What belongs to a graph goes with it.
template <class T>
void release_part(T* part) {
  if (part && !part->graph) delete part;
}
void release_graph(OrtGraph* graph) {
  if (graph && !graph->model) delete graph;
}

// Lists: a function that counts and one that fills the client's array, which may be longer.

template <auto List, class T>
Status count(const T* object, size_t* out) {
  TRY(not_null({{"the object", object}, {"the number", out}}));
  *out = List(*object).size();
  return {};
}

template <auto List, class T, class Item>
Status list(const T* object, const Item** out, size_t room) {
  TRY(not_null({{"the object", object}}));
  const auto items = List(*object);
  if (room < items.size()) return invalid("room for {} entries, there are {}", room, items.size());
  if (!items.empty()) TRY(not_null({{"the list", out}}));
  std::copy(items.begin(), items.end(), out);
  return {};
}

template <auto Member, class T>
Status text(const T* object, const char** out) {
  TRY(not_null({{"the object", object}, {"the text", out}}));
  *out = (object->*Member).c_str();
  return {};
}

// Values.

Status type_of_value(const OrtValueInfo* value, const OrtTypeInfo** out) {
  TRY(not_null({{"value_info", value}, {"type_info", out}}));
  *out = value->type.get();
  return {};
}

const OrtGraph* graph_of(const OrtValueInfo& value) { return value.graph ? &value.graph->complete() : nullptr; }

// Null, with an index of 0, for what no node makes.
Status producer(const OrtValueInfo* value, const OrtNode** node, size_t* index) {
  TRY(not_null({{"value_info", value}, {"producer_node", node}}));
  *node = nullptr;
  if (index) *index = 0;
  const OrtGraph* graph = graph_of(*value);
  if (!graph) return {};
  for (const OrtNode* n : graph->nodes) {
    const auto at = std::find(n->outputs.begin(), n->outputs.end(), value->name);
    if (at == n->outputs.end()) continue;
    *node = n;
    if (index) *index = static_cast<size_t>(at - n->outputs.begin());
    return {};
  }
  return {};
}

struct Use {
  const OrtNode* node;
  int64_t input;
};

std::vector<Use> uses_of(const OrtValueInfo& value) {
  std::vector<Use> uses;
  const OrtGraph* graph = graph_of(value);
  if (!graph) return uses;
  for (const OrtNode* n : graph->nodes)
    for (size_t i = 0; i < n->inputs.size(); ++i)
      if (n->inputs[i] == value.name) uses.push_back({n, static_cast<int64_t>(i)});
  return uses;
}

Status consumers(const OrtValueInfo* value, const OrtNode** nodes, int64_t* inputs, size_t room) {
  TRY(not_null({{"value_info", value}}));
  const std::vector<Use> uses = uses_of(*value);
  if (room < uses.size()) return invalid("room for {} consumers, there are {}", room, uses.size());
  if (!uses.empty()) TRY(not_null({{"nodes", nodes}, {"input_indices", inputs}}));
  for (size_t i = 0; i < uses.size(); ++i) {
    nodes[i] = uses[i].node;
    inputs[i] = uses[i].input;
  }
  return {};
}

const OrtGraph::Initializer* initializer_of(const OrtValueInfo& value) {
  const OrtGraph* graph = graph_of(value);
  return graph ? graph->initializer(value.name) : nullptr;
}

// Null for what is no initializer.
Status initializer_value(const OrtValueInfo* value, const OrtValue** out) {
  TRY(not_null({{"value_info", value}, {"initializer_value", out}}));
  const OrtGraph::Initializer* found = initializer_of(*value);
  *out = found ? found->value.get() : nullptr;
  return {};
}

// Null: the initializers of graphs made by a client are in memory.
Status external_info(const OrtValueInfo* value, OrtExternalInitializerInfo** out) {
  TRY(not_null({{"value_info", value}, {"info", out}}));
  *out = nullptr;
  return {};
}

bool is_in(const std::vector<const OrtValueInfo*>& list, const OrtValueInfo& value) {
  return std::any_of(list.begin(), list.end(), [&](const OrtValueInfo* v) { return v->name == value.name; });
}

bool is_input(const OrtValueInfo& v) { return v.graph && is_in(graph_of(v)->inputs, v); }
bool is_required(const OrtValueInfo& v) { return is_input(v) && !initializer_of(v); }
bool is_optional(const OrtValueInfo& v) { return is_input(v) && initializer_of(v); }
bool is_output(const OrtValueInfo& v) { return v.graph && is_in(graph_of(v)->outputs, v); }
bool is_constant(const OrtValueInfo& v) { return initializer_of(v) && !is_input(v); }
bool is_outer(const OrtValueInfo&) { return false; }

template <bool (*Answer)(const OrtValueInfo&)>
Status answer(const OrtValueInfo* value, bool* out) {
  TRY(not_null({{"value_info", value}, {"the answer", out}}));
  *out = Answer(*value);
  return {};
}

// Graphs.

Status model_path(const OrtGraph* graph, const ORTCHAR_T** out) {
  TRY(not_null({{"graph", graph}, {"model_path", out}}));
  *out = "";
  return {};
}

Status ir_version(const OrtGraph* graph, int64_t* out) {
  TRY(not_null({{"graph", graph}, {"onnx_ir_version", out}}));
  *out = kMadeIrVersion;
  return {};
}

std::vector<std::pair<std::string, int64_t>> const& opsets_of(const OrtGraph& graph) {
  static const std::vector<std::pair<std::string, int64_t>> kNone;
  const OrtModel* model = graph.complete().model;
  return model ? model->opsets : kNone;
}

Status opsets(const OrtGraph* graph, const char** domains, int64_t* versions, size_t room) {
  TRY(not_null({{"graph", graph}}));
  const auto& all = opsets_of(*graph);
  if (room < all.size()) return invalid("room for {} operator sets, there are {}", room, all.size());
  if (!all.empty()) TRY(not_null({{"domains", domains}, {"opset_versions", versions}}));
  for (size_t i = 0; i < all.size(); ++i) {
    domains[i] = all[i].first.c_str();
    versions[i] = all[i].second;
  }
  return {};
}

using Values = std::vector<const OrtValueInfo*>;
const Values& graph_inputs(const OrtGraph& graph) { return graph.inputs; }
const Values& graph_outputs(const OrtGraph& graph) { return graph.outputs; }
const std::vector<const OrtNode*>& graph_nodes(const OrtGraph& graph) { return graph.nodes; }

bool reads(const OrtNode& node, const std::string& value) {
  return std::find(node.inputs.begin(), node.inputs.end(), value) != node.inputs.end();
}

// A view has those that its nodes read.
Values graph_initializers(const OrtGraph& graph) {
  Values out;
  for (const auto& [name, initializer] : graph.complete().initializers) {
    const bool used = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                  [&, &n = name](const OrtNode* node) { return reads(*node, n); });
    if (!graph.whole || used) out.push_back(graph.complete().find(name));
  }
  return out;
}

Status parent_node(const OrtGraph* graph, const OrtNode** out) {
  TRY(not_null({{"graph", graph}, {"node", out}}));
  *out = nullptr;
  return {};
}

// What enters a set of nodes from outside: first inputs of the whole graph in their order, then the rest as it is read.
void list_view_inputs(OrtGraph& view, const std::set<std::string>& made) {
  std::set<std::string> read;
  Values rest;
  for (const OrtNode* n : view.nodes)
    for (const std::string& in : n->inputs) {
      if (in.empty() || made.count(in) || !read.insert(in).second) continue;
      const OrtValueInfo& v = *view.whole->find(in);
      if (!is_input(v) && !initializer_of(v)) rest.push_back(&v);
    }
  for (const OrtValueInfo* v : view.whole->inputs)
    if (read.count(v->name)) view.inputs.push_back(v);
  view.inputs.insert(view.inputs.end(), rest.begin(), rest.end());
}

// What leaves it: outputs of the whole graph, and what other nodes read.
void list_view_outputs(OrtGraph& view) {
  const std::set<const OrtNode*> inside(view.nodes.begin(), view.nodes.end());
  for (const OrtNode* n : view.nodes)
    for (const std::string& name : n->outputs) {
      if (name.empty()) continue;
      const OrtValueInfo& v = *view.whole->find(name);
      const std::vector<Use> uses = uses_of(v);
      const bool leaves = std::any_of(uses.begin(), uses.end(), [&](const Use& u) { return !inside.count(u.node); });
      if (leaves || is_output(v) || uses.empty()) view.outputs.push_back(&v);
    }
}

// The whole graph must outlive the view.
Status graph_view(const OrtGraph* graph, const OrtNode** nodes, size_t size, OrtGraph** out) {
  TRY(not_null({{"src_graph", graph}, {"dst_graph", out}}));
  if (size) TRY(not_null({{"nodes", nodes}}));
  auto view = std::make_unique<OrtGraph>();
  view->whole = &graph->complete();
  view->name = view->whole->name;
  std::set<std::string> made;
  for (size_t i = 0; i < size; ++i) {
    TRY(not_null({{"a node", nodes[i]}}));
    if (nodes[i]->graph != view->whole) return invalid("node {} is not in the graph", quote(nodes[i]->name));
    view->nodes.push_back(nodes[i]);
    made.insert(nodes[i]->outputs.begin(), nodes[i]->outputs.end());
  }
  list_view_inputs(*view, made);
  list_view_outputs(*view);
  *out = view.release();
  return {};
}

Status metadata(const OrtGraph* graph, OrtModelMetadata** out) {
  TRY(not_null({{"graph", graph}, {"out", out}}));
  auto made = std::make_unique<OrtModelMetadata>();
  made->graph_name = graph->name;
  *out = made.release();
  return {};
}

// Nodes.

Status node_id(const OrtNode* node, size_t* out) {
  TRY(not_null({{"node", node}, {"node_id", out}}));
  *out = node->id;
  return {};
}

Status node_since(const OrtNode* node, int* out) {
  TRY(not_null({{"node", node}, {"since_version", out}}));
  *out = 0;
  if (!node->graph)
    return invalid("the node {} is in no graph, so no operator set says what it means", quote(node->name));
  for (const auto& [domain, version] : opsets_of(*node->graph))
    if (domain == node->domain) *out = since_version(domain, node->op, version);
  return {};
}

Values values_of(const OrtNode& node, const std::vector<std::string>& names) {
  Values out;
  for (const std::string& n : names) out.push_back(node.value(n));
  return out;
}
Values node_inputs(const OrtNode& node) { return values_of(node, node.inputs); }
Values node_outputs(const OrtNode& node) { return values_of(node, node.outputs); }
Values node_implicit_inputs(const OrtNode&) { return {}; }
std::vector<const OrtGraph*> node_subgraphs(const OrtNode&) { return {}; }
std::vector<const OrtOpAttr*> node_attributes(const OrtNode& node) {
  std::vector<const OrtOpAttr*> out;
  for (const auto& a : node.attributes) out.push_back(a.get());
  return out;
}

Status attribute_by_name(const OrtNode* node, const char* name, const OrtOpAttr** out) {
  TRY(not_null({{"node", node}, {"attribute_name", name}, {"attribute", out}}));
  *out = nullptr;
  for (const auto& a : node->attributes)
    if (a->attribute.name == name) *out = a.get();
  if (!*out)
    return error(static_cast<Code>(ORT_NOT_FOUND), "node {} has no attribute {}", quote(node->name), quote(name));
  return {};
}

Status subgraphs(const OrtNode* node, const OrtGraph** out, size_t room, const char**) {
  return list<node_subgraphs, OrtNode, OrtGraph>(node, out, room);
}

Status node_graph(const OrtNode* node, const OrtGraph** out) {
  TRY(not_null({{"node", node}, {"graph", out}}));
  *out = node->graph;
  return {};
}

// Null: a node has a provider once it is in a session.
Status node_provider(const OrtNode* node, const char** out) {
  TRY(not_null({{"node", node}, {"out", out}}));
  *out = nullptr;
  return {};
}

// Places in files.

Status create_external(const ORTCHAR_T* path, int64_t offset, size_t size, OrtExternalInitializerInfo** out) {
  TRY(not_null({{"filepath", path}, {"out", out}}));
  if (offset < 0) return invalid("file_offset is {}", offset);
  *out = new OrtExternalInitializerInfo{path, offset, size};
  return {};
}
const ORTCHAR_T* external_path(const OrtExternalInitializerInfo* info) noexcept {
  return info ? info->path.c_str() : "";
}
int64_t external_offset(const OrtExternalInitializerInfo* info) noexcept { return info ? info->offset : 0; }
size_t external_size(const OrtExternalInitializerInfo* info) noexcept { return info ? info->size : 0; }

void fill_values(OrtApi& api) {
  api.ReleaseValueInfo = release_part<OrtValueInfo>;
  api.GetValueInfoName = slot<text<&OrtValueInfo::name, OrtValueInfo>>;
  api.GetValueInfoTypeInfo = slot<type_of_value>;
  api.ValueInfo_GetValueProducer = slot<producer>;
  api.ValueInfo_GetValueNumConsumers = slot<count<uses_of, OrtValueInfo>>;
  api.ValueInfo_GetValueConsumers = slot<consumers>;
  api.ValueInfo_GetInitializerValue = slot<initializer_value>;
  api.ValueInfo_GetExternalInitializerInfo = slot<external_info>;
  api.ValueInfo_IsRequiredGraphInput = slot<answer<is_required>>;
  api.ValueInfo_IsOptionalGraphInput = slot<answer<is_optional>>;
  api.ValueInfo_IsGraphOutput = slot<answer<is_output>>;
  api.ValueInfo_IsConstantInitializer = slot<answer<is_constant>>;
  api.ValueInfo_IsFromOuterScope = slot<answer<is_outer>>;
  api.CreateExternalInitializerInfo = slot<create_external>;
  api.ReleaseExternalInitializerInfo = release<OrtExternalInitializerInfo>;
  api.ExternalInitializerInfo_GetFilePath = external_path;
  api.ExternalInitializerInfo_GetFileOffset = external_offset;
  api.ExternalInitializerInfo_GetByteSize = external_size;
}

void fill_nodes(OrtApi& api) {
  api.ReleaseNode = release_part<OrtNode>;
  api.Node_GetId = slot<node_id>;
  api.Node_GetName = slot<text<&OrtNode::name, OrtNode>>;
  api.Node_GetOperatorType = slot<text<&OrtNode::op, OrtNode>>;
  api.Node_GetDomain = slot<text<&OrtNode::domain, OrtNode>>;
  api.Node_GetSinceVersion = slot<node_since>;
  api.Node_GetNumInputs = slot<count<node_inputs, OrtNode>>;
  api.Node_GetInputs = slot<list<node_inputs, OrtNode, OrtValueInfo>>;
  api.Node_GetNumOutputs = slot<count<node_outputs, OrtNode>>;
  api.Node_GetOutputs = slot<list<node_outputs, OrtNode, OrtValueInfo>>;
  api.Node_GetNumImplicitInputs = slot<count<node_implicit_inputs, OrtNode>>;
  api.Node_GetImplicitInputs = slot<list<node_implicit_inputs, OrtNode, OrtValueInfo>>;
  api.Node_GetNumAttributes = slot<count<node_attributes, OrtNode>>;
  api.Node_GetAttributes = slot<list<node_attributes, OrtNode, OrtOpAttr>>;
  api.Node_GetAttributeByName = slot<attribute_by_name>;
  api.Node_GetNumSubgraphs = slot<count<node_subgraphs, OrtNode>>;
  api.Node_GetSubgraphs = slot<subgraphs>;
  api.Node_GetGraph = slot<node_graph>;
  api.Node_GetEpName = slot<node_provider>;
}

}  // namespace

void fill_graph(OrtApi& api) {
  fill_values(api);
  fill_nodes(api);
  api.ReleaseGraph = release_graph;
  api.ReleaseModel = release<OrtModel>;
  api.Graph_GetName = slot<text<&OrtGraph::name, OrtGraph>>;
  api.Graph_GetModelPath = slot<model_path>;
  api.Graph_GetOnnxIRVersion = slot<ir_version>;
  api.Graph_GetNumOperatorSets = slot<count<opsets_of, OrtGraph>>;
  api.Graph_GetOperatorSets = slot<opsets>;
  api.Graph_GetNumInputs = slot<count<graph_inputs, OrtGraph>>;
  api.Graph_GetInputs = slot<list<graph_inputs, OrtGraph, OrtValueInfo>>;
  api.Graph_GetNumOutputs = slot<count<graph_outputs, OrtGraph>>;
  api.Graph_GetOutputs = slot<list<graph_outputs, OrtGraph, OrtValueInfo>>;
  api.Graph_GetNumInitializers = slot<count<graph_initializers, OrtGraph>>;
  api.Graph_GetInitializers = slot<list<graph_initializers, OrtGraph, OrtValueInfo>>;
  api.Graph_GetNumNodes = slot<count<graph_nodes, OrtGraph>>;
  api.Graph_GetNodes = slot<list<graph_nodes, OrtGraph, OrtNode>>;
  api.Graph_GetParentNode = slot<parent_node>;
  api.Graph_GetGraphView = slot<graph_view>;
  api.Graph_GetModelMetadata = slot<metadata>;
}

}  // namespace tessera::capi
