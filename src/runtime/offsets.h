// Lifetimes to offsets: where each buffer of a run lies in one slab.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

// A buffer is live during the steps first..last, both included.
struct Lifetime {
  int64_t bytes;
  int32_t first, last;
};

struct Offsets {
  std::vector<int64_t> offset;  // per lifetime, a multiple of kSlabAlignment
  int64_t slab_bytes;           // end of the highest buffer
  int64_t peak_bytes;           // largest sum of live bytes, each rounded up to kSlabAlignment: no slab can be smaller
};

inline constexpr int64_t kSlabAlignment = 64;

// Two lifetimes that share a step never share a byte. A lifetime of 0 bytes takes no room. Pure: the same lifetimes
// give the same offsets. Needs bytes >= 0, first <= last, and a sum of rounded bytes that fits an int64_t. Near O(n log
// n).
Offsets assign_offsets(std::span<const Lifetime> lifetimes);

}  // namespace tessera
