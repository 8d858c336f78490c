#include "kernels/conv_winograd.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/conv_stage.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_winograd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/turn-inl.h"

#ifndef TESSERA_KERNELS_CONV_WINOGRAD_SHARED_
#define TESSERA_KERNELS_CONV_WINOGRAD_SHARED_
namespace tessera {
namespace conv {

constexpr int kOut = 4;             // outputs of a tile, per dimension
constexpr int kIn = 6;              // inputs of a tile, per dimension
constexpr int kPoints = kIn * kIn;  // products per tile, channel and output channel
constexpr int kBand = 4;            // rows of tiles side by side
constexpr float kRoot = 0.70710678118654752f;

// Tiles are numbered in bands of four rows of tiles (the last may have fewer), in a band by columns: the order in which
// four rows of input turned side by side have them.
struct TileGrid {
  int64_t rows, columns;  // of tiles
  int64_t count() const { return rows * columns; }
};

// The input of one channel, with its padding, to points[point * point_step + tile]. Whole vectors are written, up to 15
// elements beyond the last tile.
struct ToPoints {
  const float* staged;  // rows `length` apart; readable for whole bands and 16 columns of tiles
  int64_t length;
  TileGrid grid;
  float* points;
  int64_t point_step;
};

// Taps [k][9][16] of a panel to points[point * point_step + k * 16 + channel].
struct WeightsToPoints {
  const float* w;
  int64_t k;
  float* points;
  int64_t point_step;
};

// Products c[point * point_step + tile * ldc + channel] of the tiles [first, end) of a grid to the outputs.
struct FromPoints {
  const float* c;  // of tile `first`
  int64_t point_step, ldc;
  int64_t channels;
  TileGrid grid;
  int64_t first, end;
  const float* bias;  // or null
  bool relu;
  float* y;                              // of the grid's first tile and of the first channel
  int64_t plane, length, height, width;  // from a channel and a row to the next; outputs there are
};

// Rows of `columns` elements, `from_step` and `to_step` apart.
struct CopyRows {
  const float* from;
  int64_t from_step;
  float* to;
  int64_t to_step, rows, columns;
};

struct WinogradKernels {
  // These two tell whether all numbers were finite and of moderate size.
  bool (*copy)(const CopyRows&);
  bool (*weights)(const WeightsToPoints&);
  void (*input)(const ToPoints&);
  void (*output)(const FromPoints&);
};

}  // namespace conv
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using namespace conv;

using D = hn::CappedTag<float, kPanelWidth>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// Numbers of this magnitude and beyond overflow when multiplied by kHuge, and what overflowed stays so in a sum.
constexpr float kHuge = 0x1p80f;

HWY_INLINE bool is_finite(V sum) {
  const D d;
  const V zero = hn::Mul(sum, hn::Zero(d));
  return hn::AllTrue(d, hn::Eq(zero, zero));
}

HWY_INLINE V half() { return hn::Set(D(), 0.5f); }
HWY_INLINE V two() { return hn::Set(D(), 2.0f); }

// One dimension of Bt d B.
HWY_INLINE void input_points(const V (&x)[kIn], V (&out)[kIn]) {
  const D d;
  const V a = hn::Set(d, kRoot), b = hn::Set(d, 2 * kRoot), c = hn::Set(d, 2.5f);
  const V even_a = hn::NegMulAdd(two(), x[2], x[4]), odd_a = hn::NegMulAdd(two(), x[1], x[3]);
  const V even_b = hn::NegMulAdd(half(), x[2], x[4]), odd_b = hn::NegMulAdd(half(), x[1], x[3]);
  out[0] = hn::NegMulAdd(c, x[2], hn::Add(x[0], x[4]));
  out[1] = hn::MulAdd(a, odd_a, even_a);
  out[2] = hn::NegMulAdd(a, odd_a, even_a);
  out[3] = hn::MulAdd(b, odd_b, even_b);
  out[4] = hn::NegMulAdd(b, odd_b, even_b);
  out[5] = hn::NegMulAdd(c, x[3], hn::Add(x[1], x[5]));
}

// One dimension of G g Gt.
HWY_INLINE void weight_points(const V (&g)[3], V (&out)[kIn]) {
  const D d;
  const V even_a = hn::Mul(hn::Set(d, -2.0f / 3), hn::MulAdd(half(), g[2], g[0]));
  const V even_b = hn::Mul(hn::Set(d, 1.0f / 6), hn::MulAdd(two(), g[2], g[0]));
  const V a = hn::Set(d, -2.0f / 3 * kRoot), b = hn::Set(d, 1.0f / 3 * kRoot);
  out[0] = g[0];
  out[1] = hn::MulAdd(a, g[1], even_a);
  out[2] = hn::NegMulAdd(a, g[1], even_a);
  out[3] = hn::MulAdd(b, g[1], even_b);
  out[4] = hn::NegMulAdd(b, g[1], even_b);
  out[5] = g[2];
}

// One dimension of At m A.
HWY_INLINE void output_points(const V (&m)[kIn], V (&out)[kOut]) {
  const D d;
  const V a = hn::Set(d, kRoot), b = hn::Set(d, 2 * kRoot);
  const V even_a = hn::Add(m[1], m[2]), odd_a = hn::Mul(a, hn::Sub(m[1], m[2]));
  const V even_b = hn::Add(m[3], m[4]), odd_b = hn::Mul(b, hn::Sub(m[3], m[4]));
  out[0] = hn::Add(m[0], hn::Add(even_a, even_b));
  out[1] = hn::Add(odd_a, odd_b);
  out[2] = hn::MulAdd(half(), even_a, hn::Mul(two(), even_b));
  out[3] = hn::Add(hn::MulAdd(half(), odd_a, m[5]), hn::Mul(two(), odd_b));
}

bool copy(const CopyRows& c) {
  const D d;
  const V huge = hn::Set(d, kHuge);
  V sum = hn::Zero(d);
  const float* from = c.from;
  float* to = c.to;
  for (int64_t r = 0; r < c.rows; ++r, from += c.from_step, to += c.to_step) {
    int64_t i = 0;
    for (; i + kLanes <= c.columns; i += kLanes) {
      const V v = hn::LoadU(d, from + i);
      sum = hn::MulAdd(v, huge, sum);
      hn::StoreU(v, d, to + i);
    }
    if (i == c.columns) continue;
    if (c.columns >= kLanes) {
      const V v = hn::LoadU(d, from + c.columns - kLanes);
      sum = hn::MulAdd(v, huge, sum);
      hn::StoreU(v, d, to + c.columns - kLanes);
      continue;
    }
    for (; i < c.columns; ++i) {
      to[i] = from[i];
      sum = hn::MulAdd(hn::Set(d, from[i]), huge, sum);
    }
  }
  return is_finite(sum);
}

bool weights(const WeightsToPoints& t) {
  const D d;
  const V huge = hn::Set(d, kHuge);
  V sum[3] = {hn::Zero(d), hn::Zero(d), hn::Zero(d)};
  for (int64_t k = 0; k < t.k; ++k)
    for (int lane = 0; lane < kPanelWidth; lane += kLanes) {
      const float* w = t.w + k * 9 * kPanelWidth + lane;
      float* to = t.points + k * kPanelWidth + lane;
      V rows[kIn][3];
#pragma GCC unroll 3
      for (int x = 0; x < 3; ++x) {
        V g[3], out[kIn];
#pragma GCC unroll 3
        for (int y = 0; y < 3; ++y) {
          g[y] = hn::LoadU(d, w + (y * 3 + x) * kPanelWidth);
          sum[y] = hn::MulAdd(g[y], huge, sum[y]);
        }
        weight_points(g, out);
#pragma GCC unroll 6
        for (int y = 0; y < kIn; ++y) rows[y][x] = out[y];
      }
#pragma GCC unroll 6
      for (int y = 0; y < kIn; ++y) {
        V out[kIn];
        weight_points(rows[y], out);
#pragma GCC unroll 6
        for (int x = 0; x < kIn; ++x) hn::StoreU(out[x], d, to + (y * kIn + x) * t.point_step);
      }
    }
  return is_finite(hn::Add(sum[0], hn::Add(sum[1], sum[2])));
}

// Columns of tiles that a vector covers, with kBand rows of tiles.
constexpr int kAcross = kLanes >= kBand ? kLanes / kBand : 1;

#if HWY_TARGET != HWY_SCALAR
// Element `row` of six columns of the tiles of a band, from tile column 0 of `from` on.
HWY_INLINE void load_columns(const float* from, int64_t tile_row, V (&x)[kIn]) {
  const D d;
  V first[kBand], next[kBand];
#pragma GCC unroll 4
  for (int i = 0; i < kBand; ++i) {
    first[i] = hn::LoadU(d, from + i * tile_row);
    next[i] = hn::LoadU(d, from + i * tile_row + kOut);
  }
  turn::turn(first);
  turn::turn(next);
#pragma GCC unroll 4
  for (int i = 0; i < kBand; ++i) x[i] = first[i];
  x[4] = next[0];
  x[5] = next[1];
}
#else
HWY_INLINE void load_columns(const float* from, int64_t, V (&x)[kIn]) {
  for (int i = 0; i < kIn; ++i) x[i] = hn::LoadU(D(), from + i);
}
#endif

// Both dimensions for the tiles of a vector; store(point, values) takes the results.
template <class Store>
HWY_INLINE void input_tiles(const float* from, int64_t length, Store&& store) {
  const D d;
  HWY_ALIGN float rows[kPoints * kLanes];
  for (int y = 0; y < kIn; ++y) {
    V x[kIn], out[kIn];
    load_columns(from + y * length, kOut * length, x);
    input_points(x, out);
#pragma GCC unroll 6
    for (int i = 0; i < kIn; ++i) hn::Store(out[i], d, rows + (y * kIn + i) * kLanes);
  }
  for (int i = 0; i < kIn; ++i) {
    V y[kIn], out[kIn];
#pragma GCC unroll 6
    for (int j = 0; j < kIn; ++j) y[j] = hn::Load(d, rows + (j * kIn + i) * kLanes);
    input_points(y, out);
#pragma GCC unroll 6
    for (int j = 0; j < kIn; ++j) store(j * kIn + i, out[j]);
  }
}

void input(const ToPoints& t) {
  const D d;
  float* to = t.points;
  for (int64_t row = 0; row < t.grid.rows; row += kBand) {
    const int64_t height = HWY_MIN(t.grid.rows - row, kBand);
    const float* from = t.staged + row * kOut * t.length;
#if HWY_TARGET == HWY_SCALAR
    for (int64_t column = 0; column < t.grid.columns; ++column)
      for (int64_t i = 0; i < height; ++i, ++to)
        input_tiles(from + i * kOut * t.length + column * kOut, t.length,
                    [&](int point, V v) { hn::StoreU(v, d, to + point * t.point_step); });
#else
    HWY_ALIGN float place[kPanelWidth];
    for (int i = 0; i < kPanelWidth; ++i) place[i] = static_cast<float>(i % kBand);
    const auto wanted = hn::Lt(hn::Load(d, place), hn::Set(d, static_cast<float>(height)));
    for (int64_t column = 0; column < t.grid.columns; column += kAcross) {
      if (height == kBand)
        input_tiles(from + column * kOut, t.length,
                    [&](int point, V v) HWY_ATTR { hn::StoreU(v, d, to + point * t.point_step); });
      else
        input_tiles(from + column * kOut, t.length, [&](int point, V v) HWY_ATTR {
          hn::StoreU(hn::Compress(v, wanted), d, to + point * t.point_step);
        });
      to += HWY_MIN(kAcross, t.grid.columns - column) * height;
    }
#endif
  }
}

// Four neighbouring outputs of the channels of a vector.
struct Place {
  float* y;
  int64_t plane;
  int64_t channels, count;  // of them that there are
};

HWY_INLINE void store_four(V (&v)[kOut], const Place& p) {
#if HWY_TARGET == HWY_SCALAR
  for (int x = 0; x < p.count; ++x) hn::StoreU(v[x], D(), p.y + x);
#else
  turn::store_four(v, p.y, p.plane, p.channels, p.count);
#endif
}

// One tile of the channels of a vector; rows: of outputs that there are.
HWY_INLINE void output_tile(const float* c, int64_t point_step, V bias, bool relu, int64_t rows, int64_t length,
                            Place p) {
  const D d;
  V columns[kOut][kIn];
#pragma GCC unroll 6
  for (int x = 0; x < kIn; ++x) {
    V m[kIn], out[kOut];
#pragma GCC unroll 6
    for (int y = 0; y < kIn; ++y) m[y] = hn::LoadU(d, c + (y * kIn + x) * point_step);
    output_points(m, out);
#pragma GCC unroll 4
    for (int y = 0; y < kOut; ++y) columns[y][x] = out[y];
  }
  const V zero = hn::Zero(d);
#pragma GCC unroll 4
  for (int y = 0; y < kOut; ++y) {
    if (y >= rows) return;
    V out[kOut];
    output_points(columns[y], out);
#pragma GCC unroll 4
    for (int x = 0; x < kOut; ++x) {
      out[x] = hn::Add(out[x], bias);
      if (relu) out[x] = hn::IfThenElse(hn::Lt(out[x], zero), zero, out[x]);
    }
    store_four(out, p);
    p.y += length;
  }
}

void output(const FromPoints& t) {
  const D d;
  for (int64_t channel = 0; channel < t.channels; channel += kLanes) {
    const int64_t channels = HWY_MIN(kLanes, t.channels - channel);
    HWY_ALIGN float biases[kPanelWidth] = {};
    for (int64_t i = 0; t.bias && i < channels; ++i) biases[i] = t.bias[channel + i];
    const V bias = hn::Load(d, biases);
    const float* c = t.c + channel;
    for (int64_t tile = t.first; tile < t.end; ++tile, c += t.ldc) {
      const int64_t band = tile / (kBand * t.grid.columns), place = tile - band * kBand * t.grid.columns;
      const int64_t height = HWY_MIN(t.grid.rows - band * kBand, kBand);
      const int64_t row = (band * kBand + place % height) * kOut, column = place / height * kOut;
      const Place p{t.y + channel * t.plane + row * t.length + column, t.plane, channels,
                    HWY_MIN(kOut, t.width - column)};
      output_tile(c, t.point_step, bias, t.relu, t.height - row, t.length, p);
    }
  }
}

constexpr WinogradKernels kernels = {copy, weights, input, output};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

using namespace conv;

constexpr const WinogradKernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                             HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                             HWY_CHOOSE_AVX3(kernels)};

