#include "kernels/conv_depthwise.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/conv_stage.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_depthwise.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/gemm_tile-inl.h"

#ifndef TESSERA_KERNELS_CONV_DEPTHWISE_SHARED_
#define TESSERA_KERNELS_CONV_DEPTHWISE_SHARED_
namespace tessera {
namespace conv {

// Taps of one column of the kernel that meet rows of one class one after the other.
struct Run {
  int64_t offset;       // of the first tap's row in the stage
  int64_t weight;       // index of the first tap's weight
  int64_t weight_step;  // from one tap's weight to the next
  int64_t taps;         // 1, 2, 3 or 5
};

// Rows of one output channel, each a sum over taps of staged rows.
struct Band {
  const float* staged;  // readable for two vectors beyond the last element used
  const Run* runs;
  int64_t run_count;
  const float* w;
  int64_t rows, row_step, columns;  // output rows, the step from one to the next in `staged`, output columns
  float bias;
  bool relu;
  float* y;
  int64_t y_step;
};

struct DepthwiseKernels {
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

// kRows rows of kVecs vectors: the sum of kTaps staged rows each, so that a vector read serves up to kTaps rows.
template <int kTaps, int kRows, int kVecs, class DD>
HWY_INLINE void add_run(DD d, const float* HWY_RESTRICT x, int64_t row_step, const float* w, int64_t w_step,
                        hn::Vec<DD> (&acc)[kRows][kVecs]) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(DD()));
  hn::Vec<DD> weight[kTaps];
#pragma GCC unroll 8
  for (int t = 0; t < kTaps; ++t) weight[t] = hn::Set(d, w[t * w_step]);
#pragma GCC unroll 16
  for (int i = 0; i < kRows + kTaps - 1; ++i) {
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      const hn::Vec<DD> v = hn::LoadU(d, x + i * row_step + j * kLanes);
#pragma GCC unroll 8
      for (int t = 0; t < kTaps; ++t)
        if (i - t >= 0 && i - t < kRows) acc[i - t][j] = hn::MulAdd(weight[t], v, acc[i - t][j]);
    }
  }
}

template <int kRows, int kVecs, class DD>
HWY_INLINE void band_tile(DD d, const conv::Band& b, const float* x, float* y, int64_t y_step) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(DD()));
  hn::Vec<DD> acc[kRows][kVecs];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) acc[r][j] = hn::Set(d, b.bias);
  for (int64_t i = 0; i < b.run_count; ++i) {
    const conv::Run& run = b.runs[i];
    const float *from = x + run.offset, *w = b.w + run.weight;
    if (run.taps == 3)
      add_run<3, kRows, kVecs>(d, from, b.row_step, w, run.weight_step, acc);
    else if (run.taps == 5)
      add_run<5, kRows, kVecs>(d, from, b.row_step, w, run.weight_step, acc);
    else if (run.taps == 2)
      add_run<2, kRows, kVecs>(d, from, b.row_step, w, run.weight_step, acc);
    else
      add_run<1, kRows, kVecs>(d, from, b.row_step, w, run.weight_step, acc);
  }
  const auto zero = hn::Zero(d);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      if (b.relu) acc[r][j] = hn::IfThenElse(hn::Lt(acc[r][j], zero), zero, acc[r][j]);
      hn::StoreU(acc[r][j], d, y + r * y_step + j * kLanes);
    }
}

// kRows rows that are at least a vector wide. The last vector may overlap the one before it: an output's value does not
// depend on its place.
template <int kRows>
HWY_INLINE void wide_rows(const conv::Band& b, const float* x, float* y) {
  const D d;
  int64_t j = 0;
  for (; j + 2 * tile::kLanes <= b.columns; j += 2 * tile::kLanes) band_tile<kRows, 2>(d, b, x + j, y + j, b.y_step);
  if (j < b.columns && b.columns >= 2 * tile::kLanes && b.columns - j > tile::kLanes)
    return band_tile<kRows, 2>(d, b, x + b.columns - 2 * tile::kLanes, y + b.columns - 2 * tile::kLanes, b.y_step);
  if (j + tile::kLanes <= b.columns) {
    band_tile<kRows, 1>(d, b, x + j, y + j, b.y_step);
    j += tile::kLanes;
  }
  if (j < b.columns) band_tile<kRows, 1>(d, b, x + b.columns - tile::kLanes, y + b.columns - tile::kLanes, b.y_step);
}

