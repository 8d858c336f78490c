#include "kernels/gemm_i8.h"

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/targets.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_i8.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_KERNELS_GEMM_I8_SHARED_
#define TESSERA_KERNELS_GEMM_I8_SHARED_
namespace tessera {
namespace gemm_i8_parts {

constexpr int kPanel = 16;  // columns of a panel
constexpr int kQuad = 4;    // steps of k side by side
constexpr int kPanelBytes = kPanel * kQuad;
constexpr int64_t kRows = 48;     // of A at a time, beside a row of ones
constexpr int64_t kDepth = 1024;  // steps of k at a time, or half of it as 16-bit numbers
constexpr int kMostColumns = 32;  // of a tile

// Products are formed of A shifted to unsigned numbers and B shifted to signed ones. With x = a - a_zero and y = b -
// b_zero, the sum of x * y is the sum of a * y less a_zero times the sum of y, and so on: the sums of b come from a row
// of ones in front of A, which is left out if all a_zero are 0; the sums of a come from packing it.
struct Block {
  const GemmI8* g;
  int64_t i0, i1, p0, p1;  // rows, panels
  bool ones;               // a row of ones goes first
  bool narrow = false;     // no sum of two neighbouring products leaves 16 bits
};

struct Kernels {
  void (*block)(const Block&);
  // `quads` groups of four rows of 16 columns, ldb apart, side by side.
  void (*pack)(const uint8_t* b, int64_t ldb, int64_t quads, uint8_t* out);
  // Whether the sums of two neighbouring products of any A with these bytes of B stay in 16 bits. Null if that is of no
  // use.
  bool (*is_narrow)(const uint8_t* b, int64_t bytes, uint8_t flip) = nullptr;
};

}  // namespace gemm_i8_parts
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using namespace gemm_i8_parts;

struct Tile {
  const void* a;  // rows a_row bytes apart
  int64_t a_row;
  const uint8_t* b;
  int64_t panel;  // bytes to the second panel, 0 if there is none
  int64_t quads;
  uint8_t flip;  // 0x80 turns unsigned bytes into signed ones 128 below
};
// product[row * columns + column].
using Multiply = void(const Tile&, int32_t* product);

// Widths and heights of tiles, and whether A is packed as 16-bit numbers. B is widened to such for more than kFewRows.
template <bool kDot>
struct Form;

#if HWY_TARGET == HWY_AVX3
#define TESSERA_DOT __attribute__((target(HWY_TARGET_STR ",avx512vnni")))

template <int kHeight>
TESSERA_DOT HWY_NOINLINE void multiply_dot(const Tile& t, int32_t* product) {
  constexpr int kSets = kHeight <= 2 ? 2 : 1;
  __m512i acc[kSets][kHeight][2];
#pragma GCC unroll 2
  for (int s = 0; s < kSets; ++s)
#pragma GCC unroll 16
    for (int i = 0; i < kHeight; ++i) acc[s][i][0] = acc[s][i][1] = _mm512_setzero_si512();
  const auto* a = static_cast<const uint8_t*>(t.a);
  const uint8_t* b = t.b;
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(t.flip));
  int64_t q = t.quads;
  const auto step = [&](int s) __attribute__((always_inline, target(HWY_TARGET_STR ",avx512vnni"))) {
    const __m512i b0 = _mm512_xor_si512(_mm512_loadu_si512(b), flip);
    const __m512i b1 = _mm512_xor_si512(_mm512_loadu_si512(b + t.panel), flip);
    __builtin_prefetch(b + 32 * kPanelBytes);
    __builtin_prefetch(b + t.panel + 32 * kPanelBytes);
#pragma GCC unroll 16
    for (int i = 0; i < kHeight; ++i) {
      int32_t four;
      __builtin_memcpy(&four, a + i * t.a_row, 4);
      const __m512i av = _mm512_set1_epi32(four);
      acc[s][i][0] = _mm512_dpbusd_epi32(acc[s][i][0], av, b0);
      acc[s][i][1] = _mm512_dpbusd_epi32(acc[s][i][1], av, b1);
    }
    a += kQuad;
    b += kPanelBytes;
  };
  for (; q >= kSets; q -= kSets)
#pragma GCC unroll 2
    for (int s = 0; s < kSets; ++s) step(s);
  if (kSets == 2 && q > 0) step(0);
#pragma GCC unroll 16
  for (int i = 0; i < kHeight; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j) {
      if (kSets == 2) acc[0][i][j] = _mm512_add_epi32(acc[0][i][j], acc[kSets - 1][i][j]);
      _mm512_storeu_si512(product + i * 32 + j * 16, acc[0][i][j]);
    }
}
#undef TESSERA_DOT

