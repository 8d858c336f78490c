#include "kernels/pool.h"

#include <algorithm>
#include <limits>

#include "base/checked.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/pool.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_KERNELS_POOL_SHARED_
#define TESSERA_KERNELS_POOL_SHARED_
namespace tessera {
namespace pool {

constexpr int64_t kMostStride = 8;            // up to which outputs are gathered by vectors
constexpr int64_t kSlack = 16 * kMostStride;  // elements that may be read beyond a line

// Elements of a reduced line that the outputs of a row meet.
inline int64_t line_length(const PoolShape& s) {
  return (s.out[1] - 1) * s.stride[1] + (s.kernel[1] - 1) * s.dilation[1] + 1;
}
inline int64_t line_step(const PoolShape& s) { return round_up(line_length(s) + kSlack, 16); }
// Lines that are reduced over the height before the first is reduced over the width: what was stored last cannot be
// read at once at another place.
inline int64_t lines_at_once(const PoolShape& s) { return std::clamp<int64_t>(4096 / line_step(s), 4, 16); }

struct Kernels {
  void (*run)(Pool, const PoolShape&, const PoolRows&, float* scratch);
  void (*means)(const float* x, int64_t maps, int64_t n, float* y);
};

}  // namespace pool
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using V = hn::Vec<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());

struct Largest {
  static constexpr float kStart = -std::numeric_limits<float>::infinity();
  // NaN stays.
  template <class Vec>
  static HWY_INLINE Vec join(Vec best, Vec v) {
#if HWY_TARGET == HWY_SCALAR
    const Vec larger = hn::IfThenElse(hn::Ge(best, v), best, v);
#else
    const Vec larger = hn::Max(best, v);  // v, if it is NaN
#endif
    return hn::IfThenElse(hn::Eq(best, best), larger, best);
  }
};
// The same where there are numbers alone.
struct LargestNumber {
  static constexpr float kStart = Largest::kStart;
  template <class Vec>
  static HWY_INLINE Vec join(Vec best, Vec v) {
    return hn::Max(best, v);
  }
};
struct Sum {
  static constexpr float kStart = 0;
  template <class Vec>
  static HWY_INLINE Vec join(Vec sum, Vec v) {
    return hn::Add(sum, v);
  }
};

// to[i] = x[i], x[i + step], ... joined, for `rows` >= 1 rows; kRows: the same, or 0.
template <class Join, int kRows, class DD>
HWY_INLINE void join_rows_at(DD d, const float* HWY_RESTRICT x, int64_t step, int64_t rows, float* HWY_RESTRICT to) {
  auto v = hn::LoadU(d, x);
  if constexpr (kRows > 0) {
#pragma GCC unroll 4
    for (int r = 1; r < kRows; ++r) v = Join::join(v, hn::LoadU(d, x + r * step));
  } else {
    for (int64_t r = 1; r < rows; ++r) v = Join::join(v, hn::LoadU(d, x + r * step));
  }
  hn::StoreU(v, d, to);
}
template <class Join, int kRows>
HWY_INLINE void join_rows(const float* x, int64_t step, int64_t rows, int64_t n, float* to) {
  const D d;
  const hn::CappedTag<float, 4> d4;
  const hn::CappedTag<float, 1> d1;
  constexpr int64_t kFour = hn::MaxLanes(hn::CappedTag<float, 4>());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) join_rows_at<Join, kRows>(d, x + i, step, rows, to + i);
  if (i == n) return;
  // The last vector may overlap the one before it.
  if (n >= kLanes) return join_rows_at<Join, kRows>(d, x + n - kLanes, step, rows, to + n - kLanes);
  for (; i + kFour <= n; i += kFour) join_rows_at<Join, kRows>(d4, x + i, step, rows, to + i);
  for (; i < n; ++i) join_rows_at<Join, kRows>(d1, x + i, step, rows, to + i);
}