constexpr int64_t kFewestTiles = 12, kFewestChannels = 32;
constexpr int64_t kDepth = 64;                  // channels whose weights are transformed at a time
constexpr int64_t kPair = 2 * kPanelWidth;      // output channels computed at a time
constexpr int64_t kProductFloats = 230 * 1024;  // what transformed weights and products may take: most of a cache
constexpr int64_t kPlaneFloats = 6 * 1024;      // staged at a time, if more than one plane fits
constexpr int64_t kChannelsPerChunk = 16;

// An odd number of cache lines: rows spread over all sets.
int64_t spread(int64_t floats) {
  const int64_t lines = ceil_div(floats, 16);
  return 16 * (lines + (lines % 2 == 0));
}

// How a shape is cut: images into blocks of tiles, several of which are computed together; then output channels by
// pairs of panels and tiles by `at_once`.
struct Plan {
  TileGrid image, block;
  int64_t row_blocks, column_blocks, blocks, together;
  int64_t tiles, tile_row;  // of all blocks together; from one channel's to the next
  int64_t depth, at_once;
  int64_t length, plane, planes;  // of a staged input channel

  explicit Plan(const ConvShape& s) {
    image = {ceil_div(s.out[1], kOut), ceil_div(s.out[2], kOut)};
    const int64_t most = std::clamp<int64_t>((1 << 15) / s.channels, 64, 256);
    block = image;
    if (image.count() > most) {
      column_blocks = ceil_div(image.columns, most / kBand);
      block.columns = ceil_div(image.columns, column_blocks);
      block.rows = std::min(image.rows, std::max<int64_t>(1, most / block.columns / kBand) * kBand);
    }
    row_blocks = ceil_div(image.rows, block.rows);
    column_blocks = ceil_div(image.columns, block.columns);
    blocks = s.batch * row_blocks * column_blocks;
    together = std::clamp<int64_t>(most / block.count(), 1, std::max<int64_t>(1, blocks));
    tiles = together * block.count();
    tile_row = spread(tiles + kPanelWidth);
    depth = ceil_div(s.channels, ceil_div(s.channels, kDepth));
    const int64_t fit = std::max<int64_t>(48, (kProductFloats / kPoints - depth * kPair) / kPair);
    at_once = std::min(tiles, round_up(ceil_div(tiles, ceil_div(tiles, fit)), 12));
    length = kOut * round_up(block.columns, kBand) + kPanelWidth;
    plane = spread((kOut * round_up(block.rows, kBand) + 2) * length);
    planes = std::clamp<int64_t>(kPlaneFloats / plane, 1, 8);
  }
  int64_t point_step(const ConvShape& s) const { return s.channels * tile_row + kPanelWidth; }
  int64_t weight_step() const { return depth * kPair + kPanelWidth; }
  int64_t product_step() const { return at_once * kPair + kPanelWidth; }
  int64_t shared_floats(const ConvShape& s) const { return kPoints * point_step(s); }
  int64_t lane_floats() const {
    return std::max(kPoints * (weight_step() + product_step()) + depth * 9 * kPanelWidth, planes * plane);
  }
};

