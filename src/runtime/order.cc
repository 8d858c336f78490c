#include "runtime/order.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include "base/checked.h"
#include "runtime/order_dag.h"
#include "runtime/order_search.h"

namespace tessera {
namespace {

using order::Dag;
using order::Nodes;
using order::Table;

std::string name_of(const OrderProblem& p, int32_t node) {
  return p.node_name[node].empty() ? format("#{}", node) : std::string(p.node_name[node]);
}

// Sizes can be summed without a further check, and every value has one maker.
Status check(const OrderProblem& p) {
  int64_t total = 0;
  for (int64_t bytes : p.bytes) {
    if (bytes < 0 || !checked_add(total, bytes, &total))
      return invalid("order: the sizes of the values do not fit 64 bits");
  }
  std::vector<int32_t> maker(size_t(p.values), -1);
  for (int32_t i = 0; i < p.nodes; ++i) {
    for (int32_t e = p.out_begin[i]; e < p.out_begin[i + 1]; ++e) {
      const int32_t v = p.outputs[e];
      if (v < 0) continue;
      if (maker[v] >= 0) return invalid_graph("'{}' and '{}' make the same value", name_of(p, maker[v]), name_of(p, i));
      maker[v] = i;
    }
  }
  return {};
}

// Names one cycle among the nodes that `order` leaves out.
Status cycle_error(const OrderProblem& p, const Table& preds, const Nodes& order) {
  std::vector<uint8_t> ordered(size_t(p.nodes), 0), seen(size_t(p.nodes), 0);
  for (int32_t v : order) ordered[v] = 1;
  const auto blocked_pred = [&](int32_t v) {
    const auto row = preds[v];
    return *std::find_if(row.begin(), row.end(), [&](int32_t u) { return !ordered[u]; });
  };
  int32_t at = int32_t(std::find(ordered.begin(), ordered.end(), 0) - ordered.begin());
  for (; !seen[at]; at = blocked_pred(at)) seen[at] = 1;
  Nodes cycle{at};  // against the edges
  for (int32_t v = blocked_pred(at); v != at; v = blocked_pred(v)) cycle.push_back(v);
  std::string text = name_of(p, at);
  for (size_t i = cycle.size(); i-- > 0;) text += " -> " + name_of(p, cycle[i]);
  return invalid_graph("the graph has a cycle: {}", text);
}

Nodes in_sequence(int32_t count) {
  Nodes nodes(static_cast<size_t>(count));
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

bool is_sorted(const Table& preds) {
  for (int32_t v = 0; v < preds.rows(); ++v) {
    for (int32_t p : preds[v]) {
      if (p >= v) return false;
    }
  }
  return true;
}

// Nodes that read nothing but shapes before all others, each kind by index.
std::vector<int64_t> priorities(const OrderProblem& p) {
  std::vector<int64_t> rank(static_cast<size_t>(p.nodes));
  for (int32_t i = 0; i < p.nodes; ++i) {
    bool header_only = false, data = false;
    for (int32_t e = p.in_begin[i]; e < p.in_begin[i + 1]; ++e) {
      if (p.inputs[e] >= 0) (p.input_flags[e] & kHeaderOnly ? header_only : data) = true;
    }
    rank[i] = i + (header_only && !data ? 0 : int64_t(p.nodes));
  }
  return rank;
}

// The heuristics that see the structure of the graph alone, best first where they tie.
struct Heuristic {
  const char* name;
  Nodes (*run)(const Dag&, int64_t& work);
};
constexpr Heuristic kHeuristics[] = {
    {"liu", order::liu},
    {"greedy_backward", order::greedy_backward},
    {"greedy_forward", order::greedy_forward},
    {"liu_backward", order::liu_backward},
};

// Steps that settling and searching may take together.
int64_t search_budget(const Dag& dag) { return std::min(2000 * dag.size(), 2'000'000 + 16 * dag.size()); }
constexpr int64_t kLargestSearched = 20'000;  // items of a dag beyond which improve() would not go far

// The best order of a reduced dag that does not depend on the listing.
Order structural_order(const Dag& dag, int64_t bound) {
  Order best;
  best.peak_bytes = std::numeric_limits<int64_t>::max();
  Nodes chosen;
  const auto offer = [&](Nodes nodes, const char* name) {
    const int64_t peak = order::peak_of(dag, nodes);
    best.work += dag.size();
    if (peak >= best.peak_bytes) return;
    best.peak_bytes = peak;
    best.chosen_by = name;
    chosen = std::move(nodes);
  };
  const int64_t budget = search_budget(dag);
  const bool small = dag.nodes <= order::kExactNodes;
  for (const Heuristic& h : kHeuristics) {
    if (best.peak_bytes == bound) break;
    Nodes nodes = h.run(dag, best.work);
    offer(nodes, h.name);
    if (best.peak_bytes > bound && !small) {
      offer(order::settle(dag, std::move(nodes), bound, budget / 8, best.work), h.name);
    }
  }
  if (best.peak_bytes > bound && small) {
    offer(order::exact(dag, best.work), "exact");
  } else if (best.peak_bytes > bound && dag.size() <= kLargestSearched) {
    Nodes found = order::improve(dag, best.peak_bytes, bound, budget / 2, best.work);
    if (!found.empty()) offer(std::move(found), "search");
  }
  best.nodes = order::expand(dag, chosen);
  return best;
}

Order planned_order(const OrderProblem& p, Table preds, const Nodes& by_index, bool sorted) {
  const Dag dag = order::build_dag(p, std::move(preds));
  const Dag small = order::reduced(order::canonical(dag, p));
  const int64_t bound = order::lower_bound(small);
  Order best = structural_order(small, bound);
  best.work += 8 * dag.size();
  if (best.peak_bytes == bound || small.nodes <= order::kExactNodes) return best;
  const auto offer = [&](Nodes nodes, const char* name) {
    const int64_t peak = order::peak_of(dag, nodes);
    best.work += 2 * dag.size();
    if (peak >= best.peak_bytes) return;
    best.peak_bytes = peak;
    best.chosen_by = name;
    best.nodes = std::move(nodes);
  };
  if (sorted) offer(in_sequence(p.nodes), "file");
  offer(by_index, "kahn");
  offer(order::reverse_dfs(dag.preds, dag.succs), "reverse_dfs");
  return best;
}

}  // namespace

Result<Order> choose_order(const OrderProblem& p, ExecutionOrder mode) {
  TRY(check(p));
  Table preds = order::dependencies(p);
  const Table succs = preds.transposed(p.nodes);
  std::vector<int64_t> rank = priorities(p);
  if (mode != ExecutionOrder::priority_based) std::iota(rank.begin(), rank.end(), 0);
  Order chosen;
  chosen.nodes = order::kahn(preds, succs, rank);
  if (chosen.nodes.size() != size_t(p.nodes)) return cycle_error(p, preds, chosen.nodes);
  const bool sorted = is_sorted(preds);
  switch (mode) {
    case ExecutionOrder::planned:
    case ExecutionOrder::memory_efficient: return planned_order(p, std::move(preds), chosen.nodes, sorted);
    case ExecutionOrder::priority_based: chosen.chosen_by = "priority"; break;
    case ExecutionOrder::file_order:
      chosen.chosen_by = sorted ? "file" : "kahn";
      if (sorted) chosen.nodes = in_sequence(p.nodes);
      break;
  }
  chosen.peak_bytes = simulate_peak(p, chosen.nodes);
  return chosen;
}

int64_t simulate_peak(const OrderProblem& p, std::span<const int32_t> order) {
  return order::peak_of(order::build_dag(p, order::dependencies(p)), order);
}

BufferPlan plan_buffers(const OrderProblem& p, std::span<const int32_t> order) {
  const Dag dag = order::build_dag(p, order::dependencies(p));
  const std::vector<int32_t> root = order::buffer_roots(p);
  BufferPlan plan;
  std::vector<int32_t> held(static_cast<size_t>(p.values), -1);  // root value -> buffer
  order::Liveness state(dag);
  const auto born = [&](int32_t v, int32_t step) {
    held[v] = int32_t(plan.lifetimes.size());
    plan.lifetimes.push_back({p.bytes[v], step, step});
  };
  const auto hold = [&](int32_t v, int32_t step) {
    if (v < 0 || root[v] < 0) return;
    if (held[root[v]] < 0) born(root[v], 0);
    Lifetime& life = plan.lifetimes[held[root[v]]];
    life.last = std::max(life.last, step);
  };
  for (int32_t step = 0; step < int32_t(order.size()); ++step) {
    const int32_t node = order[step];
    for (int32_t e = p.in_begin[node]; e < p.in_begin[node + 1]; ++e) {
      if (!(p.input_flags[e] & kHeaderOnly)) hold(p.inputs[e], step);
    }
    for (int32_t e = p.out_begin[node]; e < p.out_begin[node + 1]; ++e) {
      const int32_t v = p.outputs[e];
      if (v < 0 || root[v] != v) continue;
      if (e == p.out_begin[node] && state.reuses(node)) {
        held[v] = held[dag.reuse[node]];
      } else {
        born(v, step);
      }
    }
    state.run(node);
  }
  plan.buffer_of_value.resize(static_cast<size_t>(p.values));
  for (int32_t v = 0; v < p.values; ++v) {
    if (p.value_flags[v] & kGraphOutput) hold(v, std::max(0, int32_t(order.size()) - 1));
    plan.buffer_of_value[v] = root[v] < 0 ? -1 : held[root[v]];
  }
  return plan;
}

}  // namespace tessera
