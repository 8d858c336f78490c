#include "session/load_steps.h"

#include <algorithm>

#include "formats/onnx/reader.h"
#include "ir/inline.h"
#include "ir/patch.h"

namespace tessera {

Status read_graph(BytesPtr bytes, ExternalData& external, const SessionOptions& options, LoadedModel& out,
                  PhaseTimer& timer) {
  auto dims = std::make_shared<DimPool>();
  for (const auto& [name, size] : options.free_dimensions) dims->fix(name, size);
  TRY_ASSIGN(model, onnx::read_model(std::move(bytes), external, std::move(dims)));
  out.model = std::move(model);
  TRY(external.check_given());
  timer.lap(out.phase_ns.parse);
  return ir::inline_functions(out.model);
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
