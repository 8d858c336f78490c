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
  const float* staged;
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

// kVecs vectors of outputs from `x`; stores `columns` of them.
template <int kVecs>
HWY_INLINE void band_tile(const conv::Band& b, const float* x, float* y, int64_t columns) {
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
  }
  if (columns >= kVecs * tile::kLanes) {
#pragma GCC unroll 4
    for (int j = 0; j < kVecs; ++j) hn::StoreU(acc[j], d, y + j * tile::kLanes);
    return;
  }
  HWY_ALIGN float buffer[kVecs * tile::kLanes];
#pragma GCC unroll 4
  for (int j = 0; j < kVecs; ++j) hn::Store(acc[j], d, buffer + j * tile::kLanes);
  for (int64_t i = 0; i < columns; ++i) y[i] = buffer[i];
}

void band(const conv::Band& b) {
  for (int64_t r = 0; r < b.rows; ++r) {
    const float* x = b.staged + r * b.row_step;
    float* y = b.y + r * b.y_step;
    int64_t j = 0;
    for (; j + 3 * tile::kLanes < b.columns; j += 4 * tile::kLanes) band_tile<4>(b, x + j, y + j, b.columns - j);
    if (j + tile::kLanes < b.columns)
      for (; j < b.columns; j += 2 * tile::kLanes) band_tile<2>(b, x + j, y + j, b.columns - j);
    if (j < b.columns) band_tile<1>(b, x + j, y + j, b.columns - j);
  }
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
constexpr int64_t kFewestChannels = 128;  // of output that one chunk computes, if the layer has them
constexpr int64_t kStagedFloats = 1 << 14;
constexpr int64_t kWidest = 64;  // no kernel reads more than this many floats at once

int64_t volume(const int64_t (&d)[3]) { return d[0] * d[1] * d[2]; }
int64_t taps_of(const ConvShape& s) { return s.channels / s.groups * volume(s.kernel); }
bool is_depthwise(const ConvShape& s) { return s.groups > 1 && s.channels == s.groups; }
int64_t floor_div(int64_t a, int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); }

// Outputs [begin, end) of [0, out) that meet the input inside [0, in) at o * stride + shift.
struct Range {
  int64_t begin, end;
};
Range inside(int64_t in, int64_t out, int64_t stride, int64_t shift) {
  const int64_t begin = std::clamp<int64_t>(-floor_div(shift, stride), 0, out);
  return {begin, std::clamp<int64_t>(floor_div(in - 1 - shift, stride) + 1, begin, out)};
}

// to[i] = from[i * step].
void copy_strided(const float* from, int64_t step, float* to, int64_t n) {
  if (step == 1 && n >= 16) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(float));
  } else if (step == 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i];
  } else if (step == 2) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[2 * i];
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  }
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
  c.block = std::min({fit, spread, round_up(std::max<int64_t>(c.pixels, 1), 32)});
  c.row = c.block + 16;  // an odd number of cache lines: rows spread over all sets
  c.blocks = ceil_div(c.pixels, c.block);
  const int64_t group_channels = s.out_channels / s.groups;
  const int64_t split = std::clamp<int64_t>(kWantedChunks / std::max<int64_t>(1, planes * c.blocks), 1,
                                            std::max<int64_t>(1, group_channels / kFewestChannels));
  c.channels = std::max<int64_t>(kPanelWidth, round_up(ceil_div(group_channels, split), kPanelWidth));
  c.channel_blocks = ceil_div(group_channels, c.channels);
  return c;
}

// One tap of `count` pixels from pixel `p` on, from one channel's plane.
void gather_row(const ConvShape& s, const float* plane, const int64_t (&tap)[3], int64_t p, int64_t count, float* to) {
  int64_t shift[3];
  for (int i = 0; i < 3; ++i) shift[i] = tap[i] * s.dilation[i] - s.pad[i];
  const Range valid = inside(s.in[2], s.out[2], s.stride[2], shift[2]);
  int64_t ox = p % s.out[2], oy = p / s.out[2] % s.out[1], oz = p / s.out[2] / s.out[1];
  for (int64_t done = 0; done < count;) {
    const int64_t n = std::min(s.out[2] - ox, count - done);
    const int64_t iz = oz * s.stride[0] + shift[0], iy = oy * s.stride[1] + shift[1];
    const bool row_inside = iz >= 0 && iz < s.in[0] && iy >= 0 && iy < s.in[1];
    const int64_t begin = row_inside ? std::clamp(valid.begin, ox, ox + n) : ox + n;
    const int64_t end = row_inside ? std::clamp(valid.end, begin, ox + n) : ox + n;
    std::fill(to, to + (begin - ox), 0.0f);
    if (begin < end)
      copy_strided(plane + (iz * s.in[1] + iy) * s.in[2] + begin * s.stride[2] + shift[2], s.stride[2],
                   to + (begin - ox), end - begin);
    std::fill(to + (end - ox), to + n, 0.0f);
    to += n;
    done += n;
    ox = 0;
    if (++oy == s.out[1]) oy = 0, ++oz;
  }
}