template <>
struct Form<true> {
  static constexpr bool kWideA = false;
  static constexpr int kColumns = 32;
  static constexpr int64_t kFewRows = INT64_MAX;
  static HWY_INLINE int next_rows(int64_t left, bool) {
    constexpr unsigned char kHeights[24] = {0,  1,  2, 3,  4, 3,  6,  4,  8,  6,  10, 8,
                                            12, 10, 8, 12, 8, 10, 10, 12, 10, 12, 12, 12};
    return left >= 24 ? 12 : kHeights[left];
  }
  template <bool kWideB>
  static HWY_INLINE Multiply* multiply_for(int rows) {
    static constexpr Multiply* kTable[13] = {
        nullptr, multiply_dot<1>, multiply_dot<2>, multiply_dot<3>,  multiply_dot<4>, nullptr,         multiply_dot<6>,
        nullptr, multiply_dot<8>, nullptr,         multiply_dot<10>, nullptr,         multiply_dot<12>};
    return kTable[rows];
  }
};
#endif

#if HWY_TARGET == HWY_AVX2
// Sums of two products in 16 bits, for B that is_narrow.
template <int kHeight>
HWY_NOINLINE void multiply_narrow(const Tile& t, int32_t* product) {
  __m256i acc[kHeight][2];
#pragma GCC unroll 8
  for (int i = 0; i < kHeight; ++i) acc[i][0] = acc[i][1] = _mm256_setzero_si256();
  const auto* a = static_cast<const uint8_t*>(t.a);
  const uint8_t* b = t.b;
  const __m256i flip = _mm256_set1_epi8(static_cast<char>(t.flip)), ones = _mm256_set1_epi16(1);
  for (int64_t q = t.quads; q > 0; --q, a += kQuad, b += kPanelBytes) {
    const __m256i b0 = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b)), flip);
    const __m256i b1 = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + 32)), flip);
    __builtin_prefetch(b + 32 * kPanelBytes);
#pragma GCC unroll 8
    for (int i = 0; i < kHeight; ++i) {
      int32_t four;
      __builtin_memcpy(&four, a + i * t.a_row, 4);
      const __m256i av = _mm256_set1_epi32(four);
      acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(_mm256_maddubs_epi16(av, b0), ones));
      acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(_mm256_maddubs_epi16(av, b1), ones));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kHeight; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < 2; ++j)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(product + i * kPanel + j * 8), acc[i][j]);
}

// 255 times the sum of two absolute values is at most 32767.
bool is_narrow(const uint8_t* b, int64_t bytes, uint8_t flip) {
  constexpr int kMostSum = 32767 / 255;
  const __m256i f = _mm256_set1_epi8(static_cast<char>(flip)), ones = _mm256_set1_epi8(1);
  const __m256i limit = _mm256_set1_epi16(kMostSum);
  for (int64_t i = 0; i < bytes; i += kPanelBytes) {
    const auto sums = [&](int64_t at) HWY_ATTR {
      const __m256i v = _mm256_xor_si256(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(b + at)), f);
      return _mm256_maddubs_epi16(_mm256_abs_epi8(v), ones);
    };
    const __m256i above = _mm256_cmpgt_epi16(_mm256_max_epi16(sums(i), sums(i + 32)), limit);
    if (!_mm256_testz_si256(above, above)) return false;
  }
  return true;
}

