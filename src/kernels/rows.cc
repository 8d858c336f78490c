#include "kernels/rows.h"

#include <algorithm>
#include <cmath>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/rows.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/vmath-inl.h"

#ifndef TESSERA_KERNELS_ROWS_SHARED_
#define TESSERA_KERNELS_ROWS_SHARED_
namespace tessera {
namespace rows {

struct Kernels {
  void (*softmax)(const float* x, float* y, int64_t n);
  void (*log_softmax)(const float* x, float* y, int64_t n);
  void (*layer_norm)(const float* x, float* y, int64_t n, const NormRows& norm, float* mean, float* inv_std);
  void (*rms_norm)(const float* x, float* y, int64_t n, const NormRows& norm, float* mean, float* inv_std);
  // By RowReduce; mean gives the sum.
  float (*reduce[6])(const float* x, int64_t n);
};

// Plain forms of the last steps, compiled for no particular target.
float log_of(float x);
float inverse_root(float x);

}  // namespace rows
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using vm::D;
using vm::V;

constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kSums = 4;  // vectors summed side by side

// The rest of a row; what lies beyond it is `fill`.
HWY_INLINE V load_some(const float* x, int64_t count, float fill) {
  HWY_ALIGN float buffer[kLanes];
  for (int64_t i = 0; i < kLanes; ++i) buffer[i] = i < count ? x[i] : fill;
  return hn::Load(D(), buffer);
}

HWY_INLINE void store_some(V v, float* y, int64_t count) {
  HWY_ALIGN float buffer[kLanes];
  hn::Store(v, D(), buffer);
  for (int64_t i = 0; i < count; ++i) y[i] = buffer[i];
}

// Folds f of every element onto `start`. The last vector is filled up with `fill`, which f must turn into what fold
// ignores.
template <class F, class Fold>
HWY_INLINE float fold_row(const float* x, int64_t n, float start, float fill, F f, Fold fold) {
  V acc[kSums];
#pragma GCC unroll 4
  for (int s = 0; s < kSums; ++s) acc[s] = vm::set(start);
  int64_t i = 0;
  for (; i + kSums * kLanes <= n; i += kSums * kLanes)
#pragma GCC unroll 4
    for (int s = 0; s < kSums; ++s) acc[s] = fold(acc[s], f(hn::LoadU(D(), x + i + s * kLanes)));
  for (; i + kLanes <= n; i += kLanes) acc[0] = fold(acc[0], f(hn::LoadU(D(), x + i)));
  if (i < n) acc[1] = fold(acc[1], f(load_some(x + i, n - i, fill)));
  HWY_ALIGN float lanes[2 * kLanes] = {};
  hn::Store(fold(fold(acc[0], acc[1]), fold(acc[2], acc[3])), D(), lanes);
  for (int half = kLanes / 2; half > 0; half /= 2) {
    // Whole vectors, of which only the first `half` lanes count.
    for (int j = 0; j < half; ++j) lanes[kLanes + j] = lanes[half + j];
    hn::Store(fold(hn::Load(D(), lanes), hn::Load(D(), lanes + kLanes)), D(), lanes);
  }
  return lanes[0];
}

struct Same {
  HWY_INLINE V operator()(V v) const { return v; }
};
struct Magnitude {
  HWY_INLINE V operator()(V v) const { return hn::Abs(v); }
};
struct Square {
  HWY_INLINE V operator()(V v) const { return hn::Mul(v, v); }
};
struct Plus {
  HWY_INLINE V operator()(V a, V b) const { return hn::Add(a, b); }
};
struct Larger {
  HWY_INLINE V operator()(V a, V b) const { return vm::maximum(a, b); }
};
struct Smaller {
  HWY_INLINE V operator()(V a, V b) const { return vm::minimum(a, b); }
};

float row_sum(const float* x, int64_t n) { return fold_row(x, n, 0.0f, 0.0f, Same(), Plus()); }
float row_sum_abs(const float* x, int64_t n) { return fold_row(x, n, 0.0f, 0.0f, Magnitude(), Plus()); }
float row_sum_square(const float* x, int64_t n) { return fold_row(x, n, 0.0f, 0.0f, Square(), Plus()); }
float row_max(const float* x, int64_t n) { return fold_row(x, n, -vm::kInfinity, -vm::kInfinity, Same(), Larger()); }
float row_min(const float* x, int64_t n) { return fold_row(x, n, vm::kInfinity, vm::kInfinity, Same(), Smaller()); }

// y = f(x) for the whole row.
template <class F>
HWY_INLINE void map_row(const float* x, float* y, int64_t n, F f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(f(hn::LoadU(D(), x + i)), D(), y + i);
  if (i < n) store_some(f(load_some(x + i, n - i, 0.0f)), y + i, n - i);
}

struct ExpOfDifference {
  V shift;
  HWY_INLINE V operator()(V v) const { return vm::exp(hn::Sub(v, shift)); }
};
struct Times {
  V factor;
  HWY_INLINE V operator()(V v) const { return hn::Mul(v, factor); }
};
struct Minus {
  V first, second;
  HWY_INLINE V operator()(V v) const { return hn::Sub(hn::Sub(v, first), second); }
};
struct CentredSquare {
  V mean;
  HWY_INLINE V operator()(V v) const {
    const V c = hn::Sub(v, mean);
    return hn::Mul(c, c);
  }
};

void softmax(const float* x, float* y, int64_t n) {
  map_row(x, y, n, ExpOfDifference{vm::set(row_max(x, n))});
  map_row(y, y, n, Times{vm::set(1.0f / row_sum(y, n))});
}

void log_softmax(const float* x, float* y, int64_t n) {
  const float largest = row_max(x, n);
  const float sum = fold_row(x, n, 0.0f, -vm::kInfinity, ExpOfDifference{vm::set(largest)}, Plus());
  map_row(x, y, n, Minus{vm::set(largest), vm::set(rows::log_of(sum))});
}

// y = (x - mean) * factor * scale + bias.
HWY_INLINE void normalise(const float* x, float* y, int64_t n, const NormRows& norm, float mean, float factor) {
  const V centre = vm::set(mean), times = vm::set(factor);
  const V one = vm::set(1.0f), zero = hn::Zero(D());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const V scale = norm.scale ? hn::LoadU(D(), norm.scale + i) : one;
    const V bias = norm.bias ? hn::LoadU(D(), norm.bias + i) : zero;
    hn::StoreU(hn::MulAdd(hn::Mul(hn::Sub(hn::LoadU(D(), x + i), centre), times), scale, bias), D(), y + i);
  }
  if (i == n) return;
  const V scale = norm.scale ? load_some(norm.scale + i, n - i, 0.0f) : one;
  const V bias = norm.bias ? load_some(norm.bias + i, n - i, 0.0f) : zero;
  const V v = hn::Sub(load_some(x + i, n - i, 0.0f), centre);
  store_some(hn::MulAdd(hn::Mul(v, times), scale, bias), y + i, n - i);
}

