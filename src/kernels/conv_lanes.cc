#include "kernels/conv_lanes.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/conv_stage.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_lanes.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/turn-inl.h"

#ifndef TESSERA_KERNELS_CONV_LANES_SHARED_
#define TESSERA_KERNELS_CONV_LANES_SHARED_
namespace tessera {
namespace conv {

constexpr int kMostLanes = 16;
constexpr int64_t kMostHeight = 16;  // of a kernel

// Rows of outputs of the channels of a vector.
struct LanesJob {
  const ConvShape* s;
  const float* x;     // of the image
  const float* w;     // [out_channel][tap]
  const float* bias;  // or null
  bool relu;
  float* y;                   // of the image
  int64_t channel, channels;  // the first output channel, and how many there are
  int64_t y0, y1;             // rows
  float* ring;                // `rows` rows of input, each of `columns` vectors; row i of the input is row i % rows
  int64_t rows, columns;
  float* taps;  // room for the weights as vectors
};

struct LanesKernels {
  int lanes;
  void (*run)(const LanesJob&);
  // The same for all rows of a small map; the ring holds all rows of input, and `turned` the outputs as vectors.
  // place[i]: where in the ring element i of a map goes.
  void (*run_small)(const LanesJob&, const int32_t* place, float* turned);
};

constexpr int64_t kMostSmall = 256, kMostSmallOut = 64;  // elements of a small map of input and output

// Whether whole maps of this shape are small: at least as large as a vector, and not large.
inline bool is_small(const ConvShape& s) {
  const int64_t in = s.in[1] * s.in[2], out = s.out[1] * s.out[2];
  return s.out_channels == s.groups && s.channels == s.groups && s.pad[2] >= 0 && std::min(in, out) >= kMostLanes &&
         in <= kMostSmall && out <= kMostSmallOut;
}

}  // namespace conv
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR
constexpr conv::LanesKernels kernels = {0, nullptr, nullptr};
#else
using conv::LanesJob;
using turn::D;
using turn::kLanes;
using turn::V;

// out[i] = element i of each lane's row, for i < count; from(lane) tells where it starts. Reads nothing beyond that,
// but may write what it has written again.
template <class From>
HWY_INLINE void turn_rows(From&& from, int64_t count, float* HWY_RESTRICT out) {
  const D d;
  for (int64_t i = 0; i < count; i += 4) {
    if (count < 4) {
      for (int64_t e = 0; e < count; ++e)
        for (int lane = 0; lane < kLanes; ++lane) out[e * kLanes + lane] = from(lane)[e];
      return;
    }
    const int64_t at = HWY_MIN(i, count - 4);
    V v[4];
    turn::load_four([&](int lane) HWY_ATTR { return from(lane) + at; }, v);
#pragma GCC unroll 4
    for (int e = 0; e < 4; ++e) hn::StoreU(v[e], d, out + (at + e) * kLanes);
  }
}

// One row of taps for kPixels neighbouring outputs: every vector read serves all of them that it meets.
template <int kPixels, int kTaps, int kStride>
HWY_INLINE void add_row(const float* HWY_RESTRICT x, const float* HWY_RESTRICT w, V (&acc)[kPixels]) {
  const D d;
  V weight[kTaps];
#pragma GCC unroll 5
  for (int t = 0; t < kTaps; ++t) weight[t] = hn::LoadU(d, w + t * kLanes);
#pragma GCC unroll 24
  for (int i = 0; i < (kPixels - 1) * kStride + kTaps; ++i) {
    const V v = hn::LoadU(d, x + i * kLanes);
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p)
      if (i - p * kStride >= 0 && i - p * kStride < kTaps)
        acc[p] = hn::MulAdd(weight[HWY_MIN(HWY_MAX(i - p * kStride, 0), kTaps - 1)], v, acc[p]);
  }
}

template <int kPixels>
HWY_INLINE void add_any_row(const float* HWY_RESTRICT x, const float* HWY_RESTRICT w, const ConvShape& s,
                            V (&acc)[kPixels]) {
  const D d;
  for (int64_t t = 0; t < s.kernel[2]; ++t) {
    const V weight = hn::LoadU(d, w + t * kLanes);
    const float* from = x + t * s.dilation[2] * kLanes;
#pragma GCC unroll 8
    for (int p = 0; p < kPixels; ++p)
      acc[p] = hn::MulAdd(weight, hn::LoadU(d, from + p * s.stride[2] * kLanes), acc[p]);
  }
}

// Rows of taps that meet the input, of one output row.
struct TapRows {
  const float* x[conv::kMostHeight];
  const float* w[conv::kMostHeight];
  int64_t count;
};

