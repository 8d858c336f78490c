// Loading without signatures, inference or rewrites: nodes in file order, shapes found when inputs arrive.
#include "ops/resolve.h"
#include "session/edit_model.h"
#include "session/load_steps.h"

namespace tessera {

Result<LoadedModel> load_model(BytesPtr bytes, ExternalData& external, const PackFile* packs,
                               const SessionOptions& options) {
  LoadedModel out;
  PhaseTimer timer;
  TRY(read_graph(std::move(bytes), external, options, nullptr, out, timer));
  TRY(resolve(*out.model.graph, {.extra = options.custom_ops, .allow_newer = options.allow_newer_opsets}));
  TRY(start_custom(*out.model.graph));
  timer.lap(out.phase_ns.resolve);
  TRY_ASSIGN(order, ir::topological_order(*out.model.graph));
  timer.lap(out.phase_ns.order);
  TRY(make_plan(order, external, packs, options, out, timer));
  return out;
}

Status save_as_asked(const BytesPtr&, ExternalData&, const std::string&, const SessionOptions& options,
                     std::vector<std::string>&) {
  if (options.optimized_model_path.empty()) return {};
  return not_implemented("this library is built without writing models");
}

Result<BytesPtr> write_edited(const Model&, std::map<std::string, BytesPtr>&) {
  return not_implemented("this library is built without making models; use the full library");
}

Result<std::string> write_placed(const Model&, const std::map<std::string, WeightPlace>&) {
  return not_implemented("this library is built without writing models");
}

Status write_packs_of(const Plan&, const std::string&, const Workers&) {
  return not_implemented("this library is built without writing pack files");
}

}  // namespace tessera
