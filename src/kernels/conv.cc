#include "kernels/conv.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/gemm_tile-inl.h"

#ifndef TESSERA_KERNELS_CONV_SHARED_
#define TESSERA_KERNELS_CONV_SHARED_
namespace tessera {
namespace conv {

// Some output channels of a group times a block of gathered pixels, over one step of k.
struct Product {
  const float* w;        // panels of 16 output channels, [k][16] each, at this step's first k
  int64_t panel;         // elements from one panel to the next
  int64_t m0, m1;        // output channels; m0 starts a panel
  const float* patches;  // [k][row], `columns` pixels each
  int64_t row, columns, k;
  float* y;  // pixel 0 of the block in output channel 0 of the group
  int64_t pixels;
  const GemmEpilogue* epilogue;
  bool first, last;
};

// Rows of one output channel, each a sum over taps of staged rows.
struct Band {
  const float* staged;    // readable for two vectors beyond the last element used
  const int64_t* offset;  // of each tap in `staged`
  const float* w;
  int64_t taps;
  int64_t rows, row_step, columns;  // output rows, the step from one to the next in `staged`, output columns
  float bias;
  bool relu;
  float* y;
  int64_t y_step;
};

struct Kernels {
  void (*product)(const Product&);
  void (*band)(const Band&);
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

// kVecs vectors of outputs from `x`.
template <int kVecs>
HWY_INLINE void band_tile(const conv::Band& b, const float* x, float* y) {
  const D d;
  V acc[kVecs];
#pragma GCC unroll 4
  for (int j = 0; j < kVecs; ++j) acc[j] = hn::Zero(d);
  for (int64_t t = 0; t < b.taps; ++t) {
    const V w = hn::Set(d, b.w[t]);
    const float* from = x + b.offset[t];
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) acc[j] = hn::MulAdd(w, hn::LoadU(d, from + j * tile::kLanes), acc[j]);
  }
  const V bias = hn::Set(d, b.bias);
#pragma GCC unroll 4
  for (int j = 0; j < kVecs; ++j) {
    acc[j] = hn::Add(acc[j], bias);
    if (b.relu) acc[j] = tile::relu(acc[j]);
    hn::StoreU(acc[j], d, y + j * tile::kLanes);
  }
}

// At least one vector of outputs side by side. The last vector may overlap the one before it: an output's value does
// not depend on its place.
HWY_INLINE void band_row(const conv::Band& b, const float* x, float* y, int64_t columns) {
  int64_t j = 0;
  for (; j + 4 * tile::kLanes <= columns; j += 4 * tile::kLanes) band_tile<4>(b, x + j, y + j);
  if (j + 2 * tile::kLanes <= columns) {
    band_tile<2>(b, x + j, y + j);
    j += 2 * tile::kLanes;
  }
  if (j + tile::kLanes < columns) {
    const int64_t last = columns - 2 * tile::kLanes;
    if (last >= 0) return band_tile<2>(b, x + last, y + last);
    band_tile<1>(b, x + j, y + j);
    j += tile::kLanes;
  }
  if (j < columns) band_tile<1>(b, x + columns - tile::kLanes, y + columns - tile::kLanes);
}

// Rows narrower than a vector: what lies between their ends in `staged` is computed too and left out when copied.
HWY_INLINE void narrow_band(const conv::Band& b) {
  constexpr int64_t kFlat = 16 * tile::kLanes;
  HWY_ALIGN float flat[kFlat];
  const int64_t rows_at_once = HWY_MAX(1, (kFlat - tile::kLanes) / b.row_step);
  for (int64_t r = 0; r < b.rows; r += rows_at_once) {
    const int64_t rows = HWY_MIN(rows_at_once, b.rows - r), columns = (rows - 1) * b.row_step + b.columns;
    const float* x = b.staged + r * b.row_step;
    int64_t j = 0;
    for (; j + 2 * tile::kLanes < columns; j += 4 * tile::kLanes) band_tile<4>(b, x + j, flat + j);
    for (; j < columns; j += tile::kLanes) band_tile<1>(b, x + j, flat + j);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t v = 0; v < b.columns; ++v) b.y[(r + i) * b.y_step + v] = flat[i * b.row_step + v];
  }
}

void band(const conv::Band& b) {
  if (b.columns < tile::kLanes) return narrow_band(b);
  for (int64_t r = 0; r < b.rows; ++r) band_row(b, b.staged + r * b.row_step, b.y + r * b.y_step, b.columns);
}

constexpr conv::Kernels kernels = {product, band};

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

constexpr int64_t kMaxDepth = 512;         // taps gathered at a time
constexpr int64_t kPatchFloats = 1 << 16;  // gathered at a time
constexpr int64_t kMostPixels = 512, kFewestPixels = 64;
constexpr int64_t kWantedChunks = 8;
constexpr int64_t kFewestChannels = 256;  // of output that one chunk computes, if the layer has them
constexpr int64_t kStagedFloats = 1 << 14;
constexpr int64_t kLeastWork = 1 << 16;  // multiply-adds worth handing to another thread
constexpr int64_t kSlack = 64;           // floats a kernel may read beyond what is staged

int64_t volume(const int64_t (&d)[3]) { return d[0] * d[1] * d[2]; }
int64_t taps_of(const ConvShape& s) { return s.channels / s.groups * volume(s.kernel); }
bool is_depthwise(const ConvShape& s) { return s.groups > 1 && s.channels == s.groups; }
int64_t floor_div(int64_t a, int64_t b) { return b == 1 ? a : a >= 0 ? a / b : -((-a + b - 1) / b); }

// Outputs [begin, end) of [0, out) that meet the input inside [0, in) at o * stride + shift.
struct Range {
  int64_t begin, end;
};
Range inside(int64_t in, int64_t out, int64_t stride, int64_t shift) {
  const int64_t begin = std::clamp<int64_t>(-floor_div(shift, stride), 0, out);
  return {begin, std::clamp<int64_t>(floor_div(in - 1 - shift, stride) + 1, begin, out)};
}

// to[i] = from[2 * i].
void copy_every_second(const float* from, float* to, int64_t n) {
  typedef float Four __attribute__((vector_size(16)));
  int64_t i = 0;
  // Four outputs read eight elements, the last of which must lie before another output's.
  for (; i + 4 < n; i += 4) {
    Four low, high;
    std::memcpy(&low, from + 2 * i, sizeof low);
    std::memcpy(&high, from + 2 * i + 4, sizeof high);
    const Four even = __builtin_shufflevector(low, high, 0, 2, 4, 6);
    std::memcpy(to + i, &even, sizeof even);
  }
  for (; i < n; ++i) to[i] = from[2 * i];
}

// to[i] = from[i * step].
void copy_strided(const float* from, int64_t step, float* to, int64_t n) {
  if (step == 1 && n >= 16) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  } else if (step == 1) {
    // Whole small vectors, the last one overlapping the one before it.
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) std::memcpy(to + i, from + i, 4 * sizeof(float));
    if (i < n && n >= 4) return void(std::memcpy(to + n - 4, from + n - 4, 4 * sizeof(float)));
    for (; i < n; ++i) to[i] = from[i];
  } else if (step == 2) {
    copy_every_second(from, to, n);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  }
}

