// Operators that a small library was linked without.
#pragma once
#include "ir/graph.h"
#include "session/options.h"

namespace tessera {

// Resolves the graph. If the library lacks operators of it, the error names all of them and what to do.
Status resolve_or_list_missing(ir::Graph& graph, const SessionOptions& options);

}  // namespace tessera