// Sums of kPixels outputs from a column on. kTaps is 0 for kernels of any width.
template <int kPixels, int kTaps, int kStride>
HWY_INLINE void sums(const ConvShape& s, const TapRows& rows, V bias, int64_t column, V (&acc)[kPixels]) {
#pragma GCC unroll 8
  for (int p = 0; p < kPixels; ++p) acc[p] = bias;
  for (int64_t i = 0; i < rows.count; ++i) {
    const float* x = rows.x[i] + column * s.stride[2] * kLanes;
    if constexpr (kTaps > 0)
      add_row<kPixels, kTaps, kStride>(x, rows.w[i], acc);
    else
      add_any_row<kPixels>(x, rows.w[i], s, acc);
  }
}

template <int kPixels, int kTaps, int kStride>
HWY_INLINE void pixels(const LanesJob& j, const TapRows& rows, V bias, int64_t column, float* y) {
  const ConvShape& s = *j.s;
  V acc[kPixels];
  sums<kPixels, kTaps, kStride>(s, rows, bias, column, acc);
  const V zero = hn::Zero(D());
#pragma GCC unroll 2
  for (int first = 0; first < kPixels; first += 4) {
    V four[4];
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) {
      four[p] = acc[first + p];
      if (j.relu) four[p] = hn::IfThenElse(hn::Lt(four[p], zero), zero, four[p]);
    }
    turn::store_four(four, y + column + first, s.out[1] * s.out[2], j.channels, HWY_MIN(4, s.out[2] - column - first));
  }
}

// Eight pixels at a time; the last ones may overlap those before them: an output's value does not depend on its place.
template <int kTaps, int kStride>
HWY_NOINLINE void output_row(const LanesJob& j, const TapRows& rows, V bias, float* y) {
  const int64_t width = j.s->out[2];
  for (int64_t c = 0; c < width;) {
    if (width >= 8 && width - c > 4) {
      pixels<8, kTaps, kStride>(j, rows, bias, HWY_MIN(c, width - 8), y);
      c += 8;
    } else {
      pixels<4, kTaps, kStride>(j, rows, bias, HWY_MAX(0, HWY_MIN(c, width - 4)), y);
      c += 4;
    }
  }
}

// The same as vectors, one after the other; writes up to three beyond the row's end.
template <int kTaps, int kStride>
HWY_NOINLINE void turned_row(const LanesJob& j, const TapRows& rows, V bias, float* to) {
  const D d;
  const int64_t width = j.s->out[2];
  for (int64_t c = 0; c < width; c += 4) {
    V acc[4];
    sums<4, kTaps, kStride>(*j.s, rows, bias, HWY_MAX(0, HWY_MIN(c, width - 4)), acc);
    float* at = to + HWY_MAX(0, HWY_MIN(c, width - 4)) * kLanes;
#pragma GCC unroll 4
    for (int p = 0; p < 4; ++p) hn::StoreU(acc[p], d, at + p * kLanes);
  }
}

using OutputRow = void(const LanesJob&, const TapRows&, V, float*);

template <int kTaps, int kStride>
HWY_INLINE OutputRow* row_kernel(bool turned) {
  return turned ? turned_row<kTaps, kStride> : output_row<kTaps, kStride>;
}
OutputRow* choose_row(const ConvShape& s, bool turned = false) {
  if (s.dilation[2] != 1 || s.stride[2] > 2) return row_kernel<0, 0>(turned);
  if (s.kernel[2] == 3) return s.stride[2] == 1 ? row_kernel<3, 1>(turned) : row_kernel<3, 2>(turned);
  if (s.kernel[2] == 5) return s.stride[2] == 1 ? row_kernel<5, 1>(turned) : row_kernel<5, 2>(turned);
  return row_kernel<0, 0>(turned);
}

// The rows of taps that output row y meets; the rows of input are in the ring.
HWY_INLINE TapRows tap_rows(const LanesJob& j, int64_t y) {
  const ConvShape& s = *j.s;
  TapRows rows;
  rows.count = 0;
  for (int64_t k = 0; k < s.kernel[1]; ++k) {
    const int64_t iy = y * s.stride[1] - s.pad[1] + k * s.dilation[1];
    if (iy < 0 || iy >= s.in[1]) continue;
    rows.x[rows.count] = j.ring + iy % j.rows * j.columns * kLanes;
    rows.w[rows.count++] = j.taps + k * s.kernel[2] * kLanes;
  }
  return rows;
}

// kLanes neighbouring maps of `count` >= kLanes elements each: fn(i, elements i to i + kLanes of all of them, turned).
template <class F>
HWY_INLINE void each_square(const float* maps, int64_t count, F&& fn) {
  for (int64_t i = 0; i < count; i += kLanes) {
    const int64_t at = HWY_MIN(i, count - kLanes);
    V v[kLanes];
#pragma GCC unroll 16
    for (int lane = 0; lane < kLanes; ++lane) v[lane] = hn::LoadU(D(), maps + lane * count + at);
    turn::turn_square(v);
    fn(at, v);
  }
}

