#include "kernels/gemm.h"

#include <algorithm>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/gemm_tile-inl.h"
#include "kernels/half-inl.h"

#ifndef TESSERA_KERNELS_GEMM_SHARED_
#define TESSERA_KERNELS_GEMM_SHARED_
namespace tessera {
namespace gemm {

constexpr int64_t kMaxDepth = 1024;
constexpr int64_t kPackRows = 48, kPackDepth = 512;  // what of A a block copies at a time

struct Problem {
  int64_t m, n, k;
  const float* a;
  int64_t lda;
  bool trans_a;
  const void* b;
  float* c;
  int64_t ldc;
  const GemmEpilogue* epilogue;
  bool pack_a;    // copy the rows of a block (at most kPackRows) side by side first
  int64_t depth;  // k is taken in steps of this
};

// For panels of one type.
struct PanelKernels {
  // C's rows [i0, i1) x panels [p0, p1).
  void (*block)(const Problem&, int64_t i0, int64_t i1, int64_t p0, int64_t p1);
  // The same for all rows, which are m = 1, 2 or 3, with each row's elements side by side.
  void (*few[3])(const Problem&, int64_t p0, int64_t p1);
};

struct Kernels {
  PanelKernels of[3];  // by PanelType
};

}  // namespace gemm
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using gemm::Problem;

// Panels by the type of their elements: load() gives a vector of them as floats. Few: vectors for a few rows.
struct Panel32 {
  using T = float;
  using Few = tile::D;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* p) {
    return hn::LoadU(d, p);
  }
};
struct PanelF16 {
  using T = uint16_t;
  using Few = hn::CappedTag<float, 8>;  // widening is dear across the halves of longer vectors
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* p) {
    return half::widen_f16(d, hn::LoadU(hn::Rebind<uint16_t, D>(), p));
  }
};
struct PanelBF16 {
  using T = uint16_t;
  using Few = PanelF16::Few;
  template <class D>
  static HWY_INLINE hn::Vec<D> load(D d, const T* p) {
    return half::widen_bf16(d, hn::LoadU(hn::Rebind<uint16_t, D>(), p));
  }
};
template <class P>
constexpr bool is_narrow = sizeof(typename P::T) < sizeof(float);

// out[p * rows + i] = A's element (i0 + i, k0 + p).
HWY_INLINE void pack_rows(const Problem& g, int64_t i0, int rows, int64_t k0, int64_t depth, float* HWY_RESTRICT out) {
  if (g.trans_a) {
    const float* a = g.a + k0 * g.lda + i0;
    for (int64_t p = 0; p < depth; ++p, a += g.lda)
      for (int i = 0; i < rows; ++i) out[p * rows + i] = a[i];
    return;
  }
  const float* a = g.a + i0 * g.lda + k0;
  int64_t p = 0;
  for (; p + 8 <= depth; p += 8)
    for (int i = 0; i < rows; ++i) {
      const float* row = a + i * g.lda + p;
      float* to = out + p * rows + i;
      for (int q = 0; q < 8; ++q) to[q * rows] = row[q];
    }
  for (; p < depth; ++p)
    for (int i = 0; i < rows; ++i) out[p * rows + i] = a[i * g.lda + p];
}

// One row tile against panels [p0, p1), in tiles of two vectors and one vector where the second would lie beyond N. The
// first of the panels is at b, the others o.b_vec elements apart.
template <bool kRowsAdjacent>
HWY_INLINE void row_tile(const Problem& g, tile::Operands o, const tile::Finish& f, int64_t i, int rows, const float* b,
                         int64_t p0, int64_t p1) {
  const int64_t j1 = HWY_MIN(g.n, p1 * kPanelWidth);
  for (int64_t j = p0 * kPanelWidth; j < j1; j += tile::kWide) {
    o.b = b + (j / kPanelWidth - p0) * o.b_vec + j % kPanelWidth;
    float* c = g.c + i * g.ldc + j;
    if (j + tile::kLanes < j1)
      tile::compute<2, kRowsAdjacent>(o, f, i, j, rows, static_cast<int>(HWY_MIN(j1 - j, tile::kWide)), c, g.ldc);
    else
      tile::compute<1, kRowsAdjacent>(o, f, i, j, rows, static_cast<int>(j1 - j), c, g.ldc);
  }
}

