#include "runtime/offsets.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/checked.h"

namespace tessera {
namespace {

using Indexes = std::vector<int32_t>;

// A lifetime with its bytes rounded up; time may run backwards.
struct Block {
  int64_t bytes;
  int32_t first, last;
};

// Indexes of the blocks by ascending step, the largest first among equals.
Indexes sorted_by(const std::vector<Block>& blocks, int32_t Block::*step) {
  Indexes order(blocks.size());
  int32_t low = std::numeric_limits<int32_t>::max(), high = std::numeric_limits<int32_t>::min();
  for (const Block& b : blocks) {
    low = std::min(low, b.*step);
    high = std::max(high, b.*step);
  }
  const auto before = [&](int32_t a, int32_t b) {
    if (blocks[a].*step != blocks[b].*step) return blocks[a].*step < blocks[b].*step;
    return blocks[a].bytes != blocks[b].bytes ? blocks[a].bytes > blocks[b].bytes : a < b;
  };
  const int64_t steps = blocks.empty() ? 0 : int64_t(high) - low + 1;
  if (steps > int64_t(8 * blocks.size() + 64)) {
    for (size_t i = 0; i < order.size(); ++i) order[i] = int32_t(i);
    std::sort(order.begin(), order.end(), before);
    return order;
  }
  std::vector<int32_t> row(size_t(steps) + 1, 0);
  for (const Block& b : blocks) ++row[size_t(b.*step - low) + 1];
  for (int64_t s = 0; s < steps; ++s) row[s + 1] += row[s];
  for (size_t i = 0; i < blocks.size(); ++i) order[row[size_t(blocks[i].*step - low)]++] = int32_t(i);
  int32_t begin = 0;
  for (int64_t s = 0; s < steps; begin = row[s++]) {
    if (row[s] - begin > 1) std::sort(order.begin() + begin, order.begin() + row[s], before);
  }
  return order;
}

// Free room below the end of a slab.
class Holes {
 public:
  // The smallest hole that holds `bytes`, else room at the end.
  int64_t take(int64_t bytes) {
    size_t best = holes_.size();
    for (size_t i = 0; i < holes_.size(); ++i) {
      if (holes_[i].bytes < bytes) continue;
      if (best == holes_.size() || holes_[i].bytes < holes_[best].bytes) best = i;
    }
    if (best == holes_.size()) {
      end_ += bytes;
      highest_ = std::max(highest_, end_);
      return end_ - bytes;
    }
    Hole& hole = holes_[best];
    const int64_t offset = hole.offset;
    hole.offset += bytes;
    hole.bytes -= bytes;
    if (hole.bytes == 0) holes_.erase(holes_.begin() + ptrdiff_t(best));
    return offset;
  }

  void give_back(int64_t offset, int64_t bytes) {
    auto next =
        std::lower_bound(holes_.begin(), holes_.end(), offset, [](const Hole& h, int64_t at) { return h.offset < at; });
    if (next != holes_.end() && offset + bytes == next->offset) {
      bytes += next->bytes;
      next = holes_.erase(next);
    }
    if (next != holes_.begin() && std::prev(next)->offset + std::prev(next)->bytes == offset) {
      --next;
      offset = next->offset;
      bytes += next->bytes;
      next = holes_.erase(next);
    }
    if (offset + bytes == end_) {
      end_ = offset;
      return;
    }
    holes_.insert(next, {offset, bytes});
    if (holes_.size() > kMost) forget_smallest();
  }

  int64_t highest() const { return highest_; }

 private:
  struct Hole {
    int64_t offset, bytes;
  };
  static constexpr size_t kMost = 1024;  // keeps every step short; what is forgotten is never used again

  void forget_smallest() {
    holes_.erase(
        std::min_element(holes_.begin(), holes_.end(), [](const Hole& a, const Hole& b) { return a.bytes < b.bytes; }));
  }

