#include "kernels/conv.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/conv_depthwise.h"
#include "kernels/conv_rows.h"
#include "kernels/conv_stage.h"
#include "kernels/conv_weights.h"
#include "kernels/conv_winograd.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/conv_stage-inl.h"
#include "kernels/gemm_tile-inl.h"
#include "kernels/turn-inl.h"

#ifndef TESSERA_KERNELS_CONV_SHARED_
#define TESSERA_KERNELS_CONV_SHARED_
namespace tessera {
namespace conv {

// y[channel][pixel] = activation(c[pixel][channel] + bias[channel]).
struct Spread {
  const float* c;
  int64_t ldc, rows, channels;
  const float* bias;  // or null
  bool relu;
  float* y;
  int64_t pixels;  // from one channel of y to the next
};

// Patches of one staged channel: to[tap * to_row + i] for `count` pixels from column x of the first staged row on,
// filled up with zeros to whole panels. Writes up to a panel beyond a row's end.
struct Taps {
  const float* staged;
  const int64_t* offset;
  int64_t taps, row_step, width, x, count;
  float* to;
  int64_t to_row;
};

struct Kernels {
  ProductKernel* product;
  RowsKernel* rows;
  void (*spread)(const Spread&);
  void (*taps)(const Taps&);
  // Stages the input of `rows` output rows from oy on; x is one channel.
  void (*stage)(const ConvShape& s, const Stage& g, const float* x, int64_t oy, int64_t rows, float* to);
};

}  // namespace conv
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using tile::D;
using tile::V;

// One panel's channels stay in the nearest cache while the pixels pass.
void product(const conv::Product& p) {
  const tile::Finish f{p.epilogue, p.first, p.last};
  tile::Operands o{};
  o.a_row = 1;
  o.a_k = kPanelWidth;
  o.b_k = p.row;
  o.b_vec = tile::kLanes;
  o.k = p.k;
  for (int64_t m = p.m0; m < p.m1; m += kPanelWidth) {
    const int64_t rows_here = HWY_MIN(p.m1 - m, kPanelWidth);
    for (int64_t j = 0; j < p.columns; j += tile::kWide) {
      o.b = p.patches + j;
      const int columns = static_cast<int>(HWY_MIN(p.columns - j, tile::kWide));
      for (int64_t i = 0; i < rows_here;) {
        const int rows = tile::next_rows(rows_here - i);
        o.a = p.w + m / kPanelWidth * p.panel + i;
        float* y = p.y + (m + i) * p.pixels + j;
        if (columns > tile::kLanes)
          tile::compute<2, true>(o, f, m + i, j, rows, columns, y, p.pixels);
        else
          tile::compute<1, true>(o, f, m + i, j, rows, columns, y, p.pixels);
        i += rows;
      }
    }
  }
}

// A panel pair stays in the nearest caches while the pixels pass.
void rows(const conv::Rows& p) {
  constexpr GemmEpilogue kPlain;
  const tile::Finish f{&kPlain, p.first, false};
  tile::Operands o{};
  o.a_row = 1;
  o.a_k = p.row;
  o.b_k = kPanelWidth;
  o.b_vec = p.panel;
  o.k = p.k;
  const int64_t columns = (p.channels + kPanelWidth - 1) / kPanelWidth * kPanelWidth;
  for (int64_t j = 0; j < columns; j += tile::kWide) {
    o.b = p.w + j / kPanelWidth * p.panel + j % kPanelWidth;
    for (int64_t i = 0; i < p.rows;) {
      const int count = tile::next_rows(p.rows - i);
      o.a = p.patches + i;
      float* c = p.c + i * p.ldc + j;
      if (j + tile::kLanes < columns)
        tile::compute<2, true>(o, f, i, j, count, tile::kWide, c, p.ldc);
      else
        tile::compute<1, true>(o, f, i, j, count, tile::kLanes, c, p.ldc);
      i += count;
    }
  }
}

#if HWY_TARGET == HWY_SCALAR
void spread(const conv::Spread& s) {
  for (int64_t channel = 0; channel < s.channels; ++channel)
    for (int64_t r = 0; r < s.rows; ++r) {
      const float v = s.c[r * s.ldc + channel] + (s.bias ? s.bias[channel] : 0.0f);
      s.y[channel * s.pixels + r] = s.relu && v < 0.0f ? 0.0f : v;
    }
}
#else
// The finished channels of a vector, for one row of c. Read beyond the last channel, up to a whole panel.
struct FinishedRows {
  const float* c;
  int64_t ldc;
  V bias;
  bool add, relu;
  HWY_INLINE V at(int64_t row) const {
    V v = hn::LoadU(D(), c + row * ldc);
    if (add) v = hn::Add(v, bias);
    return relu ? tile::relu(v) : v;
  }
};

// Squares of the rows of whole vectors of channels; returns how many rows that are.
HWY_NOINLINE int64_t spread_squares(const FinishedRows& from, int64_t rows, float* y, int64_t pixels) {
  int64_t r = 0;
  for (; r + tile::kLanes <= rows; r += tile::kLanes) {
    V v[tile::kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < tile::kLanes; ++i) v[i] = from.at(r + i);
    turn::turn_square(v);
#pragma GCC unroll 16
    for (int i = 0; i < tile::kLanes; ++i) hn::StoreU(v[i], D(), y + i * pixels + r);
  }
  return r;
}

void spread(const conv::Spread& s) {
  const D d;
  HWY_ALIGN float some[kPanelWidth] = {};
  for (int64_t first = 0; first < s.channels; first += tile::kLanes) {
    const int64_t count = HWY_MIN(tile::kLanes, s.channels - first);
    for (int64_t i = 0; s.bias && i < count; ++i) some[i] = s.bias[first + i];
    const FinishedRows from{s.c + first, s.ldc, hn::Load(d, some), s.bias != nullptr, s.relu};
    float* y = s.y + first * s.pixels;
    int64_t r = count == tile::kLanes ? spread_squares(from, s.rows, y, s.pixels) : 0;
    for (; r + 4 <= s.rows; r += 4) {
      V v[4] = {from.at(r), from.at(r + 1), from.at(r + 2), from.at(r + 3)};
      turn::store_four(v, y + r, s.pixels, count, 4);
    }
    for (; r < s.rows; ++r) {
      hn::Store(from.at(r), d, some);
      for (int64_t i = 0; i < count; ++i) y[i * s.pixels + r] = some[i];
    }
  }
}
#endif

// Whole vectors of DD: what is written beyond a row's end, its successor writes again.
template <class DD>
HWY_INLINE void copy_taps(DD d, const conv::Taps& t) {
  constexpr int64_t kStep = hn::MaxLanes(DD());
  const int64_t end = (t.count + kPanelWidth - 1) / kPanelWidth * kPanelWidth;
  for (int64_t tap = 0; tap < t.taps; ++tap) {
    const float* from = t.staged + t.offset[tap];
    float* to = t.to + tap * t.to_row;
    int64_t x = t.x;
    for (int64_t done = 0; done < t.count;) {
      const int64_t n = HWY_MIN(t.width - x, t.count - done);
      for (int64_t i = 0; i < n; i += kStep) hn::StoreU(hn::LoadU(d, from + x + i), d, to + done + i);
      done += n;
      from += t.row_step;
      x = 0;
    }
    for (int64_t i = t.count; i < end; i += kStep) hn::StoreU(hn::Zero(d), d, to + i);
  }
}

void taps(const conv::Taps& t) {
  if (t.width <= 8)
    copy_taps(hn::CappedTag<float, 8>(), t);
  else
    copy_taps(D(), t);
}

void stage(const ConvShape& s, const conv::Stage& g, const float* x, int64_t oy, int64_t rows, float* to) {
  if (staging::can_stage_rows(s, g))
    staging::stage_rows(s, g, x, oy, rows, to);
  else
    conv::stage(s, g, x, 0, oy, rows, 0, to);
}

constexpr conv::Kernels kernels = {product, rows, spread, taps, stage};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const conv::Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                           HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                           HWY_CHOOSE_AVX3(kernels)};

