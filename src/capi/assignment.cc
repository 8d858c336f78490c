// Which provider runs which node, and what a model says about the providers it was compiled for.
#include "base/file.h"
#include "capi/allocator.h"
#include "capi/guard.h"
#include "capi/session.h"
#include "capi/topics.h"

struct OrtEpAssignedNode {
  std::string name, domain, op;
};

// Every node of the CPU is one of its own.
struct OrtEpAssignedSubgraph {
  OrtEpAssignedNode node;
  const OrtEpAssignedNode* nodes[1];
};

namespace tessera::capi {
namespace {

constexpr char kRecord[] = "session.record_ep_graph_assignment_info";
constexpr char kCompatibility[] = "ep_compatibility_info.";

std::unique_ptr<Assignments> assignments_of(const ir::Graph& graph) {
  auto made = std::make_unique<Assignments>();
  for (const ir::Node& n : graph.nodes()) {
    if (n.dead) continue;
    auto one = std::make_shared<OrtEpAssignedSubgraph>(OrtEpAssignedSubgraph{{n.name, n.domain, n.op_type}, {}});
    one->nodes[0] = &one->node;
    made->list.push_back(one.get());
    made->owned.push_back(std::move(one));
  }
  return made;
}

Status assignment(const OrtSession* session, const OrtEpAssignedSubgraph* const** out, size_t* count) {
  TRY(not_null({{"session", session}, {"ep_subgraphs", out}, {"num_ep_subgraphs", count}}));
  TRY(check_ready(*session));
  const auto& config = session->session->options().config;
  const auto wish = config.find(kRecord);
  if (wish == config.end() || wish->second != "1")
    return error(Code::fail, "nothing was recorded; set the session's config entry {} to \"1\"", kRecord);
  std::call_once(session->assigned_once, [&] { session->assigned = assignments_of(*session->session->model().graph); });
  *out = session->assigned->list.data();
  *count = session->assigned->list.size();
  return {};
}

Status provider(const OrtEpAssignedSubgraph* subgraph, const char** out) {
  TRY(not_null({{"ep_subgraph", subgraph}, {"out", out}}));
  *out = "CPUExecutionProvider";
  return {};
}

Status nodes(const OrtEpAssignedSubgraph* subgraph, const OrtEpAssignedNode* const** out, size_t* count) {
  TRY(not_null({{"ep_subgraph", subgraph}, {"ep_nodes", out}, {"num_ep_nodes", count}}));
  *out = subgraph->nodes;
  *count = 1;
  return {};
}

template <auto Member>
Status text(const OrtEpAssignedNode* node, const char** out) {
  TRY(not_null({{"ep_node", node}, {"out", out}}));
  *out = (node->*Member).c_str();
  return {};
}

// Null where the model says nothing.
Status give_compatibility(BytesPtr bytes, const std::string& folder, const char* provider, OrtAllocator* allocator,
                          char** out) {
  if (!*provider) return invalid("ep_type is empty");
  TRY_ASSIGN(model, EditableModel::read(std::move(bytes), folder, {}));
  *out = nullptr;
  for (const auto& [key, value] : model.model().metadata)
    if (key == std::string(kCompatibility) + provider) return give_text(allocator, value, out);
  return {};
}

Status compatibility(const ORTCHAR_T* path, const char* provider, OrtAllocator* allocator, char** out) {
  TRY(not_null({{"model_path", path}, {"ep_type", provider}, {"allocator", allocator}, {"compatibility_info", out}}));
  TRY_ASSIGN(bytes, map_file(path));
  return give_compatibility(std::move(bytes), folder_of(path), provider, allocator, out).in(quote(path));
}

Status compatibility_of_bytes(const void* data, size_t size, const char* provider, OrtAllocator* allocator,
                              char** out) {
  TRY(not_null({{"model_data", data}, {"ep_type", provider}, {"allocator", allocator}, {"compatibility_info", out}}));
  if (size == 0) return invalid("the model has 0 bytes");
  return give_compatibility(borrow_bytes(data, size), {}, provider, allocator, out);
}

}  // namespace

void fill_assignment(OrtApi& api) {
  api.Session_GetEpGraphAssignmentInfo = slot<assignment>;
  api.EpAssignedSubgraph_GetEpName = slot<provider>;
  api.EpAssignedSubgraph_GetNodes = slot<nodes>;
  api.EpAssignedNode_GetName = slot<text<&OrtEpAssignedNode::name>>;
  api.EpAssignedNode_GetDomain = slot<text<&OrtEpAssignedNode::domain>>;
  api.EpAssignedNode_GetOperatorType = slot<text<&OrtEpAssignedNode::op>>;
  api.GetCompatibilityInfoFromModel = slot<compatibility>;
  api.GetCompatibilityInfoFromModelBytes = slot<compatibility_of_bytes>;
}

}  // namespace tessera::capi