template <>
struct Form<true> {
  static constexpr bool kWideA = false;
  static constexpr int kColumns = kPanel;
  static constexpr int64_t kFewRows = INT64_MAX;
  static HWY_INLINE int next_rows(int64_t left, bool) {
    constexpr unsigned char kHeights[10] = {0, 1, 2, 3, 4, 5, 3, 4, 4, 5};
    return left >= 10 ? 5 : kHeights[left];
  }
  template <bool kWideB>
  static HWY_INLINE Multiply* multiply_for(int rows) {
    static constexpr Multiply* kTable[6] = {
        nullptr, multiply_narrow<1>, multiply_narrow<2>, multiply_narrow<3>, multiply_narrow<4>, multiply_narrow<5>};
    return kTable[rows];
  }
};
#endif

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
// Bytes of B as 16-bit numbers.
HWY_INLINE void widen(const uint8_t* b, uint8_t flip, int64_t quads, int16_t* HWY_RESTRICT out) {
  const hn::CappedTag<int16_t, 32> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  const auto f = hn::Set(d8, static_cast<int8_t>(flip));
  for (int64_t i = 0; i < quads * kPanelBytes; i += static_cast<int64_t>(hn::Lanes(d16)))
    hn::Store(hn::PromoteTo(d16, hn::Xor(hn::LoadU(d8, reinterpret_cast<const int8_t*>(b) + i), f)), d16, out + i);
}

// 16-bit products of pairs, added in 32 bits: two sums for each column. Two vectors of sums a row at a time. kWideB: B
// is 16-bit numbers already.
template <int kHeight, bool kWideB>
HWY_NOINLINE void multiply_wide(const Tile& t, int32_t* product) {
  const hn::CappedTag<int32_t, 16> d32;
  const hn::Repartition<int16_t, decltype(d32)> d16;
  const hn::Repartition<int64_t, decltype(d32)> d64;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  constexpr int kLanes16 = static_cast<int>(hn::MaxLanes(d16)), kColumns = kLanes16 / 2;
  const auto flip = hn::Set(d8, static_cast<int8_t>(t.flip));
  auto unused = hn::Zero(d32);
  for (int first = 0; first < kPanel; first += kColumns) {
    hn::Vec<decltype(d32)> acc[kHeight][2];
#pragma GCC unroll 16
    for (int i = 0; i < kHeight; ++i) acc[i][0] = acc[i][1] = hn::Zero(d32);
    const auto* a = static_cast<const uint8_t*>(t.a);
    const uint8_t* b = t.b + first * kQuad * (kWideB ? 2 : 1);
    const auto load = [&](int at) HWY_ATTR {
      if constexpr (kWideB)
        return hn::LoadU(d16, reinterpret_cast<const int16_t*>(b) + at);
      else
        return hn::PromoteTo(d16, hn::Xor(hn::LoadU(d8, reinterpret_cast<const int8_t*>(b) + at), flip));
    };
    for (int64_t q = t.quads; q > 0; --q) {
      if (!kWideB) __builtin_prefetch(b + 32 * kPanelBytes);
      const auto b0 = load(0), b1 = load(kLanes16);
#pragma GCC unroll 16
      for (int i = 0; i < kHeight; ++i) {
        int64_t four;
        __builtin_memcpy(&four, a + i * t.a_row, 8);
        const auto av = hn::BitCast(d16, hn::Set(d64, four));
        acc[i][0] = hn::ReorderWidenMulAccumulate(d32, av, b0, acc[i][0], unused);
        acc[i][1] = hn::ReorderWidenMulAccumulate(d32, av, b1, acc[i][1], unused);
      }
      a += 2 * kQuad;
      b += kPanelBytes * (kWideB ? 2 : 1);
    }
    HWY_ALIGN int32_t sums[2 * kPanel];
#pragma GCC unroll 16
    for (int i = 0; i < kHeight; ++i) {
      hn::Store(acc[i][0], d32, sums);
      hn::Store(acc[i][1], d32, sums + kColumns);
      for (int j = 0; j < kColumns; ++j)
        product[i * kPanel + first + j] =
            static_cast<int32_t>(static_cast<uint32_t>(sums[2 * j]) + static_cast<uint32_t>(sums[2 * j + 1]));
    }
  }
}