void wide_band(const conv::Band& b) {
  int64_t r = 0;
  for (; r + 4 <= b.rows; r += 4) wide_rows<4>(b, b.staged + r * b.row_step, b.y + r * b.y_step);
  if (r < b.rows && b.rows >= 4)
    return wide_rows<4>(b, b.staged + (b.rows - 4) * b.row_step, b.y + (b.rows - 4) * b.y_step);
  for (; r < b.rows; ++r) wide_rows<1>(b, b.staged + r * b.row_step, b.y + r * b.y_step);
}

// Rows narrower than a vector of DD: they go through a buffer.
template <class DD>
HWY_INLINE void narrow_band(DD d, const conv::Band& b) {
  constexpr int64_t kLanes = hn::MaxLanes(DD());
  HWY_ALIGN float buffer[4 * kLanes];
  const auto copy_out = [&](int64_t first, int64_t count) {
    for (int64_t r = first; r < first + count; ++r) {
      const float* from = buffer + (r - first) * kLanes;
      float* to = b.y + r * b.y_step;
      // What is written beyond a row's end, the next row writes again.
      if (r + 1 < b.rows && b.y_step == b.columns && (b.rows - 1 - r) * b.columns >= kLanes)
        hn::StoreU(hn::Load(d, from), d, to);
      else
        for (int64_t v = 0; v < b.columns; ++v) to[v] = from[v];
    }
  };
  int64_t r = 0;
  for (; r + 4 <= b.rows; r += 4) {
    band_tile<4, 1>(d, b, b.staged + r * b.row_step, buffer, kLanes);
    copy_out(r, 4);
  }
  if (r < b.rows && b.rows >= 4) {
    band_tile<4, 1>(d, b, b.staged + (b.rows - 4) * b.row_step, buffer, kLanes);
    return copy_out(b.rows - 4, 4);
  }
  for (; r < b.rows; ++r) {
    band_tile<1, 1>(d, b, b.staged + r * b.row_step, buffer, kLanes);
    copy_out(r, 1);
  }
}

void band(const conv::Band& b) {
  if (b.columns >= tile::kLanes) return wide_band(b);
#if HWY_TARGET == HWY_AVX3
  if (b.columns <= 8) return narrow_band(hn::CappedTag<float, 8>(), b);
#endif
  narrow_band(D(), b);
}

constexpr conv::DepthwiseKernels kernels = {band};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const conv::DepthwiseKernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                                    HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                                    HWY_CHOOSE_AVX3(kernels)};
using conv::Stage;
using conv::volume;

constexpr int64_t kStagedFloats = 1 << 14;
constexpr int64_t kLeastWork = 1 << 16;  // multiply-adds worth handing to another thread

struct Call {
  const ConvShape& s;
  const float *x, *packed, *bias;
  GemmActivation activation;
  float* y;
};

// Cuts the taps of a kernel, which lie at `offset` in the stage, into runs.
int64_t set_runs(const ConvShape& s, const Stage& g, const int64_t* offset, conv::Run* out) {
  const int64_t height = s.kernel[1], width = s.kernel[2];
  const bool in_rows = g.height.by_phase && s.dilation[1] == 1;  // taps a stride apart meet neighbouring staged rows
  const int64_t step = in_rows ? s.stride[1] : height;
  int64_t count = 0;
  for (int64_t z = 0; z < s.kernel[0]; ++z)
    for (int64_t x = 0; x < width; ++x)
      for (int64_t first = 0; first < std::min(step, height); ++first)
        for (int64_t y = first; y < height;) {
          const int64_t left = ceil_div(height - y, step);
          const int64_t taps = left >= 5 ? 5 : left == 4 ? 2 : left;
          const int64_t index = (z * height + y) * width + x;
          out[count++] = {offset[index], index, step * width, taps};
          y += taps * step;
        }
  return count;
}