void run_small(const LanesJob& j, const int32_t* place, float* turned) {
  const ConvShape& s = *j.s;
  const D d;
  const int64_t taps = s.kernel[1] * s.kernel[2], out = s.out[1] * s.out[2];
  turn_rows([&](int lane) { return j.w + (j.channel + lane) * taps; }, taps, j.taps);
  each_square(j.x + j.channel * s.in[1] * s.in[2], s.in[1] * s.in[2], [&](int64_t at, V(&v)[kLanes]) HWY_ATTR {
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) hn::StoreU(v[i], d, j.ring + place[at + i]);
  });
  HWY_ALIGN float none[kLanes] = {};
  const V bias = hn::LoadU(d, j.bias ? j.bias + j.channel : none);
  OutputRow* const output = choose_row(s, true);
  for (int64_t y = 0; y < s.out[1]; ++y) output(j, tap_rows(j, y), bias, turned + y * s.out[2] * kLanes);
  // Squares of outputs are turned back.
  float* to = j.y + j.channel * out;
  for (int64_t i = 0; i < out; i += kLanes) {
    const int64_t at = HWY_MIN(i, out - kLanes);
    V v[kLanes];
#pragma GCC unroll 16
    for (int p = 0; p < kLanes; ++p) {
      v[p] = hn::LoadU(d, turned + (at + p) * kLanes);
      if (j.relu) v[p] = hn::IfThenElse(hn::Lt(v[p], hn::Zero(d)), hn::Zero(d), v[p]);
    }
    turn::turn_square(v);
#pragma GCC unroll 16
    for (int lane = 0; lane < kLanes; ++lane) hn::StoreU(v[lane], d, to + lane * out + at);
  }
}

void run(const LanesJob& j) {
  const ConvShape& s = *j.s;
  const D d;
  const int64_t plane = s.in[1] * s.in[2], taps = s.kernel[1] * s.kernel[2], row_floats = j.columns * kLanes;
  const float *from[kLanes], *weights[kLanes];
  HWY_ALIGN float biases[kLanes] = {};
  for (int64_t i = 0; i < kLanes; ++i) {
    const int64_t channel = j.channel + HWY_MIN(i, j.channels - 1);
    from[i] = j.x + channel / (s.out_channels / s.groups) * plane;
    weights[i] = j.w + channel * taps;
    if (j.bias) biases[i] = j.bias[channel];
  }
  turn_rows([&](int lane) { return weights[lane]; }, taps, j.taps);
  for (int64_t i = 0; i < j.rows * row_floats; i += kLanes) hn::StoreU(hn::Zero(d), d, j.ring + i);
  const int64_t x0 = HWY_MAX(0, -s.pad[2]), to = HWY_MAX(0, s.pad[2]);
  const int64_t count = HWY_MAX(0, HWY_MIN(s.in[2] - x0, j.columns - to));
  const bool adjacent = s.out_channels == s.groups && j.channels == kLanes;
  OutputRow* const output = choose_row(s);
  int64_t staged = HWY_MAX(0, j.y0 * s.stride[1] - s.pad[1]);  // the next row of input to stage
  for (int64_t y = j.y0; y < j.y1; ++y) {
    const int64_t top = y * s.stride[1] - s.pad[1];
    const int64_t end = HWY_MIN(s.in[1], top + (s.kernel[1] - 1) * s.dilation[1] + 1);
    for (staged = HWY_MAX(staged, top); staged < end; ++staged) {
      const int64_t at = staged * s.in[2] + x0;
      float* ring = j.ring + staged % j.rows * row_floats + to * kLanes;
      if (adjacent)
        turn_rows([&, first = from[0] + at](int lane) { return first + lane * plane; }, count, ring);
      else
        turn_rows([&](int lane) { return from[lane] + at; }, count, ring);
    }
    output(j, tap_rows(j, y), hn::Load(d, biases), j.y + (j.channel * s.out[1] + y) * s.out[2]);
  }
}

constexpr conv::LanesKernels kernels = {kLanes, run, run_small};
#endif

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

using namespace conv;

constexpr const LanesKernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                          HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels), HWY_CHOOSE_AVX3(kernels)};

constexpr int64_t kMostRingFloats = 1 << 16;
constexpr int64_t kLeastWork = 1 << 16;  // multiply-adds worth handing to another thread

