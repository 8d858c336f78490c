// Nodes that read constants alone are run once, at load.
#pragma once
#include "ir/graph.h"
#include "session/options.h"

namespace tessera {

// Puts constants in the place of such nodes, here and in subgraphs, and tells how many went. A node stays if its result
// would take more memory than what it reads, if that is large, if it dequantises, or if running it fails.
Result<int64_t> fold_constants(ir::Graph& graph, const SessionOptions& options);

}  // namespace tessera