void layer_norm(const float* x, float* y, int64_t n, const NormRows& norm, float* mean, float* inv_std) {
  *mean = row_sum(x, n) / static_cast<float>(n);
  const float squares = fold_row(x, n, 0.0f, *mean, CentredSquare{vm::set(*mean)}, Plus());
  *inv_std = rows::inverse_root(squares / static_cast<float>(n) + norm.epsilon);
  normalise(x, y, n, norm, *mean, *inv_std);
}

void rms_norm(const float* x, float* y, int64_t n, const NormRows& norm, float* mean, float* inv_std) {
  *mean = 0.0f;
  *inv_std = rows::inverse_root(row_sum_square(x, n) / static_cast<float>(n) + norm.epsilon);
  normalise(x, y, n, norm, 0.0f, *inv_std);
}

constexpr rows::Kernels kernels = {
    softmax, log_softmax, layer_norm, rms_norm, {row_sum, row_sum, row_sum_abs, row_sum_square, row_max, row_min}};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const rows::Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                           HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                           HWY_CHOOSE_AVX3(kernels)};

constexpr int64_t kLeastElements = 1 << 14;  // worth handing to another thread
constexpr int64_t kMostBlocks = 256;         // of one row

// Calls f(row) for every row, several short rows in one chunk.
void each_row(int threads, int64_t rows, int64_t cols, FunctionRef<void(int64_t)> f) {
  const int64_t per_chunk = std::max<int64_t>(1, kLeastElements / std::max<int64_t>(cols, 1));
  parallel_for(threads, ceil_div(rows, per_chunk), [&](int64_t chunk, int) {
    for (int64_t r = chunk * per_chunk; r < std::min(rows, (chunk + 1) * per_chunk); ++r) f(r);
  });
}

