// Reordering the dimensions of a dense tensor.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace tessera {

inline constexpr size_t kMaxTransposeRank = 64;

// y's dimension i is x's dimension perm[i]: y[j] = x[j'] with j'[perm[i]] = j[i]. perm is a permutation of [0, rank),
// rank at most 64; elem is 1, 2, 4, 8 or 16 bytes; the product of dims times elem fits in 63 bits. x and y must not
// overlap; they need no particular alignment.
void transpose(const void* x, void* y, size_t elem, std::span<const int64_t> dims, std::span<const int> perm,
               int threads);

}  // namespace tessera