// Where a row tile finds its elements of A: in the packed copy, tile after tile, or in place.
HWY_INLINE void set_rows(const Problem& g, const float* packed, int64_t i0, int64_t i, int rows, int64_t k0,
                         tile::Operands* o) {
  o->a_row = packed || g.trans_a ? 1 : g.lda;
  o->a_k = packed ? rows : g.trans_a ? g.lda : 1;
  if (packed)
    o->a = packed + (i - i0) * o->k;
  else
    o->a = g.a + (g.trans_a ? k0 * g.lda + i : i * g.lda + k0);
}

constexpr int64_t kPanels = HWY_MAX(1, tile::kWide / kPanelWidth);  // side by side in a tile

// Where widened vectors go: vector j of step p to `at` + p * step + j * vec.
struct Keep {
  float* at;
  int64_t step, vec;
};

// The product of tile::multiply with panels that are widened as they are read; rows of `out` are kWide apart.
template <class P, int kRows, int kVecs>
HWY_NOINLINE void multiply_narrow(const tile::Operands& o, const typename P::T* HWY_RESTRICT b, const Keep& keep,
                                  float* HWY_RESTRICT out) {
  using tile::kLanes;
  const tile::D d;
  tile::V acc[kRows][kVecs];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::Zero(d);
  const float* HWY_RESTRICT a = o.a;
  float* HWY_RESTRICT wide = keep.at;
  const int64_t a_row = o.a_row, a_k = o.a_k, b_vec = kLanes == kPanelWidth ? o.b_vec : kLanes;
  const int64_t wide_step = keep.step, wide_vec = keep.vec;
  for (int64_t p = o.k; p > 0; --p, a += a_k, b += kPanelWidth, wide += wide_step) {
    tile::V bv[kVecs];
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      bv[j] = P::load(d, b + j * b_vec);
      hn::StoreU(bv[j], d, wide + j * wide_vec);
    }
    __builtin_prefetch(b + tile::kAhead * kPanelWidth);
    if (kVecs == 2 && kLanes == kPanelWidth) __builtin_prefetch(b + b_vec + tile::kAhead * kPanelWidth);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const tile::V av = hn::Set(d, a[i * a_row]);
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::MulAdd(av, bv[j], acc[i][j]);
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) hn::StoreU(acc[i][j], d, out + i * tile::kWide + j * kLanes);
}

template <class P>
using MultiplyNarrow = void(const tile::Operands&, const typename P::T*, const Keep&, float*);

// Whether tile::next_rows ever returns this height.
constexpr bool is_height(int rows) { return tile::kMaxRows != 12 || rows < 5 || rows % 2 == 0; }

// The tile of a height that tile::next_rows returns.
template <class P, int kVecs, int kRows = tile::kMaxRows>
HWY_INLINE MultiplyNarrow<P>* multiply_narrow_for(int rows) {
  if constexpr (kRows == 1)
    return multiply_narrow<P, 1, kVecs>;
  else if constexpr (!is_height(kRows))
    return multiply_narrow_for<P, kVecs, kRows - 1>(rows);
  else
    return rows == kRows ? multiply_narrow<P, kRows, kVecs> : multiply_narrow_for<P, kVecs, kRows - 1>(rows);
}

