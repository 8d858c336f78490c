#include "session/optimize.h"

#include <algorithm>

#include "passes/rewrite.h"
#include "session/fold_constants.h"

namespace tessera {

Status optimize(ir::Graph& graph, const SessionOptions& options, LoadedModel& out) {
  const auto& disabled = options.disabled_rewrites;
  int64_t folded = 0;
  if (options.optimization_level > 0 && options.most_rewrites > 0 &&
      std::find(disabled.begin(), disabled.end(), "fold_constants") == disabled.end()) {
    TRY_ASSIGN(count, fold_constants(graph, options));
    folded = count;
  }
  TRY_ASSIGN(rewrites,
             rewrite(graph, rewrite_rules(),
                     {options.optimization_level, options.disabled_rewrites, options.most_rewrites, options.rewrites}));
  out.rewrites = std::move(rewrites);
  if (folded) out.rewrites["fold_constants"] = folded;
  return {};
}

}  // namespace tessera
