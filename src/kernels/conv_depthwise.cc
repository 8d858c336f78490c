#include "kernels/conv_depthwise.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/conv_lanes.h"
#include "kernels/conv_stage.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_depthwise.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/conv_stage-inl.h"
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
  // Stages the input of a plane and leaves the padding alone; for stages that can_stage_again.
  void (*restage)(const ConvShape& s, const Stage& g, const float* x, float* to);
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

void restage(const ConvShape& s, const conv::Stage& g, const float* x, float* to) {
  const int64_t length = g.length(), plane = g.class_floats();  // of one class of columns
  int64_t phase = s.pad[1] % s.stride[1], row = s.pad[1] / s.stride[1];
  for (int64_t iy = 0; iy < s.in[1] && row < g.class_rows(); ++iy, x += s.in[2]) {
    staging::stage_row(s, x, length, plane, to + phase * s.stride[2] * plane + row * length);
    if (++phase == s.stride[1]) phase = 0, ++row;
  }
}

constexpr conv::DepthwiseKernels kernels = {band, restage};

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

// How many planes are staged before the first is computed: what was stored last cannot be read at once as a vector.
int64_t planes_at_once(const ConvShape& s, const Stage& g) {
  return conv::can_stage_again(s, g) ? std::clamp<int64_t>(kStagedFloats / g.floats(1), 1, 8) : 1;
}

// What a lane's scratch holds, in bytes from its start.
struct Places {
  int64_t stage, runs, offsets, end;  // stage: bytes of each
};
Places places(const ConvShape& s, const Stage& g) {
  const int64_t taps = volume(s.kernel), stage = round_up(g.floats(s.kernel[0]) * 4, 64);
  const int64_t runs = stage * planes_at_once(s, g);
  const int64_t offsets = runs + taps * static_cast<int64_t>(sizeof(conv::Run));
  return {stage, runs, offsets, round_up(offsets + taps * 8, 64)};
}

// Output channels of images, one after the other.
class Planes {
 public:
  Planes(const conv::DepthwiseKernels& kernels, const Call& call, const Stage& g, std::byte* scratch)
      : kernels_(kernels), call_(call), s_(call.s), g_(g), at_(places(s_, g)), scratch_(scratch) {
    auto* runs = reinterpret_cast<conv::Run*>(scratch + at_.runs);
    auto* offset = reinterpret_cast<int64_t*>(scratch + at_.offsets);
    conv::set_offsets(s_, g, offset);
    band_.runs = runs;
    band_.run_count = set_runs(s_, g, offset, runs);
    band_.row_step = g.length();
    band_.relu = call.activation == GemmActivation::relu;
    band_.y_step = s_.out[2];
  }

  void run(int64_t begin, int64_t end) {
    if (!conv::can_stage_again(s_, g_)) {
      for (int64_t plane = begin; plane < end; ++plane) in_pieces(plane);
      return;
    }
    const int64_t at_once = planes_at_once(s_, g_);
    for (int64_t first = begin; first < end; first += at_once) {
      const int64_t count = std::min(at_once, end - first);
      for (int64_t i = 0; i < count; ++i) {
        if (first == begin)
          conv::stage(s_, g_, input(first + i), 0, 0, s_.out[1], 0, staged(i));
        else
          kernels_.restage(s_, g_, input(first + i), staged(i));
      }
      for (int64_t i = 0; i < count; ++i) compute(first + i, staged(i), 0, s_.out[1], s_.out[2]);
    }
  }

 private:
  float* staged(int64_t i) const { return reinterpret_cast<float*>(scratch_ + i * at_.stage); }
  const float* input(int64_t plane) const {
    const int64_t channel = plane % s_.out_channels / (s_.out_channels / s_.groups);
    return call_.x + (plane / s_.out_channels * s_.channels + channel) * volume(s_.in);
  }
  // Rows and columns of a plane's output from element `first` on.
  void compute(int64_t plane, const float* stage, int64_t first, int64_t rows, int64_t columns) {
    const int64_t channel = plane % s_.out_channels;
    band_.staged = stage;
    band_.w = call_.packed + channel * volume(s_.kernel);
    band_.bias = call_.bias ? call_.bias[channel] : 0.0f;
    band_.rows = rows;
    band_.columns = columns;
    band_.y = call_.y + plane * volume(s_.out) + first;
    kernels_.band(band_);
  }
  void in_pieces(int64_t plane) {
    for (int64_t oz = 0; oz < s_.out[0]; ++oz)
      for (int64_t oy = 0; oy < s_.out[1]; oy += g_.rows)
        for (int64_t ox = 0; ox < s_.out[2]; ox += g_.columns) {
          const int64_t rows = std::min(g_.rows, s_.out[1] - oy);
          conv::stage(s_, g_, input(plane), oz, oy, rows, ox, staged(0));
          compute(plane, staged(0), (oz * s_.out[1] + oy) * s_.out[2] + ox, rows, std::min(g_.columns, s_.out[2] - ox));
        }
  }

  const conv::DepthwiseKernels& kernels_;
  const Call& call_;
  const ConvShape& s_;
  const Stage& g_;
  Places at_;
  std::byte* scratch_;
  conv::Band band_{};
};

}  // namespace

size_t conv::depthwise_packed_bytes(const ConvShape& s) {
  return static_cast<size_t>(s.out_channels * volume(s.kernel)) * sizeof(float);
}

void conv::depthwise_pack(const ConvShape& s, const float* w, float* packed) {
  std::memcpy(packed, w, depthwise_packed_bytes(s));
}

size_t conv::depthwise_scratch_bytes(const ConvShape& s) {
  const auto by_rows = static_cast<size_t>(places(s, fit_stage(s, kStagedFloats)).end);
  return is_lanes(best_target(), s) ? std::max(by_rows, lanes_scratch_bytes(s)) : by_rows;
}

void conv::depthwise(Target target, int threads, const ConvShape& s, const float* x, const float* packed,
                     const float* bias, GemmActivation activation, float* y, void* scratch) {
  if (is_lanes(target, s)) return lanes(target, threads, s, x, packed, bias, activation, y, scratch);
  const Call call{s, x, packed, bias, activation, y};
  const DepthwiseKernels& kernels = choose_kernels(kTable, target);
  const Stage g = fit_stage(s, kStagedFloats);
  const int64_t lane_bytes = places(s, g).end, count = s.batch * s.out_channels;
  const int64_t per_chunk = std::max<int64_t>(1, kLeastWork / (volume(s.out) * volume(s.kernel)));
  parallel_for(threads, ceil_div(count, per_chunk), [&](int64_t chunk, int lane) {
    Planes(kernels, call, g, static_cast<std::byte*>(scratch) + lane * lane_bytes)
        .run(chunk * per_chunk, std::min(count, (chunk + 1) * per_chunk));
  });
}

}  // namespace tessera
#endif
