// Arithmetic on sizes that came from outside: every product and sum either fits or says so.
#pragma once
#include <cstdint>

namespace tessera {

// *out = a * b (or a + b); false on overflow, *out then unspecified.
[[nodiscard]] inline bool checked_mul(int64_t a, int64_t b, int64_t* out) { return !__builtin_mul_overflow(a, b, out); }
[[nodiscard]] inline bool checked_add(int64_t a, int64_t b, int64_t* out) { return !__builtin_add_overflow(a, b, out); }

// True if [offset, offset + length) lies inside [0, size).
[[nodiscard]] inline bool range_inside(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

inline constexpr int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline constexpr int64_t round_up(int64_t a, int64_t multiple) { return ceil_div(a, multiple) * multiple; }

}  // namespace tessera
