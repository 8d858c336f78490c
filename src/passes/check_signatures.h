// Checks every node against the standard's signature of its operator: number of inputs and outputs, attribute names and
// types. Operators the standard does not know are left to their own parsing, and so are those that a
// program added.
#pragma once
#include "ops/custom.h"

namespace tessera {

Status check_signatures(const ir::Graph& graph, std::span<const std::shared_ptr<const CustomOp>> custom = {});

}  // namespace tessera
