#include "capi/extension_insight.h"

#include "capi/allocator.h"
#include "capi/guard.h"
#include "capi/profiling.h"
#include "capi/run.h"
#include "capi/session.h"

namespace tessera::capi {
namespace {

std::string names_of(const ir::Graph& graph, const std::vector<ir::ValueId>& values) {
  std::string out;
  for (const ir::ValueId v : values)
    out += (out.empty() ? "" : ",") + json(v == ir::kNone ? std::string() : graph.value(v).name);
  return "[" + out + "]";
}

}  // namespace

Status nodes(const OrtSession* session, OrtAllocator* allocator, char** out) {
  TRY(not_null({{"session", session}, {"allocator", allocator}, {"json", out}}));
  const ir::Graph& graph = *session->session->model().graph;
  TRY_ASSIGN(order, ir::topological_order(graph));
  std::string text;
  for (const ir::NodeId id : order) {
    const ir::Node& n = graph.node(id);
    text +=
        format(R"({}{"name":{},"op":{},"domain":{},"inputs":{},"outputs":{}})", text.empty() ? "" : ",\n", json(n.name),
               json(n.op_type), json(n.domain), names_of(graph, n.inputs), names_of(graph, n.outputs));
  }
  return give_text(allocator, "[" + text + "]", out);
}

Status run_timed(OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                 const OrtValue* const* inputs, size_t input_count, const char* const* output_names,
                 size_t output_count, OrtValue** outputs, OrtAllocator* allocator, char** out) {
  TRY(not_null({{"session", session}, {"allocator", allocator}, {"json", out}}));
  Profile profile;
  const int64_t start = now_ns();
  TRY(run_arrays(session, options, input_names, inputs, input_count, output_names, output_count, outputs, &profile));
  std::string text = format(R"([{"name":"model_run","start":0,"duration":{}})", profile.total_ns);
  for (const ProfileEntry& e : profile.entries)
    text += format(R"(,{"name":{},"op":{},"start":{},"duration":{}})", json(e.node), json(e.op), e.start_ns - start,
                   e.duration_ns);
  return give_text(allocator, text + "]", out);
}

}  // namespace tessera::capi
