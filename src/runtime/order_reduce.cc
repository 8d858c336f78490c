// Equivalent forms of a Dag: listed independently of the file, and with fewer nodes.
#include <algorithm>
#include <numeric>

#include "runtime/order_dag.h"

namespace tessera::order {
namespace {

// A topological order of the dag and the depth of each node: the longest path that leads to it.
void sort_by_depth(const Dag& dag, std::vector<int32_t>& order, std::vector<int32_t>& depth) {
  std::vector<int32_t> missing(size_t(dag.nodes));
  depth.assign(size_t(dag.nodes), 0);
  order.reserve(size_t(dag.nodes));
  for (int32_t v = 0; v < dag.nodes; ++v) {
    if ((missing[v] = dag.preds.count(v)) == 0) order.push_back(v);
  }
  for (size_t i = 0; i < order.size(); ++i) {
    for (int32_t s : dag.succs[order[i]]) {
      depth[s] = std::max(depth[s], depth[order[i]] + 1);
      if (--missing[s] == 0) order.push_back(s);
    }
  }
}

// Per node a hash of all it is computed from and all that is computed from it.
std::vector<uint64_t> structural_hashes(const OrderProblem& p, std::span<const int32_t> order) {
  std::vector<uint64_t> hash(size_t(p.nodes)), below(size_t(p.nodes), 0), value(size_t(p.values));
  std::vector<int32_t> maker(size_t(p.values), -1);
  for (int32_t v = 0; v < p.values; ++v) value[v] = mix(uint64_t(p.bytes[v]), p.value_flags[v]);
  for (int32_t i : order) {
    uint64_t h = p.node_hash[i];
    for (int32_t e = p.in_begin[i]; e < p.in_begin[i + 1]; ++e) h = mix(h, p.inputs[e] < 0 ? 0 : value[p.inputs[e]]);
    for (int32_t e = p.out_begin[i]; e < p.out_begin[i + 1]; ++e)
      h = mix(h, p.outputs[e] < 0 ? 0 : value[p.outputs[e]]);
    hash[i] = h;
    for (int32_t e = p.out_begin[i]; e < p.out_begin[i + 1]; ++e) {
      if (p.outputs[e] < 0) continue;
      maker[p.outputs[e]] = i;
      value[p.outputs[e]] = mix(h, uint64_t(e - p.out_begin[i]));
    }
  }
  for (size_t k = order.size(); k-- > 0;) {
    const int32_t i = order[k];
    hash[i] = mix(hash[i], below[i]);
    for (int32_t e = p.in_begin[i]; e < p.in_begin[i + 1]; ++e) {
      const int32_t v = p.inputs[e];
      if (v >= 0 && maker[v] >= 0) below[maker[v]] += mix(mix(hash[i], uint64_t(e - p.in_begin[i])), value[v]);
    }
  }
  return hash;
}

// Sequences of nodes under construction: each starts as one node and grows at its end or its front.
class Sequences {
 public:
  explicit Sequences(int32_t nodes) : next_(size_t(nodes), -1), first_(size_t(nodes)), last_(size_t(nodes)) {
    std::iota(first_.begin(), first_.end(), 0);
    std::iota(last_.begin(), last_.end(), 0);
  }
  // v's sequence takes in u's, behind or before what it holds.
  void append(int32_t v, int32_t u) {
    next_[last_[v]] = first_[u];
    last_[v] = last_[u];
  }
  void prepend(int32_t v, int32_t u) {
    next_[last_[u]] = first_[v];
    first_[v] = first_[u];
  }
  void write(int32_t v, Table& groups) const {
    for (int32_t m = first_[v];; m = next_[m]) {
      groups.items.push_back(m);
      if (m == last_[v]) break;
    }
    groups.end_row();
  }

