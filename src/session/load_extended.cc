// Loading with inference and rewrites, but without the standard's signatures and in file order.
#include "passes/infer.h"
#include "session/load_steps.h"
#include "session/optimize.h"
#include "session/resolve_here.h"

namespace tessera {

Result<LoadedModel> load_model(BytesPtr bytes, ExternalData& external, const PackFile* packs,
                               const SessionOptions& options) {
  LoadedModel out;
  PhaseTimer timer;
  TRY(read_graph(std::move(bytes), external, options, nullptr, out, timer));
  ir::Graph& graph = *out.model.graph;
  TRY(resolve_here(graph, options));
  timer.lap(out.phase_ns.resolve);
  TRY(infer(graph));
  TRY(start_custom(graph));
  timer.lap(out.phase_ns.infer);
  TRY(optimize(graph, options, out));
  timer.lap(out.phase_ns.rewrite);
  TRY_ASSIGN(order, ir::topological_order(graph));
  timer.lap(out.phase_ns.order);
  TRY(make_plan(order, external, packs, options, out, timer));
  return out;
}

}  // namespace tessera