using conv::copy_padded;
using conv::inside;
using conv::Range;
using conv::set_zero;
using conv::Stage;
using conv::volume;

constexpr int64_t kMaxDepth = 64;          // taps gathered and summed at a time: short sums lose less
constexpr int64_t kPatchFloats = 1 << 16;  // gathered at a time
constexpr int64_t kMostPixels = 512, kFewestPixels = 64;
constexpr int64_t kMostRows = 96, kMostStagedRows = 200;  // pixels at a time where they are rows
constexpr int64_t kSharedFloats = 1 << 18;                // of patches gathered once for all output channels
constexpr int64_t kWantedChunks = 8;
constexpr int64_t kFewChannels = 32;      // of output
constexpr int64_t kFewestChannels = 256;  // of output that one chunk computes, if the layer has them
constexpr int64_t kStagedFloats = 1 << 15;

int64_t taps_of(const ConvShape& s) { return s.channels / s.groups * volume(s.kernel); }
bool is_pointwise(const ConvShape& s) {
  for (int d = 0; d < 3; ++d)
    if (s.kernel[d] != 1 || s.stride[d] != 1 || s.pad[d] != 0 || s.in[d] != s.out[d]) return false;
  return true;
}
// One output pixel that meets the whole input: a matrix product.
bool is_product(const ConvShape& s) {
  for (int d = 0; d < 3; ++d)
    if (s.out[d] != 1 || s.pad[d] != 0 || s.kernel[d] != s.in[d] || (s.dilation[d] != 1 && s.kernel[d] != 1))
      return false;
  return true;
}