void set_zero(float* to, int64_t n) {
  if (n >= 8) return void(std::memset(to, 0, static_cast<size_t>(n) * sizeof(float)));
  for (int64_t i = 0; i < n; ++i) {
    to[i] = 0.0f;
    asm volatile("");  // keeps the loop as short as it is
  }
}

// to[i] = row[i * stride + shift] for i in `valid`, and 0 for the other i < n.
void copy_padded(const float* row, int64_t stride, int64_t shift, Range valid, float* to, int64_t n) {
  set_zero(to, valid.begin);
  if (valid.begin < valid.end)
    copy_strided(row + valid.begin * stride + shift, stride, to + valid.begin, valid.end - valid.begin);
  set_zero(to + valid.end, n - valid.end);
}

// A pointwise convolution sees one long row of pixels.
ConvShape simplified(ConvShape s) {
  for (int d = 0; d < 3; ++d)
    if (s.kernel[d] != 1 || s.stride[d] != 1 || s.pad[d] != 0 || s.in[d] != s.out[d]) return s;
  s.in[2] = s.out[2] = volume(s.in);
  s.in[0] = s.in[1] = s.out[0] = s.out[1] = 1;
  return s;
}

// How the gathered form cuts a shape.
struct Cut {
  int64_t pixels, taps, depth, block, row, blocks, channels, channel_blocks;
};

