#include "session/load_steps.h"

#include <algorithm>

#include "formats/onnx/reader.h"
#include "formats/ort/reader.h"
#include "ir/inline.h"
#include "ir/patch.h"

namespace tessera {
namespace {

// By content, unless the user says what it is.
Result<bool> is_ort(const Bytes& bytes, const SessionOptions& options) {
  const auto it = options.config.find("session.load_model_format");
  if (it == options.config.end() || it->second.empty()) return ort::is_ort_model(bytes);
  if (it->second == "ORT") return true;
  if (it->second == "ONNX") return false;
  return invalid("session.load_model_format is {}, wanted ONNX or ORT", quote(it->second));
}

// Makes values of the main graph outputs of the model: those named in "session.tapped_values", one per line, or every
// output of a node for "*".
Status tap_values(ir::Graph& graph, const SessionOptions& options) {
  const auto it = options.config.find("session.tapped_values");
  if (it == options.config.end() || it->second.empty()) return {};
  ir::Annotator edit(graph);
  if (it->second == "*") {
    TRY_ASSIGN(order, ir::topological_order(graph));
    for (const ir::NodeId n : order)
      for (const ir::ValueId v : graph.node(n).outputs)
        if (v != ir::kNone && !graph.value(v).name.empty()) edit.add_output(v);
    return {};
  }
  const std::string& names = it->second;
  for (size_t begin = 0; begin <= names.size();) {
    const size_t end = std::min(names.find('\n', begin), names.size());
    const std::string name = names.substr(begin, end - begin);
    const ir::ValueId id = graph.find(name);
    if (id == ir::kNone) return invalid("session.tapped_values: the model has no value {}", quote(name));
    edit.add_output(id);
    begin = end + 1;
  }
  return {};
}

}  // namespace

Result<Model> read_either(BytesPtr bytes, ExternalData& external, const SessionOptions& options,
                          ort::KernelTypesOf* standard, std::shared_ptr<DimPool> dims) {
  TRY_ASSIGN(from_ort, is_ort(*bytes, options));
  return from_ort ? ort::read_model(std::move(bytes), external, std::move(dims), standard)
                  : onnx::read_model(std::move(bytes), external, std::move(dims));
}

Status read_graph(BytesPtr bytes, ExternalData& external, const SessionOptions& options, ort::KernelTypesOf* standard,
                  LoadedModel& out, PhaseTimer& timer) {
  auto dims = std::make_shared<DimPool>();
  for (const auto& [name, size] : options.free_dimensions) dims->fix(name, size);
  TRY_ASSIGN(model, read_either(std::move(bytes), external, options, standard, std::move(dims)));
  out.model = std::move(model);
  TRY(external.check_given());
  timer.lap(out.phase_ns.parse);
  TRY(ir::inline_functions(out.model));
  return tap_values(*out.model.graph, options);
}

Status make_plan(std::span<const ir::NodeId> order, const ExternalData& external, const PackFile* packs,
                 const SessionOptions& options, LoadedModel& out, PhaseTimer& timer) {
  PlanOptions plan_options;
  plan_options.order = order;
  plan_options.packs = packs;
  const auto& disabled = options.disabled_rewrites;
  plan_options.keep_wide =
      options.optimization_level > 0 && std::find(disabled.begin(), disabled.end(), "keep_wide") == disabled.end();
  plan_options.pack = options.pack_weights;
  plan_options.threads = options.threads > 0 ? options.threads : usable_processors();
  plan_options.cancel = options.cancel_load.get();
  TRY_ASSIGN(plan, Plan::build(out.model.graph, plan_options, out.counters));
  out.plan = std::move(plan);
  ir::Annotator(*out.model.graph).forget_passing_weights();
  out.counters += external.counters();
  timer.lap(out.phase_ns.plan);
  return {};
}

}  // namespace tessera