template <>
struct Form<false> {
  static constexpr bool kWideA = true;
  static constexpr int kColumns = kPanel;
#if HWY_TARGET == HWY_AVX3
  static constexpr int64_t kFewRows = 8;
  static HWY_INLINE int next_rows(int64_t left, bool) { return left >= 8 ? 8 : left >= 4 ? 4 : left >= 2 ? 2 : 1; }
  template <bool kWideB>
  static HWY_INLINE Multiply* multiply_for(int rows) {
    static constexpr Multiply* kTable[9] = {nullptr,
                                            multiply_wide<1, kWideB>,
                                            multiply_wide<2, kWideB>,
                                            nullptr,
                                            multiply_wide<4, kWideB>,
                                            nullptr,
                                            nullptr,
                                            nullptr,
                                            multiply_wide<8, kWideB>};
    return kTable[rows];
  }
#else
  static constexpr int64_t kFewRows = 10;
  // Six rows are only taken of more than a few, and less than three of few ones.
  static HWY_INLINE int next_rows(int64_t left, bool wide) {
    constexpr unsigned char kHeights[12] = {0, 1, 2, 3, 4, 5, 3, 4, 4, 5, 5, 6};
    return wide && (left >= 12 || left == 6) ? 6 : kHeights[HWY_MIN(left, 11)];
  }
  template <bool kWideB>
  static HWY_INLINE Multiply* multiply_for(int rows) {
    static constexpr Multiply* kTable[7] = {nullptr,
                                            kWideB ? nullptr : multiply_wide<1, false>,
                                            kWideB ? nullptr : multiply_wide<2, false>,
                                            multiply_wide<3, kWideB>,
                                            multiply_wide<4, kWideB>,
                                            multiply_wide<5, kWideB>,
                                            kWideB ? multiply_wide<6, true> : nullptr};
    return kTable[rows];
  }
#endif
};
#else
HWY_NOINLINE void multiply_plain(const Tile& t, int32_t* product) {
  uint32_t sums[kPanel] = {};
  const auto* a = static_cast<const int16_t*>(t.a);
  const uint8_t* b = t.b;
  for (int64_t q = 0; q < t.quads; ++q, a += kQuad, b += kPanelBytes)
    for (int j = 0; j < kPanel; ++j)
      for (int k = 0; k < kQuad; ++k)
        sums[j] += static_cast<uint32_t>(a[k] * static_cast<int8_t>(b[j * kQuad + k] ^ t.flip));
  for (int j = 0; j < kPanel; ++j) product[j] = static_cast<int32_t>(sums[j]);
}

template <>
struct Form<false> {
  static constexpr bool kWideA = true;
  static constexpr int kColumns = kPanel;
  static constexpr int64_t kFewRows = INT64_MAX;
  static HWY_INLINE int next_rows(int64_t, bool) { return 1; }
  template <bool kWideB>
  static HWY_INLINE Multiply* multiply_for(int) {
    return multiply_plain;
  }
};
#endif

using D32 = hn::CappedTag<int32_t, kPanel>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D32()));

// One row of products, to which `quads` steps of k contributed: c (+)= product - x * b_sum - b_zero * y.
HWY_INLINE void finish_row(const int32_t* product, const int32_t* b_sum, const int32_t* b_zero, int32_t x, int32_t y,
                           bool first, int32_t* c, int64_t columns) {
  const D32 d;
  const auto vx = hn::Set(d, x), vy = hn::Set(d, y);
  int64_t j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    auto v = hn::LoadU(d, product + j);
    v = hn::Sub(v, hn::Mul(vx, hn::LoadU(d, b_sum + j)));
    v = hn::Sub(v, hn::Mul(vy, hn::LoadU(d, b_zero + j)));
    if (!first) v = hn::Add(v, hn::LoadU(d, c + j));
    hn::StoreU(v, d, c + j);
  }
  for (; j < columns; ++j) {
    const auto u = [](int32_t v) { return static_cast<uint32_t>(v); };
    const uint32_t v = u(product[j]) - u(x) * u(b_sum[j]) - u(b_zero[j]) * u(y);
    c[j] = static_cast<int32_t>(first ? v : v + u(c[j]));
  }
}

// Copies `depth` bytes of a row as unsigned numbers and returns their sum; zeros follow up to a whole quad.
template <class T>
HWY_INLINE int32_t pack_row(const uint8_t* a, uint8_t flip, int64_t depth, T* HWY_RESTRICT out) {
  uint32_t sum = 0;
  int64_t k = 0;
#if HWY_TARGET != HWY_SCALAR
  const hn::CappedTag<uint8_t, 16> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  const auto vf = hn::Set(d, flip);
  auto sums = hn::Zero(d64);
  for (; k + 16 <= depth; k += 16) {
    const auto v = hn::Xor(hn::LoadU(d, a + k), vf);
    sums = hn::Add(sums, hn::SumsOf8(v));
    if constexpr (sizeof(T) == 1) {
      hn::StoreU(v, d, reinterpret_cast<uint8_t*>(out) + k);
    } else {
      const hn::CappedTag<int16_t, 8> d16;
      const hn::Half<decltype(d)> half;
      hn::StoreU(hn::PromoteTo(d16, hn::LowerHalf(half, v)), d16, reinterpret_cast<int16_t*>(out) + k);
      hn::StoreU(hn::PromoteTo(d16, hn::UpperHalf(half, v)), d16, reinterpret_cast<int16_t*>(out) + k + 8);
    }
  }
  sum = static_cast<uint32_t>(hn::GetLane(hn::SumOfLanes(d64, sums)));
#endif
  for (; k < depth; ++k) {
    out[k] = static_cast<T>(a[k] ^ flip);
    sum += static_cast<uint32_t>(out[k]);
  }
  for (; k % kQuad; ++k) out[k] = 0;
  return static_cast<int32_t>(sum);
}