Cut cut_shape(const ConvShape& s) {
  Cut c;
  c.pixels = volume(s.out);
  c.taps = taps_of(s);
  c.depth = std::max<int64_t>(1, ceil_div(c.taps, std::max<int64_t>(1, ceil_div(c.taps, kMaxDepth))));
  const int64_t fit = std::clamp(kPatchFloats / c.depth / 32 * 32, kFewestPixels, kMostPixels);
  const int64_t planes = std::max<int64_t>(1, s.batch * s.groups);
  const int64_t spread = std::max(kFewestPixels, round_up(ceil_div(c.pixels, ceil_div(kWantedChunks, planes)), 32));
  c.blocks = std::max<int64_t>(1, ceil_div(c.pixels, std::min(fit, spread)));
  c.block = round_up(std::max<int64_t>(1, ceil_div(c.pixels, c.blocks)), 16);
  // No last block of a few pixels.
  while (c.blocks > 1 && c.pixels - (ceil_div(c.pixels, c.block) - 1) * c.block < c.block / 4)
    c.block = round_up(ceil_div(c.pixels, --c.blocks), 16);
  c.blocks = ceil_div(c.pixels, c.block);
  c.row = c.block / 16 % 2 ? c.block : c.block + 16;  // an odd number of cache lines: rows spread over all sets
  const int64_t group_channels = s.out_channels / s.groups;
  const int64_t split = std::clamp<int64_t>(kWantedChunks / std::max<int64_t>(1, planes * c.blocks), 1,
                                            std::max<int64_t>(1, group_channels / kFewestChannels));
  c.channels = std::max<int64_t>(kPanelWidth, round_up(ceil_div(group_channels, split), kPanelWidth));
  c.channel_blocks = ceil_div(group_channels, c.channels);
  return c;
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

struct Call {
  const ConvShape& s;
  const float *x, *packed, *bias;
  GemmActivation activation;
  float* y;
};

// One chunk: a block of pixels and a block of output channels of one group of one image.
void gathered_chunk(const conv::Kernels& kernels, const Call& call, const Cut& c, int64_t chunk, float* scratch) {
  const ConvShape& s = call.s;
  const int64_t block = chunk % c.blocks, channel_block = chunk / c.blocks % c.channel_blocks;
  const int64_t plane = chunk / c.blocks / c.channel_blocks;  // image * groups + group
  const int64_t group = plane % s.groups, group_channels = s.out_channels / s.groups;
  const int64_t p = block * c.block, count = std::min(c.block, c.pixels - p);
  const float* x = call.x + plane * (s.channels / s.groups) * volume(s.in);
  GemmEpilogue e;
  e.c_in = call.bias ? call.bias + group * group_channels : nullptr;
  e.c_row_stride = 1;
  e.activation = call.activation;
  conv::Product job;
  job.panel = c.taps * kPanelWidth;
  job.m0 = channel_block * c.channels;
  job.m1 = std::min(group_channels, job.m0 + c.channels);
  job.patches = scratch;
  job.row = c.row;
  job.columns = count;
  job.y = call.y + plane * group_channels * c.pixels + p;
  job.pixels = c.pixels;
  job.epilogue = &e;
  for (int64_t k0 = 0; k0 == 0 || k0 < c.taps; k0 += c.depth) {
    job.k = std::min(c.depth, c.taps - k0);
    gather(s, c, x, k0, job.k, p, count, scratch);
    job.w = call.packed + group * round_up(group_channels, kPanelWidth) * c.taps + k0 * kPanelWidth;
    job.first = k0 == 0;
    job.last = k0 + job.k >= c.taps;
    kernels.product(job);
  }
}

// How the depthwise form stages its input. For some rows of the output and a block of columns, the input they need is
// copied with its padding, so that neighbouring outputs of a row meet neighbouring elements, and outputs of
// neighbouring rows elements `length` apart: for each tap along the depth, for each class of rows, for each class of
// columns, the rows of that class. A class is a remainder modulo the stride, or one tap.
struct Classes {
  bool by_phase;
  int64_t count;  // of classes
  int64_t reach;  // how much longer than the outputs a class is
};

struct Stage {
  Classes height, width;
  int64_t rows, columns;  // of output at a time
  int64_t class_rows() const { return rows + height.reach; }
  int64_t length() const { return columns + width.reach; }
  int64_t class_floats() const { return class_rows() * length(); }
  int64_t floats(int64_t depth) const { return depth * height.count * width.count * class_floats() + kSlack; }
};

Classes plan_classes(const ConvShape& s, int d) {
  const int64_t span = (s.kernel[d] - 1) * s.dilation[d];
  if (s.stride[d] == 1 ? span <= 256 : s.dilation[d] == 1 && s.stride[d] <= std::min<int64_t>(s.kernel[d], 8))
    return {true, s.stride[d], span / s.stride[d]};
  return {false, s.kernel[d], 0};
}

Stage plan_stage(const ConvShape& s) {
  Stage g{plan_classes(s, 1), plan_classes(s, 2), 1, 1};
  const int64_t per_column = s.kernel[0] * g.height.count * g.width.count * g.class_rows();
  const int64_t room = kStagedFloats / per_column - g.width.reach;
  g.columns = std::clamp<int64_t>(room, 32, std::max<int64_t>(s.out[2], 32));
  const int64_t per_row = s.kernel[0] * g.height.count * g.width.count * g.length();
  g.columns = std::min(g.columns, std::max<int64_t>(s.out[2], 1));
  g.rows = std::clamp<int64_t>(kStagedFloats / per_row - g.height.reach, 1, std::max<int64_t>(s.out[1], 1));
  return g;
}

// Stages one class of columns: `rows` rows from input row iy0 on, element i of each being the input at i * stride +
// shift. A null plane counts as zeros.
void stage_class(const ConvShape& s, const Stage& g, const float* plane, int64_t iy0, int64_t rows, int64_t shift,
                 float* to) {
  const int64_t length = g.length();
  const Range valid = inside(s.in[2], length, s.stride[2], shift);
  for (int64_t r = 0; r < rows; ++r, to += length) {
    const int64_t iy = iy0 + r * s.stride[1];
    if (plane && iy >= 0 && iy < s.in[1])
      copy_padded(plane + iy * s.in[2], s.stride[2], shift, valid, to, length);
    else
      set_zero(to, length);
  }
}

// Stages the input for `rows` output rows from (oz, oy) and columns from ox on.
void stage(const ConvShape& s, const Stage& g, const float* x, int64_t oz, int64_t oy, int64_t rows, int64_t ox,
           float* to) {
  for (int64_t z = 0; z < s.kernel[0]; ++z) {
    const int64_t iz = oz * s.stride[0] + z * s.dilation[0] - s.pad[0];
    const float* plane = iz >= 0 && iz < s.in[0] ? x + iz * s.in[1] * s.in[2] : nullptr;
    for (int64_t c = 0; c < g.height.count; ++c) {
      const int64_t iy0 = oy * s.stride[1] + c * (g.height.by_phase ? 1 : s.dilation[1]) - s.pad[1];
      for (int64_t w = 0; w < g.width.count; ++w, to += g.class_floats()) {
        const int64_t shift = ox * s.stride[2] + w * (g.width.by_phase ? 1 : s.dilation[2]) - s.pad[2];
        stage_class(s, g, plane, iy0, rows + g.height.reach, shift, to);
      }
    }
  }
}

// Where tap t of a dimension lies: its class, and its place in it.
struct Place {
  int64_t index, shift;
};
Place place_of(const ConvShape& s, const Classes& classes, int d, int64_t t) {
  const int64_t at = t * s.dilation[d];
  return classes.by_phase ? Place{at % s.stride[d], at / s.stride[d]} : Place{t, 0};
}

void set_offsets(const ConvShape& s, const Stage& g, int64_t* offset) {
  for (int64_t z = 0; z < s.kernel[0]; ++z)
    for (int64_t y = 0; y < s.kernel[1]; ++y)
      for (int64_t x = 0; x < s.kernel[2]; ++x) {
        const Place row = place_of(s, g.height, 1, y), column = place_of(s, g.width, 2, x);
        const int64_t index = (z * g.height.count + row.index) * g.width.count + column.index;
        *offset++ = index * g.class_floats() + row.shift * g.length() + column.shift;
      }
}

size_t stage_bytes(const ConvShape& s, const Stage& g) {
  return static_cast<size_t>(round_up(g.floats(s.kernel[0]) * 4, 64) + round_up(volume(s.kernel) * 8, 64));
}

// One output channel of one image; `offset` as set_offsets made it.
void depthwise_plane(const conv::Kernels& kernels, const Call& call, const Stage& g, int64_t plane,
                     const int64_t* offset, float* scratch) {
  const ConvShape& s = call.s;
  const int64_t channel = plane % s.out_channels, per_group = s.out_channels / s.groups;
  const float* x = call.x + (plane / s.out_channels * s.channels + channel / per_group) * volume(s.in);
  float* y = call.y + plane * volume(s.out);
  conv::Band b;
  b.staged = scratch;
  b.offset = offset;
  b.taps = volume(s.kernel);
  b.w = call.packed + channel * b.taps;
  b.row_step = g.length();
  b.bias = call.bias ? call.bias[channel] : 0.0f;
  b.relu = call.activation == GemmActivation::relu;
  b.y_step = s.out[2];
  for (int64_t oz = 0; oz < s.out[0]; ++oz)
    for (int64_t oy = 0; oy < s.out[1]; oy += g.rows)
      for (int64_t ox = 0; ox < s.out[2]; ox += g.columns) {
        b.rows = std::min(g.rows, s.out[1] - oy);
        stage(s, g, x, oz, oy, b.rows, ox, scratch);
        b.columns = std::min(g.columns, s.out[2] - ox);
        b.y = y + (oz * s.out[1] + oy) * s.out[2] + ox;
        kernels.band(b);
      }
}

void depthwise(const conv::Kernels& kernels, int threads, const Call& call, FunctionRef<float*(int)> lane_scratch) {
  const ConvShape& s = call.s;
  const Stage g = plan_stage(s);
  const int64_t planes = s.batch * s.out_channels, work = volume(s.out) * volume(s.kernel);
  const int64_t per_chunk = std::max<int64_t>(1, kLeastWork / work);
  parallel_for(threads, ceil_div(planes, per_chunk), [&](int64_t chunk, int lane) {
    float* scratch = lane_scratch(lane);
    auto* offset =
        reinterpret_cast<int64_t*>(reinterpret_cast<char*>(scratch) + round_up(g.floats(s.kernel[0]) * 4, 64));
    set_offsets(s, g, offset);
    for (int64_t plane = chunk * per_chunk; plane < std::min(planes, (chunk + 1) * per_chunk); ++plane)
      depthwise_plane(kernels, call, g, plane, offset, scratch);
  });
}

}  // namespace

