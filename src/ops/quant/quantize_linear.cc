// QuantizeLinear — x / y_scale + y_zero_point, rounded half to even and saturated.
#include <cmath>

#include "core/convert.h"
#include "kernels/quantize.h"
#include "ops/movement.h"
#include "ops/quant/scale_map.h"

namespace tessera {
namespace {

void types(TypeCall& c) {
  const DType wanted = static_cast<const QuantParams*>(c.params)->output;
  const bool zero = c.in.size() > 2 && c.in[2].kind == Kind::tensor;
  c.out[0] = {Kind::tensor, wanted != DType::undefined ? wanted : zero ? c.in[2].dtype : DType::u8, Kind::tensor};
}

// Rounds values to a 16-bit float type.
template <class C>
void round_to(DType type, C* v, int64_t n) {
  uint16_t bits[ScaleMap::kMostRow];
  encode(type, bits, 0, n, v);
  decode(type, bits, 0, n, v);
}

// The type in which the division is rounded: the attribute's, or the wider one of the operands.
DType division_type(const QuantParams& p, DType x, DType scale) {
  if (p.precision != DType::undefined) return p.precision;
  if (x == scale || scale == DType::f8e8m0) return x;
  return x == DType::i32 || scale == DType::i32 ? DType::f64 : DType::f32;
}

// Whole numbers in [low, high]; NaN gives low. The bounds are far below the size at which floats lose whole numbers.
template <class C>
void round_and_saturate(C* v, const C* zero, int64_t step, C low, C high, int64_t n) {
  // Adding and subtracting this leaves no fraction bits: rounds to nearest even whatever the CPU's instruction set.
  constexpr C kWhole = sizeof(C) == 4 ? C(12582912) : C(6755399441055744);
  for (int64_t i = 0; i < n; ++i) {
    const C z = zero[i * step], least = low - z, most = high - z;
    const C q = v[i] > least ? (v[i] < most ? v[i] : most) : least;
    v[i] = (q + kWhole - kWhole) + z;
  }
}

struct Range {
  float low, high;
};
Range range_of(DType t) {
  const int bits = bits_of(t);
  const bool is_signed = t == DType::i2 || t == DType::i4 || t == DType::i8 || t == DType::i16;
  const float span = static_cast<float>(1 << bits);
  return is_signed ? Range{-span / 2, span / 2 - 1} : Range{0, span - 1};
}

// C: the type to compute in.
template <class C>
Status compute(const QuantParams& p, Call& call) {
  if constexpr (sizeof(C) == 4)
    if (p.precision == DType::f64) return compute<double>(p, call);
  const DType type = call.dtype(0), scale_type = call.dtype(1), out_type = call.out_dtype(0);
  const void *x = call.in(0), *scale = call.in(1), *zero = call.has(2) ? call.in(2) : nullptr;
  void* y = call.out(0);
  clear_sub_byte(out_type, y, call.out_count(0));
  const DType division = division_type(p, type, scale_type);
  const bool narrow = kHalfFloats.has(division);
  const bool integer = !(kFloat8 | kFloat6 | set_of(DType::f4e2m1)).has(out_type);
  const Range range = range_of(out_type);
  const bool bytes = set_of(DType::i8, DType::u8).has(out_type) && division == DType::f32 && type == DType::f32 &&
                     scale_type == DType::f32;
  ScaleMap(p, call.shape(0), call.shape(1)).run(call, [&](const ScaleMap::Row& r) {
    if (bytes && r.step == 0) {
      ByteScale to{static_cast<const float*>(scale)[r.scale], 0, out_type == DType::i8};
      if (zero) decode(out_type, zero, r.scale, 1, &to.zero);
      quantize_bytes(call.target(), to, static_cast<const float*>(x) + r.at, r.n, static_cast<uint8_t*>(y) + r.at);
      return;
    }
    C value[ScaleMap::kMostRow], scales[ScaleMap::kMostRow], zeros[ScaleMap::kMostRow];
    const int64_t n = r.step ? r.n : 1;
    decode(type, x, r.at, r.n, value);
    decode(scale_type, scale, r.scale, n, scales);
    if (zero)
      decode(out_type, zero, r.scale, n, zeros);
    else
      std::fill_n(zeros, n, C{0});
    if (narrow && division != type) round_to(division, value, r.n);
    if (narrow && division != scale_type) round_to(division, scales, n);
    for (int64_t i = 0; i < r.n; ++i) value[i] /= scales[i * r.step];
    if (narrow) round_to(division, value, r.n);
    if (integer)
      round_and_saturate<C>(value, zeros, r.step, range.low, range.high, r.n);
    else if (zero && !kFloat8.has(out_type))
      for (int64_t i = 0; i < r.n; ++i) value[i] += zeros[i * r.step];
    encode(out_type, y, r.at, r.n, value, p.saturate);
  });
  return {};
}

constexpr TypeRule kFloatTypes[] = {{in_arg(0), set_of(DType::f32, DType::f16, DType::bf16)},
                                    {in_arg(1), kScaleTypes},
                                    {in_arg(2) | out_arg(0), kQuantized}};
constexpr TypeRule kIntegerTypes[] = {{in_arg(0), set_of(DType::f32, DType::f16, DType::bf16, DType::i32)},
                                      {in_arg(1), kScaleTypes | set_of(DType::i32)},
                                      {in_arg(2) | out_arg(0), kQuantized}};
constexpr Kernel kKernels[] = {{kFloatTypes, compute_with<QuantParams, compute<float>>},
                               {kIntegerTypes, compute_with<QuantParams, compute<double>>}};
constexpr int16_t kVersions[] = {10, 13, 19, 21, 23, 24, 25, 28};

}  // namespace

extern constexpr Op kQuantizeLinear{.domain = "",
                                    .name = "QuantizeLinear",
                                    .versions = kVersions,
                                    .parse = parse_params<QuantParams, parse_quant>,
                                    .types = types,
                                    .shape = shape_with<QuantParams, int64_t, quant_shape<int64_t>>,
                                    .kernels = kKernels};
extern constexpr OpInference kQuantizeLinearInference{.shape = shape_with<QuantParams, Dim, quant_shape<Dim>>};

}  // namespace tessera
