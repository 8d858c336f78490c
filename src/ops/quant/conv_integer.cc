// ConvInteger, QLinearConv: convolutions of 8-bit integers, kept in 32 bits or quantized.
#include "core/convert.h"
#include "kernels/conv_stage.h"
#include "kernels/gemm_i8.h"
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

// The weights of a group times the patches of a block of pixels.
struct Work {
  static constexpr int64_t kChannels = 144;  // at a time: three blocks of the product's rows
  int64_t pixels, depth, channels, block;    // channels: of output, per group; block: pixels at a time
  bool in_place;                             // the input is the matrix of patches
  bool staged;                               // patches are gathered from padded copies of the rows they meet
  conv::Stage stage;
  // Where the parts of a lane's scratch start, after the patches.
  int64_t offsets, stage_at, packed, sums, end;

  explicit Work(const ConvShape& s) {
    constexpr int64_t kPatchBytes = 1 << 19, kFewest = 64, kMost = 1024, kShared = 96;
    pixels = s.out[0] * s.out[1] * s.out[2];
    depth = s.channels / s.groups * s.kernel[0] * s.kernel[1] * s.kernel[2];
    channels = s.out_channels / s.groups;
    const int64_t fit = std::clamp(kPatchBytes / std::max<int64_t>(1, depth) / 32 * 32, kFewest, kMost);
    // Two blocks at least, if they are worth a thread each.
    const int64_t blocks = std::max(ceil_div(pixels, fit), std::clamp<int64_t>(pixels / kShared, 1, 2));
    block = round_up(std::max<int64_t>(1, ceil_div(pixels, blocks)), 16);
    in_place = true;
    for (int d = 0; d < 3; ++d)
      in_place = in_place && s.kernel[d] == 1 && s.stride[d] == 1 && s.pad[d] == 0 && s.in[d] == s.out[d];
    plan_stage(s);
    offsets = in_place ? 0 : round_up(depth * block + 16, 64);
    stage_at = offsets + (staged ? round_up(conv::volume(s.kernel) * 8, 64) : 0);
    packed = stage_at + (staged ? round_up(stage.floats(1), 64) : 0);
    sums = packed + round_up(static_cast<int64_t>(gemm_i8_packed_bytes(block, depth)), 64);
    end = sums + std::min(channels, kChannels) * block * 4;
  }
  void plan_stage(const ConvShape& s) {
    constexpr int64_t kMostStaged = 1 << 16;
    const int64_t rows = std::min(s.out[1], (block - 1) / std::max<int64_t>(1, s.out[2]) + 2);
    stage = conv::plan_stage(s, rows, s.out[2]);
    staged = !in_place && s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 && conv::volume(s.kernel) <= kMostStaged &&
             s.out[2] <= kMostStaged && stage.length() <= kMostStaged && stage.class_rows() <= kMostStaged &&
             stage.class_floats() <= kMostStaged && stage.floats(1) <= kMostStaged;
  }
  // The patches of `count` outputs of a group from `first` on; what lies outside the input counts as `zero`.
  void gather(const ConvShape& s, const uint8_t* x, uint8_t zero, int64_t first, int64_t count,
              uint8_t* scratch) const {
    if (!staged) return gather_patches(s, x, zero, first, count, scratch);
    auto* offset = reinterpret_cast<int64_t*>(scratch + offsets);
    conv::set_offsets(s, stage, offset);
    conv::gather_bytes(s, stage, offset, x, s.channels / s.groups, zero, first, count, scratch + stage_at, scratch);
  }
};

