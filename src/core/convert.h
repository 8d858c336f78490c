// Numbers in storage types: exact decoding, and encoding with ONNX's rounding and saturation rules.
#pragma once
#include <cstdint>

#include "core/dtype.h"

namespace tessera {

float f16_to_float(uint16_t bits);
uint16_t float_to_f16(float v);
float bf16_to_float(uint16_t bits);
uint16_t float_to_bf16(float v);

// A float beside v, such that rounding it to a type of at most 22 significant bits gives what rounding v itself would:
// v cut towards zero, with the last bit set if anything was cut off.
float float_to_odd(double v);
float float_to_odd(int64_t v);
float float_to_odd(uint64_t v);

// A float type of at most 8 bits, described by its fields. Decoding and encoding are table-free and exact.
// `saturate`: out of range gives the largest finite value (else inf or NaN, as the type can hold); for f8e8m0, which
// has no zero, also the smallest value for what lies below it.
float small_float_decode(DType type, uint8_t bits);
uint8_t small_float_encode(DType type, float v, bool saturate);
enum class E8M0Rounding : uint8_t { up, down, nearest };
uint8_t float_to_e8m0(float v, bool saturate, E8M0Rounding rounding);

// Element i of packed sub-byte storage, sign-extended for signed types; floats give their bits.
int sub_byte_get(DType type, const void* data, int64_t i);
void sub_byte_set(DType type, void* data, int64_t i, int value);

// Whole arrays between any real-number type and float / double / int64. `from` and `to` are element offsets.
// Integers out of range wrap, floats to integers give what x86 gives (the lowest value) when out of range or NaN.
void decode(DType type, const void* data, int64_t from, int64_t n, float* out);
void decode(DType type, const void* data, int64_t from, int64_t n, double* out);
void decode(DType type, const void* data, int64_t from, int64_t n, int64_t* out);
void encode(DType type, void* data, int64_t to, int64_t n, const float* in, bool saturate = true);
void encode(DType type, void* data, int64_t to, int64_t n, const double* in, bool saturate = true);
void encode(DType type, void* data, int64_t to, int64_t n, const int64_t* in, bool saturate = true);

// float or double to an integer type: truncation, and the lowest value when out of range or NaN.
template <class I, class F>
I to_integer(F v) {
  constexpr F low = static_cast<F>(static_cast<I>(I{1} << (sizeof(I) * 8 - 1)));
  if constexpr (static_cast<I>(-1) < I{0}) {
    if (!(v >= low && v < -low)) return static_cast<I>(I{1} << (sizeof(I) * 8 - 1));
    return static_cast<I>(v);
  } else {
    return v >= F{0} && v < 2 * low ? static_cast<I>(v)
           : v < F{0} && v > -low   ? static_cast<I>(static_cast<int64_t>(v))
                                    : I{0};
  }
}

}  // namespace tessera