// A pointwise convolution sees one long row of pixels.
ConvShape simplified(ConvShape s) {
  if (!is_pointwise(s)) return s;
  s.in[2] = s.out[2] = volume(s.in);
  s.in[0] = s.in[1] = s.out[0] = s.out[1] = 1;
  return s;
}

// How the gathered form cuts a shape.
struct Cut {
  int64_t pixels, taps, depth, block, row, blocks, channels, channel_blocks;
  bool by_rows;   // pixels are rows of the product, channels its columns
  bool in_place;  // the input itself is the matrix of patches, at least of blocks of whole vectors
  bool staged;
  bool shared;  // patches are gathered once, before the products, for all blocks of output channels
  Stage stage;
};

// Vectors across channels waste nothing at the end of a small map and take more rows at a time, but their products have
// to be turned.
bool by_rows(const ConvShape& s, int64_t pixels, int64_t taps) {
  const int64_t group_channels = s.out_channels / s.groups;
  const auto channels = static_cast<double>(group_channels), depth = static_cast<double>(taps);
  const double across_channels =
      static_cast<double>(pixels) * (static_cast<double>(round_up(group_channels, kPanelWidth)) * depth + 8 * channels);
  const double across_pixels = static_cast<double>(round_up(pixels, kPanelWidth)) * channels * depth;
  return across_channels * 23 / 24 < across_pixels;
}

// Whole channels at a time, if a few fit.
int64_t depth_of(const ConvShape& s, int64_t taps) {
  const int64_t steps = std::max<int64_t>(1, ceil_div(taps, kMaxDepth)),
                depth = std::max<int64_t>(1, ceil_div(taps, steps));
  const int64_t kernel = volume(s.kernel);
  return kernel <= kMaxDepth ? std::max(kernel, depth / kernel * kernel) : depth;
}

