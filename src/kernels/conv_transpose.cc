#include "kernels/conv_transpose.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/conv_rows.h"
#include "kernels/conv_stage.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_transpose.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_KERNELS_CONV_TRANSPOSE_SHARED_
#define TESSERA_KERNELS_CONV_TRANSPOSE_SHARED_
namespace tessera {
namespace conv {

struct TransposeKernels {
  // y[i] += p[i].
  void (*add)(const float* p, int64_t n, float* y);
  // y[2 * i] += even[i], y[2 * i + 1] += odd[i].
  void (*add_pairs)(const float* even, const float* odd, int64_t n, float* y);
};

}  // namespace conv
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using D = hn::CappedTag<float, 16>;
constexpr int64_t kLanes = hn::MaxLanes(D());

void add(const float* HWY_RESTRICT p, int64_t n, float* HWY_RESTRICT y) {
  const D d;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::Add(hn::LoadU(d, y + i), hn::LoadU(d, p + i)), d, y + i);
  for (; i < n; ++i) y[i] += p[i];
}

void add_pairs(const float* HWY_RESTRICT even, const float* HWY_RESTRICT odd, int64_t n, float* HWY_RESTRICT y) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SCALAR
  const D d;
  for (; i + kLanes <= n; i += kLanes) {
    hn::Vec<D> a, b;
    hn::LoadInterleaved2(d, y + 2 * i, a, b);
    hn::StoreInterleaved2(hn::Add(a, hn::LoadU(d, even + i)), hn::Add(b, hn::LoadU(d, odd + i)), d, y + 2 * i);
  }
#endif
  for (; i < n; ++i) {
    y[2 * i] += even[i];
    y[2 * i + 1] += odd[i];
  }
}

constexpr conv::TransposeKernels kernels = {add, add_pairs};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

using conv::volume;

constexpr const conv::TransposeKernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                                    HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                                    HWY_CHOOSE_AVX3(kernels)};

constexpr int64_t kMaxDepth = 256;  // channels of x summed at a time
constexpr int64_t kFloats = 1 << 16;
constexpr int64_t kWantedRows = 128;  // of products at a time
constexpr int64_t kWantedChunks = 8;

// How a shape is cut: blocks of y's channels and bands of y's rows, and for each blocks of x's elements ("pixels").
struct Cut {
  int64_t taps, group_channels, depth, pixels;
  int64_t channels, channel_blocks, rows;  // of y at a time; rows of products
  int64_t block, row;                      // pixels at a time; from one row of products to the next
  int64_t bands, height;                   // rows of y of each band

  explicit Cut(const ConvShape& s)
      : taps(volume(s.kernel)),
        group_channels(s.out_channels / s.groups),
        depth(s.channels / s.groups),
        pixels(volume(s.out)) {
    // Blocks start at whole panels.
    const int64_t step = kPanelWidth / std::gcd<int64_t>(kPanelWidth, std::max<int64_t>(taps, 1));
    channels = std::clamp(round_up(ceil_div(kWantedRows, std::max<int64_t>(taps, 1)), step), step,
                          round_up(std::max<int64_t>(group_channels, 1), step));
    channel_blocks = ceil_div(group_channels, channels);
    rows = std::min(channels, group_channels) * taps;
    const int64_t widest = std::max({rows, std::min(depth, kMaxDepth), int64_t{1}});
    block = std::clamp<int64_t>(kFloats / widest / 16 * 16, 16, round_up(std::max<int64_t>(pixels, 1), 16));
    const int64_t lines = block / 16;
    row = 16 * (lines + (lines % 2 == 0));  // an odd number of cache lines: rows spread over all sets
    // Rows of x that two bands meet are multiplied twice.
    const int64_t reach = (s.kernel[1] - 1) * s.dilation[1] + 1;
    const int64_t most = s.in[0] == 1 && s.out[0] == 1 ? std::max<int64_t>(1, s.in[1] / (8 * reach)) : 1;
    const int64_t planes = std::max<int64_t>(1, s.batch * s.groups * channel_blocks);
    bands = std::clamp<int64_t>(ceil_div(kWantedChunks, planes), 1, most);
    height = ceil_div(s.in[1], bands);
    bands = ceil_div(s.in[1], std::max<int64_t>(1, height));
  }
  int64_t patch_floats() const { return std::min(depth, kMaxDepth) * row; }
  int64_t lane_floats() const { return round_up(patch_floats() + rows * row + 4 * kPanelWidth, 16); }
};

