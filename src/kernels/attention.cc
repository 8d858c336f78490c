#include "kernels/attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/attention.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/half-inl.h"
#include "kernels/turn-inl.h"
#include "kernels/vmath-inl.h"

#ifndef TESSERA_KERNELS_ATTENTION_SHARED_
#define TESSERA_KERNELS_ATTENTION_SHARED_
namespace tessera {
namespace attend {

struct TypeKernels {
  void (*products)(const float* q, int64_t rows, int64_t size, const HeadRows& keys, int64_t n, float* scores,
                   int64_t ld);
  void (*sums)(const float* weights, int64_t ld, int64_t rows, const HeadRows& values, int64_t n, int64_t size,
               float* y);
  void (*keys)(const HeadRows& keys, int64_t n, int64_t size, float* panels);
  void (*values)(const HeadRows& values, int64_t n, int64_t size, float* panels);
  void (*load)(const HeadRows& from, int64_t rows, int64_t size, const float* factors, int64_t factor_step, float* to,
               int64_t to_step);
  void (*store)(const float* from, int64_t from_step, int64_t rows, int64_t size, const float* factors,
                int64_t factor_step, void* to, int64_t to_step);
};
struct Kernels {
  TypeKernels of[3];  // by PanelType
  void (*exp)(float* x, int64_t ld, int64_t rows, int64_t n, float start, float* factors);
  void (*rotate)(float* x, const float* cos, const float* sin, int64_t half);
};

}  // namespace attend
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kPanelWidth>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
constexpr int kQueries = kLanes == kPanelWidth ? 4 : 2;  // that share what is read of a row
constexpr int kKeys = 4;                                 // rows read side by side

struct F32 {
  using T = float;
  static HWY_INLINE V load(const T* p) { return hn::LoadU(D(), p); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(v, D(), p); }
};
struct F16 {
  using T = uint16_t;
  static HWY_INLINE V load(const T* p) { return half::widen_f16(D(), hn::LoadU(hn::Rebind<uint16_t, D>(), p)); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(half::narrow_f16(D(), v), hn::Rebind<uint16_t, D>(), p); }
};
struct BF16 {
  using T = uint16_t;
  static HWY_INLINE V load(const T* p) { return half::widen_bf16(D(), hn::LoadU(hn::Rebind<uint16_t, D>(), p)); }
  static HWY_INLINE void store(V v, T* p) { hn::StoreU(half::narrow_bf16(D(), v), hn::Rebind<uint16_t, D>(), p); }
};

// `count` elements, fewer than a vector's; zeros beyond.
template <class E>
HWY_INLINE V load_some(const typename E::T* p, int64_t count) {
  HWY_ALIGN typename E::T some[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) some[i] = p[i];
  return E::load(some);
}

HWY_INLINE float sum_of(V v) { return hn::GetLane(hn::SumOfLanes(D(), v)); }

// The sums of four vectors, stored side by side.
HWY_INLINE void store_sums(V (&v)[kKeys], float* out) {
#if HWY_TARGET == HWY_SCALAR
  for (int i = 0; i < kKeys; ++i) out[i] = sum_of(v[i]);
#else
  turn::turn(v);
  const V sum = hn::Add(hn::Add(v[0], v[1]), hn::Add(v[2], v[3]));
#if HWY_TARGET == HWY_AVX3
  const hn::Half<D> half;
  const hn::Half<decltype(half)> quarter;
  const auto eight = hn::Add(hn::LowerHalf(half, sum), hn::UpperHalf(half, sum));
  hn::StoreU(hn::Add(hn::LowerHalf(quarter, eight), hn::UpperHalf(quarter, eight)), quarter, out);
#elif HWY_TARGET == HWY_AVX2
  const hn::Half<D> half;
  hn::StoreU(hn::Add(hn::LowerHalf(half, sum), hn::UpperHalf(half, sum)), half, out);
#else
  hn::StoreU(sum, D(), out);
#endif
#endif
}

// kRows queries with four keys. Beyond the last whole vector of a row, elements are read one by one.
template <class E, int kRows>
HWY_INLINE void four_products(const float* HWY_RESTRICT q, int64_t size, const typename E::T* const (&k)[kKeys],
                              float* out, int64_t ld) {
  V sum[kRows][kKeys];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int i = 0; i < kKeys; ++i) sum[r][i] = hn::Zero(D());
  int64_t at = 0;
  for (; at + kLanes <= size; at += kLanes) {
    V row[kKeys];
#pragma GCC unroll 4
    for (int i = 0; i < kKeys; ++i) row[i] = E::load(k[i] + at);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const V query = hn::LoadU(D(), q + r * size + at);
#pragma GCC unroll 4
      for (int i = 0; i < kKeys; ++i) sum[r][i] = hn::MulAdd(query, row[i], sum[r][i]);
    }
  }
  if (at < size)
    for (int i = 0; i < kKeys; ++i) {
      const V row = load_some<E>(k[i] + at, size - at);
      for (int r = 0; r < kRows; ++r)
        sum[r][i] = hn::MulAdd(load_some<F32>(q + r * size + at, size - at), row, sum[r][i]);
    }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) store_sums(sum[r], out + r * ld);
}