// What a lane's scratch holds, in bytes from its start.
struct Places {
  int64_t runs, offsets, end;
};
Places places(const ConvShape& s, const Stage& g) {
  const int64_t taps = volume(s.kernel), runs = round_up(g.floats(s.kernel[0]) * 4, 64);
  const int64_t offsets = runs + taps * static_cast<int64_t>(sizeof(conv::Run));
  return {runs, offsets, round_up(offsets + taps * 8, 64)};
}

// One output channel of one image.
void one_plane(const conv::DepthwiseKernels& kernels, const Call& call, const Stage& g, int64_t plane, conv::Band b,
               bool restage, float* staged) {
  const ConvShape& s = call.s;
  const int64_t channel = plane % s.out_channels, per_group = s.out_channels / s.groups;
  const float* x = call.x + (plane / s.out_channels * s.channels + channel / per_group) * volume(s.in);
  float* y = call.y + plane * volume(s.out);
  b.w = call.packed + channel * volume(s.kernel);
  b.bias = call.bias ? call.bias[channel] : 0.0f;
  for (int64_t oz = 0; oz < s.out[0]; ++oz)
    for (int64_t oy = 0; oy < s.out[1]; oy += g.rows)
      for (int64_t ox = 0; ox < s.out[2]; ox += g.columns) {
        b.rows = std::min(g.rows, s.out[1] - oy);
        if (restage)
          conv::stage_again(s, g, x, staged);
        else
          conv::stage(s, g, x, oz, oy, b.rows, ox, staged);
        b.columns = std::min(g.columns, s.out[2] - ox);
        b.y = y + (oz * s.out[1] + oy) * s.out[2] + ox;
        kernels.band(b);
      }
}

void planes(const conv::DepthwiseKernels& kernels, const Call& call, const Stage& g, int64_t begin, int64_t end,
            std::byte* scratch) {
  const ConvShape& s = call.s;
  const Places at = places(s, g);
  auto* staged = reinterpret_cast<float*>(scratch);
  auto* runs = reinterpret_cast<conv::Run*>(scratch + at.runs);
  auto* offset = reinterpret_cast<int64_t*>(scratch + at.offsets);
  conv::set_offsets(s, g, offset);
  conv::Band b{};
  b.staged = staged;
  b.runs = runs;
  b.run_count = set_runs(s, g, offset, runs);
  b.row_step = g.length();
  b.relu = call.activation == GemmActivation::relu;
  b.y_step = s.out[2];
  const bool again = conv::can_stage_again(s, g);
  for (int64_t plane = begin; plane < end; ++plane)
    one_plane(kernels, call, g, plane, b, again && plane > begin, staged);
}

}  // namespace

size_t conv::depthwise_packed_bytes(const ConvShape& s) {
  return static_cast<size_t>(s.out_channels * volume(s.kernel)) * sizeof(float);
}

void conv::depthwise_pack(const ConvShape& s, const float* w, float* packed) {
  std::memcpy(packed, w, depthwise_packed_bytes(s));
}

size_t conv::depthwise_scratch_bytes(const ConvShape& s) {
  return static_cast<size_t>(places(s, fit_stage(s, kStagedFloats)).end);
}

void conv::depthwise(Target target, int threads, const ConvShape& s, const float* x, const float* packed,
                     const float* bias, GemmActivation activation, float* y, void* scratch) {
  const Call call{s, x, packed, bias, activation, y};
  const DepthwiseKernels& kernels = choose_kernels(kTable, target);
  const Stage g = fit_stage(s, kStagedFloats);
  const int64_t lane_bytes = places(s, g).end, count = s.batch * s.out_channels;
  const int64_t per_chunk = std::max<int64_t>(1, kLeastWork / (volume(s.out) * volume(s.kernel)));
  parallel_for(threads, ceil_div(count, per_chunk), [&](int64_t chunk, int lane) {
    planes(kernels, call, g, chunk * per_chunk, std::min(count, (chunk + 1) * per_chunk),
           static_cast<std::byte*>(scratch) + lane * lane_bytes);
  });
}

}  // namespace tessera
#endif
