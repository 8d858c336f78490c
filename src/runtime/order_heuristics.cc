// Orders found in one walk over the dag.
#include <algorithm>
#include <queue>
#include <tuple>

#include "runtime/order_search.h"
#include "runtime/order_state.h"

namespace tessera::order {
namespace {

// Each node after all its children, depth first, rows and roots taken from left to right.
Nodes postorder(const Table& children, std::span<const int32_t> roots) {
  struct Frame {
    int32_t node, next;
  };
  Nodes order;
  std::vector<uint8_t> seen(size_t(children.rows()), 0);
  std::vector<Frame> stack;
  const auto enter = [&](int32_t v) {
    if (seen[v]) return;
    seen[v] = 1;
    stack.push_back({v, children.begin[v]});
  };
  order.reserve(seen.size());
  for (int32_t root : roots) {
    enter(root);
    while (!stack.empty()) {
      Frame& top = stack.back();
      if (top.next < children.begin[top.node + 1]) {
        enter(children.items[top.next++]);
      } else {
        order.push_back(top.node);
        stack.pop_back();
      }
    }
  }
  return order;
}

Nodes rows_without_items(const Table& table) {
  Nodes rows;
  for (int32_t v = 0; v < table.rows(); ++v) {
    if (table.count(v) == 0) rows.push_back(v);
  }
  return rows;
}

// The depth-first order of Liu: a subtree leaves `residual` and its root needs `own` on top of what its children leave.
// `upward` tells in which direction of the numbering children come first.
Nodes liu_postorder(Table children, const Table& parents, bool upward, std::span<const int64_t> residual,
                    std::span<const int64_t> own, int64_t& work) {
  const int32_t nodes = children.rows();
  std::vector<int64_t> excess(size_t(nodes), 0);  // peak of the subtree less its residual
  const auto most_excess_first = [&](int32_t a, int32_t b) {
    return excess[a] != excess[b] ? excess[a] > excess[b] : a < b;
  };
  for (int32_t i = 0; i < nodes; ++i) {
    const int32_t v = upward ? i : nodes - 1 - i;
    const auto kids = children.items.begin() + children.begin[v], end = children.items.begin() + children.begin[v + 1];
    std::sort(kids, end, most_excess_first);
    int64_t left = 0, peak = 0;
    for (auto kid = kids; kid != end; ++kid) {
      left += residual[*kid];
      peak = std::max(peak, left + excess[*kid]);
    }
    excess[v] = std::max(peak, left + own[v]) - residual[v];
  }
  Nodes roots = rows_without_items(parents);
  std::sort(roots.begin(), roots.end(), most_excess_first);
  work += 2 * (nodes + int64_t(children.items.size()));
  return postorder(children, roots);
}

// Takes the ready node with the least delta until none is left.
template <bool kForward>
Nodes greedy(const Dag& dag, int64_t& work) {
  using Entry = std::tuple<int64_t, int64_t, int32_t>;  // an entry whose delta is no longer true is stale
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> heap;
  State<kForward> state(dag, work);
  const auto push = [&](int32_t v) {
    if (state.ready(v)) heap.push({state.delta(v), state.during(v) - state.live(), kForward ? v : -v});
  };
  for (int32_t v : state.ready()) push(v);
  while (!heap.empty()) {
    const auto [delta, room, label] = heap.top();
    const int32_t v = kForward ? label : -label;
    heap.pop();
    ++work;
    if (!state.ready(v) || delta != state.delta(v)) continue;
    state.touched.clear();
    state.take(v);
    for (int32_t u : state.touched) push(u);
  }
  return state.order();
}

}  // namespace

Nodes kahn(const Table& preds, const Table& succs, std::span<const int64_t> rank) {
  using Entry = std::pair<int64_t, int32_t>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<Entry>> ready;
  std::vector<int32_t> missing(size_t(preds.rows()));
  for (int32_t v = 0; v < preds.rows(); ++v) {
    if ((missing[v] = preds.count(v)) == 0) ready.push({rank[v], v});
  }
  Nodes order;
  order.reserve(missing.size());
  while (!ready.empty()) {
    const int32_t v = ready.top().second;
    ready.pop();
    order.push_back(v);
    for (int32_t s : succs[v]) {
      if (--missing[s] == 0) ready.push({rank[s], s});
    }
  }
  return order;
}

Nodes reverse_dfs(const Table& preds, const Table& succs) {
  Table children = preds;
  for (int32_t v = 0; v < children.rows(); ++v) {
    std::sort(children.items.begin() + children.begin[v], children.items.begin() + children.begin[v + 1],
              std::greater<>());
  }
  Nodes roots = rows_without_items(succs);
  std::reverse(roots.begin(), roots.end());
  return postorder(children, roots);
}

Nodes liu(const Dag& dag, int64_t& work) {
  std::vector<int64_t> own = dag.hill;
  for (int32_t v = 0; v < dag.nodes; ++v) {
    const int32_t b = dag.reuse[v];
    if (b >= 0 && dag.only_user(b) == v) own[v] -= dag.bytes[b];
  }
  return liu_postorder(dag.preds, dag.succs, true, dag.net, own, work);
}

Nodes liu_backward(const Dag& dag, int64_t& work) {
  std::vector<int64_t> reads(size_t(dag.nodes), 0);
  for (int32_t v = 0; v < dag.nodes; ++v) {
    for (int32_t b : dag.uses[v]) reads[v] += dag.bytes[b] / (dag.users.count(b) + dag.kept[b]);
  }
  Nodes order = liu_postorder(dag.succs, dag.preds, false, reads, reads, work);
  std::reverse(order.begin(), order.end());
  return order;
}

Nodes greedy_forward(const Dag& dag, int64_t& work) { return greedy<true>(dag, work); }

Nodes greedy_backward(const Dag& dag, int64_t& work) { return greedy<false>(dag, work); }

}  // namespace tessera::order