int64_t ring_rows(const ConvShape& s) { return (s.kernel[1] - 1) * s.dilation[1] + 1; }
// Columns of the input that the outputs of a row, at least four, meet.
int64_t ring_columns(const ConvShape& s) {
  return (std::max<int64_t>(s.out[2], 4) - 1) * s.stride[2] + (s.kernel[2] - 1) * s.dilation[2] + 1;
}
int64_t ring_floats(const ConvShape& s) { return ring_rows(s) * ring_columns(s) * kMostLanes; }
// What a small map takes: the ring and room behind it, and the outputs.
int64_t small_ring_floats(const ConvShape& s) { return (s.in[1] * ring_columns(s) + 1) * kMostLanes; }
int64_t small_floats(const ConvShape& s) {
  return is_small(s) ? small_ring_floats(s) + (s.out[1] * s.out[2] + 4) * kMostLanes : 0;
}

// Each row of a small map goes behind its padding; what no output meets goes behind the ring.
void set_places(const ConvShape& s, int lanes, int32_t* place) {
  const int64_t columns = ring_columns(s), behind = s.in[1] * columns;
  for (int64_t y = 0; y < s.in[1]; ++y)
    for (int64_t x = 0; x < s.in[2]; ++x)
      *place++ = static_cast<int32_t>((s.pad[2] + x < columns ? y * columns + s.pad[2] + x : behind) * lanes);
}

}  // namespace

bool conv::is_lanes(Target target, const ConvShape& s) {
  if (s.kernel[0] != 1 || s.in[0] != 1 || s.out[0] != 1 || s.pad[0] != 0) return false;
  if (s.out_channels < 4 || s.kernel[1] > kMostHeight || volume(s.kernel) > 128) return false;
  if (s.dilation[1] > 64 || s.dilation[2] > 64 || s.stride[1] > 64 || s.stride[2] > 64 || s.out[2] > 1024) return false;
  // Wide rows without gaps are best taken as they are.
  if (s.stride[2] == 1 && s.dilation[2] == 1 && s.out[2] >= 40) return false;
  return ring_floats(s) <= kMostRingFloats && choose_kernels(kTable, target).lanes > 0;
}

size_t conv::lanes_scratch_bytes(const ConvShape& s) {
  return static_cast<size_t>(std::max(ring_floats(s), small_floats(s)) + volume(s.kernel) * kMostLanes) * sizeof(float);
}

void conv::lanes(Target target, int threads, const ConvShape& s, const float* x, const float* w, const float* bias,
                 GemmActivation activation, float* y, void* scratch) {
  const LanesKernels& kernels = choose_kernels(kTable, target);
  const int64_t groups = ceil_div(s.out_channels, kernels.lanes);
  const int64_t row_work = kernels.lanes * s.out[2] * volume(s.kernel);
  const int64_t most_parts = std::max<int64_t>(1, s.out[1] / (4 * ring_rows(s)));
  const int64_t parts = std::clamp<int64_t>(row_work * s.out[1] / kLeastWork, 1, most_parts);
  const int64_t rows = ceil_div(s.out[1], parts), lane_floats = static_cast<int64_t>(lanes_scratch_bytes(s) / 4);
  const int64_t jobs = s.batch * groups * parts;
  const bool small = is_small(s) && parts == 1;
  const int64_t per_chunk = std::max<int64_t>(1, kLeastWork / std::max<int64_t>(1, row_work * rows));
  parallel_for(threads, ceil_div(jobs, per_chunk), [&](int64_t chunk, int lane) {
    float* own = static_cast<float*>(scratch) + lane * lane_floats;
    int32_t place[kMostSmall];
    if (small) {
      std::fill_n(own + volume(s.kernel) * kMostLanes, small_ring_floats(s), 0.0f);
      set_places(s, kernels.lanes, place);
    }
    for (int64_t i = chunk * per_chunk; i < std::min(jobs, (chunk + 1) * per_chunk); ++i) {
      const int64_t image = i / (groups * parts), channel = i / parts % groups * kernels.lanes, part = i % parts;
      LanesJob j;
      j.s = &s;
      j.x = x + image * s.channels * s.in[1] * s.in[2];
      j.w = w;
      j.bias = bias;
      j.relu = activation == GemmActivation::relu;
      j.y = y + image * s.out_channels * s.out[1] * s.out[2];
      j.channel = channel;
      j.channels = std::min<int64_t>(kernels.lanes, s.out_channels - channel);
      j.y0 = std::min(s.out[1], part * rows);
      j.y1 = std::min(s.out[1], (part + 1) * rows);
      j.taps = own;
      j.ring = own + volume(s.kernel) * kMostLanes;
      j.rows = small ? s.in[1] : ring_rows(s);
      j.columns = ring_columns(s);
      if (small && j.channels == kernels.lanes)
        kernels.run_small(j, place, j.ring + small_ring_floats(s));
      else
        kernels.run(j);
    }
  });
}

}  // namespace tessera
#endif