// Taps [k0, k0 + depth) of pixels [p, p + count): patches[k - k0][pixel - p], filled up with zeros to whole tiles.
void gather(const ConvShape& s, const Cut& c, const float* x, int64_t k0, int64_t depth, int64_t p, int64_t count,
            float* patches) {
  const int64_t plane = volume(s.in), kernel = volume(s.kernel);
  for (int64_t k = k0; k < k0 + depth; ++k, patches += c.row) {
    const int64_t t = k % kernel;
    const int64_t tap[3] = {t / (s.kernel[1] * s.kernel[2]), t / s.kernel[2] % s.kernel[1], t % s.kernel[2]};
    gather_row(s, x + k / kernel * plane, tap, p, count, patches);
    std::fill(patches + count, patches + round_up(count, 32), 0.0f);
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

// How the depthwise form stages its input. For some rows of the output and a block of columns, the rows of input they
// need are copied with their padding; each row as `streams` sequences in which neighbouring outputs meet neighbouring
// elements.
struct Stage {
  bool by_phase;  // streams are the remainders modulo the stride; else one stream per tap along the width
  bool adjacent;  // staged rows are the input's own rows; else one per tap along the height
  int64_t streams, length, columns, rows, in_rows;
  int64_t floats() const { return in_rows * streams * length; }
};

Stage plan_stage(const ConvShape& s) {
  const int64_t kd = s.kernel[0], kh = s.kernel[1], kw = s.kernel[2], span = (kw - 1) * s.dilation[2];
  Stage g;
  g.by_phase = s.stride[2] == 1 ? span <= 256 : s.dilation[2] == 1 && s.stride[2] <= std::min<int64_t>(kw, 8);
  g.adjacent = s.dilation[1] == 1 && s.stride[1] <= kh;
  g.streams = g.by_phase ? s.stride[2] : kw;
  const int64_t room = kStagedFloats / std::max<int64_t>(1, kd * kh * g.streams) / 16 * 16;
  g.columns = std::clamp<int64_t>(room, 16, round_up(std::max<int64_t>(s.out[2], 1), 16));
  g.length = g.columns + kWidest + (g.by_phase ? span / s.stride[2] + 1 : 0);
  g.rows = 1;
  g.in_rows = kd * kh;
  while (g.adjacent && g.rows < s.out[1] && (g.in_rows + kd * s.stride[1]) * g.streams * g.length <= kStagedFloats) {
    ++g.rows;
    g.in_rows += kd * s.stride[1];
  }
  return g;
}

// Stages the input for output rows from (oz, oy) and columns from ox on.
void stage(const ConvShape& s, const Stage& g, const float* plane, int64_t oz, int64_t oy, int64_t ox, float* to) {
  const int64_t per_depth = g.in_rows / s.kernel[0];
  for (int64_t r = 0; r < g.in_rows; ++r) {
    const int64_t iz = oz * s.stride[0] + r / per_depth * s.dilation[0] - s.pad[0];
    const int64_t iy = oy * s.stride[1] + r % per_depth * (g.adjacent ? 1 : s.dilation[1]) - s.pad[1];
    const bool row_inside = iz >= 0 && iz < s.in[0] && iy >= 0 && iy < s.in[1];
    for (int64_t stream = 0; stream < g.streams; ++stream, to += g.length) {
      const int64_t shift = ox * s.stride[2] + stream * (g.by_phase ? 1 : s.dilation[2]) - s.pad[2];
      const Range valid = row_inside ? inside(s.in[2], g.length, s.stride[2], shift) : Range{g.length, g.length};
      std::fill(to, to + valid.begin, 0.0f);
      if (valid.begin < valid.end)
        copy_strided(plane + (iz * s.in[1] + iy) * s.in[2] + valid.begin * s.stride[2] + shift, s.stride[2],
                     to + valid.begin, valid.end - valid.begin);
      std::fill(to + valid.end, to + g.length, 0.0f);
    }
  }
}

void set_offsets(const ConvShape& s, const Stage& g, int64_t* offset) {
  const int64_t per_depth = g.in_rows / s.kernel[0];
  for (int64_t z = 0; z < s.kernel[0]; ++z)
    for (int64_t y = 0; y < s.kernel[1]; ++y)
      for (int64_t x = 0; x < s.kernel[2]; ++x) {
        const int64_t at = x * s.dilation[2];
        const int64_t stream = g.by_phase ? at % s.stride[2] : x, shift = g.by_phase ? at / s.stride[2] : 0;
        *offset++ = ((z * per_depth + y) * g.streams + stream) * g.length + shift;
      }
}

size_t stage_bytes(const ConvShape& s, const Stage& g) {
  return static_cast<size_t>(round_up(g.floats() * 4, 64) + round_up(volume(s.kernel) * 8, 64));
}

// One chunk: one output channel of one image.
void depthwise_chunk(const conv::Kernels& kernels, const Call& call, const Stage& g, int64_t plane, float* scratch) {
  const ConvShape& s = call.s;
  const int64_t channel = plane % s.out_channels, per_group = s.out_channels / s.groups;
  const float* x = call.x + (plane / s.out_channels * s.channels + channel / per_group) * volume(s.in);
  float* y = call.y + plane * volume(s.out);
  auto* offset = reinterpret_cast<int64_t*>(reinterpret_cast<char*>(scratch) + round_up(g.floats() * 4, 64));
  set_offsets(s, g, offset);
  conv::Band b;
  b.staged = scratch;
  b.offset = offset;
  b.taps = volume(s.kernel);
  b.w = call.packed + channel * b.taps;
  b.row_step = s.stride[1] * g.streams * g.length;
  b.bias = call.bias ? call.bias[channel] : 0.0f;
  b.relu = call.activation == GemmActivation::relu;
  b.y_step = s.out[2];
  for (int64_t oz = 0; oz < s.out[0]; ++oz)
    for (int64_t oy = 0; oy < s.out[1]; oy += g.rows)
      for (int64_t ox = 0; ox < s.out[2]; ox += g.columns) {
        stage(s, g, x, oz, oy, ox, scratch);
        b.rows = std::min(g.rows, s.out[1] - oy);
        b.columns = std::min(g.columns, s.out[2] - ox);
        b.y = y + (oz * s.out[1] + oy) * s.out[2] + ox;
        kernels.band(b);
      }
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

size_t conv_scratch_bytes(const ConvShape& s) {
  if (is_depthwise(s)) return stage_bytes(s, plan_stage(s));
  const Cut c = cut_shape(s);
  return static_cast<size_t>(round_up(c.depth * c.row * 4, 64));
}

void conv_f32(Target target, int threads, const ConvShape& s, const float* x, const float* packed, const float* bias,
              GemmActivation activation, float* y, void* scratch) {
  if (s.batch <= 0 || s.out_channels <= 0 || volume(s.out) <= 0) return;
  const conv::Kernels& kernels = choose_kernels(kTable, target);
  const Call call{s, x, packed, bias, activation, y};
  const size_t lane_bytes = conv_scratch_bytes(s);
  const auto lane_scratch = [&](int lane) {
    return reinterpret_cast<float*>(static_cast<char*>(scratch) + static_cast<size_t>(lane) * lane_bytes);
  };
  if (is_depthwise(s)) {
    const Stage g = plan_stage(s);
    parallel_for(threads, s.batch * s.out_channels,
                 [&](int64_t plane, int lane) { depthwise_chunk(kernels, call, g, plane, lane_scratch(lane)); });
    return;
  }
  const Cut c = cut_shape(s);
  parallel_for(threads, s.batch * s.groups * c.channel_blocks * c.blocks,
               [&](int64_t chunk, int lane) { gathered_chunk(kernels, call, c, chunk, lane_scratch(lane)); });
}

}  // namespace tessera
#endif