struct Call {
  const ConvShape& s;
  const Cut& c;
  const conv::TransposeKernels& kernels;
  conv::ProductKernel* product;
};

// products[row][pixel] of pixels [first, first + count) of x, which are one group's of one image.
void multiply(const Call& call, const float* x, const float* w, int64_t rows, int64_t first, int64_t count,
              float* patches, float* products) {
  const Cut& c = call.c;
  constexpr GemmEpilogue kPlain;
  conv::Product job{};
  job.panel = c.depth * kPanelWidth;
  job.m1 = rows;
  job.patches = patches;
  job.row = c.row;
  job.columns = count;
  job.y = products;
  job.pixels = c.row;
  job.epilogue = &kPlain;
  for (int64_t k0 = 0; k0 < c.depth; k0 += kMaxDepth) {
    job.k = std::min(kMaxDepth, c.depth - k0);
    for (int64_t k = 0; k < job.k; ++k) {
      float* to = patches + k * c.row;
      std::memcpy(to, x + (k0 + k) * c.pixels + first, static_cast<size_t>(count) * sizeof(float));
      conv::set_zero(to + count, round_up(count, 16) - count);
    }
    job.w = w + k0 * kPanelWidth;
    job.first = k0 == 0;
    job.last = k0 + job.k >= c.depth;
    call.product(job);
  }
}

// Part of a row of x: `count` elements from column x on.
struct Segment {
  int64_t x, count;
};

// Adds what tap t of the width spreads of a segment: products[i] to y[(x + i) * stride + t * dilation - pad].
void add_tap(const Call& call, Segment g, int64_t t, const float* products, float* y) {
  const ConvShape& s = call.s;
  const int64_t stride = s.stride[2], shift = t * s.dilation[2] - s.pad[2];
  const conv::Range valid = conv::inside(s.in[2], g.x + g.count, stride, shift);
  const int64_t begin = std::max(valid.begin, g.x), n = valid.end - begin;
  if (n <= 0) return;
  const float* from = products + (begin - g.x);
  float* to = y + begin * stride + shift;
  if (stride == 1) return call.kernels.add(from, n, to);
  for (int64_t i = 0; i < n; ++i) to[i * stride] += from[i];
}

// The same for all taps of the width; the products of a tap are c.row apart. Two taps that fill each other's gaps go
// together.
void add_taps(const Call& call, Segment g, const float* products, float* y) {
  const ConvShape& s = call.s;
  int64_t t = 0;
  for (; s.stride[2] == 2 && s.dilation[2] == 1 && t + 2 <= s.kernel[2]; t += 2) {
    const conv::Range first = conv::inside(s.in[2], g.x + g.count, 2, t - s.pad[2]),
                      second = conv::inside(s.in[2], g.x + g.count, 2, t + 1 - s.pad[2]);
    const float *even = products + t * call.c.row, *odd = even + call.c.row;
    if (first.begin > g.x || second.begin > g.x || first.end < g.x + g.count || second.end < g.x + g.count) {
      add_tap(call, g, t, even, y);
      add_tap(call, g, t + 1, odd, y);
    } else {
      call.kernels.add_pairs(even, odd, g.count, y + 2 * g.x + t - s.pad[2]);
    }
  }
  for (; t < s.kernel[2]; ++t) add_tap(call, g, t, products + t * call.c.row, y);
}

// Rows [begin, end) of y.
struct Band {
  int64_t begin, end;
};

