// Loading with everything: checks against the standard's signatures, inference over symbols, an order chosen for
// memory.
#include <algorithm>

#include "ops/resolve.h"
#include "passes/check_signatures.h"
#include "passes/infer.h"
#include "passes/lift_invariants.h"
#include "passes/rewrite.h"
#include "runtime/order_problem.h"
#include "session/fold_constants.h"
#include "session/load_steps.h"

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
  const auto wants = [&](std::string_view pass) {
    const auto& disabled = options.disabled_rewrites;
    return options.optimization_level > 0 && options.most_rewrites > 0 &&
           std::find(disabled.begin(), disabled.end(), pass) == disabled.end();
  };
  const int64_t lifted = wants("lift_invariants") ? lift_invariants(graph) : 0;
  int64_t folded = 0;
  if (wants("fold_constants")) {
    TRY_ASSIGN(count, fold_constants(graph, options));
    folded = count;
  }
  TRY_ASSIGN(rewrites,
             rewrite(graph, rewrite_rules(),
                     {options.optimization_level, options.disabled_rewrites, options.most_rewrites, options.rewrites}));
  out.rewrites = std::move(rewrites);
  if (lifted) out.rewrites["lift_invariants"] = lifted;
  if (folded) out.rewrites["fold_constants"] = folded;
  timer.lap(out.phase_ns.rewrite);
  TRY_ASSIGN(order, choose_graph_order(graph, options.order));
  out.order_chosen_by = order.chosen_by;
  out.planned_peak = order.peak_bytes;
  timer.lap(out.phase_ns.order);
  TRY(make_plan(order.nodes, external, packs, options, out, timer));
  return out;
}

}  // namespace tessera
