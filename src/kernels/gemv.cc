#include "kernels/gemv.h"

#include <algorithm>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "hwy/cache_control.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemv.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/gemm_tile-inl.h"

#ifndef TESSERA_KERNELS_GEMV_SHARED_
#define TESSERA_KERNELS_GEMV_SHARED_
namespace tessera {
namespace gemv {

constexpr int64_t kStrip = 256;  // columns finished at a time
constexpr int64_t kDepth = 256;  // of k whose products are summed at a time: short sums lose less

struct Problem {
  int64_t n, k;
  const float* a;
  int64_t lda;
  const float* b;
  int64_t ldb;
  float* c;
  int64_t ldc;
  const GemmEpilogue* epilogue;
};

struct Kernels {
  // Columns [j0, j1) of C, by the number of rows less one.
  void (*plain[kGemvRows])(const Problem&, int64_t j0, int64_t j1);
  void (*transposed[kGemvRows])(const Problem&, int64_t j0, int64_t j1);
};

}  // namespace gemv
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using gemv::kDepth;
using gemv::kStrip;
using gemv::Problem;
using tile::D;
using tile::kLanes;
using tile::V;

constexpr int kSums = HWY_TARGET == HWY_AVX3 ? 16 : 8;  // vectors of them that registers hold beside the rest
constexpr int64_t kAhead = 8;                           // rows of B asked for before they are read

// product[r * kStrip + i] += the sums over k in [k0, k1) for kVecs vectors of columns from j on.
template <int kRows, int kVecs>
HWY_INLINE void multiply(const Problem& g, int64_t j, int64_t k0, int64_t k1, float* product) {
  const D d;
  V sums[kRows][kVecs];
  for (auto& row : sums)
    for (V& v : row) v = hn::Zero(d);
  const float* b = g.b + k0 * g.ldb + j;
  for (int64_t p = k0; p < k1; ++p, b += g.ldb) {
    if (p + kAhead < g.k)
      for (int x = 0; x < kVecs * kLanes; x += 16) hwy::Prefetch(b + kAhead * g.ldb + x);
    V factor[kRows];
#pragma GCC unroll 3
    for (int r = 0; r < kRows; ++r) factor[r] = hn::Set(d, g.a[r * g.lda + p]);
#pragma GCC unroll 16
    for (int x = 0; x < kVecs; ++x) {
      const V column = hn::LoadU(d, b + x * kLanes);
#pragma GCC unroll 3
      for (int r = 0; r < kRows; ++r) sums[r][x] = hn::MulAdd(factor[r], column, sums[r][x]);
    }
  }
  for (int r = 0; r < kRows; ++r)
    for (int x = 0; x < kVecs; ++x) {
      float* to = product + r * kStrip + x * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(d, to), sums[r][x]), d, to);
    }
}

// The first `count` lanes from memory that ends there, the others zero.
HWY_INLINE V load_first(const float* from, int64_t count) {
  HWY_ALIGN float lanes[kLanes] = {};
  std::copy(from, from + count, lanes);
  return hn::Load(D(), lanes);
}

// The same for columns that do not fill a vector.
template <int kRows>
void multiply_rest(const Problem& g, int64_t j, int64_t columns, int64_t k0, int64_t k1, float* product) {
  const D d;
  V sums[kRows];
  for (V& v : sums) v = hn::Zero(d);
  for (int64_t p = k0; p < k1; ++p) {
    const V column = load_first(g.b + p * g.ldb + j, columns);
    for (int r = 0; r < kRows; ++r) sums[r] = hn::MulAdd(hn::Set(d, g.a[r * g.lda + p]), column, sums[r]);
  }
  for (int r = 0; r < kRows; ++r) {
    float* to = product + r * kStrip;
    const V sum = hn::Add(load_first(to, columns), sums[r]);
    HWY_ALIGN float lanes[kLanes];
    hn::Store(sum, d, lanes);
    std::copy(lanes, lanes + columns, to);
  }
}

