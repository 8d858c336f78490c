// Elementwise F32 functions over arrays.
//
// Each element's result depends on its value alone, not on its place, the array's length or alignment (for a given
// target). Corner cases follow IEEE: NaN gives NaN, infinities and signed zeros give what the function's limit says,
// denormals are computed with. exp and log are within 2 ulp, tanh, sigmoid, erf, sin and cos within 4. Single-threaded:
// the caller cuts.
#pragma once
#include <cstdint>

#include "base/cpu.h"

namespace tessera {

enum class Unary : unsigned char {
  exp,
  log,
  tanh,
  sigmoid,
  erf,
  relu,       // NaN stays NaN
  gelu_erf,   // x/2 * (1 + erf(x / sqrt(2)))
  gelu_tanh,  // x/2 * (1 + tanh(sqrt(2/pi) * (x + 0.044715 x^3)))
  sqrt,
  reciprocal,
  neg,
  abs,
  floor,
  ceil,
  round,  // half to even
  sin,
  cos,
  softplus,  // log(1 + exp(x))
  sign,      // NaN stays NaN, both zeros give +0
};
inline constexpr int kUnaryCount = static_cast<int>(Unary::sign) + 1;

// y[i] = f(x[i]) for i < n; y may be x.
void unary_f32(Target target, Unary op, const float* x, float* y, int64_t n);

// min and max give NaN if either side is NaN.
enum class Binary : unsigned char { add, sub, mul, div, min, max, pow };
inline constexpr int kBinaryCount = static_cast<int>(Binary::pow) + 1;

// y[i] = f(a[i * a_step], b[i * b_step]) for i < n; a step is 0 or 1. y may be a or b if that one's step is 1.
void binary_f32(Target target, Binary op, const float* a, int64_t a_step, const float* b, int64_t b_step, float* y,
                int64_t n);

}  // namespace tessera