void cut_pixels(const ConvShape& s, Cut& c) {
  if (c.by_rows && volume(s.kernel) > 1 && s.out[0] == 1 && s.out[2] <= kMostRows) {
    // Whole rows of output: less is staged twice.
    const int64_t most = std::clamp(c.pixels / 4, kMostRows, kMostStagedRows);
    c.blocks = std::max<int64_t>(1, ceil_div(s.out[1], std::max<int64_t>(1, most / std::max<int64_t>(1, s.out[2]))));
    c.block = std::max<int64_t>(1, ceil_div(s.out[1], c.blocks) * s.out[2]);
  } else if (c.by_rows) {
    c.blocks = std::max<int64_t>(1, ceil_div(c.pixels, kMostRows));
    c.block = round_up(std::max<int64_t>(1, ceil_div(c.pixels, c.blocks)), 12);
  } else {
    const int64_t fit = std::clamp(kPatchFloats / c.depth / 32 * 32, kFewestPixels, kMostPixels);
    const int64_t planes = std::max<int64_t>(1, s.batch * s.groups);
    const int64_t spread = std::max(kFewestPixels, round_up(ceil_div(c.pixels, ceil_div(kWantedChunks, planes)), 32));
    c.blocks = std::max<int64_t>(1, ceil_div(c.pixels, std::min(fit, spread)));
    c.block = round_up(std::max<int64_t>(1, ceil_div(c.pixels, c.blocks)), 16);
    // No last block of a few pixels.
    while (c.blocks > 1 && c.pixels - (ceil_div(c.pixels, c.block) - 1) * c.block < c.block / 4)
      c.block = round_up(ceil_div(c.pixels, --c.blocks), 16);
  }
  c.blocks = ceil_div(c.pixels, c.block);
  // An odd number of cache lines: rows spread over all sets.
  const int64_t lines = ceil_div(c.block, 16);
  c.row = 16 * (lines + (lines % 2 == 0));
}

void plan_gathering(const ConvShape& s, Cut& c) {
  // Patches that few channels meet are not worth a copy, unless all rows fall into the same cache sets.
  const bool few = s.out_channels / s.groups <= kFewChannels && c.pixels % 512 != 0;
  c.in_place = is_pointwise(s) && (c.by_rows || few);
  const int64_t rows = std::min(s.out[1], (c.block - 1) / std::max<int64_t>(1, s.out[2]) + 2);
  c.stage = conv::plan_stage(s, rows, s.out[2]);
  c.staged = s.kernel[0] == 1 && s.out[0] == 1 && volume(s.kernel) > 1 && c.depth % volume(s.kernel) == 0 &&
             s.out[2] <= kStagedFloats && c.stage.floats(1) <= kStagedFloats;
}

Cut cut_shape(const ConvShape& s) {
  Cut c;
  c.pixels = volume(s.out);
  c.taps = taps_of(s);
  c.depth = depth_of(s, c.taps);
  c.by_rows = by_rows(s, c.pixels, c.taps);
  cut_pixels(s, c);
  plan_gathering(s, c);
  const int64_t planes = std::max<int64_t>(1, s.batch * s.groups);
  const int64_t group_channels = s.out_channels / s.groups;
  const int64_t split = std::clamp<int64_t>(kWantedChunks / std::max<int64_t>(1, planes * c.blocks), 1,
                                            std::max<int64_t>(1, group_channels / kFewestChannels));
  c.channels = std::max<int64_t>(2 * kPanelWidth, round_up(ceil_div(group_channels, split), 2 * kPanelWidth));
  c.channel_blocks = ceil_div(group_channels, c.channels);
  c.shared = c.channel_blocks > 1 && !c.in_place && planes * c.blocks * c.taps * c.row <= kSharedFloats;
  return c;
}

