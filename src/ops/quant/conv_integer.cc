// ConvInteger, QLinearConv: convolutions of 8-bit integers, kept in 32 bits or quantized.
#include "core/convert.h"
#include "kernels/conv_i8.h"
#include "kernels/conv_i8_depthwise.h"
#include "kernels/conv_stage.h"
#include "kernels/quantize.h"
#include "kernels/requantize.h"
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

std::vector<int32_t> zero_points(const Call& call, int i) {
  std::vector<int32_t> out(static_cast<size_t>(call.has(i) ? call.count(i) : 1));
  for (size_t k = 0; k < out.size(); ++k) out[k] = static_cast<int32_t>(integer_at(call, i, static_cast<int64_t>(k)));
  return out;
}

// Where a convolution finds its operands.
struct Operands {
  int w, x_zero, w_zero;
};

// `w_zero` holds the zero points of the weights.
ConvI8 operands(const Call& call, const ConvShape& s, const Operands& in, const std::vector<int32_t>& w_zero,
                const ConvI8Output& out) {
  ConvI8 c;
  c.shape = &s;
  c.x = call.in(kX);
  c.x_signed = call.dtype(kX) == DType::i8;
  c.x_zero = static_cast<int32_t>(integer_at(call, in.x_zero, 0));
  c.packed = call.packed(in.w);
  c.w_signed = call.dtype(in.w) == DType::i8;
  c.w_zero = w_zero.data();
  c.w_zero_step = w_zero.size() > 1;
  c.out = out;
  return c;
}

// All but those with one filter for each channel.
Status convolve(Call& call, const ConvShape& s, const Operands& in, const ConvI8Output& out) {
  const std::vector<int32_t> w_zero = zero_points(call, in.w_zero);
  ConvI8 c = operands(call, s, in, w_zero, out);
  Tensor own;
  if (!c.packed) {
    TRY_ASSIGN(room, Tensor::allocate(DType::u8, Shape{static_cast<int64_t>(conv_i8_packed_bytes(s))}));
    own = std::move(room);
    conv_i8_pack(s, call.in(in.w), c.w_signed, own.mutable_data(), call.threads());
    c.packed = own.data();
  }
  call.parallel(conv_i8_chunks(s), [&](int64_t chunk, int lane) {
    if (!call.cancelled()) conv_i8_run(call.target(), c, chunk, call.scratch<std::byte>(lane));
  });
  return call.cancelled() ? call.stopped() : Status{};
}

// One filter for each channel, in floats: whole numbers below 2^24 are exact there. Channels are taken a few at a time.
struct Depthwise {
  static constexpr int64_t kMostTaps = (1 << 24) / (255 * 255);
  int64_t in, out, taps, channels;  // channels: at a time
  // Where the parts of a lane's scratch start, after the input.
  int64_t weights, packed, sums, whole_sums, own, end;

  static bool takes(const ConvShape& s) {
    return s.groups > 1 && s.groups == s.channels && s.groups == s.out_channels &&
           s.kernel[0] * s.kernel[1] * s.kernel[2] <= kMostTaps;
  }
  explicit Depthwise(const ConvShape& s)
      : in(s.in[0] * s.in[1] * s.in[2]),
        out(s.out[0] * s.out[1] * s.out[2]),
        taps(s.kernel[0] * s.kernel[1] * s.kernel[2]) {
    constexpr int64_t kFloats = 1 << 17, kTogether = 16;
    const int64_t fit = kFloats / std::max<int64_t>(1, in + out) / kTogether * kTogether;
    channels = std::min(s.channels, std::max(kTogether, fit));
    const ConvShape whole = part(s, channels), rest = part(s, std::max<int64_t>(1, s.channels % channels));
    weights = round_up(channels * in * 4, 64);
    packed = weights + round_up(channels * taps * 4, 64);
    sums = packed + round_up(static_cast<int64_t>(std::max(conv_packed_bytes(whole), conv_packed_bytes(rest))), 64);
    whole_sums = sums + round_up(channels * out * 4, 64);
    own = whole_sums + round_up(out * 4, 64);
    end = own + static_cast<int64_t>(std::max(conv_scratch_bytes(whole), conv_scratch_bytes(rest)));
  }
  static ConvShape part(ConvShape s, int64_t channels) {
    s.batch = 1;
    s.channels = s.out_channels = s.groups = channels;
    return s;
  }
};