template <int kRows>
void plain(const Problem& g, int64_t j0, int64_t j1) {
  constexpr int kWide = static_cast<int>(HWY_MIN(kStrip / kLanes, HWY_MAX(1, kSums / kRows)));
  const tile::Finish f{g.epilogue, true, true};
  HWY_ALIGN float product[kRows * kStrip + kPanelWidth];
  for (int64_t j = j0; j < j1; j += kStrip) {
    const int64_t columns = HWY_MIN(kStrip, j1 - j);
    std::fill(product, product + kRows * kStrip, 0.0f);
    for (int64_t k0 = 0; k0 < g.k; k0 += kDepth) {
      const int64_t k1 = HWY_MIN(g.k, k0 + kDepth);
      int64_t i = 0;
      for (; i + kWide * kLanes <= columns; i += kWide * kLanes) multiply<kRows, kWide>(g, j + i, k0, k1, product + i);
      for (; i + kLanes <= columns; i += kLanes) multiply<kRows, 1>(g, j + i, k0, k1, product + i);
      if (i < columns) multiply_rest<kRows>(g, j + i, columns - i, k0, k1, product + i);
    }
    tile::finish(product, kStrip, f, 0, j, kRows, static_cast<int>(columns), g.c + j, g.ldc);
  }
}

// The rows of A times kColumns rows of B from row j on.
template <int kRows, int kColumns>
HWY_INLINE void dots(const Problem& g, int64_t j, float* product) {
  const D d;
  float total[kRows][kColumns] = {};
  for (int64_t k0 = 0; k0 < g.k; k0 += kDepth * kLanes) {
    const int64_t k1 = HWY_MIN(g.k, k0 + kDepth * kLanes);
    V sums[kRows][kColumns];
    for (auto& row : sums)
      for (V& v : row) v = hn::Zero(d);
    const auto step = [&](int64_t p, auto&& load) HWY_ATTR {
      V factor[kRows];
#pragma GCC unroll 3
      for (int r = 0; r < kRows; ++r) factor[r] = load(g.a + r * g.lda + p);
#pragma GCC unroll 8
      for (int x = 0; x < kColumns; ++x) {
        const V column = load(g.b + (j + x) * g.ldb + p);
#pragma GCC unroll 3
        for (int r = 0; r < kRows; ++r) sums[r][x] = hn::MulAdd(factor[r], column, sums[r][x]);
      }
    };
    int64_t p = k0;
    for (; p + kLanes <= k1; p += kLanes) step(p, [&](const float* from) HWY_ATTR { return hn::LoadU(d, from); });
    if (p < k1) step(p, [&](const float* from) HWY_ATTR { return load_first(from, k1 - p); });
    for (int r = 0; r < kRows; ++r)
      for (int x = 0; x < kColumns; ++x) total[r][x] += hn::GetLane(hn::SumOfLanes(d, sums[r][x]));
  }
  for (int r = 0; r < kRows; ++r) std::copy(total[r], total[r] + kColumns, product + r * kStrip);
}

template <int kRows>
void transposed(const Problem& g, int64_t j0, int64_t j1) {
  constexpr int kColumns = kRows == 1 ? 8 : 4;
  const tile::Finish f{g.epilogue, true, true};
  HWY_ALIGN float product[kRows * kStrip + kPanelWidth];
  for (int64_t j = j0; j < j1; j += kStrip) {
    const int64_t columns = HWY_MIN(kStrip, j1 - j);
    int64_t i = 0;
    for (; i + kColumns <= columns; i += kColumns) dots<kRows, kColumns>(g, j + i, product + i);
    for (; i < columns; ++i) dots<kRows, 1>(g, j + i, product + i);
    tile::finish(product, kStrip, f, 0, j, kRows, static_cast<int>(columns), g.c + j, g.ldc);
  }
}

constexpr gemv::Kernels kernels = {{plain<1>, plain<2>, plain<3>}, {transposed<1>, transposed<2>, transposed<3>}};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const gemv::Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                           HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                           HWY_CHOOSE_AVX3(kernels)};
constexpr int64_t kChunk = 1 << 16;  // elements of B worth handing to another thread

}  // namespace

void gemv_f32(Target target, int threads, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
              int64_t ldb, bool trans_b, float* c, int64_t ldc, const GemmEpilogue& epilogue) {
  if (m <= 0 || n <= 0) return;
  const gemv::Kernels& kernels = choose_kernels(kTable, target);
  const auto run = trans_b ? kernels.transposed[m - 1] : kernels.plain[m - 1];
  const gemv::Problem g{n, k, a, lda, b, ldb, c, ldc, &epilogue};
  const int64_t columns = round_up(std::max<int64_t>(1, kChunk / std::max<int64_t>(1, k)), gemv::kStrip);
  parallel_for(threads, ceil_div(n, columns),
               [&](int64_t chunk, int) { run(g, chunk * columns, std::min(n, (chunk + 1) * columns)); });
}

}  // namespace tessera
#endif