int32_t zero_at(const ZeroPoints& z, int64_t i) { return z.values ? z.values[i * z.step] : 0; }

// What a block of rows knows of A during one step of k.
template <class T>
struct PackedRows {
  HWY_ALIGN T values[(kRows + 1) * kDepth / sizeof(T)];
  int32_t zero[kRows + 1], rest[kRows + 1];  // of each row: its zero point, and its sum less k zero points
};

template <class T>
HWY_INLINE void pack_rows(const Block& b, int64_t k0, int64_t depth, int64_t stride, PackedRows<T>& out) {
  const GemmI8& g = *b.g;
  const uint8_t flip = g.a_signed ? 0x80 : 0;
  for (int64_t k = 0; b.ones && k < stride; ++k) out.values[k] = k < depth;
  for (int64_t i = b.i0; i < b.i1; ++i) {
    const int64_t r = i - b.i0 + b.ones;
    const int32_t sum =
        pack_row(static_cast<const uint8_t*>(g.a) + i * g.lda + k0, flip, depth, out.values + r * stride);
    out.zero[r] = zero_at(g.a_zero, i) + (g.a_signed ? 128 : 0);
    out.rest[r] = sum - static_cast<int32_t>(depth) * out.zero[r];
  }
}

// The block against one tile's width of columns.
template <bool kDot, class T>
HWY_INLINE void tile_columns(const Block& b, const PackedRows<T>& rows, int64_t stride, Tile t, int64_t column,
                             bool first) {
  using F = Form<kDot>;
  const GemmI8& g = *b.g;
  const int64_t columns = HWY_MIN(F::kColumns, g.n - column);
  HWY_ALIGN int32_t product[12 * kMostColumns], b_sum[kMostColumns] = {}, b_zero[kMostColumns] = {};
  for (int64_t j = 0; j < columns; ++j) b_zero[j] = zero_at(g.b_zero, column + j) - (g.b_signed ? 0 : 128);
  const int64_t count = b.i1 - b.i0 + b.ones;
  const bool wide = count > F::kFewRows;
  for (int64_t r = 0; r < count;) {
    const int height = F::next_rows(count - r, wide);
    t.a = rows.values + r * stride;
    (wide ? F::template multiply_for<true>(height) : F::template multiply_for<false>(height))(t, product);
    for (int i = 0; i < height; ++i, ++r) {
      if (b.ones && r == 0)
        __builtin_memcpy(b_sum, product, sizeof(int32_t) * F::kColumns);
      else
        finish_row(product + i * F::kColumns, b_sum, b_zero, rows.zero[r], rows.rest[r], first,
                   g.c + (b.i0 + r - b.ones) * g.ldc + column, columns);
    }
  }
}

