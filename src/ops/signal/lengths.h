// Numbers that signal operators read from small tensors: lengths, steps and axes nobody has checked.
#pragma once
#include "ops/op.h"

namespace tessera {

// Input i is a scalar, or a list of one.
template <class D>
Status check_scalar(ShapeCall<D>& c, int i) {
  const D n = c.count(i);
  if (known(n) && number(n) != 1) return c.refuse(i, "a scalar");
  return {};
}

// The integer in scalar input i, when it is known.
template <class D>
std::optional<D> known_scalar(ShapeCall<D>& c, int i) {
  const auto content = c.content(i);
  if (!content || content->size() != 1) return {};
  return (*content)[0];
}

}  // namespace tessera