// Outputs of a vector from o on: line[o * stride + k * dilation] joined over k. kTaps: how many, or 0 for any; kStride:
// 1, 2 or 3 without dilation, or 0 for any.
template <class Join, int kTaps, int kStride>
HWY_INLINE V join_columns(const PoolShape& s, const float* line, int64_t o) {
  const D d;
#if HWY_TARGET != HWY_SCALAR
  if constexpr (kStride == 2) {
    V v, odd;
    hn::LoadInterleaved2(d, line + 2 * o, v, odd);
    if (s.kernel[1] > 1) v = Join::join(v, odd);
    if constexpr (kTaps == 3) {
      V last;
      hn::LoadInterleaved2(d, line + 2 * o + 2, last, odd);
      return Join::join(v, last);
    }
    for (int64_t k = 2; kTaps == 0 && k < s.kernel[1]; k += 2) {
      V even;
      hn::LoadInterleaved2(d, line + 2 * o + k, even, odd);
      v = Join::join(v, even);
      if (k + 1 < s.kernel[1]) v = Join::join(v, odd);
    }
    return v;
  }
  if constexpr (kStride == 3) {
    V v, second, third;
    hn::LoadInterleaved3(d, line + 3 * o, v, second, third);
    if (s.kernel[1] > 1) v = Join::join(v, second);
    if (s.kernel[1] > 2) v = Join::join(v, third);
    for (int64_t k = 3; k < s.kernel[1]; k += 3) {
      V first;
      hn::LoadInterleaved3(d, line + 3 * o + k, first, second, third);
      v = Join::join(v, first);
      if (k + 1 < s.kernel[1]) v = Join::join(v, second);
      if (k + 2 < s.kernel[1]) v = Join::join(v, third);
    }
    return v;
  }
#endif
  if constexpr (kStride == 1) {
    V v = hn::LoadU(d, line + o);
    const int64_t taps = kTaps > 0 ? kTaps : s.kernel[1];
#pragma GCC unroll 2
    for (int64_t k = 1; k < taps; ++k) v = Join::join(v, hn::LoadU(d, line + o + k));
    return v;
  }
  V v = hn::Set(d, Join::kStart);
  if (s.stride[1] <= pool::kMostStride) {
    const hn::RebindToSigned<D> di;
    const auto index = hn::Mul(hn::Iota(di, 0), hn::Set(di, static_cast<int32_t>(s.stride[1])));
    for (int64_t k = 0; k < s.kernel[1]; ++k)
      v = Join::join(v, hn::GatherIndex(d, line + o * s.stride[1] + k * s.dilation[1], index));
    return v;
  }
  HWY_ALIGN float some[kLanes];
  const int64_t count = HWY_MIN(kLanes, s.out[1] - o);
  for (int64_t i = count; i < kLanes; ++i) some[i] = 0;
  for (int64_t k = 0; k < s.kernel[1]; ++k) {
    for (int64_t i = 0; i < count; ++i) some[i] = line[(o + i) * s.stride[1] + k * s.dilation[1]];
    v = Join::join(v, hn::Load(d, some));
  }
  return v;
}

template <class Join>
HWY_INLINE V finished(const PoolRows& r, V v, float rows, int64_t o, int64_t count) {
  if constexpr (std::is_same_v<Join, Sum>) {
    const D d;
    V columns;
    if (count >= kLanes) {
      columns = hn::LoadU(d, r.column_count + o);
    } else {
      HWY_ALIGN float some[kLanes] = {};
      for (int64_t i = 0; i < count; ++i) some[i] = r.column_count[o + i];
      columns = hn::Load(d, some);
    }
    const V one = hn::Set(d, 1.0f);
    return hn::Div(v, hn::Max(one, hn::Mul(columns, hn::Set(d, rows))));
  } else {
    return v;
  }
}