template <class E, int kRows>
void some_products(const float* q, int64_t size, const HeadRows& keys, int64_t n, float* scores, int64_t ld) {
  const auto* data = static_cast<const typename E::T*>(keys.data);
  for (int64_t i = 0; i < n; i += kKeys) {
    const typename E::T* k[kKeys];
    for (int64_t j = 0; j < kKeys; ++j) k[j] = data + std::min(i + j, n - 1) * keys.step;
    if (i + kKeys <= n) {
      four_products<E, kRows>(q, size, k, scores + i, ld);
      continue;
    }
    float out[kRows * kKeys];
    four_products<E, kRows>(q, size, k, out, kKeys);
    for (int r = 0; r < kRows; ++r) std::copy_n(out + r * kKeys, n - i, scores + r * ld + i);
  }
}

template <class E>
void products(const float* q, int64_t rows, int64_t size, const HeadRows& keys, int64_t n, float* scores, int64_t ld) {
  int64_t r = 0;
  for (; r + kQueries <= rows; r += kQueries)
    some_products<E, kQueries>(q + r * size, size, keys, n, scores + r * ld, ld);
  for (; r < rows; ++r) some_products<E, 1>(q + r * size, size, keys, n, scores + r * ld, ld);
}

// kVecs vectors of the sums of kRows queries, from column `at` on.
template <class E, int kRows, int kVecs>
HWY_INLINE void strip_sums(const float* HWY_RESTRICT weights, int64_t ld, const HeadRows& values, int64_t n,
                           int64_t size, int64_t at, float* HWY_RESTRICT y) {
  V sum[kRows][kVecs];
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) sum[r][v] = hn::LoadU(D(), y + r * size + at + v * kLanes);
  const auto* row = static_cast<const typename E::T*>(values.data) + at;
  for (int64_t i = 0; i < n; ++i, row += values.step) {
    V value[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) value[v] = E::load(row + v * kLanes);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const V weight = hn::Set(D(), weights[r * ld + i]);
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) sum[r][v] = hn::MulAdd(weight, value[v], sum[r][v]);
    }
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) hn::StoreU(sum[r][v], D(), y + r * size + at + v * kLanes);
}

// The last columns, fewer than a vector's.
template <class E>
void tail_sums(const float* weights, const HeadRows& values, int64_t n, int64_t count, int64_t at, float* y) {
  const auto* row = static_cast<const typename E::T*>(values.data) + at;
  V sum = load_some<F32>(y + at, count);
  for (int64_t i = 0; i < n; ++i, row += values.step)
    sum = hn::MulAdd(hn::Set(D(), weights[i]), load_some<E>(row, count), sum);
  HWY_ALIGN float out[kLanes];
  hn::Store(sum, D(), out);
  std::copy_n(out, count, y + at);
}

template <class E, int kRows>
void some_sums(const float* weights, int64_t ld, const HeadRows& values, int64_t n, int64_t size, float* y) {
  int64_t at = 0;
  for (; at + 4 * kLanes <= size; at += 4 * kLanes) strip_sums<E, kRows, 4>(weights, ld, values, n, size, at, y);
  for (; at + kLanes <= size; at += kLanes) strip_sums<E, kRows, 1>(weights, ld, values, n, size, at, y);
  for (int r = 0; at < size && r < kRows; ++r) tail_sums<E>(weights + r * ld, values, n, size - at, at, y + r * size);
}

