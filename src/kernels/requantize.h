// 32-bit sums to 8-bit numbers.
#pragma once
#include <cstdint>

#include "base/cpu.h"

namespace tessera {

struct Requantize {
  const float* scale = nullptr;  // of element i: scale[i * scale_step]
  int64_t scale_step = 0;        // 0 or 1
  int32_t bias = 0;              // added to every sum, modulo 2^32
  float zero = 0;
  bool is_signed = false;
};

// out[i] = the nearest integer (ties to even) to (sums[i] + bias) * scale, plus zero, clamped to the range of the
// output. NaN becomes the lowest value.
void requantize(Target target, const Requantize& r, const int32_t* sums, int64_t n, void* out);

}  // namespace tessera