// One block of tiles of one image.
struct Block {
  int64_t image, row, column;  // of its first tile
  TileGrid grid;
};
Block block_at(const Plan& p, int64_t index) {
  Block b;
  b.image = index / (p.row_blocks * p.column_blocks);
  b.row = index / p.column_blocks % p.row_blocks * p.block.rows;
  b.column = index % p.column_blocks * p.block.columns;
  b.grid = {std::min(p.block.rows, p.image.rows - b.row), std::min(p.block.columns, p.image.columns - b.column)};
  return b;
}

struct Call {
  const WinogradKernels& kernels;
  RowsKernel* rows;
  const ConvShape& s;
  const Plan& plan;
  const float* x;
  const Weights& packed;
  const float* bias;
  bool relu;
  float* y;
  float *points, *lanes;  // shared by all lanes; of lane 0
};

// Stages and transforms some channels of one block; `tile`: its first tile among those computed together.
bool transform_input(const Call& c, const Block& b, int64_t tile, int64_t channel, int64_t end, float* staged) {
  const ConvShape& s = c.s;
  const Plan& p = c.plan;
  const int64_t iy = b.row * kOut - s.pad[1], ix = b.column * kOut - s.pad[2];
  const int64_t y0 = std::max<int64_t>(0, iy), y1 = std::min(s.in[1], iy + b.grid.rows * kOut + 2);
  const int64_t x0 = std::max<int64_t>(0, ix), x1 = std::min(s.in[2], ix + b.grid.columns * kOut + 2);
  set_zero(staged, p.planes * p.plane);
  bool good = true;
  for (; channel < end; channel += p.planes) {
    const int64_t count = std::min(p.planes, end - channel);
    const float* x = c.x + ((b.image * s.channels + channel) * s.in[1] + y0) * s.in[2] + x0;
    for (int64_t i = 0; i < count && y0 < y1 && x0 < x1; ++i)
      good = c.kernels.copy({x + i * s.in[1] * s.in[2], s.in[2], staged + i * p.plane + (y0 - iy) * p.length + x0 - ix,
                             p.length, y1 - y0, x1 - x0}) &&
             good;
    for (int64_t i = 0; i < count; ++i)
      c.kernels.input(
          {staged + i * p.plane, p.length, b.grid, c.points + (channel + i) * p.tile_row + tile, p.point_step(s)});
  }
  return good;
}