template <class E>
void sums(const float* weights, int64_t ld, int64_t rows, const HeadRows& values, int64_t n, int64_t size, float* y) {
  int64_t r = 0;
  for (; r + kQueries <= rows; r += kQueries)
    some_sums<E, kQueries>(weights + r * ld, ld, values, n, size, y + r * size);
  for (; r < rows; ++r) some_sums<E, 1>(weights + r * ld, ld, values, n, size, y + r * size);
}

// Rows of a head lie far apart: those to come are asked for early, but not into the nearest cache, of which they may
// share a few sets.
constexpr int64_t kRowsAhead = 16;
template <class T>
HWY_INLINE void fetch_row(const T* row, int64_t count) {
  for (int64_t i = 0; i < count; i += 64 / static_cast<int64_t>(sizeof(T))) __builtin_prefetch(row + i, 0, 2);
}

// One row of elements of one type, times a factor, as a row of another.
template <class From, class To>
HWY_INLINE void scale_row(const typename From::T* from, int64_t size, float factor, typename To::T* to) {
  const V times = hn::Set(D(), factor);
  int64_t i = 0;
  for (; i + kLanes <= size; i += kLanes) To::store(hn::Mul(From::load(from + i), times), to + i);
  if (i == size) return;
  HWY_ALIGN typename To::T some[kLanes];
  To::store(hn::Mul(load_some<From>(from + i, size - i), times), some);
  std::copy_n(some, size - i, to + i);
}

template <class E>
void rows_to_floats(const HeadRows& from, int64_t rows, int64_t size, const float* factors, int64_t factor_step,
                    float* to, int64_t to_step) {
  const auto* data = static_cast<const typename E::T*>(from.data);
  for (int64_t r = 0; r < rows; ++r) {
    if (r + kRowsAhead < rows) fetch_row(data + (r + kRowsAhead) * from.step, size);
    scale_row<E, F32>(data + r * from.step, size, factors[r * factor_step], to + r * to_step);
  }
}

template <class E>
void floats_to_rows(const float* from, int64_t from_step, int64_t rows, int64_t size, const float* factors,
                    int64_t factor_step, void* to, int64_t to_step) {
  auto* out = static_cast<typename E::T*>(to);
  for (int64_t r = 0; r < rows; ++r)
    scale_row<F32, E>(from + r * from_step, size, factors[r * factor_step], out + r * to_step);
}

// Sixteen rows of floats, `count` columns of them, as columns of a panel.
HWY_INLINE void turn_rows(const float* const (&rows)[kPanelWidth], int64_t count, float* HWY_RESTRICT panel) {
  int64_t x = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; x + 4 <= count; x += 4)
    for (int g = 0; g < kPanelWidth; g += kLanes) {
      turn::V v[4];
      turn::load_four([&](int lane) HWY_ATTR { return rows[g + lane] + x; }, v);
#pragma GCC unroll 4
      for (int i = 0; i < 4; ++i) hn::StoreU(v[i], turn::D(), panel + (x + i) * kPanelWidth + g);
    }
#endif
  for (; x < count; ++x)
    for (int j = 0; j < kPanelWidth; ++j) panel[x * kPanelWidth + j] = rows[j][x];
}

// A row's elements [at, at + count) as floats.
template <class E>
HWY_INLINE void widen_row(const typename E::T* from, int64_t count, float* to) {
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) hn::StoreU(E::load(from + i), D(), to + i);
  if (i == count) return;
  HWY_ALIGN float some[kLanes];
  hn::Store(load_some<E>(from + i, count - i), D(), some);
  std::copy_n(some, count - i, to + i);
}

// Rows are gathered before they are turned: where they lie, sixteen of them may share a few sets of the cache.
template <class E>
void keys_to_panels(const HeadRows& keys, int64_t n, int64_t size, float* panels) {
  constexpr int64_t kColumns = 64;  // at a time
  HWY_ALIGN float wide[kPanelWidth * kColumns];
  const float* rows[kPanelWidth];
  for (int64_t j = 0; j < kPanelWidth; ++j) rows[j] = wide + j * kColumns;
  const auto* data = static_cast<const typename E::T*>(keys.data);
  for (int64_t i = 0; i < n; i += kPanelWidth)
    for (int64_t at = 0; at < size; at += kColumns) {
      const int64_t columns = std::min(kColumns, size - at), count = std::min<int64_t>(kPanelWidth, n - i);
      for (int64_t j = 0; j < count; ++j) {
        const typename E::T* row = data + (i + j) * keys.step + at;
        if (i + j + kRowsAhead < n) fetch_row(row + kRowsAhead * keys.step, columns);
        widen_row<E>(row, columns, wide + j * kColumns);
      }
      std::fill(wide + count * kColumns, wide + kPanelWidth * kColumns, 0.0f);
      turn_rows(rows, columns, panels + (i * size + at * kPanelWidth));
    }
}

