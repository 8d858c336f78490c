#include "runtime/offsets.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <utility>

#include "base/checked.h"
#include "runtime/offsets_pack.h"

namespace tessera {
namespace {

using slab::Block;
using slab::Indexes;
using slab::Placement;

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

// The blocks alive at one moment of a run through a slab, and the gaps between them.
class Tenants {
 public:
  explicit Tenants(int64_t capacity) : capacity_(capacity) {}

  // Places a block that dies at `death` in a gap, at the side where the neighbour lives longer: the rest of the gap
  // then grows sooner. Without a gap the slab grows.
  int64_t place(int64_t bytes, int32_t death) {
    size_t at = tenants_.size();
    int64_t begin = 0, chosen = 0, least = std::numeric_limits<int64_t>::max();
    for (size_t i = 0; i <= tenants_.size(); ++i) {
      const int64_t room = (i < tenants_.size() ? tenants_[i].offset : capacity_) - begin;
      if (room >= bytes && room < least) {
        least = room;
        at = i;
        chosen = begin;
      }
      if (i < tenants_.size()) begin = tenants_[i].end;
    }
    if (least == std::numeric_limits<int64_t>::max()) {
      chosen = begin;
      capacity_ = begin + bytes;
    } else if (least > bytes && death_at(at) > death_at(at - 1)) {
      chosen += least - bytes;
    }
    tenants_.insert(tenants_.begin() + ptrdiff_t(at), {chosen, chosen + bytes, death});
    return chosen;
  }

  void remove_dead(int32_t now) {
    std::erase_if(tenants_, [&](const Tenant& t) { return t.death < now; });
  }

  size_t size() const { return tenants_.size(); }

 private:
  struct Tenant {
    int64_t offset, end;
    int32_t death;
  };

  // The ends of the slab outlive everything, the low one most.
  int64_t death_at(size_t i) const {
    if (i < tenants_.size()) return tenants_[i].death;
    return std::numeric_limits<int64_t>::max() - (i == tenants_.size());
  }

  std::vector<Tenant> tenants_;  // by offset
  int64_t capacity_;
};

// The same, knowing the gaps alone: quick however many blocks are alive, but blind to when neighbours die.
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

// Places blocks as a run would allocate and free them, in the order of `starts`. Without an offset if more than `limit`
// blocks would have to be looked at.
Placement scan_tenants(const std::vector<Block>& blocks, const Indexes& starts, int64_t capacity, size_t limit) {
  Placement placed{std::vector<int64_t>(blocks.size(), 0)};
  Tenants tenants(capacity);
  int64_t now = std::numeric_limits<int64_t>::min();
  for (int32_t i : starts) {
    if (blocks[i].bytes == 0) continue;
    if (std::exchange(now, blocks[i].first) != blocks[i].first) tenants.remove_dead(blocks[i].first);
    if (tenants.size() > limit) return {{}, std::numeric_limits<int64_t>::max()};
    limit -= tenants.size();
    placed.offset[i] = tenants.place(blocks[i].bytes, blocks[i].last);
    placed.end = std::max(placed.end, placed.offset[i] + blocks[i].bytes);
  }
  return placed;
}

// The same with Holes and no limit. `ends` lists the blocks in the order they die.
Placement scan_holes(const std::vector<Block>& blocks, const Indexes& starts, const Indexes& ends) {
  Placement placed{std::vector<int64_t>(blocks.size(), 0)};
  Holes holes;
  size_t next = 0;
  for (int32_t i : starts) {
    for (; blocks[ends[next]].last < blocks[i].first; ++next) {
      const int32_t dead = ends[next];
      if (blocks[dead].bytes > 0) holes.give_back(placed.offset[dead], blocks[dead].bytes);
    }
    if (blocks[i].bytes > 0) placed.offset[i] = holes.take(blocks[i].bytes);
  }
  placed.end = holes.highest();
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

// Effort in proportion to the number of blocks, and some however few there are.
size_t scan_limit(size_t blocks) { return 16'384 + 16 * blocks; }            // pairs of blocks alive together
int64_t mend_budget(size_t blocks) { return 70'000 + 4 * int64_t(blocks); }  // steps, for each start
constexpr int64_t kPackBudget = 1'000'000;                                   // steps

Placement place(const std::vector<Block>& blocks, const Indexes& by_first, const Indexes& by_last, int64_t peak) {
  const size_t limit = scan_limit(blocks.size());
  std::vector<Placement> plans;
  plans.push_back(scan_tenants(blocks, by_first, peak, limit));
  if (plans[0].offset.size() != blocks.size()) return scan_holes(blocks, by_first, by_last);
  if (plans[0].end == peak) return plans[0];
  std::vector<Block> backward;
  backward.reserve(blocks.size());
  for (const Block& b : blocks) backward.push_back({b.bytes, ~b.last, ~b.first});
  plans.push_back(scan_tenants(backward, Indexes(by_last.rbegin(), by_last.rend()), peak, limit));
  const auto lowest = [&]() -> Placement& {
    return *std::min_element(plans.begin(), plans.end(),
                             [](const Placement& a, const Placement& b) { return a.end < b.end; });
  };
  const slab::Neighbours near = slab::neighbours(blocks, by_first, limit);
  if (lowest().end == peak || near.begin.empty()) return lowest();
  const int64_t good = peak + peak / 50, fair = peak + peak / 12;
  plans.push_back(slab::pack_by_size(blocks, near, good, 0));
  for (size_t i = 0; i < 3 && lowest().end > good; ++i) {
    plans.push_back(slab::mend(blocks, near, plans[i], good, mend_budget(blocks.size())));
  }
  if (lowest().end > fair) plans.push_back(slab::pack_by_size(blocks, near, fair, kPackBudget));
  return lowest();
}

}  // namespace

Offsets assign_offsets(std::span<const Lifetime> lifetimes) {
  std::vector<Block> blocks;
  blocks.reserve(lifetimes.size());
  for (const Lifetime& l : lifetimes) blocks.push_back({round_up(l.bytes, kSlabAlignment), l.first, l.last});
  const Indexes by_first = sorted_by(blocks, &Block::first), by_last = sorted_by(blocks, &Block::last);
  const int64_t peak = peak_of(blocks, by_first, by_last);
  Placement best = place(blocks, by_first, by_last, peak);
  return {std::move(best.offset), best.end, peak};
}

}  // namespace tessera
