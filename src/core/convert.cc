#include "core/convert.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

namespace tessera {

float f16_to_float(uint16_t h) {
  const uint32_t sign = uint32_t(h & 0x8000) << 16;
  const uint32_t exponent = h >> 10 & 31, mantissa = h & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13 | (mantissa ? 0x400000 : 0));
  if (exponent) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
  const float magnitude = float(mantissa) * 0x1p-24f;
  return sign ? -magnitude : magnitude;
}

uint16_t float_to_f16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  const auto sign = uint16_t(bits >> 16 & 0x8000);
  const uint32_t magnitude = bits & 0x7fffffff;
  if (magnitude > 0x7f800000) return sign | 0x7e00 | uint16_t(magnitude >> 13 & 0x3ff);
  if (magnitude >= 0x477ff000) return sign | 0x7c00;
  if (magnitude < 0x38800000) {  // below 2^-14: the addition rounds to a multiple of 2^-24
    const float rounded = std::bit_cast<float>(magnitude) + 0.5f;
    return sign | uint16_t(std::bit_cast<uint32_t>(rounded) - 0x3f000000);
  }
  return sign | uint16_t((magnitude - 0x38000000 + 0xfff + (magnitude >> 13 & 1)) >> 13);
}

float bf16_to_float(uint16_t b) { return std::bit_cast<float>(uint32_t(b) << 16); }