template <class E>
void values_to_panels(const HeadRows& values, int64_t n, int64_t size, float* panels) {
  const auto* from = static_cast<const typename E::T*>(values.data);
  for (int64_t i = 0; i < n; ++i, from += values.step) {
    if (i + kRowsAhead < n) fetch_row(from + kRowsAhead * values.step, size);
    float* to = panels + i * kPanelWidth;
    for (int64_t at = 0; at < size; at += kPanelWidth, to += n * kPanelWidth) {
      const int64_t columns = std::min<int64_t>(kPanelWidth, size - at);
      widen_row<E>(from + at, columns, to);
      std::fill(to + columns, to + kPanelWidth, 0.0f);
    }
  }
}

// e^x of x <= 0 (or NaN), zero where it would be below the normal numbers.
HWY_INLINE vm::V exp_below(vm::V x) {
  constexpr float kTerms[] = {0.5f, 0.166665182f, 0.041666206f, 0.00836895406f, 0.00139505987f};
  // The sum's last bits are those of n + 127, which lands in the exponent.
  constexpr float kShift = 12582912.0f + 127.0f;
  const vm::V moved = hn::MulAdd(x, vm::set(1.44269504f), vm::set(kShift)), n = hn::Sub(moved, vm::set(kShift));
  vm::V r = hn::NegMulAdd(n, vm::set(vm::kLn2High), x);
  r = hn::NegMulAdd(n, vm::set(vm::kLn2Low), r);
  const vm::V tail = hn::MulAdd(hn::Mul(r, r), vm::polynomial(r, kTerms), r);
  const vm::V power = hn::BitCast(vm::D(), hn::ShiftLeft<23>(hn::BitCast(vm::DI(), moved)));
  const vm::V y = hn::MulAdd(tail, power, power);
  return hn::IfThenZeroElse(hn::Lt(x, vm::set(-87.0f)), y);
}

// A row in vectors of vm::D; the last one is filled up.
template <class F>
HWY_INLINE void each_vector(float* x, int64_t n, float fill, F&& f) {
  constexpr int kLong = static_cast<int>(hn::MaxLanes(vm::D()));
  int64_t i = 0;
  for (; i + 4 * kLong <= n; i += 4 * kLong)
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) hn::StoreU(f(hn::LoadU(vm::D(), x + i + s * kLong), s), vm::D(), x + i + s * kLong);
  for (; i < n; i += kLong) {
    const int64_t count = std::min<int64_t>(kLong, n - i);
    HWY_ALIGN float some[kLong];
    for (int64_t j = 0; j < kLong; ++j) some[j] = j < count ? x[i + j] : fill;
    hn::Store(f(hn::Load(vm::D(), some), 0), vm::D(), some);
    std::copy_n(some, count, x + i);
  }
}

HWY_INLINE float largest(const float* x, int64_t n, float start) {
  constexpr int kLong = static_cast<int>(hn::MaxLanes(vm::D()));
  vm::V most[4];
  for (vm::V& m : most) m = vm::set(start);
  int64_t i = 0;
  for (; i + 4 * kLong <= n; i += 4 * kLong)
#pragma GCC unroll 4
    for (int s = 0; s < 4; ++s) most[s] = hn::Max(hn::LoadU(vm::D(), x + i + s * kLong), most[s]);
  for (; i + kLong <= n; i += kLong) most[0] = hn::Max(hn::LoadU(vm::D(), x + i), most[0]);
  const vm::V all = hn::Max(hn::Max(most[0], most[1]), hn::Max(most[2], most[3]));
  start = std::max(start, hn::GetLane(hn::MaxOfLanes(vm::D(), all)));
  for (; i < n; ++i) start = std::max(start, x[i]);
  return start;
}