// The outputs of a pair of panels and the tiles [first, end) of those computed together.
void store_outputs(const Call& c, int64_t block0, int64_t block1, int64_t pair, int64_t first, int64_t end,
                   const float* products) {
  const ConvShape& s = c.s;
  const Plan& p = c.plan;
  const int64_t channel = pair * kPair, plane = s.out[1] * s.out[2];
  int64_t tile = 0;
  for (int64_t i = block0; i < block1; ++i) {
    const Block b = block_at(p, i);
    FromPoints t;
    t.first = std::max<int64_t>(0, first - tile);
    t.end = std::min(b.grid.count(), end - tile);
    t.c = products + (t.first + tile - first) * kPair;
    tile += b.grid.count();
    if (t.first >= t.end) continue;
    t.point_step = p.product_step();
    t.ldc = kPair;
    t.channels = std::min(kPair, s.out_channels - channel);
    t.grid = b.grid;
    t.bias = c.bias ? c.bias + channel : nullptr;
    t.relu = c.relu;
    t.y = c.y + (b.image * s.out_channels + channel) * plane + b.row * kOut * s.out[2] + b.column * kOut;
    t.plane = plane;
    t.length = s.out[2];
    t.height = s.out[1] - b.row * kOut;
    t.width = s.out[2] - b.column * kOut;
    c.kernels.output(t);
  }
}

