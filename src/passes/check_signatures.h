// Checks every node against the standard's signature of its operator: number of inputs and outputs, attribute names and
// types. Operators the standard does not know are left to their own parsing.
#pragma once
#include "ir/graph.h"

namespace tessera {

Status check_signatures(const ir::Graph& graph);

}  // namespace tessera
