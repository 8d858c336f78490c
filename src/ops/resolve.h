// Binding nodes to operators: version chosen, old forms brought to the current one, attributes parsed. After this, no
// version number matters to anybody.
#pragma once
#include "ir/graph.h"
#include "ops/custom.h"

namespace tessera {

struct ResolveOptions {
  // Operators beside the built-in ones (custom operators of a session); looked at first.
  std::span<const std::shared_ptr<const CustomOp>> extra = {};
  ir::NodeId first = 0;      // nodes before this one are resolved already
  bool allow_newer = false;  // operator sets newer than kNewestOpset are taken for it
};

// Resolves every node of `graph` and of its subgraphs that is not resolved yet. Composed operators are unfolded.
Status resolve(ir::Graph& graph, const ResolveOptions& options = {});

// The newest ai.onnx operator set this library speaks.
inline constexpr int kNewestOpset = 28;

}  // namespace tessera
