// Loading without signatures, inference or rewrites: nodes in file order, shapes found when inputs arrive.
#include "formats/onnx/reader.h"
#include "ir/inline.h"
#include "ops/resolve.h"
#include "runtime/profile.h"
#include "session/load.h"

namespace tessera {

Result<LoadedModel> load_model(BytesPtr bytes, ExternalData& external, const SessionOptions& options) {
  LoadedModel out;
  int64_t at = now_ns();
  const auto lap = [&](int64_t& phase) {
    const int64_t now = now_ns();
    phase = now - at;
    at = now;
  };
  auto dims = std::make_shared<DimPool>();
  for (const auto& [name, size] : options.free_dimensions) dims->fix(name, size);
  TRY_ASSIGN(model, onnx::read_model(std::move(bytes), external, std::move(dims)));
  out.model = std::move(model);
  lap(out.phase_ns.parse);
  ir::Graph& graph = *out.model.graph;
  TRY(ir::inline_functions(out.model));
  TRY(resolve(graph));
  lap(out.phase_ns.resolve);
  TRY_ASSIGN(order, ir::topological_order(graph));
  lap(out.phase_ns.order);
  PlanOptions plan_options;
  plan_options.order = order;
  TRY_ASSIGN(plan, Plan::build(out.model.graph, plan_options, out.counters));
  out.plan = std::move(plan);
  out.counters += external.counters();
  lap(out.phase_ns.plan);
  return out;
}

}  // namespace tessera