HWY_INLINE float exp_of_row(float* x, int64_t n, float start) {
  const float most = largest(x, n, start);
  if (most == -vm::kInfinity) {
    float sum = 0;  // NaN if anything is
    for (int64_t i = 0; i < n; ++i) {
      x[i] = x[i] == most ? 0.0f : x[i];
      sum += x[i];
    }
    return sum;
  }
  vm::V sum[4];
  for (vm::V& s : sum) s = vm::set(0.0f);
  const vm::V shift = vm::set(most);
  each_vector(x, n, -vm::kInfinity, [&](vm::V v, int s) HWY_ATTR {
    v = exp_below(hn::Sub(v, shift));
    sum[s] = hn::Add(sum[s], v);
    return v;
  });
  const vm::V rest = hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]));
  const vm::V own = exp_below(vm::set(start - most));
  return hn::GetLane(hn::SumOfLanes(vm::D(), rest)) + hn::GetLane(own);
}

void exp_of_rows(float* x, int64_t ld, int64_t rows, int64_t n, float start, float* factors) {
  for (int64_t r = 0; r < rows; ++r, x += ld) {
    const float sum = exp_of_row(x, n, start);
    factors[r] = sum == 0 ? 0 : 1 / sum;
  }
}

void rotate_halves(float* x, const float* cos, const float* sin, int64_t half) {
  int64_t i = 0;
  for (; i + kLanes <= half; i += kLanes) {
    const V a = hn::LoadU(D(), x + i), b = hn::LoadU(D(), x + half + i);
    const V c = hn::LoadU(D(), cos + i), s = hn::LoadU(D(), sin + i);
    hn::StoreU(hn::Sub(hn::Mul(c, a), hn::Mul(s, b)), D(), x + i);
    hn::StoreU(hn::Add(hn::Mul(s, a), hn::Mul(c, b)), D(), x + half + i);
  }
  for (; i < half; ++i) {
    const float a = x[i], b = x[half + i];
    x[i] = cos[i] * a - sin[i] * b;
    x[half + i] = sin[i] * a + cos[i] * b;
  }
}

template <class E>
constexpr attend::TypeKernels kernels_of = {products<E>,         sums<E>,           keys_to_panels<E>,
                                            values_to_panels<E>, rows_to_floats<E>, floats_to_rows<E>};
constexpr attend::Kernels kernels = {{kernels_of<F32>, kernels_of<F16>, kernels_of<BF16>}, exp_of_rows, rotate_halves};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const attend::Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                             HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                             HWY_CHOOSE_AVX3(kernels)};

const attend::TypeKernels& kernels_for(Target target, PanelType type) {
  return choose_kernels(kTable, target).of[static_cast<int>(type)];
}

}  // namespace

void head_products(Target target, const float* q, int64_t rows, int64_t size, const HeadRows& keys, int64_t n,
                   float* scores, int64_t ld) {
  kernels_for(target, keys.type).products(q, rows, size, keys, n, scores, ld);
}

void head_sums(Target target, const float* weights, int64_t ld, int64_t rows, const HeadRows& values, int64_t n,
               int64_t size, float* y) {
  kernels_for(target, values.type).sums(weights, ld, rows, values, n, size, y);
}

void load_rows(Target target, const HeadRows& from, int64_t rows, int64_t size, const float* factors,
               int64_t factor_step, float* to, int64_t to_step) {
  kernels_for(target, from.type).load(from, rows, size, factors, factor_step, to, to_step);
}

void store_rows(Target target, const float* from, int64_t from_step, int64_t rows, int64_t size, const float* factors,
                int64_t factor_step, PanelType type, void* to, int64_t to_step) {
  kernels_for(target, type).store(from, from_step, rows, size, factors, factor_step, to, to_step);
}

void pack_keys(Target target, const HeadRows& keys, int64_t n, int64_t size, float* panels) {
  kernels_for(target, keys.type).keys(keys, n, size, panels);
}

void pack_values(Target target, const HeadRows& values, int64_t n, int64_t size, float* panels) {
  kernels_for(target, values.type).values(values, n, size, panels);
}

void exp_rows(Target target, float* x, int64_t ld, int64_t rows, int64_t n, float start, float* factors) {
  choose_kernels(kTable, target).exp(x, ld, rows, n, start, factors);
}

void rotate_head(Target target, float* x, const float* cos, const float* sin, int64_t half, bool interleaved) {
  if (!interleaved) return choose_kernels(kTable, target).rotate(x, cos, sin, half);
  for (int64_t i = 0; i < half; ++i) {
    const float a = x[2 * i], b = x[2 * i + 1];
    x[2 * i] = cos[i] * a - sin[i] * b;
    x[2 * i + 1] = sin[i] * a + cos[i] * b;
  }
}

}  // namespace tessera
#endif
