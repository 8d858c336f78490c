// Moving elements without looking at them: helpers by element size, strings and sub-byte types included.
#pragma once
#include <cstring>

#include "core/convert.h"
#include "ops/op.h"

namespace tessera {

// Copies n elements from x (starting at element `from`) to y (starting at `to`). Works for every type.
inline void copy_elements(DType t, const void* x, int64_t from, void* y, int64_t to, int64_t n) {
  if (t == DType::string) {
    std::copy_n(static_cast<const std::string*>(x) + from, n, static_cast<std::string*>(y) + to);
  } else if (is_sub_byte(t)) {
    const int bits = bits_of(t);
    if (from * bits % 8 == 0 && to * bits % 8 == 0 && n * bits % 8 == 0) {
      if (n)
        std::memcpy(static_cast<char*>(y) + to * bits / 8, static_cast<const char*>(x) + from * bits / 8,
                    static_cast<size_t>(n * bits / 8));
      return;
    }
    for (int64_t i = 0; i < n; ++i) sub_byte_set(t, y, to + i, sub_byte_get(t, x, from + i));
  } else if (n) {
    const auto size = bits_of(t) / 8;
    std::memcpy(static_cast<char*>(y) + to * size, static_cast<const char*>(x) + from * size,
                static_cast<size_t>(n * size));
  }
}

// The whole of input i into output o: equal counts and types.
inline Status copy_input(Call& call, int i = 0, int o = 0) {
  void* y = call.out(o);
  if (y && y != call.in(i)) copy_elements(call.dtype(i), call.in(i), 0, y, 0, call.count(i));
  return {};
}

// Sub-byte outputs share their bytes: cleared before single elements are set.
inline void clear_sub_byte(DType t, void* data, int64_t count) {
  if (is_sub_byte(t) && data) std::memset(data, 0, static_cast<size_t>(*bytes_for(t, count)));
}

// Any type, moved as it is: x (and the inputs after it, if any) like y.
inline constexpr TypeRule kAnyType[] = {{in_arg(0) | out_arg(0), kEveryType}};

}  // namespace tessera
