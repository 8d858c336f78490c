#include "runtime/offsets_pack.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace tessera::slab {

Neighbours neighbours(const std::vector<Block>& blocks, const Indexes& by_first, size_t limit) {
  std::vector<std::pair<int32_t, int32_t>> pairs;
  Indexes alive;
  for (int32_t i : by_first) {
    if (blocks[i].bytes == 0) continue;
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

namespace {

// The lowest gap between the taken ranges (sorted here) that holds `bytes`, else the end of the last.
int64_t lowest_gap(std::vector<std::pair<int64_t, int64_t>>& taken, int64_t bytes) {
  std::sort(taken.begin(), taken.end());
  int64_t at = 0;
  for (const auto& [begin, end] : taken) {
    if (begin - at >= bytes) break;
    at = std::max(at, end);
  }
  return at;
}

class Packer {
 public:
  Packer(const std::vector<Block>& blocks, const Neighbours& near, Placement start)
      : blocks_(blocks), near_(near), placed_(std::move(start)) {}

  // Places all by size; then again and again with what ended too high placed first.
  Placement repack(int64_t target, int64_t budget) {
    Indexes order(blocks_.size());
    std::iota(order.begin(), order.end(), 0);
    sort_by_size(order);
    Placement best{{}, std::numeric_limits<int64_t>::max()};
    do {
      placed_.offset.assign(blocks_.size(), -1);
      for (int32_t i : order) place(i);
      if (result().end < best.end) best = placed_;
      std::stable_partition(order.begin(), order.end(), [&](int32_t i) { return end_of(i) >= best.end; });
    } while (best.end > target && steps_ < budget);
    return best;
  }

  Placement mend(int64_t target, int64_t budget) {
    Indexes above;
    std::vector<uint8_t> listed(blocks_.size(), 0);
    const auto list = [&](int32_t i) {
      if (end_of(i) > target && !std::exchange(listed[i], 1)) above.push_back(i);
    };
    for (size_t i = 0; i < blocks_.size(); ++i) list(int32_t(i));
    for (size_t turn = 0; !above.empty() && steps_ < budget; ++turn) {
      const size_t k = turn % above.size();
      const int32_t worst = above[k];
      if (end_of(worst) <= target) {
        listed[worst] = 0;
        above[k] = above.back();
        above.pop_back();
        continue;
      }
      Indexes group(near_.items.begin() + near_.begin[worst], near_.items.begin() + near_.begin[worst + 1]);
      if (turn % 2 == 1) widen(group, worst);
      shuffle(group, turn);
      group.insert(group.begin(), worst);
      replace(group, target);
      for (int32_t i : group) list(i);
    }
    return result();
  }

 private:
  int64_t end_of(int32_t i) const { return placed_.offset[i] + blocks_[i].bytes; }

  const Placement& result() {
    placed_.end = 0;
    for (size_t i = 0; i < blocks_.size(); ++i) placed_.end = std::max(placed_.end, end_of(int32_t(i)));
    return placed_;
  }

  void sort_by_size(Indexes& order) const {
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      if (blocks_[a].bytes != blocks_[b].bytes) return blocks_[a].bytes > blocks_[b].bytes;
      const int32_t length_a = blocks_[a].last - blocks_[a].first, length_b = blocks_[b].last - blocks_[b].first;
      return length_a != length_b ? length_a > length_b : a < b;
    });
  }

  // By size, in all turns but one of four with each size scaled at random, by the same random numbers every time.
  void shuffle(Indexes& group, size_t turn) {
    if (turn % 4 == 0) return sort_by_size(group);
    keyed_.clear();
    for (int32_t i : group) {
      random_ = random_ * 6364136223846793005u + 1442695040888963407u;
      keyed_.push_back({-double(blocks_[i].bytes) * double(64 + (random_ >> 33) % 128), i});
    }
    std::sort(keyed_.begin(), keyed_.end());
    for (size_t k = 0; k < group.size(); ++k) group[k] = keyed_[k].second;
  }

  // Adds the neighbours of the group's blocks, but not the one the group is for.
  void widen(Indexes& group, int32_t center) {
    const size_t count = group.size();
    for (size_t k = 0; k < count; ++k) {
      group.insert(group.end(), near_.items.begin() + near_.begin[group[k]],
                   near_.items.begin() + near_.begin[group[k] + 1]);
    }
    steps_ += int64_t(group.size());
    std::sort(group.begin(), group.end());
    group.erase(std::unique(group.begin(), group.end()), group.end());
    std::erase(group, center);
  }

  // Places the group anew in its order; puts it back if more then lies above the target.
  void replace(const Indexes& group, int64_t target) {
    int64_t before = 0, after = 0;
    old_.clear();
    for (int32_t i : group) {
      before += std::max<int64_t>(0, end_of(i) - target);
      old_.push_back(placed_.offset[i]);
      placed_.offset[i] = -1;
    }
    for (int32_t i : group) {
      place(i);
      after += std::max<int64_t>(0, end_of(i) - target);
    }
    if (after <= before) return;
    for (size_t k = 0; k < group.size(); ++k) placed_.offset[group[k]] = old_[k];
  }

  void place(int32_t i) {
    taken_.clear();
    for (int32_t e = near_.begin[i]; e < near_.begin[i + 1]; ++e) {
      const int32_t o = near_.items[e];
      if (placed_.offset[o] >= 0) taken_.push_back({placed_.offset[o], end_of(o)});
    }
    steps_ += 1 + near_.begin[i + 1] - near_.begin[i];
    placed_.offset[i] = lowest_gap(taken_, blocks_[i].bytes);
  }

  const std::vector<Block>& blocks_;
  const Neighbours& near_;
  Placement placed_;
  std::vector<std::pair<int64_t, int64_t>> taken_;
  std::vector<int64_t> old_;
  std::vector<std::pair<double, int32_t>> keyed_;
  uint64_t random_ = 1;
  int64_t steps_ = 0;
};

}  // namespace

Placement pack_by_size(const std::vector<Block>& blocks, const Neighbours& near, int64_t target, int64_t budget) {
  return Packer(blocks, near, {}).repack(target, budget);
}

Placement mend(const std::vector<Block>& blocks, const Neighbours& near, Placement from, int64_t target,
               int64_t budget) {
  return Packer(blocks, near, std::move(from)).mend(target, budget);
}

}  // namespace tessera::slab
