// Arrays between F32 and the two 16-bit floats. Narrowing rounds to nearest even, overflows to infinity and makes NaNs
// quiet; denormals are exact. Results are the same on every target. The arrays must not overlap. Single-threaded: the
// caller cuts.
#pragma once
#include <cstdint>

#include "base/cpu.h"

namespace tessera {

void f16_to_f32(Target target, const uint16_t* x, float* y, int64_t n);
void f32_to_f16(Target target, const float* x, uint16_t* y, int64_t n);
// Widening keeps a NaN's bits as they are.
void bf16_to_f32(Target target, const uint16_t* x, float* y, int64_t n);
void f32_to_bf16(Target target, const float* x, uint16_t* y, int64_t n);

}  // namespace tessera