template <class Join, int kTaps, int kStride>
HWY_NOINLINE void output_row(const PoolShape& s, const PoolRows& r, const float* line, int64_t y) {
  const D d;
  float* to = r.y + y * s.out[1];
  const float rows = r.row_count ? r.row_count[y] : 0.0f;
  const int64_t n = s.out[1];
  int64_t o = 0;
  for (; o + kLanes <= n; o += kLanes)
    hn::StoreU(finished<Join>(r, join_columns<Join, kTaps, kStride>(s, line, o), rows, o, kLanes), d, to + o);
  if (o == n) return;
  if (n >= kLanes) {
    // Overlaps the vector before it.
    o = n - kLanes;
    hn::StoreU(finished<Join>(r, join_columns<Join, kTaps, kStride>(s, line, o), rows, o, kLanes), d, to + o);
    return;
  }
  HWY_ALIGN float rest[kLanes];
  hn::Store(finished<Join>(r, join_columns<Join, kTaps, kStride>(s, line, 0), rows, 0, n), d, rest);
  const hn::CappedTag<float, 4> d4;
  constexpr int64_t kFour = hn::MaxLanes(hn::CappedTag<float, 4>());
  for (; o + kFour <= n; o += kFour) hn::StoreU(hn::Load(d4, rest + o), d4, to + o);
  for (; o < n; ++o) to[o] = rest[o];
}

using OutputRow = void(const PoolShape&, const PoolRows&, const float*, int64_t);

template <class Join>
OutputRow* choose_row(const PoolShape& s) {
  const int64_t taps = s.kernel[1];
  if (s.dilation[1] != 1 && taps > 1) return output_row<Join, 0, 0>;
  if (s.stride[1] == 1)
    return taps == 2 ? output_row<Join, 2, 1> : taps == 3 ? output_row<Join, 3, 1> : output_row<Join, 0, 1>;
  if (s.stride[1] == 2 && HWY_TARGET != HWY_SCALAR)
    return taps == 2 ? output_row<Join, 2, 2> : taps == 3 ? output_row<Join, 3, 2> : output_row<Join, 0, 2>;
  if (s.stride[1] == 3 && HWY_TARGET != HWY_SCALAR) return output_row<Join, 0, 3>;
  return output_row<Join, 0, 0>;
}

template <class Join>
HWY_INLINE void run_joined(const PoolShape& s, const PoolRows& r, float* scratch) {
  const int64_t step = pool::line_step(s), length = pool::line_length(s);
  OutputRow* const output = choose_row<Join>(s);
  const int64_t x0 = HWY_MAX(0, -s.pad[1]), to = HWY_MAX(0, s.pad[1]);
  const int64_t n = HWY_MAX(0, HWY_MIN(s.in[1] - x0, length - to));
  const int64_t lines = HWY_MIN(pool::lines_at_once(s), r.y1 - r.y0);
  for (int64_t i = 0; i < lines; ++i) {
    std::fill_n(scratch + i * step, HWY_MIN(to, length), Join::kStart);
    std::fill_n(scratch + i * step + to + n, HWY_MAX(0, length - to - n), Join::kStart);
  }
  for (int64_t y = r.y0; y < r.y1; y += lines) {
    const int64_t count = HWY_MIN(lines, r.y1 - y);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t top = (y + i) * s.stride[0] - s.pad[0];
      const int64_t first = top >= 0 ? 0 : (-top + s.dilation[0] - 1) / s.dilation[0];
      const int64_t end = top >= s.in[0] ? 0 : HWY_MIN(s.kernel[0], (s.in[0] - 1 - top) / s.dilation[0] + 1);
      const float* x = r.x + (top + first * s.dilation[0]) * s.in[1] + x0;
      float* line = scratch + i * step + to;
      const int64_t row = s.dilation[0] * s.in[1];
      if (first >= end)
        for (int64_t v = 0; v < n; ++v) line[v] = Join::kStart;
      else if (end - first == 3)
        join_rows<Join, 3>(x, row, 3, n, line);
      else if (end - first == 2)
        join_rows<Join, 2>(x, row, 2, n, line);
      else
        join_rows<Join, 0>(x, row, end - first, n, line);
    }
    for (int64_t i = 0; i < count; ++i) output(s, r, scratch + i * step, y + i);
  }
}