size_t conv_packed_bytes(const ConvShape& s) {
  const int64_t taps = taps_of(s);
  if (is_depthwise(s)) return static_cast<size_t>(s.out_channels * taps) * sizeof(float);
  return static_cast<size_t>(s.groups) * gemm_packed_bytes(s.out_channels / s.groups, taps);
}

void conv_pack(const ConvShape& s, const float* w, float* packed, int threads) {
  if (is_depthwise(s)) {
    std::memcpy(packed, w, conv_packed_bytes(s));
    return;
  }
  const int64_t taps = taps_of(s), channels = s.out_channels / s.groups;
  const int64_t group_floats = round_up(channels, kPanelWidth) * taps;
  for (int64_t g = 0; g < s.groups; ++g)
    gemm_pack_b(w + g * channels * taps, taps, true, taps, channels, packed + g * group_floats, threads);
}

size_t conv_scratch_bytes(const ConvShape& shape) {
  const ConvShape s = simplified(shape);
  if (is_depthwise(s)) return stage_bytes(s, plan_stage(s));
  const Cut c = cut_shape(s);
  return static_cast<size_t>(round_up(c.depth * c.row * 4, 64));
}

void conv_f32(Target target, int threads, const ConvShape& shape, const float* x, const float* packed,
              const float* bias, GemmActivation activation, float* y, void* scratch) {
  const ConvShape s = simplified(shape);
  if (s.batch <= 0 || s.out_channels <= 0 || volume(s.out) <= 0) return;
  const conv::Kernels& kernels = choose_kernels(kTable, target);
  const Call call{s, x, packed, bias, activation, y};
  const size_t lane_bytes = conv_scratch_bytes(s);
  const auto lane_scratch = [&](int lane) {
    return reinterpret_cast<float*>(static_cast<char*>(scratch) + static_cast<size_t>(lane) * lane_bytes);
  };
  if (is_depthwise(s)) {
    depthwise(kernels, threads, call, lane_scratch);
    return;
  }
  const Cut c = cut_shape(s);
  parallel_for(threads, s.batch * s.groups * c.channel_blocks * c.blocks,
               [&](int64_t chunk, int lane) { gathered_chunk(kernels, call, c, chunk, lane_scratch(lane)); });
}

}  // namespace tessera
#endif
