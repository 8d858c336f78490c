// What loading does to make a model faster.
#pragma once
#include "session/load.h"

namespace tessera {

// Folds constants and applies the rewrites that the options allow to a resolved and inferred graph; out.rewrites says
// which and how often.
Status optimize(ir::Graph& graph, const SessionOptions& options, LoadedModel& out);

}  // namespace tessera