// Sums of products for blocks of pixels: place(sample, first output channel, first pixel, lane) tells where they go and
// how far one channel is from the next, done(sample, first output channel, channels, first pixel, pixels, sums)
// follows.
struct Place {
  int32_t* at;
  int64_t step;
};
template <class Where, class Done>
Status convolve(Call& call, const ConvShape& s, int weights, int x_zero, int w_zero, Where&& where, Done&& done) {
  if (call.out_count(0) == 0) return {};
  const Work work(s);
  const std::vector<int32_t> xz = zero_points(call, x_zero), wz = zero_points(call, w_zero);
  const int64_t plane = s.channels / s.groups * s.in[0] * s.in[1] * s.in[2], blocks = ceil_div(work.pixels, work.block);
  const auto *x = call.in<uint8_t>(0), *w = call.in<uint8_t>(weights);
  call.parallel(s.batch * s.groups * blocks, [&](int64_t chunk, int lane) {
    if (call.cancelled()) return;
    const int64_t i = chunk / blocks, first = chunk % blocks * work.block, group = i % s.groups;
    const int64_t count = std::min(work.block, work.pixels - first);
    auto* scratch = call.scratch<uint8_t>(lane);
    const uint8_t* patches = x + i * plane + first;
    if (!work.in_place) {
      work.gather(s, x + i * plane, static_cast<uint8_t>(xz[0]), first, count, scratch);
      patches = scratch;
    }
    gemm_i8_pack_b(call.target(), 1, patches, work.in_place ? work.pixels : count, work.depth, count,
                   scratch + work.packed);
    GemmI8 g;
    g.n = count;
    g.k = g.lda = work.depth;
    g.a_signed = call.dtype(weights) == DType::i8;
    g.packed_b = scratch + work.packed;
    g.b_signed = call.dtype(0) == DType::i8;
    g.b_zero = {xz.data(), 0};
    for (int64_t m = 0; m < work.channels; m += Work::kChannels) {
      const int64_t channel = group * work.channels + m;
      const Place to = where(i / s.groups, channel, first, lane);
      g.m = std::min(Work::kChannels, work.channels - m);
      g.a = w + channel * work.depth;
      g.a_zero = wz.size() == 1 ? ZeroPoints{wz.data(), 0} : ZeroPoints{wz.data() + channel, 1};
      g.c = to.at;
      g.ldc = to.step;
      gemm_i8(call.target(), 1, g);
      done(i / s.groups, channel, g.m, first, count, to);
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

Status compute_integer(const ConvParams& p, Call& call) {
  const ConvShape s = conv_shape(p, call.shape(0), call.shape(1));
  const int64_t pixels = s.out[0] * s.out[1] * s.out[2];
  int32_t* y = call.out<int32_t>(0);
  return convolve(
      call, s, 1, 2, 3,
      [&](int64_t b, int64_t channel, int64_t first, int) {
        return Place{y + (b * s.out_channels + channel) * pixels + first, pixels};
      },
      [](int64_t, int64_t, int64_t, int64_t, int64_t, const Place&) {});
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
Status convolve_depthwise(Call& call, const ConvShape& s, Done&& done) {
  const Depthwise work(s);
  const std::vector<int32_t> xz = zero_points(call, kXZero), wz = zero_points(call, kWZero);
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
                        call.dtype(kW) == DType::i8};
      dequantize_bytes(call.target(), w, call.in<uint8_t>(kW) + (first + c) * work.taps, work.taps,
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

Status compute_qlinear(const ConvParams& p, Call& call) {
  const ConvShape s = conv_shape(p, call.shape(kX), call.shape(kW));
  if (call.out_count(0) == 0) return {};
  const Work work(s);
  const int32_t* bias = call.maybe<int32_t>(kBias);
  const float *w_scale = call.in<float>(kWScale), x_scale = *call.in<float>(kXScale),
              y_scale = *call.in<float>(kYScale);
  const auto zero = static_cast<float>(integer_at(call, kYZero, 0));
  const bool is_signed = call.out_dtype(0) == DType::i8;
  auto* y = call.out<uint8_t>(0);
  const auto quantize = [&](int64_t b, int64_t c, int64_t first, int64_t count, const int32_t* sums) {
    const float scale = x_scale * w_scale[call.count(kWScale) == 1 ? 0 : c] / y_scale;
    const Requantize r{&scale, 0, bias ? bias[c] : 0, zero, is_signed};
    requantize(call.target(), r, sums, count, y + (b * s.out_channels + c) * work.pixels + first);
  };
  if (Depthwise::takes(s))
    return convolve_depthwise(call, s,
                              [&](int64_t b, int64_t c, const int32_t* sums) { quantize(b, c, 0, work.pixels, sums); });
  return convolve(
      call, s, kW, kXZero, kWZero,
      [&](int64_t, int64_t, int64_t, int lane) {
        return Place{reinterpret_cast<int32_t*>(call.scratch<uint8_t>(lane) + work.sums), work.block};
      },
      [&](int64_t b, int64_t channel, int64_t channels, int64_t first, int64_t count, const Place& sums) {
        for (int64_t k = 0; k < channels; ++k) quantize(b, channel + k, first, count, sums.at + k * sums.step);
      });
}

template <int W>
int64_t scratch(const void* params, const ScratchCall& in) {
  if (in[W]->count() == 0) return 0;
  const ConvShape s = conv_shape(*static_cast<const ConvParams*>(params), *in[0], *in[W]);
  if (W == kW && Depthwise::takes(s)) return Depthwise(s).end;
  const Work work(s);
  return W == kW ? work.end : work.sums;
}

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
