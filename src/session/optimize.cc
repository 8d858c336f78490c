#include "session/optimize.h"

#include <algorithm>
#include <string_view>

#include "passes/lift_invariants.h"
#include "passes/rewrite.h"
#include "session/fold_constants.h"

namespace tessera {

Status optimize(ir::Graph& graph, const SessionOptions& options, LoadedModel& out) {
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
  return {};
}

}  // namespace tessera
