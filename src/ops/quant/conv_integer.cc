// ConvInteger, QLinearConv: convolutions of 8-bit integers, kept in 32 bits or quantized.
#include <cmath>

#include "core/convert.h"
#include "kernels/gemm_generic.h"
#include "ops/elementwise.h"
#include "ops/nn/conv_shape.h"

namespace tessera {
namespace {

template <class D>
Status check_one(ShapeCall<D>& c, int i) {
  if (!c.has(i)) return {};
  const D n = c.count(i);
  return known(n) && number(n) != 1 ? c.refuse(i, "one number") : Status{};
}
// One number, or one for each output channel of the weights.
template <class D>
Status check_per_channel(ShapeCall<D>& c, int i, int weights) {
  if (!c.has(i)) return {};
  const D n = c.count(i), channels = c.dim(weights, 0);
  if (!known(n) || number(n) == 1 || !known(channels)) return {};
  return c.rank(i) == 1 && number(n) == number(channels) ? Status{}
                                                         : c.refuse(i, "one number, or one for each output channel");
}

template <class D>
Status integer_shape(const ConvParams& p, ShapeCall<D>& c) {
  TRY((conv_output<D, 0, 1, 15>(p, c)));
  TRY(check_one(c, 2));
  return check_per_channel(c, 3, 1);
}

enum Input { kX, kXScale, kXZero, kW, kWScale, kWZero, kYScale, kYZero, kBias };

template <class D>
Status qlinear_shape(const ConvParams& p, ShapeCall<D>& c) {
  TRY((conv_output<D, kX, kW, kBias>(p, c)));
  for (const int i : {kXScale, kXZero, kYScale, kYZero}) TRY(check_one(c, i));
  TRY(check_per_channel(c, kWScale, kW));
  return check_per_channel(c, kWZero, kW);
}

int64_t integer_at(const Call& call, int i, int64_t k) {
  if (!call.has(i)) return 0;
  int64_t v;
  decode(call.dtype(i), call.in(i), call.count(i) == 1 ? 0 : k, 1, &v);
  return v;
}

// The weights with their zero points taken off.
std::vector<int32_t> centred_weights(const Call& call, int weights, int zero_point) {
  const Shape& w = call.shape(weights);
  const int64_t row = w.count(1, w.rank());
  std::vector<int32_t> out(static_cast<size_t>(w.count()));
  std::vector<int64_t> values(static_cast<size_t>(row));
  for (int64_t m = 0; m < w[0]; ++m) {
    decode(call.dtype(weights), call.in(weights), m * row, row, values.data());
    const int64_t zero = integer_at(call, zero_point, m);
    for (int64_t i = 0; i < row; ++i)
      out[static_cast<size_t>(m * row + i)] = static_cast<int32_t>(values[static_cast<size_t>(i)] - zero);
  }
  return out;
}

// Sums of products for blocks of pixels: fn(sample, first output channel, channels, first pixel, pixels, sums).
template <class T, class F>
Status convolve(Call& call, const ConvShape& s, const std::vector<int32_t>& w, int32_t zero, F&& fn) {
  if (call.out_count(0) == 0) return {};
  const int64_t m = s.out_channels / s.groups, plane = s.in[0] * s.in[1] * s.in[2];
  const int64_t depth = s.channels / s.groups * s.kernel[0] * s.kernel[1] * s.kernel[2];
  const T* x = call.in<T>(0);
  auto* patches = call.scratch<int32_t>(0);
  std::vector<int32_t> sums(static_cast<size_t>(m * patch_block(s)));
  for (int64_t i = 0; i < s.batch * s.groups; ++i)
    for (int64_t first = 0, pixels = s.out[0] * s.out[1] * s.out[2]; first < pixels; first += patch_block(s)) {
      if (call.cancelled()) return call.stopped();
      const int64_t n = std::min(patch_block(s), pixels - first);
      // What lies outside counts as the zero point.
      gather_patches(s, x + i * (s.channels / s.groups) * plane, zero, first, n, patches);
      for (int64_t k = 0; k < depth * n; ++k) patches[k] -= zero;
      gemm_ref<int32_t, uint32_t>(call.threads(), m, n, depth, w.data() + i % s.groups * m * depth, depth, false,
                                  patches, n, false, sums.data(), n);
      fn(i / s.groups, i % s.groups * m, m, first, n, sums.data());
    }
  return {};
}

template <class T>
Status compute_integer(const ConvParams& p, Call& call) {
  const ConvShape s = conv_shape(p, call.shape(0), call.shape(1));
  const int64_t pixels = s.out[0] * s.out[1] * s.out[2];
  int32_t* y = call.out<int32_t>(0);
  return convolve<T>(call, s, centred_weights(call, 1, 3), static_cast<int32_t>(integer_at(call, 2, 0)),
                     [&](int64_t b, int64_t channel, int64_t m, int64_t first, int64_t n, const int32_t* sums) {
                       for (int64_t k = 0; k < m; ++k)
                         std::copy_n(sums + k * n, n, y + (b * s.out_channels + channel + k) * pixels + first);
                     });
}

template <class T>
Status compute_qlinear(const ConvParams& p, Call& call) {
  const ConvShape s = conv_shape(p, call.shape(kX), call.shape(kW));
  const int64_t pixels = s.out[0] * s.out[1] * s.out[2];
  const int32_t* bias = call.maybe<int32_t>(kBias);
  const float *w_scale = call.in<float>(kWScale), x_scale = *call.in<float>(kXScale),
              y_scale = *call.in<float>(kYScale);
  const bool is_signed = call.out_dtype(0) == DType::i8;
  const auto zero = static_cast<float>(integer_at(call, kYZero, 0));
  const float low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
  auto* y = call.out<uint8_t>(0);
  return convolve<T>(call, s, centred_weights(call, kW, kWZero), static_cast<int32_t>(integer_at(call, kXZero, 0)),
                     [&](int64_t b, int64_t channel, int64_t m, int64_t first, int64_t n, const int32_t* sums) {
                       for (int64_t k = 0; k < m; ++k) {
                         const int64_t c = channel + k;
                         const float scale = x_scale * w_scale[call.count(kWScale) == 1 ? 0 : c] / y_scale;
                         uint8_t* to = y + (b * s.out_channels + c) * pixels + first;
                         for (int64_t j = 0; j < n; ++j) {
                           const auto sum = static_cast<int32_t>(static_cast<uint32_t>(sums[k * n + j]) +
                                                                 static_cast<uint32_t>(bias ? bias[c] : 0));
                           const float v = std::nearbyint(static_cast<float>(sum) * scale) + zero;
                           to[j] = static_cast<uint8_t>(static_cast<int32_t>(v > low ? std::min(v, high) : low));
                         }
                       }
                     });
}

template <int W>
int64_t scratch(const void* params, std::span<const Shape* const> in) {
  if (in[W]->count() == 0) return 0;
  return patch_block_bytes(conv_shape(*static_cast<const ConvParams*>(params), *in[0], *in[W]), sizeof(int32_t));
}

void qlinear_types(TypeCall& c) { c.out[0] = c.in[kYZero]; }

constexpr TypeSet kBytes = set_of(DType::i8, DType::u8);
template <class T>
constexpr TypeRule kIntegerTypes[] = {
    {in_arg(0) | in_arg(2), set_of(dtype_of<T>)}, {in_arg(1) | in_arg(3), kBytes}, {out_arg(0), set_of(DType::i32)}};
constexpr Kernel kIntegerKernels[] = {{kIntegerTypes<uint8_t>, compute_with<ConvParams, compute_integer<uint8_t>>},
                                      {kIntegerTypes<int8_t>, compute_with<ConvParams, compute_integer<int8_t>>}};
template <class T>
constexpr TypeRule kQLinearTypes[] = {{in_arg(kX) | in_arg(kXZero), set_of(dtype_of<T>)},
                                      {in_arg(kW) | in_arg(kWZero), kBytes},
                                      {in_arg(kYZero) | out_arg(0), kBytes},
                                      {in_arg(kXScale) | in_arg(kWScale) | in_arg(kYScale), set_of(DType::f32)},
                                      {in_arg(kBias), set_of(DType::i32)}};
constexpr Kernel kQLinearKernels[] = {{kQLinearTypes<uint8_t>, compute_with<ConvParams, compute_qlinear<uint8_t>>},
                                      {kQLinearTypes<int8_t>, compute_with<ConvParams, compute_qlinear<int8_t>>}};
constexpr int16_t kVersions[] = {10};

}  // namespace

extern constexpr Op kConvInteger{.domain = "",
                                 .name = "ConvInteger",
                                 .versions = kVersions,
                                 .parse = parse_params<ConvParams, parse_conv>,
                                 .types = type_always<DType::i32>,
                                 .shape = shape_with<ConvParams, int64_t, integer_shape<int64_t>>,
                                 .kernels = kIntegerKernels,
                                 .scratch = scratch<1>};
extern constexpr Op kQLinearConv{.domain = "",
                                 .name = "QLinearConv",
                                 .versions = kVersions,
                                 .parse = parse_params<ConvParams, parse_conv>,
                                 .types = qlinear_types,
                                 .shape = shape_with<ConvParams, int64_t, qlinear_shape<int64_t>>,
                                 .kernels = kQLinearKernels,
                                 .scratch = scratch<kW>};
extern constexpr OpInference kConvIntegerInference{.shape = shape_with<ConvParams, Dim, integer_shape<Dim>>};
extern constexpr OpInference kQLinearConvInference{.shape = shape_with<ConvParams, Dim, qlinear_shape<Dim>>};

}  // namespace tessera
