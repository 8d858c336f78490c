// Loading without signatures, inference or rewrites: nodes in file order, shapes found when inputs arrive.
#include "session/load_steps.h"
#include "session/resolve_here.h"

namespace tessera {

Result<LoadedModel> load_model(BytesPtr bytes, ExternalData& external, const PackFile* packs,
                               const SessionOptions& options) {
  LoadedModel out;
  PhaseTimer timer;
  TRY(read_graph(std::move(bytes), external, options, nullptr, out, timer));
  TRY(resolve_here(*out.model.graph, options));
  TRY(start_custom(*out.model.graph));
  timer.lap(out.phase_ns.resolve);
  TRY_ASSIGN(order, ir::topological_order(*out.model.graph));
  timer.lap(out.phase_ns.order);
  TRY(make_plan(order, external, packs, options, out, timer));
  return out;
}

}  // namespace tessera