// Products of a pair of panels and the tiles [first, end).
bool multiply(const Call& c, int64_t pair, int64_t first, int64_t end, float* weights, float* products) {
  const ConvShape& s = c.s;
  const Plan& p = c.plan;
  const int64_t panels = std::min<int64_t>(2, ceil_div(s.out_channels - pair * kPair, kPanelWidth));
  bool good = true;
  for (int64_t k0 = 0; k0 < s.channels; k0 += p.depth) {
    const int64_t depth = std::min(p.depth, s.channels - k0);
    for (int64_t i = 0; i < panels; ++i)
      good = c.kernels.weights({c.packed.at(((pair * 2 + i) * s.channels + k0) * 9 * kPanelWidth,
                                            depth * 9 * kPanelWidth, products + kPoints * p.product_step()),
                                depth, weights + i * depth * kPanelWidth, p.weight_step()}) &&
             good;
    for (int64_t point = 0; point < kPoints; ++point)
      c.rows({weights + point * p.weight_step(), depth * kPanelWidth, panels * kPanelWidth,
              c.points + point * p.point_step(s) + k0 * p.tile_row + first, p.tile_row, end - first, depth,
              products + point * p.product_step(), kPair, k0 == 0});
  }
  return good;
}

// The blocks [block0, block1).
bool run_together(const Call& c, int threads, int64_t block0, int64_t block1) {
  const ConvShape& s = c.s;
  const Plan& p = c.plan;
  const int64_t lane_floats = p.lane_floats();
  std::atomic<bool> good = true;
  parallel_for(threads, ceil_div(s.channels, kChannelsPerChunk), [&](int64_t chunk, int lane) {
    const int64_t channel = chunk * kChannelsPerChunk, end = std::min(s.channels, channel + kChannelsPerChunk);
    int64_t tile = 0;
    for (int64_t i = block0; i < block1; ++i) {
      const Block b = block_at(p, i);
      if (!transform_input(c, b, tile, channel, end, c.lanes + lane * lane_floats)) good = false;
      tile += b.grid.count();
    }
  });
  if (!good) return false;
  int64_t tiles = 0;
  for (int64_t i = block0; i < block1; ++i) tiles += block_at(p, i).grid.count();
  const int64_t parts = ceil_div(tiles, p.at_once);
  parallel_for(threads, ceil_div(s.out_channels, kPair) * parts, [&](int64_t chunk, int lane) {
    const int64_t pair = chunk / parts, first = chunk % parts * p.at_once, end = std::min(tiles, first + p.at_once);
    float *weights = c.lanes + lane * lane_floats, *products = weights + kPoints * p.weight_step();
    if (!multiply(c, pair, first, end, weights, products)) good = false;
    store_outputs(c, block0, block1, pair, first, end, products);
  });
  return good;
}

}  // namespace

