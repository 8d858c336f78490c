// Bytes that stand for floats, one scale and zero point for all: the conversions, and arithmetic in between. Every
// result is that of the separate steps, each rounded to float; NaN quantises to the lowest byte.
#pragma once
#include <cstdint>

#include "base/cpu.h"

namespace tessera {

struct ByteScale {
  float scale = 1;
  float zero = 0;  // in the range of the type
  bool is_signed = false;
};

// out[i] = (x[i] - zero) * scale.
void dequantize_bytes(Target target, const ByteScale& from, const void* x, int64_t n, float* out);
// out[i] = the nearest integer (ties to even) to x[i] / scale, plus zero, clamped to the range of the type.
void quantize_bytes(Target target, const ByteScale& to, const float* x, int64_t n, void* out);

// The least and the greatest of `n` numbers and those given in *low and *high; NaNs do not count.
void float_range(Target target, const float* x, int64_t n, float* low, float* high);
// out[i] = table[x[i]], of 256 entries.
void look_up_bytes(Target target, const uint8_t* table, const uint8_t* x, int64_t n, uint8_t* out);

enum class ByteArithmetic : uint8_t { add, subtract, multiply };

struct ByteOperand {
  const void* data;
  int64_t step;  // 0: one element for all; 1
  ByteScale scale;
};
// out[i] = quantize(dequantize(a[i]) op dequantize(b[i])).
void combine_bytes(Target target, ByteArithmetic op, const ByteOperand& a, const ByteOperand& b, const ByteScale& to,
                   int64_t n, void* out);

}  // namespace tessera
