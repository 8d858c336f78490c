// Replacing calls of functions by their bodies.
#pragma once
#include "ir/graph.h"

namespace tessera::ir {

// Puts the body of `function` in place of the call `node`: attributes that refer to the caller's take its values, names
// inside get the call's name as a prefix.
Status inline_call(Graph& graph, NodeId node, const Function& function);

// Inlines every call of the model's own functions, in the graph and its subgraphs. Refuses functions that call
// themselves, and models that would grow beyond max(1,000,000, 64 x nodes in the file) nodes.
Status inline_functions(Model& model);

}  // namespace tessera::ir
