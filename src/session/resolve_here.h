// Resolving in libraries that have some operators only.
#pragma once
#include "ir/graph.h"
#include "session/options.h"

namespace tessera {

// Resolves the graph. Where this library was linked without operators that it needs, the error names all of them and
// says what to do.
Status resolve_here(ir::Graph& graph, const SessionOptions& options);

}  // namespace tessera
