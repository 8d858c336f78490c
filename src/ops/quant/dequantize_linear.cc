// DequantizeLinear — (x - x_zero_point) * x_scale.
#include "core/convert.h"
#include "kernels/quantize.h"
#include "ops/quant/scale_map.h"

namespace tessera {
namespace {

void types(TypeCall& c) {
  const DType wanted = static_cast<const QuantParams*>(c.params)->output;
  c.out[0] = {Kind::tensor, wanted == DType::undefined ? c.in[1].dtype : wanted, Kind::tensor};
}

// Differences are exact: integers of 32 bits are subtracted before they are rounded to float.
void subtract_wide(const int32_t* x, const int32_t* zero, const ScaleMap::Row& r, float* out) {
  for (int64_t i = 0; i < r.n; ++i)
    out[i] = static_cast<float>(int64_t{x[r.at + i]} - (zero ? zero[r.scale + i * r.step] : 0));
}

Status compute(const QuantParams& p, Call& call) {
  const DType type = call.dtype(0), scale_type = call.dtype(1), out_type = call.out_dtype(0);
  const void *x = call.in(0), *scale = call.in(1), *zero = call.has(2) ? call.in(2) : nullptr;
  void* y = call.out(0);
  const bool bytes = set_of(DType::i8, DType::u8).has(type) && scale_type == DType::f32 && out_type == DType::f32;
  ScaleMap(p, call.shape(0), call.shape(1)).run(call, [&](const ScaleMap::Row& r) {
    if (bytes && r.step == 0) {
      ByteScale from{static_cast<const float*>(scale)[r.scale], 0, type == DType::i8};
      if (zero) decode(type, zero, r.scale, 1, &from.zero);
      dequantize_bytes(call.target(), from, static_cast<const uint8_t*>(x) + r.at, r.n, static_cast<float*>(y) + r.at);
      return;
    }
    float value[ScaleMap::kMostRow], zeros[ScaleMap::kMostRow], scales[ScaleMap::kMostRow];
    const int64_t n = r.step ? r.n : 1;
    if (type == DType::i32) {
      subtract_wide(static_cast<const int32_t*>(x), static_cast<const int32_t*>(zero), r, value);
    } else {
      decode(type, x, r.at, r.n, value);
      if (zero) {
        decode(type, zero, r.scale, n, zeros);
        for (int64_t i = 0; i < r.n; ++i) value[i] -= zeros[i * r.step];
      }
    }
    decode(scale_type, scale, r.scale, n, scales);
    float* to = out_type == DType::f32 ? static_cast<float*>(y) + r.at : value;
    for (int64_t i = 0; i < r.n; ++i) to[i] = value[i] * scales[i * r.step];
    if (to == value) encode(out_type, y, r.at, r.n, value);
  });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | in_arg(2), kQuantized | set_of(DType::i32)},
                               {in_arg(1), kScaleTypes},
                               {out_arg(0), set_of(DType::f32, DType::f16, DType::bf16)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<QuantParams, compute>}};
constexpr int16_t kVersions[] = {10, 13, 19, 21, 23, 24, 25, 28};

}  // namespace

extern constexpr Op kDequantizeLinear{.domain = "",
                                      .name = "DequantizeLinear",
                                      .versions = kVersions,
                                      .parse = parse_params<QuantParams, parse_quant>,
                                      .types = types,
                                      .shape = shape_with<QuantParams, int64_t, quant_shape<int64_t>>,
                                      .kernels = kKernels};
extern constexpr OpInference kDequantizeLinearInference{.shape = shape_with<QuantParams, Dim, quant_shape<Dim>>};

}  // namespace tessera