// The first row tile against panels [p0, p1), which lie at `b`. The widened panels go to `wide` for the tiles to
// follow, o.k steps each, unless it is null.
template <class P>
HWY_INLINE void first_tile(const Problem& g, tile::Operands o, const tile::Finish& f, int64_t i, int rows,
                           const typename P::T* b, int64_t p0, int64_t p1, float* wide) {
  HWY_ALIGN float product[tile::kMaxRows * tile::kWide];
  HWY_ALIGN float unkept[tile::kWide];
  const bool by_panel = tile::kLanes == kPanelWidth;
  const int64_t j1 = HWY_MIN(g.n, p1 * kPanelWidth);
  o.b_vec = g.k * kPanelWidth;
  for (int64_t j = p0 * kPanelWidth; j < j1; j += tile::kWide) {
    const int64_t panel = j / kPanelWidth - p0, lane = j % kPanelWidth;
    Keep keep{unkept, 0, tile::kLanes};
    if (wide)
      keep = {wide + panel * o.k * kPanelWidth + lane, kPanelWidth, by_panel ? o.k * kPanelWidth : tile::kLanes};
    const int columns = static_cast<int>(HWY_MIN(j1 - j, tile::kWide));
    const auto run = columns > tile::kLanes ? multiply_narrow_for<P, 2>(rows) : multiply_narrow_for<P, 1>(rows);
    run(o, b + panel * o.b_vec + lane, keep, product);
    tile::finish(product, tile::kWide, f, i, j, rows, columns, g.c + i * g.ldc + j, g.ldc);
  }
}

// Floats that widened panels of a tile take.
template <class P>
constexpr int64_t wide_floats = is_narrow<P> ? kPanels* gemm::kMaxDepth* kPanelWidth : 16;

template <class P>
void gemm_block(const Problem& g, int64_t i0, int64_t i1, int64_t p0, int64_t p1) {
  HWY_ALIGN float packed[gemm::kPackRows * gemm::kPackDepth];
  HWY_ALIGN float wide[wide_floats<P>];
  const int64_t panel = g.k * kPanelWidth;
  for (int64_t k0 = 0; k0 == 0 || k0 < g.k; k0 += g.depth) {
    tile::Operands o{};
    o.k = HWY_MIN(g.depth, g.k - k0);
    o.b_k = kPanelWidth;
    o.b_vec = is_narrow<P> ? o.k * kPanelWidth : panel;
    const tile::Finish f{g.epilogue, k0 == 0, k0 + o.k >= g.k};
    for (int64_t i = i0; g.pack_a && i < i1;) {
      const int rows = tile::next_rows(i1 - i);
      pack_rows(g, i, rows, k0, o.k, packed + (i - i0) * o.k);
      i += rows;
    }
    // A panel pair stays in the nearest cache while the rows pass.
    for (int64_t p = p0; p < p1; p += kPanels) {
      const int64_t last = HWY_MIN(p + kPanels, p1);
      const auto* own = static_cast<const typename P::T*>(g.b) + p * panel + k0 * kPanelWidth;
      const float* b = wide;
      if constexpr (!is_narrow<P>) b = own;
      for (int64_t i = i0; i < i1;) {
        const int rows = tile::next_rows(i1 - i);
        set_rows(g, g.pack_a ? packed : nullptr, i0, i, rows, k0, &o);
        if (is_narrow<P> && i == i0)
          first_tile<P>(g, o, f, i, rows, own, p, last, i + rows < i1 ? wide : nullptr);
        else if (g.pack_a || g.trans_a)
          row_tile<true>(g, o, f, i, rows, b, p, last);
        else
          row_tile<false>(g, o, f, i, rows, b, p, last);
        i += rows;
      }
    }
  }
}

// Elements of a panel after which memory that is asked for now is there, for a few rows.
constexpr int64_t kFewAhead = 1024;

