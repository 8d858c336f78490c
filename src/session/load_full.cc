// Loading with everything: checks against the standard's signatures, inference over symbols, an order chosen for
// memory.
#include "ops/resolve.h"
#include "passes/check_signatures.h"
#include "passes/infer.h"
#include "runtime/order_problem.h"
#include "session/load_steps.h"
#include "session/optimize.h"

namespace tessera {

Result<LoadedModel> load_model(BytesPtr bytes, ExternalData& external, const PackFile* packs,
                               const SessionOptions& options) {
  LoadedModel out;
  PhaseTimer timer;
  TRY(read_graph(std::move(bytes), external, options, &ort::kernel_types, out, timer));
  ir::Graph& graph = *out.model.graph;
  TRY(check_signatures(graph, options.custom_ops));
  TRY(resolve(graph, {.extra = options.custom_ops, .allow_newer = options.allow_newer_opsets}));
  timer.lap(out.phase_ns.resolve);
  TRY(infer(graph));
  TRY(start_custom(graph));
  timer.lap(out.phase_ns.infer);
  TRY(optimize(graph, options, out));
  timer.lap(out.phase_ns.rewrite);
  TRY_ASSIGN(order, choose_graph_order(graph, options.order));
  out.order_chosen_by = order.chosen_by;
  out.planned_peak = order.peak_bytes;
  timer.lap(out.phase_ns.order);
  TRY(make_plan(order.nodes, external, packs, options, out, timer));
  return out;
}

}  // namespace tessera