using NormFn = void(const float*, float*, int64_t, const NormRows&, float*, float*);

void norm_rows(NormFn* run, int threads, const float* x, float* y, int64_t rows, int64_t cols, const NormRows& norm) {
  each_row(threads, rows, cols, [&](int64_t r) {
    float mean, inv_std;
    run(x + r * cols, y + r * cols, cols, norm, &mean, &inv_std);
    if (norm.mean) norm.mean[r] = mean;
    if (norm.inv_std) norm.inv_std[r] = inv_std;
  });
}

// A long row is folded block by block, and the blocks' results are folded in turn.
float reduce_row(const rows::Kernels& kernels, int threads, RowReduce op, const float* x, int64_t cols) {
  const auto whole = kernels.reduce[static_cast<int>(op)];
  const int64_t block = std::max(kLeastElements, round_up(ceil_div(cols, kMostBlocks), 64)),
                blocks = ceil_div(cols, block);
  float result;
  if (blocks <= 1) {
    result = whole(x, cols);
  } else {
    float parts[kMostBlocks];
    parallel_for(threads, blocks,
                 [&](int64_t b, int) { parts[b] = whole(x + b * block, std::min(block, cols - b * block)); });
    const bool adds = op != RowReduce::max && op != RowReduce::min;
    result = kernels.reduce[static_cast<int>(adds ? RowReduce::sum : op)](parts, blocks);
  }
  return op == RowReduce::mean ? result / static_cast<float>(cols) : result;
}

}  // namespace

namespace rows {
float log_of(float x) { return std::log(x); }
float inverse_root(float x) { return 1.0f / std::sqrt(x); }
}  // namespace rows

void softmax_rows(Target target, int threads, const float* x, float* y, int64_t rows, int64_t cols) {
  const auto run = choose_kernels(kTable, target).softmax;
  each_row(threads, rows, cols, [&](int64_t r) { run(x + r * cols, y + r * cols, cols); });
}

void log_softmax_rows(Target target, int threads, const float* x, float* y, int64_t rows, int64_t cols) {
  const auto run = choose_kernels(kTable, target).log_softmax;
  each_row(threads, rows, cols, [&](int64_t r) { run(x + r * cols, y + r * cols, cols); });
}

void layer_norm_rows(Target target, int threads, const float* x, float* y, int64_t rows, int64_t cols,
                     const NormRows& norm) {
  norm_rows(choose_kernels(kTable, target).layer_norm, threads, x, y, rows, cols, norm);
}

void rms_norm_rows(Target target, int threads, const float* x, float* y, int64_t rows, int64_t cols,
                   const NormRows& norm) {
  norm_rows(choose_kernels(kTable, target).rms_norm, threads, x, y, rows, cols, norm);
}

void reduce_rows(Target target, int threads, RowReduce op, const float* x, float* y, int64_t rows, int64_t cols) {
  const rows::Kernels& kernels = choose_kernels(kTable, target);
  // Inside a chunk of rows the blocks of a row run one after the other; a few long rows share their blocks out instead.
  if (rows < 8 && cols > kLeastElements) {
    for (int64_t r = 0; r < rows; ++r) y[r] = reduce_row(kernels, threads, op, x + r * cols, cols);
    return;
  }
  each_row(threads, rows, cols, [&](int64_t r) { y[r] = reduce_row(kernels, 1, op, x + r * cols, cols); });
}

}  // namespace tessera
#endif
