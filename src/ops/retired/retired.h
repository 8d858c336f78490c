// Operators that were experimental in operator sets 1 to 9 and left the standard with 10. It keeps no signature of
// them: what a node must have is checked here.
#pragma once
#include "ops/op.h"

namespace tessera {

inline Status check_retired(const Attrs& a, size_t least_inputs, size_t most_inputs) {
  constexpr int kRemoved = 10;
  const ir::Node& n = a.node();
  if (n.version >= kRemoved) return invalid_graph("the operator is no longer part of operator set {}", n.version);
  if (n.inputs.size() < least_inputs || n.inputs.size() > most_inputs)
    return invalid_graph("it has {} inputs, wanted {} to {}", n.inputs.size(), least_inputs, most_inputs);
  if (n.outputs.size() != 1) return invalid_graph("it has {} outputs, wanted 1", n.outputs.size());
  for (size_t i = 0; i < least_inputs; ++i)
    if (n.inputs[i] == ir::kNone) return invalid_graph("its input {} is absent, but not optional", i);
  return {};
}

inline constexpr int16_t kRetiredVersions[] = {1};

}  // namespace tessera
