// A partly built order that knows what each next node would cost, and can be taken back step by step.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "runtime/order_dag.h"

namespace tessera::order {

// Built from the first step on (kForward) or from the last step back. Either way `live` is what is held at the open
// end, and taking a node moves that end past it.
template <bool kForward>
class State {
 public:
  State(const Dag& dag, int64_t& work);

  int64_t live() const { return live_; }
  // What taking v adds to live().
  int64_t delta(int32_t v) const { return delta_[v]; }
  // Bytes live while v runs, were it taken now.
  int64_t during(int32_t v) const {
    const int32_t b = dag_.reuse[v];
    const int64_t reused = b >= 0 && dies_with_next(b) ? dag_.bytes[b] : 0;
    return live_ + (kForward ? 0 : delta_[v]) + dag_.hill[v] - reused;
  }
  bool ready(int32_t v) const { return missing_[v] == 0 && !done_[v]; }
  const std::vector<int32_t>& ready() const { return ready_; }
  const std::vector<int32_t>& taken() const { return taken_; }
  // True if taking v continues what has begun: some node it leads to already has another one taken.
  bool engaged(int32_t v) const {
    if (before().count(v) > 0) return true;
    const auto row = after()[v];
    return std::any_of(row.begin(), row.end(), [&](int32_t s) { return missing_[s] < before().count(s); });
  }
  uint64_t key() const { return key_; }  // of the set of nodes taken
  std::vector<int32_t> order() const {
    return kForward ? taken_ : std::vector<int32_t>(taken_.rbegin(), taken_.rend());
  }

  void take(int32_t v);
  void undo();

  // Nodes that became ready or cheaper, appended by take(); for the caller to clear.
  std::vector<int32_t> touched;

 private:
  const Table& before() const { return kForward ? dag_.preds : dag_.succs; }
  const Table& after() const { return kForward ? dag_.succs : dag_.preds; }
  // Forward: one reader is left, and the buffer is not kept. Backward: no reader has been placed yet.
  bool dies_with_next(int32_t b) const { return left_[b] == (kForward ? 1 : 0); }
  // Buffer b has come to die with (or be needed by) other nodes than before: their deltas change by `change`.
  void reprice(int32_t b, int32_t except, int64_t change, bool tell);

  const Dag& dag_;
  int64_t& work_;
  std::vector<int32_t> missing_;
  std::vector<int32_t> left_;  // forward: readers yet to run; backward: readers placed; kept counts as one
  std::vector<int32_t> sum_;   // forward: exclusive or of the readers yet to run
  std::vector<int64_t> delta_;
  std::vector<uint8_t> done_;
  std::vector<int32_t> ready_, where_;  // ready nodes, and the place of each
  std::vector<int32_t> taken_;
  uint64_t key_ = 0;
  int64_t live_ = 0;
};

template <bool kForward>
State<kForward>::State(const Dag& dag, int64_t& work)
    : dag_(dag),
      work_(work),
      missing_(size_t(dag.nodes)),
      left_(dag.kept.begin(), dag.kept.end()),
      sum_(size_t(dag.buffers()), 0),
      delta_(dag.net),
      done_(size_t(dag.nodes), 0),
      where_(size_t(dag.nodes), -1) {
  if constexpr (kForward) {
    live_ = dag.base;
    for (int32_t b = 0; b < dag.buffers(); ++b) {
      left_[b] = dag.users.count(b) + (dag.kept[b] ? dag.nodes : 0);
      for (int32_t u : dag.users[b]) sum_[b] ^= u;
      if (dag.only_user(b) >= 0) delta_[dag.only_user(b)] -= dag.bytes[b];
    }
  } else {
    for (int32_t b = 0; b < dag.buffers(); ++b) live_ += dag.kept[b] ? dag.bytes[b] : 0;
    for (int32_t v = 0; v < dag.nodes; ++v) {
      delta_[v] = -dag.net[v];
      for (int32_t b : dag.uses[v]) delta_[v] += dag.kept[b] ? 0 : dag.bytes[b];
    }
  }
  for (int32_t v = 0; v < dag.nodes; ++v) {
    if ((missing_[v] = before().count(v)) > 0) continue;
    where_[v] = int32_t(ready_.size());
    ready_.push_back(v);
  }
}

template <bool kForward>
void State<kForward>::reprice(int32_t b, int32_t except, int64_t change, bool tell) {
  if constexpr (kForward) {
    delta_[sum_[b]] += change;
    if (tell) touched.push_back(sum_[b]);
  } else {
    for (int32_t u : dag_.users[b]) {
      if (u == except) continue;
      delta_[u] += change;
      if (tell) touched.push_back(u);
    }
    work_ += dag_.users.count(b);
  }
}

template <bool kForward>
void State<kForward>::take(int32_t v) {
  live_ += delta_[v];
  done_[v] = 1;
  for (int32_t b : dag_.uses[v]) {
    sum_[b] ^= v;
    left_[b] += kForward ? -1 : 1;
    if (left_[b] == 1) reprice(b, v, -dag_.bytes[b], true);
  }
  const int32_t moved = ready_.back();
  ready_[where_[v]] = moved;
  where_[moved] = where_[v];
  ready_.pop_back();
  for (int32_t s : after()[v]) {
    if (--missing_[s] > 0) continue;
    where_[s] = int32_t(ready_.size());
    ready_.push_back(s);
    touched.push_back(s);
  }
  key_ ^= mix(uint64_t(v), 1);
  taken_.push_back(v);
  work_ += 1 + dag_.uses.count(v) + after().count(v);
}

template <bool kForward>
void State<kForward>::undo() {
  const int32_t v = taken_.back();
  taken_.pop_back();
  key_ ^= mix(uint64_t(v), 1);
  for (int32_t s : after()[v]) {
    if (missing_[s]++ == 0) ready_.pop_back();
  }
  // Puts v back to its place, and the node that took it back to the end.
  const int32_t place = where_[v];
  ready_.push_back(v);
  std::swap(ready_[place], ready_.back());
  where_[ready_.back()] = int32_t(ready_.size()) - 1;
  where_[v] = place;
  for (int32_t b : dag_.uses[v]) {
    if (left_[b] == 1) reprice(b, v, dag_.bytes[b], false);
    left_[b] += kForward ? 1 : -1;
    sum_[b] ^= v;
  }
  done_[v] = 0;
  live_ -= delta_[v];
  work_ += 1 + dag_.uses.count(v) + after().count(v);
}

}  // namespace tessera::order
