// Searches: the best order of a small dag, and a better order of a large one.
#include "runtime/order_search.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <limits>
#include <tuple>
#include <unordered_set>

#include "runtime/order_state.h"

namespace tessera::order {
namespace {

// A small dag as bit masks over its nodes.
struct MaskedDag {
  struct Buffer {
    uint32_t users;
    int64_t bytes;
  };
  std::vector<uint32_t> preds;
  std::vector<std::vector<Buffer>> frees;  // buffers a node frees if all users have run then
  std::vector<Buffer> reuse;

  explicit MaskedDag(const Dag& dag) : preds(size_t(dag.nodes)), frees(size_t(dag.nodes)), reuse(size_t(dag.nodes)) {
    const auto masked = [&](int32_t b) {
      Buffer r{0, dag.bytes[b]};
      for (int32_t u : dag.users[b]) r.users |= 1u << u;
      return r;
    };
    for (int32_t v = 0; v < dag.nodes; ++v) {
      for (int32_t p : dag.preds[v]) preds[v] |= 1u << p;
      for (int32_t b : dag.uses[v]) {
        if (!dag.kept[b]) frees[v].push_back(masked(b));
      }
      if (dag.reuse[v] >= 0 && !dag.kept[dag.reuse[v]]) reuse[v] = masked(dag.reuse[v]);
    }
  }
};

}  // namespace

Nodes exact(const Dag& dag, int64_t& work) {
  constexpr int64_t kUnreached = std::numeric_limits<int64_t>::max();
  const MaskedDag m(dag);
  const uint32_t all = (1u << dag.nodes) - 1;
  std::vector<int64_t> peak(size_t(all) + 1, kUnreached), live(size_t(all) + 1);
  std::vector<int8_t> last(size_t(all) + 1, -1);
  peak[0] = live[0] = dag.base;
  for (uint32_t done = 0; done < all; ++done) {
    if (peak[done] == kUnreached) continue;
    for (int32_t v = 0; v < dag.nodes; ++v) {
      const uint32_t with = done | 1u << v;
      if (with == done || (m.preds[v] & ~done)) continue;
      int64_t during = live[done] + dag.hill[v], after = live[done] + dag.net[v];
      for (const auto& b : m.frees[v]) after -= (b.users & ~with) ? 0 : b.bytes;
      if (m.reuse[v].users && !(m.reuse[v].users & ~with)) during -= m.reuse[v].bytes;
      live[with] = after;
      if (const int64_t p = std::max(peak[done], during); p < peak[with]) {
        peak[with] = p;
        last[with] = int8_t(v);
      }
      ++work;
    }
  }
  Nodes order(size_t(dag.nodes));
  for (uint32_t done = all; done; done &= ~(1u << last[done])) order[std::popcount(done) - 1] = last[done];
  return order;
}

namespace {

// Which of several nodes to try first when each leaves more live than it found.
enum class Rule : uint8_t { least_left, most_excess };

// Looks for an order whose peak does not exceed a target: depth first over the sets of nodes that have run, never twice
// from the same set. A node that fits and leaves no more than it found is taken at once, for no order is worse for it;
// so is a short run of nodes that ends no higher than it began.
template <bool kForward>
class TargetSearch {
 public:
  TargetSearch(const Dag& dag, int64_t& work) : state_(dag, work), work_(work), pass_(64 * dag.size()) {}
  // The order, or empty if there is none or `limit` steps did not find one. May be called again.
  Nodes find(int64_t target, Rule rule, int64_t limit);
  // The given order with nodes moved towards the end it is built from: where that frees room at once, and, until `stop`
  // steps of work are spent, where the target would not be kept otherwise.
  Nodes follow(const Nodes& order, int64_t target, int64_t stop);

 private:
  static constexpr size_t kProbes = 16;  // choices looked at

  struct Choice {
    int64_t score;  // the least goes first
    int32_t node;
    friend bool operator<(const Choice& a, const Choice& b) {
      return a.score != b.score ? a.score < b.score : a.node < b.node;
    }
  };
  struct Branch {
    size_t trail;     // how many nodes had been taken
    size_t first;     // its choices start here in choices_
    size_t next = 0;  // and this many have been tried
  };

