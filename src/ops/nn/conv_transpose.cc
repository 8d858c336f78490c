// ConvTranspose — the gradient of Conv with respect to its input: every element spreads over a window of the output.
//
// The elements of a block of pixels are multiplied with all weights of their group, and the products added to where
// they belong.
#include "kernels/conv_transpose.h"
#include "kernels/gemm.h"
#include "kernels/gemm_generic.h"
#include "ops/elementwise.h"
#include "ops/nn/conv_shape.h"

namespace tessera {
namespace {

struct Params {
  ConvParams conv;
  std::vector<int64_t> output_padding, output_shape;

  int64_t extra(int i) const { return output_padding.empty() ? 0 : output_padding[static_cast<size_t>(i)]; }
};

Status parse(Attrs& a, Params& p) {
  TRY(parse_conv(a, p.conv));
  a.get("output_padding", p.output_padding);
  a.get("output_shape", p.output_shape);
  for (const int64_t v : p.output_padding)
    if (v < 0 || v > INT32_MAX) return a.refuse("output_padding", "at least 0");
  for (const int64_t v : p.output_shape)
    if (v < 0 || v > INT32_MAX) return a.refuse("output_shape", "at least 0");
  return {};
}

// The output's size in spatial dimension i and the padding cut off before it; false if nothing is left.
template <class D>
bool spread(const Params& p, int i, int spatial, const D& in, int64_t kernel, D* out, D* pad) {
  const Window& w = p.conv.window;
  const D full = (in - D(1)) * D(w.stride(i)) + D(w.reach(i, kernel) + p.extra(i));
  const bool same = w.auto_pad == AutoPad::same_upper || w.auto_pad == AutoPad::same_lower;
  D total;  // padding
  if (!p.output_shape.empty()) {
    // Older models give the batch and channels as well.
    const size_t skip = p.output_shape.size() > static_cast<size_t>(spatial) ? 2 : 0;
    *out = D(p.output_shape[skip + static_cast<size_t>(i)]);
    total = dim_max(full - *out, D(0));
  } else if (same) {
    // As many elements as the input has, times the stride; fewer if the windows leave gaps.
    total = D(std::max<int64_t>(0, w.reach(i, kernel) + p.extra(i) - w.stride(i)));
    *out = full - total;
  } else {
    const bool padded = w.auto_pad == AutoPad::notset;
    *pad = D(padded ? w.pad_begin(i) : 0);
    *out = full - *pad - D(padded ? w.pad_end(i) : 0);
    return !known(*out) || number(*out) >= 0;
  }
  const D half = floor_div(total, D(2));
  *pad = w.auto_pad == AutoPad::same_upper ? half : total - half;
  return !known(*out) || number(*out) >= 0;
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const Window& w = p.conv.window;
  TRY(check_spatial(w, c));
  const int spatial = c.rank(0) - 2;
  if (c.rank(1) != c.rank(0)) return c.refuse(1, format("{} dimensions, as input 0 has", c.rank(0)));
  if (!p.output_padding.empty() && static_cast<int>(p.output_padding.size()) != spatial)
    return c.refuse(0, format("{} spatial dimensions", p.output_padding.size()));
  const auto given = static_cast<int>(p.output_shape.size());
  if (given && given != spatial && given != spatial + 2) return c.refuse(0, format("{} spatial dimensions", given));
  const D channels = c.dim(0, 1), from = c.dim(1, 0);
  if (known(channels) && (number(channels) < 1 || number(channels) % p.conv.group))
    return c.refuse(0, format("channels in {} equal groups", p.conv.group));
  if (known(channels) && known(from) && number(channels) != number(from))
    return c.refuse(1, format("{} input channels", number(channels)));
  const D out_channels = c.dim(1, 1) * D(p.conv.group);
  if (c.has(2) &&
      (c.rank(2) != 1 || (known(c.dim(2, 0)) && known(out_channels) && number(c.dim(2, 0)) != number(out_channels))))
    return c.refuse(2, "one element for each output channel");
  int64_t kernel[kMostSpatial];
  TRY(kernel_sizes(w, c, 1, kernel));
  DimVec<D> out{c.dim(0, 0), out_channels};
  for (int i = 0; i < spatial; ++i) {
    if (kernel[i] < 0) return c.unknown(0, c.rank(0));
    const D in = c.dim(0, i + 2);
    D size, pad;
    if (!fits_window(in) || (known(in) && number(in) > (int64_t{1} << 60) / (w.stride(i) + 1)))
      return c.refuse(0, "smaller dimensions");
    if (!spread(p, i, spatial, in, kernel[i], &size, &pad)) return c.refuse(0, "a larger input for these pads");
    out.push(size);
  }
  return c.set(0, out);
}

// As a convolution from the output (`in`) to the input (`out`).
ConvShape geometry(const Params& p, const Shape& x, const Shape& w) {
  ConvShape s;
  s.batch = x[0];
  s.channels = x[1];
  s.groups = p.conv.group;
  s.out_channels = w[1] * s.groups;
  const int spatial = x.rank() - 2;
  for (int i = 0; i < spatial; ++i) {
    const int at = kMostSpatial - spatial + i;
    s.out[at] = x[i + 2];
    s.kernel[at] = w[i + 2];
    s.stride[at] = p.conv.window.stride(i);
    s.dilation[at] = p.conv.window.dilation(i);
    spread(p, i, spatial, s.out[at], s.kernel[at], &s.in[at], &s.pad[at]);
  }
  return s;
}

struct Blocks {
  int64_t pixels, width, depth;  // of the input, of a row of products, and channels per group
  int64_t block;                 // pixels at a time