// A few rows against kPanels panels from p on, or against kVecs vectors of one panel: independent sums, eight vectors
// or more in flight, so that neither the latency of a multiply-add nor that of memory shows.
template <class P, int kRows, int kPanels, int kVecs, int kSteps>
HWY_INLINE void few_panels(const Problem& g, int64_t p, int panels, int pass, float* HWY_RESTRICT product) {
  using D = typename P::Few;
  using V = hn::Vec<D>;
  const D d;
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(D())), kSums = kPanels * kVecs;
  constexpr int64_t kWidth = kPanels * kPanelWidth;
  constexpr bool kFetch = is_narrow<P> && kPanels < 4;  // more streams, or more bytes, reach far enough by themselves
  const int64_t panel = g.k * kPanelWidth;
  int64_t at[kPanels];
#pragma GCC unroll 4
  for (int i = 0; i < kPanels; ++i) at[i] = HWY_MIN(i, panels - 1) * panel;
  const auto* HWY_RESTRICT b = static_cast<const typename P::T*>(g.b) + p * panel + pass * kVecs * kLanes;
  const float* HWY_RESTRICT a = g.a;
  V acc[kSteps][kRows][kSums];
#pragma GCC unroll 8
  for (int s = 0; s < kSteps; ++s)
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
      for (int i = 0; i < kSums; ++i) acc[s][r][i] = hn::Zero(d);
  int64_t k = g.k;
  for (; k >= kSteps; k -= kSteps, a += kSteps, b += kSteps * kPanelWidth) {
#pragma GCC unroll 4
    for (int i = 0; kFetch && i < kPanels; ++i) __builtin_prefetch(b + at[i] + kFewAhead);
#pragma GCC unroll 8
    for (int s = 0; s < kSteps; ++s)
#pragma GCC unroll 8
      for (int i = 0; i < kSums; ++i) {
        const V v = P::load(d, b + at[i / kVecs] + s * kPanelWidth + i % kVecs * kLanes);
#pragma GCC unroll 4
        for (int r = 0; r < kRows; ++r) acc[s][r][i] = hn::MulAdd(hn::Set(d, a[r * g.lda + s]), v, acc[s][r][i]);
      }
  }
  for (; k > 0; --k, ++a, b += kPanelWidth)
#pragma GCC unroll 8
    for (int i = 0; i < kSums; ++i) {
      const V v = P::load(d, b + at[i / kVecs] + i % kVecs * kLanes);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r) acc[0][r][i] = hn::MulAdd(hn::Set(d, a[r * g.lda]), v, acc[0][r][i]);
    }
#pragma GCC unroll 8
  for (int half = kSteps / 2; half > 0; half /= 2)
#pragma GCC unroll 8
    for (int s = 0; s < half; ++s)
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
        for (int i = 0; i < kSums; ++i) acc[s][r][i] = hn::Add(acc[s][r][i], acc[s + half][r][i]);
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 8
    for (int i = 0; i < kSums; ++i)
      hn::StoreU(acc[0][r][i], d, product + r * kWidth + i / kVecs * kPanelWidth + (pass * kVecs + i % kVecs) * kLanes);
}

template <class P, int kRows>
void few_rows(const Problem& g, int64_t p0, int64_t p1) {
  constexpr int kLanes = static_cast<int>(hn::MaxLanes(typename P::Few()));
  constexpr int kVecs = HWY_MIN(8, kPanelWidth / kLanes), kPasses = kPanelWidth / kLanes / kVecs;
  constexpr int kTileVecs = HWY_MIN(8, kPanelWidth / tile::kLanes);
  constexpr int kStreams = kTileVecs <= 2 ? 4 / kTileVecs : 1;            // panels read side by side
  constexpr int kSteps = HWY_MAX(1, 8 / (kRows * kStreams * kTileVecs));  // sums per element, whatever the panels' type
  constexpr int64_t kWidth = kStreams * kPanelWidth;
  const tile::Finish f{g.epilogue, true, true};
  HWY_ALIGN float product[kRows * kWidth];
  for (int64_t p = p0; p < p1;) {
    const int panels = static_cast<int>(HWY_MIN(kStreams, p1 - p));
    for (int pass = 0; pass < kPasses; ++pass)
      few_panels<P, kRows, kStreams, kVecs, kSteps>(g, p, panels, pass, product);
    const int64_t j = p * kPanelWidth;
    const int columns = static_cast<int>(HWY_MIN(g.n - j, panels * kPanelWidth));
    tile::finish(product, kWidth, f, 0, j, kRows, columns, g.c + j, g.ldc);
    p += panels;
  }
}