// Where the parts of a lane's scratch start, in floats; and how many all lanes share.
struct Places {
  int64_t offsets, staged, c, wide, end, shared;
};
Places places(const ConvShape& s, const Cut& c) {
  Places at;
  at.offsets = c.in_place && c.by_rows ? 0 : round_up(c.depth * c.row + kPanelWidth, 16);
  at.staged = at.offsets + (c.staged ? round_up(2 * volume(s.kernel), 16) : 0);
  at.c = at.staged + (c.staged ? round_up(c.stage.floats(1), 16) : 0);
  at.wide = round_up(at.c + (c.by_rows ? c.block * c.channels : 0), 16);
  at.end = at.wide + 2 * kPanelWidth * c.depth;
  at.shared = c.shared ? round_up(std::max<int64_t>(1, s.batch * s.groups) * c.blocks * c.taps * c.row + 16, 16) : 0;
  return at;
}

struct Position {
  int64_t z, y, x;
};

// One tap of `count` pixels from output position `at` on, from one channel's plane.
void gather_row(const ConvShape& s, const float* plane, Position tap, Position at, int64_t count, float* to) {
  const Position shift{tap.z * s.dilation[0] - s.pad[0], tap.y * s.dilation[1] - s.pad[1],
                       tap.x * s.dilation[2] - s.pad[2]};
  const Range valid = inside(s.in[2], s.out[2], s.stride[2], shift.x);
  while (count > 0) {
    const int64_t n = std::min(s.out[2] - at.x, count);
    const int64_t iz = at.z * s.stride[0] + shift.z, iy = at.y * s.stride[1] + shift.y;
    if (iz >= 0 && iz < s.in[0] && iy >= 0 && iy < s.in[1]) {
      const int64_t begin = std::clamp<int64_t>(valid.begin - at.x, 0, n);
      const Range here{begin, std::clamp(valid.end - at.x, begin, n)};
      copy_padded(plane + (iz * s.in[1] + iy) * s.in[2], s.stride[2], at.x * s.stride[2] + shift.x, here, to, n);
    } else {
      set_zero(to, n);
    }
    to += n;
    count -= n;
    at.x = 0;
    if (++at.y == s.out[1]) at.y = 0, ++at.z;
  }
}

// Taps [k0, k0 + depth) of pixels [p, p + count): patches[k - k0][pixel - p], filled up with zeros to whole vectors.
void gather(const ConvShape& s, const Cut& c, const float* x, int64_t k0, int64_t depth, int64_t p, int64_t count,
            float* patches) {
  const int64_t plane = volume(s.in), kernel = volume(s.kernel);
  const Position at{p / s.out[2] / s.out[1], p / s.out[2] % s.out[1], p % s.out[2]};
  const int64_t t = k0 % kernel;
  Position tap{t / s.kernel[2] / s.kernel[1], t / s.kernel[2] % s.kernel[1], t % s.kernel[2]};
  x += k0 / kernel * plane;
  for (int64_t k = 0; k < depth; ++k, patches += c.row) {
    gather_row(s, x, tap, at, count, patches);
    set_zero(patches + count, round_up(count, 16) - count);
    if (++tap.x < s.kernel[2]) continue;
    tap.x = 0;
    if (++tap.y < s.kernel[1]) continue;
    tap.y = 0;
    if (++tap.z < s.kernel[0]) continue;
    tap.z = 0;
    x += plane;
  }
}

// The same for whole channels by way of a staged copy of each.
void gather_staged(const conv::Kernels& kernels, const ConvShape& s, const Cut& c, const float* x, int64_t depth,
                   int64_t p, int64_t count, const int64_t* offset, float* staged, float* patches) {
  const int64_t y = p / s.out[2], rows = (p + count - 1) / s.out[2] - y + 1, kernel = volume(s.kernel);
  const conv::Taps t{staged, offset, kernel, c.stage.length(), s.out[2], p % s.out[2], count, patches, c.row};
  conv::Taps at = t;
  for (int64_t k = 0; k < depth; k += kernel, x += volume(s.in), at.to += kernel * c.row) {
    kernels.stage(s, c.stage, x, y, rows, staged);
    kernels.taps(at);
  }
}

struct Call {
  const ConvShape& s;
  const float* x;
  conv::Weights packed;
  const float* bias;
  GemmActivation activation;
  float* y;
  float* shared;  // patches, or null
};

