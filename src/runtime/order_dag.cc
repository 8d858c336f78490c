#include "runtime/order_dag.h"

#include <algorithm>
#include <utility>

namespace tessera::order {

Table Table::transposed(int32_t columns) const {
  Table t;
  t.begin.assign(size_t(columns) + 1, 0);
  t.items.resize(items.size());
  for (int32_t c : items) ++t.begin[c + 1];
  for (int32_t c = 0; c < columns; ++c) t.begin[c + 1] += t.begin[c];
  std::vector<int32_t> next(t.begin.begin(), t.begin.end() - 1);
  for (int32_t r = 0; r < rows(); ++r) {
    for (int32_t c : (*this)[r]) t.items[next[c]++] = r;
  }
  return t;
}

namespace {

// Adds ids to the last row of a table, each at most once per row.
class DistinctRow {
 public:
  DistinctRow(Table& table, int32_t ids) : table_(table), seen_(size_t(ids), -1) {}
  void add(int32_t id) {
    if (std::exchange(seen_[id], table_.rows()) != table_.rows()) table_.items.push_back(id);
  }

 private:
  Table& table_;
  std::vector<int32_t> seen_;
};

std::span<const int32_t> inputs_of(const OrderProblem& p, int32_t node) {
  return p.inputs.subspan(p.in_begin[node], p.in_begin[node + 1] - p.in_begin[node]);
}
std::span<const int32_t> outputs_of(const OrderProblem& p, int32_t node) {
  return p.outputs.subspan(p.out_begin[node], p.out_begin[node + 1] - p.out_begin[node]);
}

// Input k of the node as a value, or -1.
int32_t input_at(const OrderProblem& p, int32_t node, int32_t k) {
  const auto inputs = inputs_of(p, node);
  return k >= 0 && size_t(k) < inputs.size() ? inputs[k] : -1;
}

int32_t first_output(const OrderProblem& p, int32_t node) {
  const auto outputs = outputs_of(p, node);
  return outputs.empty() ? -1 : outputs[0];
}

// The buffer that the node may write output 0 into, or -1.
int32_t reuse_of(const OrderProblem& p, const std::vector<int32_t>& root, int32_t node) {
  const int32_t out = first_output(p, node), in = input_at(p, node, p.inplace[node]);
  if (out < 0 || in < 0 || root[in] < 0 || root[out] != out || p.bytes[out] != p.bytes[root[in]]) return -1;
  int32_t readers = 0;
  for (int32_t e = p.in_begin[node]; e < p.in_begin[node + 1]; ++e) {
    readers += p.inputs[e] >= 0 && !(p.input_flags[e] & kHeaderOnly) && root[p.inputs[e]] == root[in];
  }
  return readers == 1 && p.bytes[out] > 0 ? root[in] : -1;
}

}  // namespace

std::vector<int32_t> buffer_roots(const OrderProblem& p) {
  std::vector<int32_t> root(size_t(p.values), -2), viewed(size_t(p.values), -1), chain;
  for (int32_t i = 0; i < p.nodes; ++i) {
    const int32_t out = first_output(p, i), in = input_at(p, i, p.view[i]);
    if (out >= 0 && in >= 0) viewed[out] = in;
  }
  for (int32_t v = 0; v < p.values; ++v) {
    int32_t at = v;
    for (; root[at] == -2 && viewed[at] >= 0; at = viewed[at]) {
      root[at] = at;  // ends the walk should views form a ring
      chain.push_back(at);
    }
    if (root[at] == -2) root[at] = p.value_flags[at] & kExternal ? -1 : at;
    for (int32_t c : chain) root[c] = root[at];
    chain.clear();
  }
  return root;
}

Table dependencies(const OrderProblem& p) {
  std::vector<int32_t> maker(size_t(p.values), -1);
  for (int32_t i = 0; i < p.nodes; ++i) {
    for (int32_t v : outputs_of(p, i)) {
      if (v >= 0) maker[v] = i;
    }
  }
  Table preds;
  DistinctRow row(preds, p.nodes);
  for (int32_t i = 0; i < p.nodes; ++i, preds.end_row()) {
    for (int32_t v : inputs_of(p, i)) {
      if (v >= 0 && maker[v] >= 0) row.add(maker[v]);
    }
  }
  return preds;
}

Dag build_dag(const OrderProblem& p, Table preds) {
  Dag d;
  d.nodes = p.nodes;
  d.preds = std::move(preds);
  d.succs = d.preds.transposed(p.nodes);
  const std::vector<int32_t> root = buffer_roots(p);
  const auto counted = [&](int32_t v) { return v >= 0 && root[v] >= 0 && p.bytes[root[v]] > 0; };
  d.bytes.assign(size_t(p.values), 0);
  d.kept.assign(size_t(p.values), 0);
  d.maker.assign(size_t(p.values), -1);
  for (int32_t v = 0; v < p.values; ++v) {
    if (!counted(v)) continue;
    if (root[v] == v) d.bytes[v] = p.bytes[v];
    if (p.value_flags[v] & kGraphOutput) d.kept[root[v]] = 1;
  }
  DistinctRow use(d.uses, p.values);
  for (int32_t i = 0; i < p.nodes; ++i, d.uses.end_row()) {
    for (int32_t e = p.in_begin[i]; e < p.in_begin[i + 1]; ++e) {
      if (counted(p.inputs[e]) && !(p.input_flags[e] & kHeaderOnly)) use.add(root[p.inputs[e]]);
    }
  }
  d.users = d.uses.transposed(p.values);
  for (int32_t i = 0; i < p.nodes; ++i) {
    int64_t hill = 0, net = 0;
    for (int32_t v : outputs_of(p, i)) {
      if (!counted(v) || root[v] != v) continue;
      d.maker[v] = i;
      hill += d.bytes[v];
      if (!d.kept[v] && d.users.count(v) == 0) continue;
      net += d.bytes[v];
      d.defs.items.push_back(v);
    }
    d.hill.push_back(hill);
    d.net.push_back(net);
    d.reuse.push_back(reuse_of(p, root, i));
    d.defs.end_row();
    d.members.items.push_back(i);
    d.members.end_row();
  }
  for (int32_t v = 0; v < p.values; ++v) {
    if (d.maker[v] < 0 && (d.kept[v] || d.users.count(v) > 0)) d.base += d.bytes[v];
  }
  return d;
}

Dag contract(const Dag& dag, const Table& groups, std::vector<int64_t> hill, std::vector<int32_t> reuse) {
  Dag d;
  d.nodes = groups.rows();
  d.hill = std::move(hill);
  d.reuse = std::move(reuse);
  d.bytes = dag.bytes;
  d.kept = dag.kept;
  d.base = dag.base;
  std::vector<int32_t> group_of(size_t(dag.nodes), -1);
  for (int32_t g = 0; g < d.nodes; ++g) {
    for (int32_t v : groups[g]) group_of[v] = g;
  }
  d.maker.resize(dag.maker.size());
  for (size_t b = 0; b < d.maker.size(); ++b) d.maker[b] = dag.maker[b] < 0 ? -1 : group_of[dag.maker[b]];
  const auto escapes = [&](int32_t b) {
    const auto users = dag.users[b];
    return dag.kept[b] || std::any_of(users.begin(), users.end(), [&](int32_t u) { return group_of[u] != d.maker[b]; });
  };
  DistinctRow pred(d.preds, d.nodes), use(d.uses, dag.buffers());
  for (int32_t g = 0; g < d.nodes; ++g) {
    int64_t net = 0;
    for (int32_t v : groups[g]) {
      for (int32_t p : dag.preds[v]) {
        if (group_of[p] != g) pred.add(group_of[p]);
      }
      for (int32_t b : dag.uses[v]) {
        if (d.maker[b] != g) use.add(b);
      }
      for (int32_t b : dag.defs[v]) {
        if (!escapes(b)) continue;
        d.defs.items.push_back(b);
        net += d.bytes[b];
      }
      const auto members = dag.members[v];
      d.members.items.insert(d.members.items.end(), members.begin(), members.end());
    }
    d.net.push_back(net);
    for (Table* t : {&d.preds, &d.uses, &d.defs, &d.members}) t->end_row();
  }
  d.succs = d.preds.transposed(d.nodes);
  d.users = d.uses.transposed(d.buffers());
  return d;
}

Liveness::Liveness(const Dag& dag) : dag_(dag), live_(dag.base), peak_(dag.base) {
  remaining_.resize(size_t(dag.buffers()));
  for (int32_t b = 0; b < dag.buffers(); ++b) remaining_[b] = dag.users.count(b) + dag.kept[b];
}

int64_t Liveness::during(int32_t v) const { return live_ + dag_.hill[v] - (reuses(v) ? dag_.bytes[dag_.reuse[v]] : 0); }

void Liveness::run(int32_t v) {
  peak_ = std::max(peak_, during(v));
  live_ += dag_.net[v];
  for (int32_t b : dag_.uses[v]) {
    if (--remaining_[b] == 0) live_ -= dag_.bytes[b];
  }
}

int64_t peak_of(const Dag& dag, std::span<const int32_t> order) {
  Liveness state(dag);
  for (int32_t v : order) state.run(v);
  return state.peak();
}

std::vector<int32_t> expand(const Dag& dag, std::span<const int32_t> order) {
  std::vector<int32_t> nodes;
  nodes.reserve(dag.members.items.size());
  for (int32_t v : order) nodes.insert(nodes.end(), dag.members[v].begin(), dag.members[v].end());
  return nodes;
}

}  // namespace tessera::order