// done(sample, channel, sums) gets the sums of one channel.
template <class Done>
Status convolve_depthwise(Call& call, const ConvShape& s, const Operands& in, Done&& done) {
  const Depthwise work(s);
  const std::vector<int32_t> xz = zero_points(call, in.x_zero), wz = zero_points(call, in.w_zero);
  const int64_t parts = ceil_div(s.channels, work.channels);
  call.parallel(s.batch * parts, [&](int64_t chunk, int lane) {
    if (call.cancelled()) return;
    const int64_t sample = chunk / parts, first = chunk % parts * work.channels;
    const ConvShape part = Depthwise::part(s, std::min(work.channels, s.channels - first));
    auto* scratch = call.scratch<std::byte>(lane);
    const auto floats = [&](int64_t at) { return reinterpret_cast<float*>(scratch + at); };
    const ByteScale from{1, static_cast<float>(xz[0]), call.dtype(kX) == DType::i8};
    dequantize_bytes(call.target(), from, call.in<uint8_t>(kX) + (sample * s.channels + first) * work.in,
                     part.channels * work.in, floats(0));
    for (int64_t c = 0; c < part.channels; ++c) {
      const ByteScale w{1, static_cast<float>(wz[wz.size() == 1 ? 0 : static_cast<size_t>(first + c)]),
                        call.dtype(in.w) == DType::i8};
      dequantize_bytes(call.target(), w, call.in<uint8_t>(in.w) + (first + c) * work.taps, work.taps,
                       floats(work.weights) + c * work.taps);
    }
    conv_pack(part, floats(work.weights), floats(work.packed), 1);
    conv_f32(call.target(), 1, part, floats(0), floats(work.packed), nullptr, GemmActivation::none, floats(work.sums),
             scratch + work.own);
    auto* sums = reinterpret_cast<int32_t*>(scratch + work.whole_sums);
    for (int64_t c = 0; c < part.channels; ++c) {
      const float* from_sums = floats(work.sums) + c * work.out;
      for (int64_t i = 0; i < work.out; ++i) sums[i] = static_cast<int32_t>(from_sums[i]);
      done(sample, first + c, sums);
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

Status compute_integer(const ConvParams& p, Call& call) {
  constexpr Operands kIn{1, 2, 3};
  const ConvShape s = conv_shape(p, call.shape(0), call.shape(kIn.w));
  if (call.out_count(0) == 0) return {};
  auto* y = call.out<int32_t>(0);
  const int64_t pixels = conv::volume(s.out);
  if (Depthwise::takes(s))
    return convolve_depthwise(call, s, kIn, [&](int64_t b, int64_t c, const int32_t* sums) {
      std::copy_n(sums, pixels, y + (b * s.out_channels + c) * pixels);
    });
  ConvI8Output out;
  out.sums = y;
  return convolve(call, s, kIn, out);
}

Status compute_qlinear(const ConvParams& p, Call& call) {
  constexpr Operands kIn{kW, kXZero, kWZero};
  const ConvShape s = conv_shape(p, call.shape(kX), call.shape(kW));
  if (call.out_count(0) == 0) return {};
  const float *w_scale = call.in<float>(kWScale), x_scale = *call.in<float>(kXScale),
              y_scale = *call.in<float>(kYScale);
  std::vector<float> scale(static_cast<size_t>(s.out_channels));
  for (size_t c = 0; c < scale.size(); ++c) scale[c] = x_scale * w_scale[call.count(kWScale) == 1 ? 0 : c] / y_scale;
  ConvI8Output out;
  out.bytes = call.out(0);
  out.scale = scale.data();
  out.bias = call.maybe<int32_t>(kBias);
  out.zero = static_cast<float>(integer_at(call, kYZero, 0));
  out.is_signed = call.out_dtype(0) == DType::i8;
  if (!Depthwise::takes(s)) return convolve(call, s, kIn, out);
  if (conv_i8_depthwise_takes(call.target(), s)) {
    const std::vector<int32_t> w_zero = zero_points(call, kWZero);
    const ConvI8 c = operands(call, s, kIn, w_zero, out);
    call.parallel(conv_i8_depthwise_chunks(s), [&](int64_t chunk, int lane) {
      if (!call.cancelled()) conv_i8_depthwise_run(c, call.in(kW), chunk, call.scratch<std::byte>(lane));
    });
    return call.cancelled() ? call.stopped() : Status{};
  }
  const int64_t pixels = conv::volume(s.out);
  return convolve_depthwise(call, s, kIn, [&](int64_t b, int64_t c, const int32_t* sums) {
    const Requantize r{&scale[static_cast<size_t>(c)], 0, out.bias ? out.bias[c] : 0, out.zero, out.is_signed};
    requantize(call.target(), r, sums, pixels, static_cast<uint8_t*>(out.bytes) + (b * s.out_channels + c) * pixels);
  });
}

template <int W>
int64_t scratch(const void* params, const ScratchCall& in) {
  if (in[W]->count() == 0) return 0;
  const ConvShape s = conv_shape(*static_cast<const ConvParams*>(params), *in[0], *in[W]);
  if (!Depthwise::takes(s)) return static_cast<int64_t>(conv_i8_scratch_bytes(s));
  return std::max(Depthwise(s).end, static_cast<int64_t>(conv_i8_depthwise_scratch_bytes(s)));
}

// The part of the shape that weights know.
template <int W>
ConvShape weight_shape(const PackCall& c) {
  const Shape& w = c.shape(W);
  ConvShape s;
  s.groups = c.as<ConvParams>().group;
  s.channels = w[1] * s.groups;
  s.out_channels = w[0];
  for (int i = 2; i < w.rank(); ++i) s.kernel[i + 3 - w.rank()] = w[i];
  return s;
}
template <int W>
int64_t packed_bytes(const PackCall& c) {
  const Shape& w = c.shape(W);
  if (w.rank() < 3 || w.rank() > 5 || w.count() == 0 || w[0] % c.as<ConvParams>().group) return 0;
  const ConvShape s = weight_shape<W>(c);
  return Depthwise::takes(s) ? 0 : static_cast<int64_t>(conv_i8_packed_bytes(s));
}
template <int W>
void pack(const PackCall& c, void* out) {
  conv_i8_pack(weight_shape<W>(c), c.tensor(W).data(), c.dtype(W) == DType::i8, out, c.threads);
}
int64_t variant(const void* params) { return static_cast<const ConvParams*>(params)->group; }
template <int W>
constexpr Packing weights() {
  return {W, "I8.R8x4", packed_bytes<W>, pack<W>, variant, set_of(DType::i8, DType::u8)};
}
constexpr Packing kIntegerPacks[] = {weights<1>()}, kQLinearPacks[] = {weights<kW>()};

void qlinear_types(TypeCall& c) { c.out[0] = c.in[kYZero]; }

constexpr TypeSet kBytes = set_of(DType::i8, DType::u8);
constexpr TypeRule kIntegerTypes[] = {
    {in_arg(0) | in_arg(2), kBytes}, {in_arg(1) | in_arg(3), kBytes}, {out_arg(0), set_of(DType::i32)}};
constexpr Kernel kIntegerKernels[] = {{kIntegerTypes, compute_with<ConvParams, compute_integer>}};
constexpr TypeRule kQLinearTypes[] = {{in_arg(kX) | in_arg(kXZero), kBytes},
                                      {in_arg(kW) | in_arg(kWZero), kBytes},
                                      {in_arg(kYZero) | out_arg(0), kBytes},
                                      {in_arg(kXScale) | in_arg(kWScale) | in_arg(kYScale), set_of(DType::f32)},
                                      {in_arg(kBias), set_of(DType::i32)}};
constexpr Kernel kQLinearKernels[] = {{kQLinearTypes, compute_with<ConvParams, compute_qlinear>}};
constexpr int16_t kVersions[] = {10};

}  // namespace

extern constexpr Op kConvInteger{.domain = "",
                                 .name = "ConvInteger",
                                 .versions = kVersions,
                                 .parse = parse_params<ConvParams, parse_conv>,
                                 .types = type_always<DType::i32>,
                                 .shape = shape_with<ConvParams, int64_t, integer_shape<int64_t>>,
                                 .kernels = kIntegerKernels,
                                 .scratch = scratch<1>,
                                 .packs = kIntegerPacks};
extern constexpr Op kQLinearConv{.domain = "",
                                 .name = "QLinearConv",
                                 .versions = kVersions,
                                 .parse = parse_params<ConvParams, parse_conv>,
                                 .types = qlinear_types,
                                 .shape = shape_with<ConvParams, int64_t, qlinear_shape<int64_t>>,
                                 .kernels = kQLinearKernels,
                                 .scratch = scratch<kW>,
                                 .packs = kQLinearPacks};
extern constexpr OpInference kConvIntegerInference{.shape = shape_with<ConvParams, Dim, integer_shape<Dim>>};
extern constexpr OpInference kQLinearConvInference{.shape = shape_with<ConvParams, Dim, qlinear_shape<Dim>>};

}  // namespace tessera
