// Ways to order a Dag. Each is deterministic, needs no recursion, and adds the elementary steps it took to `work`.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/order_dag.h"

namespace tessera::order {

using Nodes = std::vector<int32_t>;

// Lowest `rank` first among the nodes whose dependencies have run. Nodes on a cycle are left out.
Nodes kahn(const Table& preds, const Table& succs, std::span<const int64_t> rank);

// Depth first from the sinks against the edges, highest index first, a node after all it depends on.
Nodes reverse_dfs(const Table& preds, const Table& succs);

// Depth first from the sinks: of a node's inputs the one whose subtree needs most beyond what it leaves goes first.
// Best possible among depth-first orders of a tree.
Nodes liu(const Dag& dag, int64_t& work);
// The same on the reversed dag: best for trees that fan out.
Nodes liu_backward(const Dag& dag, int64_t& work);

// From the first step on, the ready node that adds least.
Nodes greedy_forward(const Dag& dag, int64_t& work);
// From the last step back, the node before which least is live; makes every source run as late as it can.
Nodes greedy_backward(const Dag& dag, int64_t& work);

// The best order, by dynamic programming over the sets of nodes that can have run. Needs nodes <= kExactNodes.
inline constexpr int32_t kExactNodes = 14;
Nodes exact(const Dag& dag, int64_t& work);

// The order with nodes moved to where they hold less, back and forth, as long as that lowers the peak; never worse.
// Looks for more than the obvious until `budget` steps are spent or the peak is down to `bound`.
Nodes settle(const Dag& dag, Nodes order, int64_t bound, int64_t budget, int64_t& work);

// Searches for an order with a peak below `peak` for about `budget` steps; empty if it finds none. No order is below
// `bound`.
Nodes improve(const Dag& dag, int64_t peak, int64_t bound, int64_t budget, int64_t& work);

}  // namespace tessera::order