 private:
  std::vector<int32_t> next_, first_, last_;
};

// The dag with every node v for which joined[v] is false standing for its sequence.
Dag merged(const Dag& dag, const Sequences& sequences, std::span<const uint8_t> joined, std::span<const int64_t> hill,
           std::span<const int32_t> reuse) {
  Table groups;
  std::vector<int64_t> group_hill;
  std::vector<int32_t> group_reuse;
  for (int32_t v = 0; v < dag.nodes; ++v) {
    if (joined[v]) continue;
    sequences.write(v, groups);
    group_hill.push_back(hill[v]);
    group_reuse.push_back(reuse[v]);
  }
  return contract(dag, groups, std::move(group_hill), std::move(group_reuse));
}

// Joins a node to its only predecessor where running it at once can do no harm: it needs no room of its own and leaves
// no more than it frees.
Dag absorb_followers(const Dag& dag) {
  Sequences sequences(dag.nodes);
  std::vector<int32_t> leader(size_t(dag.nodes));
  std::vector<uint8_t> joined(size_t(dag.nodes), 0);
  for (int32_t v = 0; v < dag.nodes; ++v) {
    leader[v] = v;
    const auto preds = dag.preds[v];
    if (preds.empty()) continue;
    const int32_t p = leader[preds[0]];
    if (!std::all_of(preds.begin(), preds.end(), [&](int32_t u) { return leader[u] == p; })) continue;
    const auto dies_here = [&](int32_t b) {
      return dag.only_user(b) == v && dag.maker[b] >= 0 && leader[dag.maker[b]] == p;
    };
    int64_t during = dag.hill[v], after = dag.net[v];
    if (dag.reuse[v] >= 0 && dies_here(dag.reuse[v])) during -= dag.bytes[dag.reuse[v]];
    for (int32_t b : dag.uses[v]) after -= dies_here(b) ? dag.bytes[b] : 0;
    if (during > 0 || after > 0) continue;
    leader[v] = p;
    joined[v] = 1;
    sequences.append(p, v);
  }
  return merged(dag, sequences, joined, dag.hill, dag.reuse);
}

// True if all that outlives u is read by v and dies there.
bool feeds_only(const Dag& dag, int32_t u, int32_t v) {
  const auto defs = dag.defs[u];
  return dag.succs.count(u) == 1 &&
         std::all_of(defs.begin(), defs.end(), [&](int32_t b) { return dag.only_user(b) == v; });
}

// Joins to each node those of its predecessors that depend on nothing, feed it alone, and need no more room than it
// does with their results at hand: each is best run right before it, since it would only hold memory in between.
Dag absorb_sources(const Dag& dag) {
  Sequences sequences(dag.nodes);
  std::vector<int64_t> hill = dag.hill;
  std::vector<int32_t> reuse = dag.reuse, outside(size_t(dag.nodes));
  std::vector<uint8_t> joined(size_t(dag.nodes), 0);
  for (int32_t v = 0; v < dag.nodes; ++v) {
    const int64_t room = dag.hill[v] - (reuse[v] >= 0 ? dag.bytes[reuse[v]] : 0);
    outside[v] = dag.preds.count(v);
    for (int32_t b : dag.uses[v]) outside[v] += dag.maker[b] < 0;
    for (int32_t u : dag.preds[v]) {
      if (outside[u] > 0 || !feeds_only(dag, u, v) || hill[u] > dag.net[u] + room) continue;
      joined[u] = 1;
      sequences.prepend(v, u);
      --outside[v];
      hill[v] += dag.net[u];
      if (reuse[v] < 0 || dag.maker[reuse[v]] != u) continue;
      hill[v] -= dag.bytes[reuse[v]];
      reuse[v] = -1;
    }
  }
  return merged(dag, sequences, joined, hill, reuse);
}

}  // namespace

Dag canonical(const Dag& dag, const OrderProblem& problem) {
  std::vector<int32_t> order, depth;
  sort_by_depth(dag, order, depth);
  const std::vector<uint64_t> hash = structural_hashes(problem, order);
  std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    if (depth[a] != depth[b]) return depth[a] < depth[b];
    if (hash[a] != hash[b]) return hash[a] < hash[b];
    const int names = problem.node_name[a].compare(problem.node_name[b]);
    return names != 0 ? names < 0 : a < b;
  });
  Table groups;
  std::vector<int64_t> hill;
  std::vector<int32_t> reuse;
  for (int32_t v : order) {
    groups.items.push_back(v);
    groups.end_row();
    hill.push_back(dag.hill[v]);
    reuse.push_back(dag.reuse[v]);
  }
  return contract(dag, groups, std::move(hill), std::move(reuse));
}

Dag reduced(Dag dag) {
  constexpr int kRounds = 3;
  for (int i = 0; i < kRounds; ++i) {
    const int32_t before = dag.nodes;
    dag = absorb_sources(absorb_followers(dag));
    if (dag.nodes == before) break;
  }
  return dag;
}

}  // namespace tessera::order