// One chunk: a block of pixels and a block of output channels of one group of one image.
struct Chunk {
  int64_t plane = 0;             // image * groups + group
  int64_t first = 0, count = 0;  // pixels
  int64_t m0 = 0, m1 = 0;        // channels of the group
  const float* x = nullptr;      // of the group
  conv::Weights w;               // of the group
  const float* bias = nullptr;   // of the group, or null
  float* y = nullptr;            // pixel `first` of channel 0 of the group
};

Chunk chunk_at(const Call& call, const Cut& c, int64_t index) {
  const ConvShape& s = call.s;
  const int64_t group_channels = s.out_channels / s.groups;
  Chunk k{.w = call.packed};
  k.plane = index / c.blocks / c.channel_blocks;
  k.first = index % c.blocks * c.block;
  k.count = std::min(c.block, c.pixels - k.first);
  k.m0 = index / c.blocks % c.channel_blocks * c.channels;
  k.m1 = std::min(group_channels, k.m0 + c.channels);
  const int64_t group = k.plane % s.groups;
  k.x = call.x + k.plane * (s.channels / s.groups) * volume(s.in);
  k.w = call.packed.from(group * round_up(group_channels, kPanelWidth) * c.taps);
  k.bias = call.bias ? call.bias + group * group_channels : nullptr;
  k.y = call.y + k.plane * group_channels * c.pixels + k.first;
  return k;
}

// The patches of one step of k, from k0 on. What they lie in is readable for a panel beyond the last row.
void gather_step(const conv::Kernels& kernels, const Call& call, const Cut& c, const Chunk& k, int64_t k0,
                 const Places& at, float* scratch, float* patches) {
  const ConvShape& s = call.s;
  const int64_t depth = std::min(c.depth, c.taps - k0);
  if (c.staged)
    gather_staged(kernels, s, c, k.x + k0 / volume(s.kernel) * volume(s.in), depth, k.first, k.count,
                  reinterpret_cast<const int64_t*>(scratch + at.offsets), scratch + at.staged, patches);
  else
    gather(s, c, k.x, k0, depth, k.first, k.count, patches);
}

// Where the shared patches of a chunk's pixels are.
float* shared_patches(const Call& call, const Cut& c, const Chunk& k) {
  return call.shared + (k.plane * c.blocks + k.first / c.block) * c.taps * c.row;
}

// Gathers what all blocks of output channels share.
void gather_shared(const conv::Kernels& kernels, const Call& call, const Cut& c, int threads, float* lanes) {
  const Places at = places(call.s, c);
  const int64_t steps = ceil_div(c.taps, c.depth), per_plane = c.blocks * c.channel_blocks;
  const int64_t planes = call.s.batch * call.s.groups;
  parallel_for(threads, planes * c.blocks * steps, [&](int64_t index, int lane) {
    float* own = lanes + lane * at.end;
    const int64_t pixels = index / steps, k0 = index % steps * c.depth;
    const Chunk k = chunk_at(call, c, pixels / c.blocks * per_plane + pixels % c.blocks);
    if (c.staged) conv::set_offsets(call.s, c.stage, reinterpret_cast<int64_t*>(own + at.offsets));
    // The room for a step's patches takes what is written beyond them.
    gather_step(kernels, call, c, k, k0, at, own, own);
    std::memcpy(shared_patches(call, c, k) + k0 * c.row, own,
                static_cast<size_t>(std::min(c.depth, c.taps - k0) * c.row) * sizeof(float));
  });
}