uint16_t float_to_bf16(float v) {
  const uint32_t bits = std::bit_cast<uint32_t>(v);
  if (std::isnan(v)) return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

float float_to_odd(double v) {
  const float f = static_cast<float>(v);
  if (static_cast<double>(f) == v || std::isnan(v)) return f;
  const uint32_t bits = std::bit_cast<uint32_t>(f);
  const bool beyond = std::fabs(static_cast<double>(f)) > std::fabs(v);
  return std::bit_cast<float>((beyond ? bits - 1 : bits) | 1);
}
float float_to_odd(uint64_t v) {
  const int cut = std::max(0, static_cast<int>(std::bit_width(v)) - 24);
  const uint64_t lost = v & ((uint64_t{1} << cut) - 1);
  return std::ldexp(static_cast<float>(v >> cut | (lost ? 1 : 0)), cut);
}
float float_to_odd(int64_t v) {
  const auto bits = static_cast<uint64_t>(v);
  return v < 0 ? -float_to_odd(0 - bits) : float_to_odd(bits);
}

namespace {

// Fields of a small float: value = 2^(e - bias) * 1.m, or 2^(1 - bias) * 0.m when e is 0.
struct SmallFloat {
  int exponent_bits, mantissa_bits, bias;
  bool has_inf, unsigned_zero;  // unsigned_zero: the pattern of -0 is the only NaN
  uint8_t largest;              // magnitude bits of the largest finite value
  uint8_t nan;                  // magnitude bits; 0 where there is no NaN
};

SmallFloat small_float(DType t) {
  switch (t) {
    case DType::f8e4m3fn: return {4, 3, 7, false, false, 0x7e, 0x7f};
    case DType::f8e4m3fnuz: return {4, 3, 8, false, true, 0x7f, 0};
    case DType::f8e5m2: return {5, 2, 15, true, false, 0x7b, 0x7f};
    case DType::f8e5m2fnuz: return {5, 2, 16, false, true, 0x7f, 0};
    case DType::f6e2m3: return {2, 3, 1, false, false, 0x1f, 0};
    case DType::f6e3m2: return {3, 2, 3, false, false, 0x1f, 0};
    default: return {2, 1, 1, false, false, 0x07, 0};  // f4e2m1
  }
}

}  // namespace

float small_float_decode(DType type, uint8_t bits) {
  if (type == DType::f8e8m0)
    return bits == 255 ? std::numeric_limits<float>::quiet_NaN() : std::ldexp(1.0f, bits - 127);
  const SmallFloat f = small_float(type);
  const int width = f.exponent_bits + f.mantissa_bits;
  const int magnitude = bits & ((1 << width) - 1);
  const bool negative = bits >> width & 1;
  if (f.unsigned_zero && negative && magnitude == 0) return std::numeric_limits<float>::quiet_NaN();
  if (f.nan && magnitude > f.largest) {
    const bool infinite = f.has_inf && magnitude == f.largest + 1;
    const float v = infinite ? std::numeric_limits<float>::infinity() : std::numeric_limits<float>::quiet_NaN();
    return negative ? -v : v;
  }
  const int e = magnitude >> f.mantissa_bits, m = magnitude & ((1 << f.mantissa_bits) - 1);
  const float v = e ? std::ldexp(float(m + (1 << f.mantissa_bits)), e - f.bias - f.mantissa_bits)
                    : std::ldexp(float(m), 1 - f.bias - f.mantissa_bits);
  return negative ? -v : v;
}

uint8_t small_float_encode(DType type, float v, bool saturate) {
  if (type == DType::f8e8m0) return float_to_e8m0(v, saturate, E8M0Rounding::up);
  const SmallFloat f = small_float(type);
  const int width = f.exponent_bits + f.mantissa_bits;
  const auto sign = uint8_t(std::signbit(v) << width);
  const uint8_t nan = f.unsigned_zero ? uint8_t(1 << width) : uint8_t(sign | f.nan);
  // Types without NaN: zero with the other sign, as the reference conversion gives.
  if (std::isnan(v)) return f.nan || f.unsigned_zero ? nan : uint8_t(sign ^ 1 << width);
  const float a = std::fabs(v);
  int magnitude = f.largest + 1;
  if (std::isfinite(a)) {
    const int e = a > 0 ? std::max(std::ilogb(a), 1 - f.bias) : 1 - f.bias;
    // In units of the last place of exponent e; nearbyint rounds half to even. A carry moves into the exponent field.
    const double units = std::nearbyint(std::ldexp(double(a), f.mantissa_bits - e));
    magnitude = int(std::min(units + double(int64_t(e + f.bias - 1) << f.mantissa_bits), 1e6));
  }
  if (magnitude <= f.largest) return f.unsigned_zero && magnitude == 0 ? 0 : uint8_t(sign | magnitude);
  if (!f.nan && !f.unsigned_zero) return sign | f.largest;
  if (saturate) return sign | f.largest;
  return f.has_inf ? uint8_t(sign | (f.largest + 1)) : nan;
}

uint8_t float_to_e8m0(float v, bool saturate, E8M0Rounding rounding) {
  if (std::isnan(v)) return 255;
  const float a = std::fabs(v);
  if (std::isinf(a)) return saturate ? 254 : 255;
  if (a < 0x1p-127f) return saturate ? 0 : 255;
  int e = std::ilogb(a);
  const float fraction = std::ldexp(a, -e);  // in [1, 2)
  const bool up =
      rounding == E8M0Rounding::up ? fraction > 1.0f : rounding == E8M0Rounding::nearest && fraction >= 1.5f;
  e += 127 + (up ? 1 : 0);
  if (e > 254) return saturate ? 254 : 255;
  return uint8_t(e);
}

int sub_byte_get(DType type, const void* data, int64_t i) {
  const auto* p = static_cast<const uint8_t*>(data);
  const int bits = bits_of(type);
  const int64_t at = i * bits;
  int v = p[at / 8] >> (at % 8);
  if (at % 8 + bits > 8) v |= p[at / 8 + 1] << (8 - at % 8);
  v &= (1 << bits) - 1;
  const bool is_signed = type == DType::i4 || type == DType::i2;
  return is_signed && v >> (bits - 1) ? v - (1 << bits) : v;
}

void sub_byte_set(DType type, void* data, int64_t i, int value) {
  auto* p = static_cast<uint8_t*>(data);
  const int bits = bits_of(type), mask = (1 << bits) - 1;
  const int64_t at = i * bits;
  const int shift = int(at % 8);
  p[at / 8] = uint8_t((p[at / 8] & ~(mask << shift)) | (value & mask) << shift);
  if (shift + bits > 8) {
    const int done = 8 - shift;
    p[at / 8 + 1] = uint8_t((p[at / 8 + 1] & ~(mask >> done)) | (value & mask) >> done);
  }
}

namespace {

template <class T, class Out>
void decode_native(const void* data, int64_t from, int64_t n, Out* out) {
  const T* p = static_cast<const T*>(data) + from;
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<T> && std::is_integral_v<Out>)
      out[i] = to_integer<Out>(p[i]);
    else
      out[i] = static_cast<Out>(p[i]);
  }
}

template <class Out>
void decode_any(DType type, const void* data, int64_t from, int64_t n, Out* out) {
  const auto each = [&](auto get) {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (std::is_integral_v<Out>)
        out[i] = to_integer<Out>(get(from + i));
      else
        out[i] = static_cast<Out>(get(from + i));
    }
  };
  const auto* p8 = static_cast<const uint8_t*>(data);
  const auto* p16 = static_cast<const uint16_t*>(data);
  switch (type) {
    case DType::f32: return decode_native<float>(data, from, n, out);
    case DType::f64: return decode_native<double>(data, from, n, out);
    case DType::i8: return decode_native<int8_t>(data, from, n, out);
    case DType::i16: return decode_native<int16_t>(data, from, n, out);
    case DType::i32: return decode_native<int32_t>(data, from, n, out);
    case DType::i64: return decode_native<int64_t>(data, from, n, out);
    case DType::u8: return decode_native<uint8_t>(data, from, n, out);
    case DType::u16: return decode_native<uint16_t>(data, from, n, out);
    case DType::u32: return decode_native<uint32_t>(data, from, n, out);
    case DType::u64: return decode_native<uint64_t>(data, from, n, out);
    case DType::boolean:
      for (int64_t i = 0; i < n; ++i) out[i] = p8[from + i] != 0;
      return;
    case DType::f16: return each([&](int64_t i) { return f16_to_float(p16[i]); });
    case DType::bf16: return each([&](int64_t i) { return bf16_to_float(p16[i]); });
    case DType::u4:
    case DType::i4:
    case DType::u2:
    case DType::i2:
      for (int64_t i = 0; i < n; ++i) out[i] = static_cast<Out>(sub_byte_get(type, data, from + i));
      return;
    case DType::f4e2m1:
    case DType::f6e2m3:
    case DType::f6e3m2:
      return each([&](int64_t i) { return small_float_decode(type, uint8_t(sub_byte_get(type, data, i))); });
    default: return each([&](int64_t i) { return small_float_decode(type, p8[i]); });
  }
}

