// The execution order of a graph: its nodes and sizes as an OrderProblem, solved.
#pragma once
#include <vector>

#include "ir/graph.h"
#include "runtime/order.h"

namespace tessera {

struct GraphOrder {
  std::vector<ir::NodeId> nodes;
  int64_t peak_bytes = 0;
  const char* chosen_by = "";
};

// Symbolic dimensions count as if they were kAssumedDim.
inline constexpr int64_t kAssumedDim = 64;
Result<GraphOrder> choose_graph_order(const ir::Graph& graph, ExecutionOrder order);

}  // namespace tessera