// Calls step(k0, depth, patches, row) for every step of k, with the patches gathered, rows of them `row` apart.
template <class F>
void each_step(const conv::Kernels& kernels, const Call& call, const Cut& c, const Chunk& k, float* scratch, F step) {
  const Places at = places(call.s, c);
  // Vectors of pixels read beyond the last one, which must not be beyond the input.
  const bool in_place = c.in_place && (c.by_rows || k.first + round_up(k.count, kPanelWidth) <= c.pixels);
  if (c.staged && !c.shared) conv::set_offsets(call.s, c.stage, reinterpret_cast<int64_t*>(scratch + at.offsets));
  for (int64_t k0 = 0; k0 == 0 || k0 < c.taps; k0 += c.depth) {
    const int64_t depth = std::min(c.depth, c.taps - k0);
    if (in_place) {
      step(k0, depth, k.x + k0 * c.pixels + k.first, c.pixels);
    } else if (c.shared) {
      step(k0, depth, shared_patches(call, c, k) + k0 * c.row, c.row);
    } else {
      gather_step(kernels, call, c, k, k0, at, scratch, scratch);
      step(k0, depth, scratch, c.row);
    }
  }
}

void run_by_channels(const conv::Kernels& kernels, const Call& call, const Cut& c, const Chunk& k, float* scratch) {
  GemmEpilogue e;
  e.c_row_stride = 1;
  e.activation = call.activation;
  float* wide = scratch + places(call.s, c).wide;
  conv::Product job{};
  job.panel = c.taps * kPanelWidth;
  job.columns = k.count;
  job.pixels = c.pixels;
  job.epilogue = &e;
  each_step(kernels, call, c, k, scratch, [&](int64_t k0, int64_t depth, const float* patches, int64_t row) {
    job.patches = patches;
    job.row = row;
    job.k = depth;
    job.first = k0 == 0;
    job.last = k0 + depth >= c.taps;
    // All channels at once, or narrow weights a panel at a time.
    for (int64_t m = k.m0; m < k.m1; m += job.m1) {
      job.m1 = k.w.narrow() ? std::min<int64_t>(kPanelWidth, k.m1 - m) : k.m1 - m;
      job.w = k.w.at(m / kPanelWidth * job.panel + k0 * kPanelWidth, depth * kPanelWidth, wide);
      job.y = k.y + m * c.pixels;
      e.c_in = k.bias ? k.bias + m : nullptr;
      kernels.product(job);
    }
  });
}

// One step of k, from k0 on: all channels at once, or narrow weights a pair of panels at a time.
void multiply_rows(const conv::Kernels& kernels, const Cut& c, const Chunk& k, int64_t k0, float* wide, float* to,
                   conv::Rows& job) {
  const int64_t panel = c.taps * kPanelWidth, piece = job.k * kPanelWidth;
  job.panel = k.w.narrow() ? piece : panel;
  for (int64_t m = k.m0; m < k.m1; m += job.channels) {
    job.channels = k.w.narrow() ? std::min<int64_t>(2 * kPanelWidth, k.m1 - m) : k.m1 - m;
    const int64_t at = m / kPanelWidth * panel + k0 * kPanelWidth;
    job.w = k.w.at(at, piece, wide);
    if (k.w.narrow() && job.channels > kPanelWidth) k.w.at(at + panel, piece, wide + piece);
    job.c = to + (m - k.m0);
    kernels.rows(job);
  }
}

void run_by_rows(const conv::Kernels& kernels, const Call& call, const Cut& c, const Chunk& k, float* scratch) {
  const Places at = places(call.s, c);
  conv::Rows job{};
  job.rows = k.count;
  job.ldc = c.channels;
  each_step(kernels, call, c, k, scratch, [&](int64_t k0, int64_t depth, const float* patches, int64_t row) {
    job.patches = patches;
    job.row = row;
    job.k = depth;
    job.first = k0 == 0;
    multiply_rows(kernels, c, k, k0, scratch + at.wide, scratch + at.c, job);
  });
  kernels.spread({scratch + at.c, job.ldc, k.count, k.m1 - k.m0, k.bias ? k.bias + k.m0 : nullptr,
                  call.activation == GemmActivation::relu, k.y + k.m0 * c.pixels, c.pixels});
}