template <class T, class In>
void encode_native(void* data, int64_t to, int64_t n, const In* in) {
  T* p = static_cast<T*>(data) + to;
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_integral_v<T> && std::is_floating_point_v<In>) {
      // Narrow integers wrap from int32, as a C cast compiled for x86 does.
      using Wide = std::conditional_t<(sizeof(T) < 4), int32_t, T>;
      p[i] = static_cast<T>(to_integer<Wide>(in[i]));
    } else {
      p[i] = static_cast<T>(in[i]);
    }
  }
}

inline float to_narrow(float v) { return v; }
inline float to_narrow(double v) { return float_to_odd(v); }
inline float to_narrow(int64_t v) { return float_to_odd(v); }

template <class In>
void encode_any(DType type, void* data, int64_t to, int64_t n, const In* in, bool saturate) {
  auto* p8 = static_cast<uint8_t*>(data);
  auto* p16 = static_cast<uint16_t*>(data);
  switch (type) {
    case DType::f32: return encode_native<float>(data, to, n, in);
    case DType::f64: return encode_native<double>(data, to, n, in);
    case DType::i8: return encode_native<int8_t>(data, to, n, in);
    case DType::i16: return encode_native<int16_t>(data, to, n, in);
    case DType::i32: return encode_native<int32_t>(data, to, n, in);
    case DType::i64: return encode_native<int64_t>(data, to, n, in);
    case DType::u8: return encode_native<uint8_t>(data, to, n, in);
    case DType::u16: return encode_native<uint16_t>(data, to, n, in);
    case DType::u32: return encode_native<uint32_t>(data, to, n, in);
    case DType::u64: return encode_native<uint64_t>(data, to, n, in);
    case DType::boolean:
      for (int64_t i = 0; i < n; ++i) p8[to + i] = in[i] != In{0};
      return;
    case DType::f16:
      for (int64_t i = 0; i < n; ++i) p16[to + i] = float_to_f16(to_narrow(in[i]));
      return;
    case DType::bf16:
      for (int64_t i = 0; i < n; ++i) p16[to + i] = float_to_bf16(to_narrow(in[i]));
      return;
    case DType::u4:
    case DType::i4:
    case DType::u2:
    case DType::i2:
      for (int64_t i = 0; i < n; ++i) {
        int v;
        if constexpr (std::is_floating_point_v<In>)
          v = to_integer<int32_t>(in[i]);
        else
          v = static_cast<int>(in[i]);
        sub_byte_set(type, data, to + i, v);
      }
      return;
    case DType::f4e2m1:
    case DType::f6e2m3:
    case DType::f6e3m2:
      for (int64_t i = 0; i < n; ++i)
        sub_byte_set(type, data, to + i, small_float_encode(type, to_narrow(in[i]), saturate));
      return;
    default:
      for (int64_t i = 0; i < n; ++i) p8[to + i] = small_float_encode(type, to_narrow(in[i]), saturate);
  }
}

}  // namespace

void decode(DType type, const void* data, int64_t from, int64_t n, float* out) { decode_any(type, data, from, n, out); }
void decode(DType type, const void* data, int64_t from, int64_t n, double* out) {
  decode_any(type, data, from, n, out);
}
void decode(DType type, const void* data, int64_t from, int64_t n, int64_t* out) {
  decode_any(type, data, from, n, out);
}
void encode(DType type, void* data, int64_t to, int64_t n, const float* in, bool saturate) {
  encode_any(type, data, to, n, in, saturate);
}
void encode(DType type, void* data, int64_t to, int64_t n, const double* in, bool saturate) {
  encode_any(type, data, to, n, in, saturate);
}
void encode(DType type, void* data, int64_t to, int64_t n, const int64_t* in, bool saturate) {
  encode_any(type, data, to, n, in, saturate);
}

}  // namespace tessera