  bool fits(int32_t v) const { return state_.during(v) <= target_; }
  void undo_to(size_t trail) {
    while (state_.taken().size() > trail) state_.undo();
  }
  void close_touched(size_t from);
  void close();
  bool probe(int32_t v, Rule rule);
  void relieve();
  bool advance(Rule rule);
  bool retreat();

  State<kForward> state_;
  int64_t& work_;
  std::vector<Branch> branches_;
  std::vector<Choice> choices_;
  std::vector<std::tuple<bool, int64_t, int32_t>> starts_;  // what to probe, in order: engaged or not, delta, node
  std::unordered_set<uint64_t> seen_;                       // keys of sets searched from
  int64_t target_ = 0, stop_ = 0;
  const int64_t pass_;  // steps after which follow() no longer looks ahead
};

// Takes what is free to take among the nodes touched since `from`.
template <bool kForward>
void TargetSearch<kForward>::close_touched(size_t from) {
  for (size_t i = from; i < state_.touched.size(); ++i) {
    const int32_t v = state_.touched[i];
    if (state_.ready(v) && state_.delta(v) <= 0 && fits(v)) state_.take(v);
  }
}

// Takes all that is free to take.
template <bool kForward>
void TargetSearch<kForward>::close() {
  for (bool again = true; again;) {
    again = false;
    for (size_t i = 0; i < state_.ready().size(); ++i) {
      const int32_t v = state_.ready()[i];
      if (state_.delta(v) > 0 || !fits(v)) continue;
      state_.touched.clear();
      state_.take(v);
      close_touched(0);
      again = true;
    }
    work_ += int64_t(state_.ready().size());
  }
}

// Takes v and what follows from it for a few steps. True, with those steps kept, if no more is live then than before;
// otherwise all is as it was and v becomes a choice.
template <bool kForward>
bool TargetSearch<kForward>::probe(int32_t v, Rule rule) {
  constexpr int kSteps = 12;
  const int64_t before = state_.live();
  const size_t trail = state_.taken().size();
  state_.touched.clear();
  int64_t high = state_.during(v);
  state_.take(v);
  close_touched(0);
  int64_t least = state_.live();
  for (int step = 0; step < kSteps && state_.live() > before; ++step) {
    int32_t best = -1;
    for (int32_t u : state_.touched) {
      if (!state_.ready(u) || !fits(u)) continue;
      if (best < 0 || std::pair(state_.delta(u), u) < std::pair(state_.delta(best), best)) best = u;
    }
    work_ += int64_t(state_.touched.size());
    if (best < 0) break;
    const size_t from = state_.touched.size();
    high = std::max(high, state_.during(best));
    state_.take(best);
    close_touched(from);
    least = std::min(least, state_.live());
  }
  if (state_.live() <= before) return true;
  undo_to(trail);
  choices_.push_back({rule == Rule::least_left ? least : least - high, v});
  return false;
}

// Takes nodes until none is left (true) or there is a choice to make, which becomes the top branch (false). Out of
// work, that branch has no choices.
template <bool kForward>
bool TargetSearch<kForward>::advance(Rule rule) {
  for (;;) {
    close();
    if (state_.ready().empty()) return true;
    const Branch branch{state_.taken().size(), choices_.size()};
    starts_.clear();
    for (int32_t v : state_.ready()) {
      if (fits(v) && work_ < stop_) starts_.push_back({!state_.engaged(v), state_.delta(v), v});
    }
    work_ += int64_t(state_.ready().size());
    const size_t tried = std::min(starts_.size(), kProbes);
    std::partial_sort(starts_.begin(), starts_.begin() + ptrdiff_t(tried), starts_.end());
    starts_.resize(tried);
    bool kept = false;
    for (size_t i = 0; i < tried && !kept; ++i) kept = probe(std::get<2>(starts_[i]), rule);
    if (kept) {
      choices_.resize(branch.first);
      continue;
    }
    std::sort(choices_.begin() + ptrdiff_t(branch.first), choices_.end());
    branches_.push_back(branch);
    return false;
  }
}

// Takes the next untried choice; false if none is left anywhere.
template <bool kForward>
bool TargetSearch<kForward>::retreat() {
  while (!branches_.empty()) {
    Branch& top = branches_.back();
    undo_to(top.trail);
    if (top.first + top.next < choices_.size()) {
      state_.take(choices_[top.first + top.next++].node);
      if (seen_.insert(state_.key()).second) return true;
      continue;
    }
    choices_.resize(top.first);
    branches_.pop_back();
  }
  return false;
}

template <bool kForward>
Nodes TargetSearch<kForward>::find(int64_t target, Rule rule, int64_t limit) {
  target_ = target;
  stop_ = work_ + limit;
  bool found = advance(rule);
  while (!found && work_ < stop_ && retreat()) found = advance(rule);
  Nodes order;
  if (found) order = state_.order();
  undo_to(0);
  branches_.clear();
  choices_.clear();
  seen_.clear();
  return order;
}

// Takes ready nodes that fit and lead to no more being live than now.
template <bool kForward>
void TargetSearch<kForward>::relieve() {
  close();
  Nodes starts = state_.ready();
  std::sort(starts.begin(), starts.end());
  for (int32_t v : starts) {
    if (work_ < stop_ && state_.ready(v) && fits(v)) probe(v, Rule::least_left);
  }
  choices_.clear();
}

template <bool kForward>
Nodes TargetSearch<kForward>::follow(const Nodes& order, int64_t target, int64_t stop) {
  const int64_t look_until = work_ + pass_;
  target_ = target;
  stop_ = stop;
  Nodes pending;
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t v = kForward ? order[i] : order[order.size() - 1 - i];
    if (!state_.ready(v)) continue;
    if (!fits(v) && work_ < stop_) relieve();
    if (!state_.ready(v)) continue;
    state_.touched.clear();
    state_.take(v);
    close_touched(0);
    pending = state_.touched;
    for (size_t k = 0; k < pending.size() && work_ < look_until; ++k) {
      if (!state_.ready(pending[k]) || !fits(pending[k]) || !probe(pending[k], Rule::least_left)) continue;
      pending.insert(pending.end(), state_.touched.begin(), state_.touched.end());
    }
  }
  Nodes followed = state_.order();
  undo_to(0);
  choices_.clear();
  return followed;
}

}  // namespace

