// Borders added to (or, negative, taken from) the sides of a tensor.
#pragma once
#include "ops/movement.h"

namespace tessera {

enum class PadMode : uint8_t { constant, reflect, edge, wrap };

// What a padded output is made of: along axis i, `length[i]` elements of the input from `from[i]` on lie at `at[i]` of
// the output, and borders around them.
struct Padding {
  DimVec<int64_t> at, from, length;

  // `before` and `after` are valid for an input of these dimensions: no side takes away more than there is.
  void add(int64_t dim, int64_t before, int64_t after) {
    at.push(std::max<int64_t>(before, 0));
    from.push(std::max<int64_t>(-before, 0));
    length.push(dim + std::min<int64_t>(before, 0) + std::min<int64_t>(after, 0));
  }
};

// Fills output 0, which the shape function sized, from input 0. `value` is one element for constant borders, or null
// for zero.
Status pad_input(Call& call, const Padding& p, PadMode mode, const void* value);

}  // namespace tessera