template <bool kDot>
HWY_INLINE void run_block(const Block& b) {
  using F = Form<kDot>;
  using T = std::conditional_t<F::kWideA, int16_t, uint8_t>;
  const GemmI8& g = *b.g;
  PackedRows<T> rows;
  [[maybe_unused]] HWY_ALIGN int16_t wide_b[F::kFewRows < kRows ? kDepth / 2 * kPanel : 1];
  const int64_t panel = (g.k + kQuad - 1) / kQuad * kPanelBytes;
  constexpr int64_t kStep = kDepth / static_cast<int64_t>(sizeof(T));
  for (int64_t k0 = 0; k0 < g.k; k0 += kStep) {
    const int64_t depth = HWY_MIN(kStep, g.k - k0), stride = (depth + kQuad - 1) / kQuad * kQuad;
    pack_rows(b, k0, depth, stride, rows);
    Tile t{};
    t.a_row = stride * static_cast<int64_t>(sizeof(T));
    t.quads = stride / kQuad;
    t.flip = g.b_signed ? 0 : 0x80;
    for (int64_t p = b.p0; p < b.p1; p += F::kColumns / kPanel) {
      t.b = static_cast<const uint8_t*>(g.packed_b) + p * panel + k0 / kQuad * kPanelBytes;
      t.panel = p + 1 < b.p1 ? panel : 0;
      if constexpr (F::kFewRows < kRows) {
        if (b.i1 - b.i0 + b.ones > F::kFewRows) {
          widen(t.b, t.flip, t.quads, wide_b);
          t.b = reinterpret_cast<const uint8_t*>(wide_b);
        }
      }
      tile_columns<kDot>(b, rows, stride, t, p * kPanel, k0 == 0);
    }
  }
}

void block(const Block& b) {
#if HWY_TARGET == HWY_AVX2
  if (b.narrow) return run_block<true>(b);
#endif
  run_block<false>(b);
}

void pack(const uint8_t* b, int64_t ldb, int64_t quads, uint8_t* HWY_RESTRICT out) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t q = 0; q < quads; ++q, b += kQuad * ldb, out += kPanelBytes)
    for (int j = 0; j < kPanel; ++j)
      for (int k = 0; k < kQuad; ++k) out[j * kQuad + k] = b[k * ldb + j];
#else
  const hn::CappedTag<uint8_t, 16> d;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  for (int64_t q = 0; q < quads; ++q, b += kQuad * ldb, out += kPanelBytes) {
    const auto r0 = hn::LoadU(d, b), r1 = hn::LoadU(d, b + ldb), r2 = hn::LoadU(d, b + 2 * ldb),
               r3 = hn::LoadU(d, b + 3 * ldb);
    const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d, r0, r1)),
               high01 = hn::BitCast(d16, hn::InterleaveUpper(d, r0, r1)),
               low23 = hn::BitCast(d16, hn::InterleaveLower(d, r2, r3)),
               high23 = hn::BitCast(d16, hn::InterleaveUpper(d, r2, r3));
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, low01, low23)), d, out);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, low01, low23)), d, out + 16);
    hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, high01, high23)), d, out + 32);
    hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, high01, high23)), d, out + 48);
  }
#endif
}

#if HWY_TARGET == HWY_AVX2
constexpr Kernels kernels = {block, pack, is_narrow};
#else
constexpr Kernels kernels = {block, pack};
#endif
#if HWY_TARGET == HWY_AVX3
void block_dot(const Block& b) { run_block<true>(b); }
constexpr Kernels kernels_dot = {block_dot, pack};
#endif

}  // namespace

#if HWY_TARGET == HWY_AVX3
const gemm_i8_parts::Kernels* dot_kernels() { return &kernels_dot; }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

using namespace gemm_i8_parts;

constexpr const Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels), HWY_CHOOSE_NEON(kernels),
                                     HWY_CHOOSE_AVX2(kernels), HWY_CHOOSE_AVX3(kernels)};

constexpr int64_t kPanelsPerChunk = 32;

const Kernels& choose(Target target) {
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::avx3 && cpu_has_vnni()) return *N_AVX3::dot_kernels();
#endif
  return choose_kernels(kTable, target);
}

// Rows [0, rows) of `columns` bytes as rows of 16, zeros beyond. The first `safe` rows may be read as if they had 16.
void widen_rows(const uint8_t* b, int64_t ldb, int64_t rows, int64_t safe, int64_t columns, uint8_t* out) {
  uint64_t mask[2];
  for (int64_t i = 0; i < 2; ++i) {
    const int64_t bytes = std::clamp<int64_t>(columns - 8 * i, 0, 8);
    mask[i] = bytes == 8 ? ~uint64_t{0} : (uint64_t{1} << 8 * bytes) - 1;
  }
  for (int64_t r = 0; r < rows; ++r, b += ldb, out += kPanel) {
    uint64_t v[2] = {};
    if (r < safe)
      std::memcpy(v, b, sizeof v);
    else
      std::memcpy(v, b, static_cast<size_t>(columns));
    v[0] &= mask[0];
    v[1] &= mask[1];
    std::memcpy(out, v, sizeof v);
  }
}