void run_product(Target target, int threads, const Call& call) {
  const ConvShape& s = call.s;
  const int64_t taps = taps_of(s), channels = s.out_channels / s.groups;
  GemmEpilogue e;
  e.c_col_stride = 1;
  e.activation = call.activation;
  for (int64_t g = 0; g < s.groups; ++g) {
    e.c_in = call.bias ? call.bias + g * channels : nullptr;
    gemm_f32(target, threads, s.batch, channels, taps, call.x + g * taps, s.groups * taps, false,
             call.packed.from(g * round_up(channels, kPanelWidth) * taps).panels, call.y + g * channels, s.out_channels,
             e);
  }
}

}  // namespace

conv::ProductKernel* conv::product_kernel(Target target) { return choose_kernels(kTable, target).product; }

size_t conv_packed_bytes(const ConvShape& s, PanelType type) {
  const int64_t taps = taps_of(s);
  if (conv::is_depthwise(s)) return conv::depthwise_packed_bytes(s);
  return static_cast<size_t>(s.groups) * gemm_packed_bytes(s.out_channels / s.groups, taps, type);
}

void conv_pack(const ConvShape& s, PanelType type, const void* w, void* packed, int threads) {
  const conv::Weights from{{w, type}, best_target()};
  const int64_t taps = taps_of(s), channels = s.out_channels / s.groups;
  if (conv::is_depthwise(s)) {
    auto* to = static_cast<float*>(packed);
    const float* wide = from.at(0, s.out_channels * taps, to);
    return wide == to ? void() : conv::depthwise_pack(s, wide, to);
  }
  const size_t group_bytes = gemm_packed_bytes(channels, taps, type);
  for (int64_t g = 0; g < s.groups; ++g)
    gemm_pack_b(type, from.from(g * channels * taps).panels.data, taps, true, taps, channels,
                static_cast<char*>(packed) + static_cast<size_t>(g) * group_bytes, threads);
}

void conv_pack(const ConvShape& s, const float* w, float* packed, int threads) {
  conv_pack(s, PanelType::f32, w, packed, threads);
}

size_t conv_scratch_bytes(const ConvShape& shape) {
  const ConvShape s = simplified(shape);
  if (conv::is_depthwise(s)) return conv::depthwise_scratch_bytes(s);
  if (is_product(s)) return 0;
  const Places at = places(s, cut_shape(s));
  const auto direct = static_cast<size_t>(at.shared + at.end) * sizeof(float);
  return conv::is_winograd(s) ? std::max(direct, conv::winograd_scratch_bytes(s)) : direct;
}

void conv_f32(Target target, int threads, const ConvShape& shape, const float* x, const GemmPanels& packed,
              const float* bias, GemmActivation activation, float* y, void* scratch) {
  const ConvShape s = simplified(shape);
  if (s.batch <= 0 || s.out_channels <= 0 || volume(s.out) <= 0) return;
  if (conv::is_depthwise(s))
    return conv::depthwise(target, threads, s, x, static_cast<const float*>(packed.data), bias, activation, y, scratch);
  const conv::Weights weights{packed, target};
  Call call{s, x, weights, bias, activation, y, nullptr};
  if (is_product(s)) return run_product(target, threads, call);
  const conv::Kernels& kernels = choose_kernels(kTable, target);
  if (conv::is_winograd(s) && conv::winograd(threads, s, kernels.rows, x, weights, bias, activation, y, scratch))
    return;
  const Cut c = cut_shape(s);
  const Places at = places(s, c);
  call.shared = static_cast<float*>(scratch);
  float* lanes = call.shared + at.shared;
  if (c.shared) gather_shared(kernels, call, c, threads, lanes);
  parallel_for(threads, s.batch * s.groups * c.channel_blocks * c.blocks, [&](int64_t index, int lane) {
    float* own = lanes + lane * at.end;
    const Chunk k = chunk_at(call, c, index);
    (c.by_rows ? run_by_rows : run_by_channels)(kernels, call, c, k, own);
  });
}

}  // namespace tessera
#endif
