// How many inputs and outputs a node may have: what kernels and shape functions rely on, in libraries with and without
// the standard's signatures. ONNX Runtime's own operators look at it themselves when they are parsed.
#pragma once
#include "ir/graph.h"

namespace tessera {

// Of a node of an operator of ONNX or of rewritten graphs, in its current form; others are fine.
Status check_arity(const ir::Node& node);

}  // namespace tessera
