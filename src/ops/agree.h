// Dimensions of two arguments that must be equal.
#pragma once
#include "ops/op.h"

namespace tessera {

// False only if both are known and differ.
template <class D>
bool agree(const D& a, const D& b) {
  return !known(a) || !known(b) || number(a) == number(b);
}

// Input i is a list of as many elements as `size` says.
template <class D>
bool is_list(ShapeCall<D>& c, int i, const D& size) {
  return c.rank(i) == 1 && agree(c.dim(i, 0), size);
}

}  // namespace tessera