// The pixels that meet a band; the whole of x if there is one band.
conv::Range pixels_of(const Call& call, Band b) {
  const ConvShape& s = call.s;
  if (call.c.bands == 1) return {0, call.c.pixels};
  const int64_t reach = (s.kernel[1] - 1) * s.dilation[1], stride = s.stride[1];
  const int64_t begin = conv::inside(s.in[1], s.out[1], stride, reach - s.pad[1] - b.begin).begin;
  const int64_t end = conv::inside(b.end, s.out[1], stride, -s.pad[1]).end;
  return {begin * s.out[2], std::max(begin, end) * s.out[2]};
}

// Adds the products of pixels [first, first + count) to a band of `channels` planes of y.
void spread(const Call& call, Band b, int64_t channels, int64_t first, int64_t count, const float* products, float* y) {
  const ConvShape& s = call.s;
  const int64_t plane = volume(s.in);
  for (int64_t m = 0; m < channels; ++m, y += plane, products += call.c.taps * call.c.row)
    for (int64_t p = first; p < first + count;) {
      const Segment g{p % s.out[2], std::min(s.out[2] - p % s.out[2], first + count - p)};
      const int64_t h = p / s.out[2] % s.out[1], d = p / s.out[2] / s.out[1];
      const float* from = products + (p - first);
      for (int64_t kd = 0; kd < s.kernel[0]; ++kd)
        for (int64_t kh = 0; kh < s.kernel[1]; ++kh, from += s.kernel[2] * call.c.row) {
          const int64_t od = d * s.stride[0] + kd * s.dilation[0] - s.pad[0];
          const int64_t oh = h * s.stride[1] + kh * s.dilation[1] - s.pad[1];
          if (od >= 0 && od < s.in[0] && oh >= b.begin && oh < b.end)
            add_taps(call, g, from, y + (od * s.in[1] + oh) * s.in[2]);
        }
      p += g.count;
    }
}

}  // namespace

size_t conv_transpose_scratch_bytes(const ConvShape& s) {
  return static_cast<size_t>(Cut(s).lane_floats()) * sizeof(float);
}

void conv_transpose_f32(Target target, int threads, const ConvShape& s, const float* x, const float* packed,
                        const float* bias, float* y, void* scratch) {
  const Cut c(s);
  const Call call{s, c, choose_kernels(kTable, target), conv::product_kernel(target)};
  const int64_t plane = volume(s.in), panels = round_up(c.group_channels * c.taps, kPanelWidth);
  parallel_for(threads, s.batch * s.groups * c.channel_blocks * c.bands, [&](int64_t index, int lane) {
    const int64_t at = index / c.bands / c.channel_blocks, group = at % s.groups;
    const int64_t m0 = index / c.bands % c.channel_blocks * c.channels, row = index % c.bands * c.height;
    const int64_t channels = std::min(c.channels, c.group_channels - m0);
    const Band band{row, std::min(s.in[1], row + c.height)};
    const conv::Range pixels = pixels_of(call, band);
    float* patches = static_cast<float*>(scratch) + lane * c.lane_floats();
    float* products = patches + round_up(c.patch_floats() + kPanelWidth, 16);
    float* to = y + (at * c.group_channels + m0) * plane;
    for (int64_t m = 0; m < channels; ++m)
      for (int64_t d = 0; d < s.in[0]; ++d)
        std::fill_n(to + m * plane + (d * s.in[1] + row) * s.in[2], (band.end - row) * s.in[2],
                    bias ? bias[group * c.group_channels + m0 + m] : 0.0f);
    for (int64_t first = pixels.begin; first < pixels.end && c.taps > 0; first += c.block) {
      const int64_t count = std::min(c.block, pixels.end - first);
      multiply(call, x + at * c.depth * c.pixels, packed + (group * panels + m0 * c.taps) * c.depth, channels * c.taps,
               first, count, patches, products);
      spread(call, band, channels, first, count, products, to);
    }
  });
}

}  // namespace tessera
#endif
