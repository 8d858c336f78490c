// Type and symbolic shape inference over a resolved graph and its subgraphs.
#pragma once
#include "ir/graph.h"

namespace tessera {

// Fills in the facts of every value. A contradiction with what the model declares is an error that names the node.
Status infer(ir::Graph& graph);
// Likewise for the outputs of one node, whose inputs have their facts.
Status infer_node(ir::Graph& graph, ir::NodeId node);
// Notes the elements of a small constant in its fact.
void infer_constant(ir::Graph& graph, ir::ValueId constant);

}  // namespace tessera