template <class P>
constexpr gemm::PanelKernels kernels_of = {gemm_block<P>, {few_rows<P, 1>, few_rows<P, 2>, few_rows<P, 3>}};
constexpr gemm::Kernels kernels = {{kernels_of<Panel32>, kernels_of<PanelF16>, kernels_of<PanelBF16>}};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const gemm::Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                           HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                           HWY_CHOOSE_AVX3(kernels)};

constexpr int64_t kRowsPerBlock = 96;
constexpr int64_t kBlockBytes = 256 * 1024;  // of B that a block of panels and one step of k may take
constexpr int64_t kVectorBytes = 64 * 1024;  // the same for a few rows
constexpr int64_t kCrowded = 1024;           // rows that many elements apart fall into the same cache sets
constexpr int64_t kLeastWork = 1 << 18;      // multiply-adds worth handing to another thread

struct Cut {
  int64_t rows, panels;
};

// Rows and panels of one chunk. The panel count is even, so that two panels side by side are never torn apart.
Cut cut_blocks(const gemm::Problem& g, int64_t panels) {
  if (g.pack_a) return {gemm::kPackRows, 32};
  const int64_t fit = kBlockBytes / (4 * kPanelWidth * g.depth);
  const int64_t group = std::min(std::max<int64_t>(2, fit / 2 * 2), round_up(panels, 2));
  const int64_t work_per_row = std::max<int64_t>(1, group * kPanelWidth * g.k);
  return {std::max(kRowsPerBlock, round_up(ceil_div(kLeastWork, work_per_row), kRowsPerBlock)), group};
}

}  // namespace

void gemm_f32(Target target, int threads, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, bool trans_a,
              const GemmPanels& packed_b, float* c, int64_t ldc, const GemmEpilogue& epilogue) {
  if (m <= 0 || n <= 0) return;
  const gemm::PanelKernels& kernels = choose_kernels(kTable, target).of[static_cast<int>(packed_b.type)];
  const int64_t panels = ceil_div(n, kPanelWidth);
  const bool pack_a = m >= gemm::kPackRows / 2 && n >= 4 * kPanelWidth && (trans_a ? lda > 64 : lda % kCrowded == 0);
  const int64_t steps = std::max<int64_t>(1, ceil_div(k, pack_a ? gemm::kPackDepth : gemm::kMaxDepth));
  const int64_t depth = std::max<int64_t>(1, ceil_div(k, steps));
  const gemm::Problem g{m, n, k, a, lda, trans_a, packed_b.data, c, ldc, &epilogue, pack_a, depth};
  if (m <= 3 && (!trans_a || (m == 1 && lda == 1))) {
    const int64_t group = round_up(std::max<int64_t>(1, kVectorBytes / std::max<int64_t>(4 * kPanelWidth * k, 1)), 4);
    parallel_for(threads, ceil_div(panels, group), [&](int64_t chunk, int) {
      kernels.few[m - 1](g, chunk * group, std::min(panels, (chunk + 1) * group));
    });
    return;
  }
  const Cut cut = cut_blocks(g, panels);
  const int64_t row_blocks = ceil_div(m, cut.rows);
  parallel_for(threads, row_blocks * ceil_div(panels, cut.panels), [&](int64_t chunk, int) {
    const int64_t i = chunk % row_blocks * cut.rows, p = chunk / row_blocks * cut.panels;
    kernels.block(g, i, std::min(m, i + cut.rows), p, std::min(panels, p + cut.panels));
  });
}

}  // namespace tessera
#endif