void means(const float* x, int64_t maps, int64_t n, float* y) {
  const D d;
  const hn::CappedTag<float, 4> d4;
  constexpr int64_t kFour = hn::MaxLanes(hn::CappedTag<float, 4>());
  const auto count = static_cast<float>(n);
  for (int64_t m = 0; m < maps; ++m, x += n) {
    V sum[2] = {hn::Zero(d), hn::Zero(d)};
    auto four = hn::Zero(d4);
    float one = 0;
    int64_t i = 0;
    for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
      sum[0] = hn::Add(sum[0], hn::LoadU(d, x + i));
      sum[1] = hn::Add(sum[1], hn::LoadU(d, x + i + kLanes));
    }
    if (i + kLanes <= n) sum[0] = hn::Add(sum[0], hn::LoadU(d, x + i)), i += kLanes;
    for (; i + kFour <= n; i += kFour) four = hn::Add(four, hn::LoadU(d4, x + i));
    for (; i < n; ++i) one += x[i];
    one += hn::GetLane(hn::SumOfLanes(d4, four));
    y[m] = (hn::GetLane(hn::SumOfLanes(d, hn::Add(sum[0], sum[1]))) + one) / count;
  }
}

// True if what the rows meet is finite.
bool all_finite(const PoolShape& s, const PoolRows& r) {
  const D d;
  const int64_t reach = (s.kernel[0] - 1) * s.dilation[0] + 1;
  const int64_t first = HWY_MAX(0, r.y0 * s.stride[0] - s.pad[0]);
  const int64_t end = HWY_MIN(s.in[0], (r.y1 - 1) * s.stride[0] - s.pad[0] + reach);
  const float *x = r.x + first * s.in[1], *const last = r.x + end * s.in[1];
  // A product with zero is zero, or NaN.
  const V zero = hn::Zero(d);
  V sum[2] = {zero, zero};
  for (; last - x >= 2 * kLanes; x += 2 * kLanes) {
    sum[0] = hn::MulAdd(hn::LoadU(d, x), zero, sum[0]);
    sum[1] = hn::MulAdd(hn::LoadU(d, x + kLanes), zero, sum[1]);
  }
  float rest = 0;
  for (; x < last; ++x) rest += *x * 0.0f;
  return rest == 0 && hn::AllTrue(d, hn::Eq(hn::Add(sum[0], sum[1]), zero));
}

void run(Pool pool, const PoolShape& s, const PoolRows& r, float* scratch) {
  if (pool == Pool::mean)
    run_joined<Sum>(s, r, scratch);
  else if (all_finite(s, r))
    run_joined<LargestNumber>(s, r, scratch);
  else
    run_joined<Largest>(s, r, scratch);
}

constexpr pool::Kernels kernels = {run, means};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const pool::Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                           HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                           HWY_CHOOSE_AVX3(kernels)};

}  // namespace

int64_t pool_scratch_bytes(const PoolShape& s) {
  return s.out[1] <= 0 ? 0 : pool::lines_at_once(s) * pool::line_step(s) * static_cast<int64_t>(sizeof(float));
}

void pool_rows(Target target, Pool pool, const PoolShape& s, const PoolRows& rows, void* scratch) {
  if (s.out[1] <= 0 || rows.y0 >= rows.y1) return;
  choose_kernels(kTable, target).run(pool, s, rows, static_cast<float*>(scratch));
}

void pool_means(Target target, const float* x, int64_t maps, int64_t n, float* y) {
  choose_kernels(kTable, target).means(x, maps, n, y);
}

}  // namespace tessera
#endif
