// Placement of blocks in a slab without regard to the order a run would allocate them in.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tessera::slab {

using Indexes = std::vector<int32_t>;

// A lifetime with its bytes rounded up.
struct Block {
  int64_t bytes;
  int32_t first, last;
};

struct Placement {
  std::vector<int64_t> offset;
  int64_t end = 0;
};

// For every block the blocks alive with it; blocks of 0 bytes have none and are nobody's.
struct Neighbours {
  std::vector<int32_t> begin, items;
};
// Empty if more than `limit` pairs are alive together. `by_first` lists the blocks by ascending first step.
Neighbours neighbours(const std::vector<Block>& blocks, const Indexes& by_first, size_t limit);

// The largest blocks first, each in the lowest gap left by those alive with it; while the result reaches above `target`
// and steps of `budget` are left, all again with those that reach highest first.
Placement pack_by_size(const std::vector<Block>& blocks, const Neighbours& near, int64_t target, int64_t budget);

// Moves blocks around those that end above `target`, until none does or `budget` steps are spent. The result may reach
// further than `from`.
Placement mend(const std::vector<Block>& blocks, const Neighbours& near, Placement from, int64_t target,
               int64_t budget);

}  // namespace tessera::slab
