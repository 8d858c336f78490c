// Conv — convolution over one to three spatial dimensions, with groups. tessera.ConvRelu — Relu of it, in rewritten
// graphs.
#include "kernels/conv.h"

#include "kernels/gemm_generic.h"
#include "ops/elementwise.h"
#include "ops/nn/conv_shape.h"
#include "ops/nn/panel_room.h"

namespace tessera {
namespace {

template <GemmActivation kActivation>
Status compute_float(const ConvParams& p, Call& call) {
  const ConvShape s = conv_shape(p, call.shape(0), call.shape(1));
  if (call.out_count(0) == 0) return {};
  std::optional<GemmPanels> w = packed_panels(call, 1);
  Tensor own;
  if (!w) {
    TRY_ASSIGN(room, Tensor::allocate(DType::u8, Shape{static_cast<int64_t>(conv_packed_bytes(s))}));
    own = std::move(room);
    auto* packed = static_cast<float*>(own.mutable_data());
    conv_pack(s, call.in<float>(1), packed, call.threads());
    w = packed;
  }
  conv_f32(call.target(), call.threads(), s, call.in<float>(0), *w, call.maybe<float>(2), kActivation,
           call.out<float>(0), call.scratch<std::byte>(0));
  return {};
}

Status compute_double(const ConvParams& p, Call& call) {
  const ConvShape s = conv_shape(p, call.shape(0), call.shape(1));
  if (call.out_count(0) == 0) return {};
  const double *x = call.in<double>(0), *w = call.in<double>(1), *bias = call.maybe<double>(2);
  double* y = call.out<double>(0);
  const int64_t pixels = s.out[0] * s.out[1] * s.out[2], m = s.out_channels / s.groups;
  const int64_t depth = s.channels / s.groups * s.kernel[0] * s.kernel[1] * s.kernel[2];
  for (int64_t i = 0; i < s.batch * s.groups; ++i) {
    double* to = y + i * m * pixels;
    each_patch_block(s, [&](int64_t first, int64_t count) {
      if (call.cancelled()) return;
      auto* patches = call.scratch<double>(0);
      gather_patches(s, x + i * (s.channels / s.groups) * s.in[0] * s.in[1] * s.in[2], 0.0, first, count, patches);
      gemm_ref<double, double>(call.threads(), m, count, depth, w + i % s.groups * m * depth, depth, false, patches,
                               count, false, to + first, pixels);
    });
    for (int64_t j = 0; bias && j < m * pixels; ++j) to[j] += bias[i % s.groups * m + j / pixels];
  }
  return call.cancelled() ? call.stopped() : Status{};
}

int64_t scratch(const void* params, const ScratchCall& in) {
  if (in[1]->count() == 0) return 0;
  const ConvShape s = conv_shape(*static_cast<const ConvParams*>(params), *in[0], *in[1]);
  return std::max(static_cast<int64_t>(conv_scratch_bytes(s)), patch_block_bytes(s, sizeof(double)));
}

// Of the shape only what packing reads.
ConvShape weight_shape(const PackCall& c) {
  const Shape& w = c.shape(1);
  ConvShape s;
  s.groups = c.as<ConvParams>().group;
  s.out_channels = w[0];
  s.channels = w[1] * s.groups;
  for (int i = 2; i < w.rank(); ++i) s.kernel[kMostSpatial - w.rank() + i] = w[i];
  return s;
}
int64_t variant(const void* params) { return static_cast<const ConvParams*>(params)->group; }
int64_t packed_bytes(const PackCall& c) {
  const Shape& w = c.shape(1);
  const int64_t groups = c.as<ConvParams>().group;
  if (w.rank() < 3 || w.rank() > 2 + kMostSpatial || w.count() == 0 || w[0] % groups) return 0;
  return static_cast<int64_t>(conv_packed_bytes(weight_shape(c), panel_type(c.dtype(1))));
}
void pack(const PackCall& c, void* out) {
  conv_pack(weight_shape(c), panel_type(c.dtype(1)), c.in<void>(1), out, c.threads);
}

constexpr Packing kPacks[] = {{1, "F32.Conv", packed_bytes, pack, variant},
                              {1, "F16.Conv", packed_bytes, pack, variant, set_of(DType::f16)},
                              {1, "BF16.Conv", packed_bytes, pack, variant, set_of(DType::bf16)}};
constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<ConvParams, compute_float<GemmActivation::none>>},
                               {kAllSame<double>, compute_with<ConvParams, compute_double>}};
constexpr Kernel kReluKernels[] = {{kAllSame<float>, compute_with<ConvParams, compute_float<GemmActivation::relu>>}};
constexpr int16_t kVersions[] = {1, 11, 22}, kReluVersions[] = {1};

}  // namespace

extern constexpr Op kConv{.domain = "",
                          .name = "Conv",
                          .versions = kVersions,
                          .parse = parse_params<ConvParams, parse_conv>,
                          .shape = shape_with<ConvParams, int64_t, conv_output<int64_t, 0, 1, 2>>,
                          .kernels = kKernels,
                          .scratch = scratch,
                          .packs = kPacks};
extern constexpr OpInference kConvInference{.shape = shape_with<ConvParams, Dim, conv_output<Dim, 0, 1, 2>>};
extern constexpr Op kTesseraConvRelu{.domain = "tessera",
                                     .name = "ConvRelu",
                                     .versions = kReluVersions,
                                     .parse = parse_params<ConvParams, parse_conv>,
                                     .shape = shape_with<ConvParams, int64_t, conv_output<int64_t, 0, 1, 2>>,
                                     .kernels = kReluKernels,
                                     .scratch = scratch,
                                     .packs = kPacks};
extern constexpr OpInference kTesseraConvReluInference{.shape = shape_with<ConvParams, Dim, conv_output<Dim, 0, 1, 2>>};

}  // namespace tessera
