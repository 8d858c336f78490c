// What a session asks of the rewrites.
#pragma once
#include <optional>

namespace tessera {

struct RewriteSettings {
  bool keep_qdq = false;  // leave quantised models in the form they have
  // Of products with block-quantised weights: 0 and 1 exact, 4 with activations of 8 bits. Nothing: as the rule
  // chooses.
  std::optional<int> accuracy_level;
};

}  // namespace tessera