  std::vector<Hole> holes_;  // by offset; no two touch, none touches the end
  int64_t end_ = 0, highest_ = 0;
};

// A plan for one slab: offsets and how far they reach.
struct Placement {
  std::vector<int64_t> offset;
  int64_t end = 0;
};

// Places blocks as a run would allocate and free them, in the order of `starts`; `ends` is the order they die in.
template <class Dead>
Placement scan(const std::vector<Block>& blocks, const Indexes& starts, const Indexes& ends, Dead dead) {
  Placement placed{std::vector<int64_t>(blocks.size(), 0)};
  Holes holes;
  size_t next = 0;
  for (int32_t i : starts) {
    for (; next < ends.size() && dead(blocks[ends[next]], blocks[i]); ++next) {
      const int32_t d = ends[next];
      if (blocks[d].bytes > 0) holes.give_back(placed.offset[d], blocks[d].bytes);
    }
    if (blocks[i].bytes > 0) placed.offset[i] = holes.take(blocks[i].bytes);
  }
  placed.end = holes.highest();
  return placed;
}

// For every block the blocks alive with it, as rows of pairs; empty if there are more than `limit` pairs.
struct Neighbours {
  std::vector<int32_t> begin, items;
};
Neighbours neighbours(const std::vector<Block>& blocks, const Indexes& by_first, size_t limit) {
  std::vector<std::pair<int32_t, int32_t>> pairs;
  Indexes alive;
  for (int32_t i : by_first) {
    std::erase_if(alive, [&](int32_t a) { return blocks[a].last < blocks[i].first; });
    if (pairs.size() + alive.size() > limit) return {};
    for (int32_t a : alive) pairs.push_back({a, i});
    alive.push_back(i);
  }
  Neighbours n{std::vector<int32_t>(blocks.size() + 1, 0), std::vector<int32_t>(2 * pairs.size())};
  for (const auto& [a, b] : pairs) ++n.begin[a], ++n.begin[b];
  for (size_t i = 1; i < n.begin.size(); ++i) n.begin[i] += n.begin[i - 1];
  for (const auto& [a, b] : pairs) n.items[--n.begin[a]] = b, n.items[--n.begin[b]] = a;
  return n;
}

// The smallest gap between the taken ranges (sorted here) that holds `bytes`, else the end of the last.
int64_t best_gap(std::vector<std::pair<int64_t, int64_t>>& taken, int64_t bytes) {
  std::sort(taken.begin(), taken.end());
  int64_t at = 0, best = -1, best_room = std::numeric_limits<int64_t>::max();
  for (const auto& [begin, end] : taken) {
    if (const int64_t room = begin - at; room >= bytes && room < best_room) {
      best = at;
      best_room = room;
    }
    at = std::max(at, end);
  }
  return best >= 0 ? best : at;
}

// Places the largest blocks first, each in the smallest gap left by those alive with it.
Placement by_size(const std::vector<Block>& blocks, const Neighbours& near) {
  Placement placed{std::vector<int64_t>(blocks.size(), -1)};
  Indexes order(blocks.size());
  for (size_t i = 0; i < order.size(); ++i) order[i] = int32_t(i);
  std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
    const int32_t length_a = blocks[a].last - blocks[a].first, length_b = blocks[b].last - blocks[b].first;
    return blocks[a].bytes != blocks[b].bytes ? blocks[a].bytes > blocks[b].bytes : length_a > length_b;
  });
  std::vector<std::pair<int64_t, int64_t>> taken;
  for (int32_t i : order) {
    taken.clear();
    for (int32_t e = near.begin[i]; e < near.begin[i + 1]; ++e) {
      const int32_t o = near.items[e];
      if (placed.offset[o] >= 0 && blocks[o].bytes > 0)
        taken.push_back({placed.offset[o], placed.offset[o] + blocks[o].bytes});
    }
    placed.offset[i] = blocks[i].bytes > 0 ? best_gap(taken, blocks[i].bytes) : 0;
    placed.end = std::max(placed.end, placed.offset[i] + blocks[i].bytes);
  }
  return placed;
}

int64_t peak_of(const std::vector<Block>& blocks, const Indexes& by_first, const Indexes& by_last) {
  int64_t live = 0, peak = 0;
  size_t next = 0;
  for (int32_t i : by_first) {
    for (; blocks[by_last[next]].last < blocks[i].first; ++next) live -= blocks[by_last[next]].bytes;
    live += blocks[i].bytes;
    peak = std::max(peak, live);
  }
  return peak;
}

}  // namespace

Offsets assign_offsets(std::span<const Lifetime> lifetimes) {
  std::vector<Block> blocks;
  blocks.reserve(lifetimes.size());
  for (const Lifetime& l : lifetimes) blocks.push_back({round_up(l.bytes, kSlabAlignment), l.first, l.last});
  Indexes by_first = sorted_by(blocks, &Block::first), by_last = sorted_by(blocks, &Block::last);
  const int64_t peak = peak_of(blocks, by_first, by_last);
  Placement best = scan(blocks, by_first, by_last, [](const Block& a, const Block& b) { return a.last < b.first; });
  const auto offer = [&](Placement other) {
    if (other.end < best.end) best = std::move(other);
  };
  if (best.end > peak) {
    Indexes from_end(by_last.rbegin(), by_last.rend()), to_start(by_first.rbegin(), by_first.rend());
    offer(scan(blocks, from_end, to_start, [](const Block& a, const Block& b) { return a.first > b.last; }));
  }
  if (best.end > peak) {
    const Neighbours near = neighbours(blocks, by_first, 4096 + 8 * blocks.size());
    if (!near.begin.empty()) offer(by_size(blocks, near));
  }
  return {std::move(best.offset), best.end, peak};
}

}  // namespace tessera