  explicit Blocks(const ConvShape& s)
      : pixels(s.out[0] * s.out[1] * s.out[2]),
        width(s.out_channels / s.groups * s.kernel[0] * s.kernel[1] * s.kernel[2]),
        depth(s.channels / s.groups),
        block(std::clamp<int64_t>((1 << 16) / std::max<int64_t>(1, width), 16, std::max<int64_t>(16, pixels))) {}
};

// Adds the products of pixels [first, first + n) to the planes of one group.
void add_products(const Call& call, const ConvShape& s, const double* products, int64_t width, int64_t first, int64_t n,
                  double* y) {
  const int64_t taps = s.kernel[0] * s.kernel[1] * s.kernel[2], plane = s.in[0] * s.in[1] * s.in[2];
  call.parallel(s.out_channels / s.groups, [&](int64_t m, int) {
    double* to = y + m * plane;
    for (int64_t i = first; i < first + n; ++i) {
      const double* from = products + (i - first) * width + m * taps;
      const int64_t d0 = i / (s.out[1] * s.out[2]) * s.stride[0] - s.pad[0];
      const int64_t h0 = i / s.out[2] % s.out[1] * s.stride[1] - s.pad[1], w0 = i % s.out[2] * s.stride[2] - s.pad[2];
      for (int64_t t = 0; t < taps; ++t) {
        const int64_t d = d0 + t / (s.kernel[1] * s.kernel[2]) * s.dilation[0];
        const int64_t h = h0 + t / s.kernel[2] % s.kernel[1] * s.dilation[1], w = w0 + t % s.kernel[2] * s.dilation[2];
        if (d >= 0 && d < s.in[0] && h >= 0 && h < s.in[1] && w >= 0 && w < s.in[2])
          to[(d * s.in[1] + h) * s.in[2] + w] += from[t];
      }
    }
  });
}

int64_t variant(const void* params) { return static_cast<const Params*>(params)->conv.group; }
int64_t panel_bytes(const Params& p, const Shape& w) {
  const int64_t groups = p.conv.group;
  if (w.rank() < 3 || w.rank() > 2 + kMostSpatial || w.count() == 0 || w[0] % groups) return 0;
  return groups * static_cast<int64_t>(gemm_packed_bytes(w.count(1, w.rank()), w[0] / groups));
}
void pack_groups(const Params& p, const Shape& w, const float* weight, void* out, int threads) {
  const int64_t groups = p.conv.group, n = w.count(1, w.rank()), k = w[0] / groups;
  for (int64_t g = 0; g < groups; ++g)
    gemm_pack_b(weight + g * k * n, n, false, k, n,
                static_cast<float*>(out) + g * static_cast<int64_t>(gemm_packed_bytes(n, k) / sizeof(float)), threads);
}
int64_t packed_bytes(const PackCall& c) { return panel_bytes(c.as<Params>(), c.shape(1)); }
void pack(const PackCall& c, void* out) { pack_groups(c.as<Params>(), c.shape(1), c.in<float>(1), out, c.threads); }

Status compute_float(const Params& p, Call& call) {
  const Shape& w = call.shape(1);
  const ConvShape s = geometry(p, call.shape(0), w);
  if (call.out_count(0) == 0) return {};
  const int64_t bytes = panel_bytes(p, w);
  const auto* weights = static_cast<const float*>(call.packed(1));
  Tensor own;
  if (!weights) {
    TRY_ASSIGN(room, Tensor::allocate(DType::u8, Shape{bytes}));
    own = std::move(room);
    pack_groups(p, w, call.in<float>(1), own.mutable_data(), call.threads());
    weights = static_cast<const float*>(own.data());
  }
  conv_transpose_f32(call.target(), call.threads(), s, call.in<float>(0), weights, call.maybe<float>(2),
                     call.out<float>(0), call.scratch<std::byte>(0));
  return {};
}

Status compute_double(const Params& p, Call& call) {
  const ConvShape s = geometry(p, call.shape(0), call.shape(1));
  if (call.out_count(0) == 0) return {};
  const Blocks k(s);
  const int64_t m = s.out_channels / s.groups, plane = s.in[0] * s.in[1] * s.in[2],
                group_step = call.count(1) / s.groups;
  const double *x = call.in<double>(0), *w = call.in<double>(1), *bias = call.maybe<double>(2);
  double *y = call.out<double>(0), *products = call.scratch<double>(0);
  for (int64_t i = 0; i < s.batch * s.out_channels; ++i)
    std::fill_n(y + i * plane, plane, bias ? bias[i % s.out_channels] : 0.0);
  for (int64_t i = 0; i < s.batch * s.groups; ++i)
    for (int64_t first = 0; first < k.pixels; first += k.block) {
      if (call.cancelled()) return call.stopped();
      const int64_t n = std::min(k.block, k.pixels - first);
      gemm_ref<double, double>(call.threads(), n, k.width, k.depth, x + i * k.depth * k.pixels + first, k.pixels, true,
                               w + i % s.groups * group_step, k.width, false, products, k.width);
      add_products(call, s, products, k.width, first, n, y + i * m * plane);
    }
  return {};
}

int64_t scratch(const void* params, const ScratchCall& in) {
  const ConvShape s = geometry(*static_cast<const Params*>(params), *in[0], *in[1]);
  const Blocks k(s);
  return std::max(static_cast<int64_t>(conv_transpose_scratch_bytes(s)),
                  std::min(k.block, k.pixels) * k.width * static_cast<int64_t>(sizeof(double)));
}

constexpr Packing kPacks[] = {{1, "F32.P16.groups", packed_bytes, pack, variant}};
constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute_float>},
                               {kAllSame<double>, compute_with<Params, compute_double>}};
constexpr int16_t kVersions[] = {1, 11, 22};

}  // namespace

extern constexpr Op kConvTranspose{.domain = "",
                                   .name = "ConvTranspose",
                                   .versions = kVersions,
                                   .parse = parse_params<Params, parse>,
                                   .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                   .kernels = kKernels,
                                   .scratch = scratch,
                                   .packs = kPacks};
extern constexpr OpInference kConvTransposeInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