Nodes settle(const Dag& dag, Nodes order, int64_t bound, int64_t budget, int64_t& work) {
  TargetSearch<true> forward(dag, work);
  TargetSearch<false> backward(dag, work);
  int64_t peak = peak_of(dag, order), step = 0;
  const int64_t stop = work + budget;
  // A step of 0 keeps within the peak and prepares for larger steps, which ask for less.
  do {
    Nodes other = forward.follow(backward.follow(order, peak - step, stop), peak - step, stop);
    const int64_t other_peak = peak_of(dag, other);
    if (other_peak < peak || (other_peak == peak && step == 0)) order = std::move(other);
    if (other_peak < peak) {
      peak = other_peak;
      step = 0;
    } else {
      step = step == 0 ? (peak - bound + 1) / 2 : step / 2;
      if (step <= peak / 512) break;
    }
  } while (peak > bound && work < stop);
  return order;
}

Nodes improve(const Dag& dag, int64_t peak, int64_t bound, int64_t budget, int64_t& work) {
  TargetSearch<true> forward(dag, work);
  TargetSearch<false> backward(dag, work);
  struct Way {
    bool forward;
    Rule rule;
  };
  Way ways[] = {
      {true, Rule::least_left}, {false, Rule::least_left}, {true, Rule::most_excess}, {false, Rule::most_excess}};
  const int64_t stop = work + budget, share = budget / 16;
  Nodes best;
  // Asks for less in large steps first; what has just found an order is asked first next time.
  for (int64_t step = (peak - bound + 1) / 2; peak > bound && step > 0 && work < stop;) {
    const int64_t target = std::max(bound, peak - step);
    Nodes found;
    for (size_t i = 0; i < std::size(ways) && found.empty(); ++i) {
      const int64_t limit = std::min(stop - work, share);
      found = ways[i].forward ? forward.find(target, ways[i].rule, limit) : backward.find(target, ways[i].rule, limit);
      if (!found.empty()) std::rotate(ways, ways + i, ways + i + 1);
    }
    if (found.empty()) {
      step = step / 2 < peak / 256 ? 0 : step / 2;
      continue;
    }
    peak = peak_of(dag, found);
    best = std::move(found);
  }
  return best;
}

}  // namespace tessera::order
