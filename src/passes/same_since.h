// Operators whose form has not changed between operator sets.
#pragma once
#include "ops/op.h"

namespace tessera {

// True if the operator has the arguments and attributes in operator set `opset` that it has today: what has changed is
// the element types it takes.
bool is_same_since(const Op& op, int opset);

}  // namespace tessera