bool conv::is_winograd(const ConvShape& s) {
  if (s.groups != 1 || s.channels < kFewestChannels || s.out_channels < kFewestChannels) return false;
  if (s.kernel[0] != 1 || s.in[0] != 1 || s.out[0] != 1 || s.pad[0] != 0) return false;
  for (int d = 1; d < 3; ++d)
    if (s.kernel[d] != 3 || s.stride[d] != 1 || s.dilation[d] != 1) return false;
  const int64_t tiles = ceil_div(s.out[1], kOut) * ceil_div(s.out[2], kOut);
  // At least half of the outputs of all tiles are wanted.
  return tiles >= kFewestTiles && s.out[1] * s.out[2] >= tiles * kOut * kOut / 2;
}

size_t conv::winograd_scratch_bytes(const ConvShape& s) {
  const Plan p(s);
  return static_cast<size_t>(p.shared_floats(s) + p.lane_floats()) * sizeof(float);
}

bool conv::winograd(int threads, const ConvShape& s, RowsKernel* rows, const float* x, const Weights& packed,
                    const float* bias, GemmActivation activation, float* y, void* scratch) {
  const Plan p(s);
  auto* points = static_cast<float*>(scratch);
  const Call c{choose_kernels(kTable, packed.target),
               rows,
               s,
               p,
               x,
               packed,
               bias,
               activation == GemmActivation::relu,
               y,
               points,
               points + p.shared_floats(s)};
  for (int64_t i = 0; i < p.blocks; i += p.together)
    if (!run_together(c, threads, i, std::min(p.blocks, i + p.together))) return false;
  return true;
}

}  // namespace tessera
#endif
