// A state that the body of a Loop or Scan hands on as it came is a value of the enclosing graph.
#pragma once
#include "ir/graph.h"

namespace tessera {

// Lets such bodies read the enclosing graph's value, here and in subgraphs: what is constant there is constant in the
// body too, to be folded and packed once. The state itself stays. Tells how many states were lifted.
int64_t lift_invariants(ir::Graph& graph);

}  // namespace tessera