// What the kernel does not take as it is: less than 16 columns or four rows.
void pack_rest(const Kernels& kernels, const uint8_t* b, int64_t ldb, int64_t rows, int64_t columns, uint8_t* out) {
  constexpr int64_t kAtOnce = 64;  // rows
  static_assert(kAtOnce % kQuad == 0 && std::endian::native == std::endian::little);
  uint8_t wide[kAtOnce * kPanel];
  for (int64_t r = 0; r < rows; r += kAtOnce) {
    const int64_t count = std::min(kAtOnce, rows - r), whole = round_up(count, kQuad);
    // The last rows reach less than 16 bytes before the end of the matrix.
    const int64_t last = ceil_div(kPanel - columns, std::max<int64_t>(1, ldb));
    widen_rows(b + r * ldb, ldb, count, rows - last - r, columns, wide);
    std::memset(wide + count * kPanel, 0, static_cast<size_t>((whole - count) * kPanel));
    kernels.pack(wide, kPanel, whole / kQuad, out + r / kQuad * kPanelBytes);
  }
}

}  // namespace

size_t gemm_i8_packed_bytes(int64_t n, int64_t k) {
  return static_cast<size_t>(round_up(n, kPanel)) * static_cast<size_t>(round_up(k, kQuad));
}

void gemm_i8_pack_b(Target target, int threads, const void* matrix, int64_t ldb, int64_t k, int64_t n, void* out) {
  const Kernels& kernels = choose(target);
  const int64_t panel = round_up(k, kQuad) * kPanel, panels = ceil_div(n, kPanel);
  const int64_t per_chunk = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(panel, 1));
  parallel_for(threads, ceil_div(panels, per_chunk), [&](int64_t chunk, int) {
    for (int64_t p = chunk * per_chunk; p < std::min(panels, (chunk + 1) * per_chunk); ++p) {
      const uint8_t* b = static_cast<const uint8_t*>(matrix) + p * kPanel;
      uint8_t* to = static_cast<uint8_t*>(out) + p * panel;
      const int64_t columns = std::min<int64_t>(kPanel, n - p * kPanel), whole = columns == kPanel ? k / kQuad : 0;
      kernels.pack(b, ldb, whole, to);
      pack_rest(kernels, b + whole * kQuad * ldb, ldb, k - whole * kQuad, columns, to + whole * kPanelBytes);
    }
  });
}

namespace {

// Looks at B once, which pays for more than a few rows.
bool is_narrow(const Kernels& kernels, int threads, const GemmI8& g, int64_t panels) {
  if (!kernels.is_narrow || g.m < 16) return false;
  const int64_t panel = round_up(g.k, kQuad) * kPanel;
  std::atomic<bool> narrow = true;
  parallel_for(threads, ceil_div(panels, kPanelsPerChunk), [&](int64_t chunk, int) {
    const int64_t first = chunk * kPanelsPerChunk, count = std::min(kPanelsPerChunk, panels - first);
    if (narrow && !kernels.is_narrow(static_cast<const uint8_t*>(g.packed_b) + first * panel, count * panel,
                                     g.b_signed ? 0 : 0x80))
      narrow = false;
  });
  return narrow;
}

}  // namespace

void gemm_i8(Target target, int threads, const GemmI8& g) {
  if (g.m <= 0 || g.n <= 0) return;
  if (g.k <= 0) {
    for (int64_t i = 0; i < g.m; ++i) std::fill_n(g.c + i * g.ldc, g.n, 0);
    return;
  }
  const Kernels& kernels = choose(target);
  bool ones = g.a_signed;
  for (int64_t i = 0; g.a_zero.values && !ones && i < (g.a_zero.step ? g.m : 1); ++i) ones = g.a_zero.values[i] != 0;
  const int64_t panels = ceil_div(g.n, kPanel), row_blocks = ceil_div(g.m, kRows);
  const bool narrow = is_narrow(kernels, threads, g, panels);
  parallel_for(threads, row_blocks * ceil_div(panels, kPanelsPerChunk), [&](int64_t chunk, int) {
    const int64_t i = chunk % row_blocks * kRows, p = chunk / row_blocks * kPanelsPerChunk;
    kernels.block({&g, i, std::min(g.m, i + kRows), p, std::min(panels, p + kPanelsPerChunk), ones, narrow});
  });
}

}  // namespace tessera
#endif
