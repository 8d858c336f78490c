#include "kernels/gemm_nbits.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/targets.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_nbits.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/gemm_tile-inl.h"

#ifndef TESSERA_KERNELS_GEMM_NBITS_SHARED_
#define TESSERA_KERNELS_GEMM_NBITS_SHARED_
namespace tessera {
namespace nbits_parts {

constexpr int kPanel = 16, kGroup = 32, kQuad = 4;
constexpr int kPiece = kPanel * kQuad;    // bytes: one quad of steps in all columns
constexpr int kDepth = 512;               // steps of k at a time: of integers, or of one to three rows
constexpr int kFloatDepth = 128;          // of weights that become floats for many rows
constexpr int kMostUnits = kDepth / 16;   // in a slice of k
constexpr int64_t kRows = 128;            // of A that share decoded weights
constexpr int64_t kPassRows = 8 * kRows;  // of A that are prepared at a time
constexpr int64_t kWritten = 8;           // panels of C that are written together
constexpr int64_t kFewRows = 3;           // that the exact policy takes straight from the codes

// A unit is what shares a scale of A, a scale and a zero of W: 32 steps of k, or 16 if W's blocks are that small.
inline int unit_of(const NBitsFormat& f) { return f.block == 16 ? 16 : kGroup; }

// kDepth elements of a row of A in 8 bits, zeros at the end.
struct ByteRow {
  int8_t q[kDepth];
  // Per unit: the factor that makes floats of q, the sum of q, and what integer sums start with: less the implied zero
  // times that sum.
  float scale[kMostUnits], sum[kMostUnits];
  int32_t start[kMostUnits];
};

struct Kernels {
  // Prepares a slice of k of rows [i0, i1) of a pass.
  void (*round_rows)(const GemmNBits&, int64_t row0, int64_t i0, int64_t i1, int64_t k0, ByteRow* out);
  // Rows [i0, i1) of a pass of `rows` rows against panels [p0, p1).
  void (*bytes)(const GemmNBits&, const ByteRow* a, int64_t row0, int64_t rows, int64_t i0, int64_t i1, int64_t p0,
                int64_t p1);
  void (*pack_rows)(const GemmNBits&, int64_t row0, int64_t rows, int64_t i0, int64_t i1, int64_t k0, float* out);
  void (*floats)(const GemmNBits&, const float* a, int64_t row0, int64_t rows, int64_t i0, int64_t i1, int64_t p0,
                 int64_t p1);
  // All m <= kFewRows rows, `a` with rows of k rounded up to 32 and zeros at the end.
  void (*few)(const GemmNBits&, const float* a, int64_t p0, int64_t p1);
};

}  // namespace nbits_parts
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using namespace nbits_parts;

using DF = hn::CappedTag<float, kPanel>;
using DI = hn::RebindToSigned<DF>;
using DU = hn::RebindToUnsigned<DF>;
using VF = hn::Vec<DF>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(DF()));
constexpr int kVecs = kPanel / kLanes;  // of a panel's 16 columns

// The codes of part p at the bottom of every byte, others above them.
template <int kBits, class V>
HWY_INLINE V part_of(V stored, int p) {
  return p == 0   ? stored
         : p == 1 ? hn::ShiftRight<kBits>(stored)
         : p == 2 ? hn::ShiftRight<2 * kBits % 16>(stored)
                  : hn::ShiftRight<3 * kBits % 16>(stored);
}

// ---------------------------------------------------------------------------------------------- scales and zeros

// A slice of one panel: from step k0 on, `depth` steps (without padding).
struct Slice {
  const NBitsFormat* f;
  const uint8_t* panel;
  int64_t k0, depth;

  const uint8_t* codes() const { return panel + k0 / kGroup * kPiece * f->bits; }
  int64_t groups() const { return (depth + kGroup - 1) / kGroup; }
  // Blocks of 16 are always there in pairs.
  int64_t block_at(int64_t k) const { return f->block != 16 && f->block >= f->k ? 0 : k / f->block; }
};

HWY_INLINE void widen(NBitsFloat type, const void* from, float* HWY_RESTRICT out) {
  const DF d;
  const hn::Rebind<hwy::float16_t, DF> d16;
  const hn::Rebind<hwy::bfloat16_t, DF> db16;
  for (int j = 0; j < kPanel; j += kLanes) {
    VF v;
    if (type == NBitsFloat::f32)
      v = hn::LoadU(d, static_cast<const float*>(from) + j);
    else if (type == NBitsFloat::f16)
      v = hn::PromoteTo(d, hn::LoadU(d16, static_cast<const hwy::float16_t*>(from) + j));
    else
      v = hn::PromoteTo(d, hn::LoadU(db16, static_cast<const hwy::bfloat16_t*>(from) + j));
    hn::StoreU(v, d, out + j);
  }
}

// The scales and zeros of a slice as floats, per block; a block may begin before the slice and end after it.
class Numbers {
 public:
  HWY_INLINE explicit Numbers(const Slice& s) {
    const NBitsFormat& f = *s.f;
    const int64_t first = s.block_at(s.k0), blocks = s.block_at(s.k0 + s.groups() * kGroup - 1) - first + 1;
    const int64_t unit = unit_of(f);
    per_block = f.block != 16 && f.block >= f.k ? f.groups() * kGroup / unit : f.block / unit;
    left = per_block - s.k0 / unit % per_block;
    if (f.scale_type == NBitsFloat::f32)
      scale = reinterpret_cast<const float*>(s.panel + f.scales_at()) + first * kPanel;
    else
      widen_all(f.scale_type, s.panel + f.scales_at(), first, blocks, scales_);
    if (f.zero == NBitsZero::implied) return;
    zero = zeros_;
    const uint8_t* from = s.panel + f.zeros_at() + first * kPanel;
    if (f.zero == NBitsZero::floats)
      widen_all(f.zero_type, s.panel + f.zeros_at(), first, blocks, zeros_);
    else
      for (int64_t i = 0; i < blocks * kPanel; ++i) zeros_[i] = static_cast<float>(from[i]);
  }

  const float* scale = scales_;
  const float* zero = nullptr;  // null: implied
  int64_t per_block;            // units
  int64_t left;                 // units of the first block that are in the slice, or more

  // The block of unit u of the slice.
  HWY_INLINE int64_t block_of(int64_t u) const { return u < left ? 0 : 1 + (u - left) / per_block; }

 private:
  HWY_INLINE static void widen_all(NBitsFloat type, const uint8_t* from, int64_t first, int64_t blocks, float* out) {
    const int64_t bytes = kPanel * (type == NBitsFloat::f32 ? 4 : 2);
    for (int64_t b = 0; b < blocks; ++b) widen(type, from + (first + b) * bytes, out + b * kPanel);
  }
  HWY_ALIGN float scales_[kMostUnits * kPanel];
  HWY_ALIGN float zeros_[kMostUnits * kPanel];
};

// c = acc + bias, for the columns of panel p that there are.
HWY_INLINE void finish(const GemmNBits& g, int64_t p, const float* acc, int64_t rows, float* c) {
  const DF d;
  const int64_t n0 = p * kPanel, columns = HWY_MIN(kPanel, g.format->n - n0);
  for (int64_t i = 0; i < rows; ++i, acc += kPanel, c += g.ldc) {
    if (columns == kPanel) {
      for (int j = 0; j < kPanel; j += kLanes) {
        VF v = hn::LoadU(d, acc + j);
        if (g.bias) v = hn::Add(v, hn::LoadU(d, g.bias + n0 + j));
        hn::StoreU(v, d, c + n0 + j);
      }
    } else {
      for (int64_t j = 0; j < columns; ++j) c[n0 + j] = g.bias ? acc[j] + g.bias[n0 + j] : acc[j];
    }
  }
}

// ---------------------------------------------------------------------------------------------- the int8 policy

// 32 elements to 8 bits. A block that is not finite becomes zeros with a scale that is NaN.
HWY_INLINE float round_group(const float* HWY_RESTRICT a, int8_t* HWY_RESTRICT q) {
  const DF d;
  const DI di;
  const hn::Rebind<int8_t, DI> d8;
  VF most = hn::Zero(d), strange = hn::Zero(d);
  for (int i = 0; i < kGroup; i += kLanes) {
    const VF v = hn::LoadU(d, a + i);
    most = hn::Max(most, hn::Abs(v));
    strange = hn::MulAdd(v, hn::Zero(d), strange);
  }
  const float amax = hn::GetLane(hn::MaxOfLanes(d, most));
  const bool finite = hn::GetLane(hn::SumOfLanes(d, strange)) == 0.0f;
  const float factor = finite && amax >= 0x1p-100f ? 127.0f / amax : 0.0f;
  if (factor == 0.0f) {
    for (int i = 0; i < kGroup; ++i) q[i] = 0;
    return finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();
  }
  const VF f = hn::Set(d, factor);
  for (int i = 0; i < kGroup; i += kLanes)
    hn::StoreU(hn::DemoteTo(d8, hn::BitCast(di, hn::NearestInt(hn::Mul(hn::LoadU(d, a + i), f)))), d8, q + i);
  return amax / 127.0f;
}

// Of 16 or 32 bytes.
HWY_INLINE int32_t sum_of(const int8_t* q, int n) {
#if HWY_TARGET == HWY_SCALAR
  int32_t sum = 0;
  for (int i = 0; i < n; ++i) sum += q[i];
  return sum;
#else
  const hn::CappedTag<uint8_t, 16> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  auto sums = hn::Zero(d64);
  for (int i = 0; i < n; i += 16)
    sums = hn::Add(sums, hn::SumsOf8(hn::Xor(hn::LoadU(d, reinterpret_cast<const uint8_t*>(q + i)), hn::Set(d, 0x80))));
  return static_cast<int32_t>(hn::GetLane(hn::SumOfLanes(d64, sums))) - 128 * n;
#endif
}

void round_rows(const GemmNBits& g, int64_t row0, int64_t i0, int64_t i1, int64_t k0, ByteRow* out) {
  const NBitsFormat& f = *g.format;
  const int64_t depth = HWY_MIN(kDepth, f.k - k0), groups = (depth + kGroup - 1) / kGroup;
  const int per_group = kGroup / unit_of(f), unit = unit_of(f);
  for (int64_t i = i0; i < i1; ++i) {
    ByteRow& to = out[i];
    const float* a = g.a + (row0 + i) * g.lda + k0;
    for (int64_t group = 0; group < groups; ++group) {
      HWY_ALIGN float last[kGroup] = {};
      const int64_t left = depth - group * kGroup;
      if (left < kGroup) __builtin_memcpy(last, a + group * kGroup, static_cast<size_t>(left) * sizeof(float));
      int8_t* q = to.q + group * kGroup;
      const float scale = round_group(left < kGroup ? last : a + group * kGroup, q);
      for (int h = 0; h < per_group; ++h) {
        const int32_t sum = sum_of(q + h * unit, unit);
        const int64_t u = group * per_group + h;
        to.scale[u] = scale;
        to.sum[u] = static_cast<float>(sum);
        to.start[u] = f.zero == NBitsZero::implied ? -f.implied_zero * sum : 0;
      }
    }
  }
}

// Rows that follow each other against a slice of one panel: acc[row][16] += their products.
struct Dot {
  const uint8_t* w;  // the units' codes, as they are stored or one a byte
  const Numbers* numbers;
  const ByteRow* rows;
  int64_t units;
  float* acc;
  const uint8_t* next = nullptr;  // codes that are wanted afterwards
  int64_t next_bytes = 0;
};
using DotFn = void(const Dot&);

// What is added for one unit: the integer sums less zero * sum, times both scales. Sums and their products with zeros
// that are integers are exact in floats.
HWY_INLINE VF scaled(hn::Vec<DI> dot, const ByteRow& row, int64_t u, const float* scale, const float* zero, VF acc) {
  const DF d;
  VF v = hn::ConvertTo(d, dot);
  if (zero) v = hn::NegMulAdd(hn::LoadU(d, zero), hn::Set(d, row.sum[u]), v);
  return hn::MulAdd(v, hn::Mul(hn::Set(d, row.scale[u]), hn::LoadU(d, scale)), acc);
}

HWY_INLINE int32_t four_of(const ByteRow& row, int64_t u, int quads, int quad) {
  int32_t four;
  __builtin_memcpy(&four, row.q + u * quads * kQuad + quad * kQuad, 4);
  return four;
}

#if HWY_TARGET == HWY_AVX3
#define TESSERA_DOT __attribute__((target(HWY_TARGET_STR ",avx512vnni")))

// One unit: sums of products with the codes, which parts of a byte hold in place; each part has sums of its own, which
// are shifted down in the end.
template <int kBits, int kQuads, int kRows>
TESSERA_DOT HWY_INLINE void unit_vnni(const uint8_t* w, const ByteRow* rows, int64_t u, __m512i (&dot)[kRows]) {
  constexpr int kPieces = kQuads * kBits / 8, kParts = 8 / kBits, kSets = kBits < 8 ? kParts : kRows <= 2 ? 2 : 1;
  __m512i sum[kSets][kRows];
#pragma GCC unroll 4
  for (int s = 0; s < kSets; ++s)
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) sum[s][r] = s ? _mm512_setzero_si512() : _mm512_set1_epi32(rows[r].start[u]);
#pragma GCC unroll 8
  for (int j = 0; j < kPieces; ++j) {
    const __m512i stored = _mm512_loadu_si512(w + j * kPiece);
    if (kRows <= 2) __builtin_prefetch(w + 1024 + j * kPiece);
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      __m512i codes = stored;
      if (kBits < 8)
        codes = _mm512_and_si512(stored, _mm512_set1_epi8(static_cast<char>(((1 << kBits) - 1) << (p * kBits))));
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        __m512i& to = sum[kBits < 8 ? p : j % kSets][r];
        to = _mm512_dpbusd_epi32(to, codes, _mm512_set1_epi32(four_of(rows[r], u, kQuads, j + p * kBits)));
      }
    }
  }
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    dot[r] = sum[0][r];
#pragma GCC unroll 4
    for (int s = 1; s < kSets; ++s)
      dot[r] = _mm512_add_epi32(
          dot[r], kBits < 8 ? _mm512_maskz_srai_epi32(0xffff, sum[s][r], static_cast<unsigned>(s * kBits)) : sum[s][r]);
  }
}

// The units of a slice. kOne: every unit is a block.
template <int kBits, int kQuads, int kRows, bool kOne>
TESSERA_DOT HWY_INLINE void slice_vnni(const Dot& t, __m512 (&acc)[kRows]) {
  const uint8_t* w = t.w;
  const ByteRow* rows = t.rows;
  const float *scale = t.numbers->scale, *zero = t.numbers->zero;
  const int64_t units = t.units, per_block = t.numbers->per_block;
  int64_t end = HWY_MIN(units, t.numbers->left);
  for (int64_t u = 0; u < units; end = HWY_MIN(units, end + per_block)) {
    __m512 block[kRows];
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) block[r] = _mm512_setzero_ps();
    do {
      __m512i dot[kRows];
      unit_vnni<kBits, kQuads, kRows>(w, rows, u, dot);
#pragma GCC unroll 16
      for (int r = 0; r < kRows; ++r) {
        __m512 v = _mm512_maskz_cvtepi32_ps(0xffff, dot[r]);
        if (zero) v = _mm512_fnmadd_ps(_mm512_loadu_ps(zero), _mm512_set1_ps(rows[r].sum[u]), v);
        const __m512 a_scale = _mm512_set1_ps(rows[r].scale[u]);
        block[r] = kOne ? _mm512_mul_ps(v, a_scale) : _mm512_fmadd_ps(v, a_scale, block[r]);
      }
      ++u;
      w += kQuads * kBits / 8 * kPiece;
    } while (!kOne && u < end);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) acc[r] = _mm512_fmadd_ps(block[r], _mm512_loadu_ps(scale), acc[r]);
    scale += kPanel;
    if (zero) zero += kPanel;
  }
}

template <int kBits, int kQuads, int kRows>
TESSERA_DOT HWY_NOINLINE void dot_vnni(const Dot& t) {
  __m512 acc[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) acc[r] = _mm512_loadu_ps(t.acc + r * kPanel);
  if (t.numbers->per_block == 1)
    slice_vnni<kBits, kQuads, kRows, true>(t, acc);
  else
    slice_vnni<kBits, kQuads, kRows, false>(t, acc);
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) _mm512_storeu_ps(t.acc + r * kPanel, acc[r]);
}

// One row against the same slice of two panels, acc[2][16] += its products, in the order in which one panel is added.
template <int kBits>
TESSERA_DOT HWY_NOINLINE void two_panels_vnni(const Slice& first, const Slice& second, const ByteRow& row, float* to) {
  constexpr int kParts = 8 / kBits;
  const Numbers numbers[2] = {Numbers(first), Numbers(second)};
  const uint8_t* w[2] = {first.codes(), second.codes()};
  __m512 acc[2] = {_mm512_loadu_ps(to), _mm512_loadu_ps(to + kPanel)};
  const int64_t units = first.groups(), per_block = numbers[0].per_block;
  const bool zeros = numbers[0].zero;
  int64_t end = HWY_MIN(units, numbers[0].left), at = 0;
  for (int64_t u = 0; u < units; end = HWY_MIN(units, end + per_block), at += kPanel) {
    __m512 block[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (; u < end; ++u) {
      __m512i sum[2][kParts];
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v)
#pragma GCC unroll 4
        for (int p = 0; p < kParts; ++p) sum[v][p] = p ? _mm512_setzero_si512() : _mm512_set1_epi32(row.start[u]);
#pragma GCC unroll 4
      for (int j = 0; j < kBits; ++j) {
        __m512i stored[2];
#pragma GCC unroll 2
        for (int v = 0; v < 2; ++v) {
          stored[v] = _mm512_loadu_si512(w[v] + j * kPiece);
          asm("" : "+v"(stored[v]));  // loaded once, not once for each part
          __builtin_prefetch(w[v] + 1024 + j * kPiece);
        }
#pragma GCC unroll 4
        for (int p = 0; p < kParts; ++p) {
          const __m512i q = _mm512_set1_epi32(four_of(row, u, 8, j + p * kBits));
          const __m512i mask = _mm512_set1_epi8(static_cast<char>(((1 << kBits) - 1) << (p * kBits)));
#pragma GCC unroll 2
          for (int v = 0; v < 2; ++v) sum[v][p] = _mm512_dpbusd_epi32(sum[v][p], _mm512_and_si512(stored[v], mask), q);
        }
      }
      const __m512 a_scale = _mm512_set1_ps(row.scale[u]);
#pragma GCC unroll 2
      for (int v = 0; v < 2; ++v) {
        __m512i dot = sum[v][0];
#pragma GCC unroll 4
        for (int p = 1; p < kParts; ++p)
          dot = _mm512_add_epi32(dot, _mm512_maskz_srai_epi32(0xffff, sum[v][p], static_cast<unsigned>(p * kBits)));
        __m512 real = _mm512_maskz_cvtepi32_ps(0xffff, dot);
        if (zeros) real = _mm512_fnmadd_ps(_mm512_loadu_ps(numbers[v].zero + at), _mm512_set1_ps(row.sum[u]), real);
        block[v] = _mm512_fmadd_ps(real, a_scale, block[v]);
        w[v] += kBits * kPiece;
      }
    }
#pragma GCC unroll 2
    for (int v = 0; v < 2; ++v) acc[v] = _mm512_fmadd_ps(block[v], _mm512_loadu_ps(numbers[v].scale + at), acc[v]);
  }
  _mm512_storeu_ps(to, acc[0]);
  _mm512_storeu_ps(to + kPanel, acc[1]);
}
#undef TESSERA_DOT

struct Vnni {
  static constexpr bool kTwoPanels = true;
  static HWY_INLINE void two_panels(const Slice& first, const Slice& second, const ByteRow& row, float* to) {
    first.f->bits == 4 ? two_panels_vnni<4>(first, second, row, to) : two_panels_vnni<2>(first, second, row, to);
  }
  static constexpr int kStoredRows = 2;
  static HWY_INLINE int next_rows(int64_t left, bool) { return left >= 8 ? 8 : left >= 4 ? 4 : static_cast<int>(left); }
  template <int kBits, int kQuads, bool kWide>
  static HWY_INLINE DotFn* dot(int rows) {
    static constexpr DotFn* kTable[] = {nullptr,
                                        dot_vnni<kBits, kQuads, 1>,
                                        dot_vnni<kBits, kQuads, 2>,
                                        kBits < 8 ? nullptr : dot_vnni<8, kQuads, 3>,
                                        kBits < 8 ? nullptr : dot_vnni<8, kQuads, 4>,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        kBits < 8 ? nullptr : dot_vnni<8, kQuads, 8>};
    return kTable[rows];
  }
};
#endif

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
using D8 = hn::Repartition<uint8_t, DF>;
using D16 = hn::Repartition<int16_t, DF>;
using V8 = hn::Vec<D8>;
using V16 = hn::Vec<D16>;

// Sums of two products each, of unsigned and signed bytes; they must fit.
HWY_INLINE V16 pairs(V8 codes, V8 q) {
#if HWY_TARGET == HWY_AVX3
  return V16{_mm512_maddubs_epi16(codes.raw, q.raw)};
#elif HWY_TARGET == HWY_AVX2
  return V16{_mm256_maddubs_epi16(codes.raw, q.raw)};
#else
  return V16{_mm_maddubs_epi16(codes.raw, q.raw)};
#endif
}
HWY_INLINE hn::Vec<DI> add_pairs(V16 v, int16_t factor, hn::Vec<DI> sum) {
  auto unused = hn::Zero(DI());
  return hn::ReorderWidenMulAccumulate(DI(), v, hn::Set(D16(), factor), sum, unused);
}

// One unit of kCount vectors of columns. Codes below 16: 16 products fit in 16 bits, so that a whole unit is summed
// there. Wide codes are taken apart into 7 bits, two products of which fit, and the bit above.
template <int kBits, int kQuads, int kRows, int kCount, bool kWide>
HWY_INLINE void unit_pairs(const uint8_t* w, const ByteRow* rows, int64_t u, hn::Vec<DI> (&dot)[kRows][kCount]) {
  constexpr int kPieces = kQuads * kBits / 8, kParts = 8 / kBits, kBytes = 4 * kLanes;
  const D8 d8;
  const D16 d16;
  const DI di;
  const V8 mask = hn::Set(d8, static_cast<uint8_t>(kWide ? 0x7f : (1 << kBits) - 1));
  V16 sum[kRows][kCount];
#pragma GCC unroll 8
  for (int j = 0; j < kPieces; ++j)
#pragma GCC unroll 4
    for (int p = 0; p < kParts; ++p) {
      V8 codes[kCount], top[kCount];
#pragma GCC unroll 2
      for (int v = 0; v < kCount; ++v) {
        const V8 stored = hn::LoadU(d8, w + j * kPiece + v * kBytes);
        codes[v] = hn::BitCast(d8, part_of<kBits>(hn::BitCast(d16, stored), p));
        if (kBits < 8 || kWide) codes[v] = hn::And(codes[v], mask);
        if (kWide) top[v] = hn::And(hn::BitCast(d8, hn::ShiftRight<7>(hn::BitCast(d16, stored))), hn::Set(d8, 1));
      }
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const V8 four = hn::BitCast(d8, hn::Set(di, four_of(rows[r], u, kQuads, j + p * kBits)));
#pragma GCC unroll 2
        for (int v = 0; v < kCount; ++v) {
          if (kWide) dot[r][v] = add_pairs(pairs(codes[v], four), 1, j + p ? dot[r][v] : hn::Set(di, rows[r].start[u]));
          const V16 products = pairs(kWide ? top[v] : codes[v], four);
          // Never saturates; as it might, the compiler leaves the order of sums alone.
          sum[r][v] = j + p ? hn::SaturatedAdd(sum[r][v], products) : products;
        }
      }
    }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
    for (int v = 0; v < kCount; ++v)
      dot[r][v] = add_pairs(sum[r][v], kWide ? 128 : 1, kWide ? dot[r][v] : hn::Set(di, rows[r].start[u]));
}

// The units of a slice, for kCount vectors of columns from `first` on.
template <int kBits, int kQuads, int kRows, bool kWide>
HWY_INLINE void slice_pairs(const Dot& t, int first) {
  constexpr int kCount = HWY_MIN(2, kVecs);
  const DF d;
  const uint8_t* w = t.w + first * kQuad;
  const ByteRow* rows = t.rows;
  float* HWY_RESTRICT acc = t.acc + first;
  const float *scale = t.numbers->scale + first, *zero = t.numbers->zero ? t.numbers->zero + first : nullptr;
  const int64_t units = t.units, per_block = t.numbers->per_block;
  int64_t end = HWY_MIN(units, t.numbers->left);
  for (int64_t u = 0; u < units; end = HWY_MIN(units, end + per_block)) {
    for (; u < end; ++u, w += kQuads * kBits / 8 * kPiece) {
      hn::Vec<DI> dot[kRows][kCount];
      unit_pairs<kBits, kQuads, kRows, kCount, kWide>(w, rows, u, dot);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 2
        for (int v = 0; v < kCount; ++v) {
          float* to = acc + r * kPanel + v * kLanes;
          const int at = v * kLanes;
          hn::StoreU(scaled(dot[r][v], rows[r], u, scale + at, zero ? zero + at : nullptr, hn::LoadU(d, to)), d, to);
        }
    }
    scale += kPanel;
    if (zero) zero += kPanel;
  }
}

template <int kBits, int kQuads, int kRows, bool kWide>
HWY_NOINLINE void dot_pairs(const Dot& t) {
  for (int first = 0; first < kPanel; first += HWY_MIN(2, kVecs) * kLanes)
    slice_pairs<kBits, kQuads, kRows, kWide>(t, first);
}

struct Plain {
  static constexpr bool kTwoPanels = false;
  static HWY_INLINE void two_panels(const Slice&, const Slice&, const ByteRow&, float*) {}
  static constexpr int kStoredRows = 2;
  static constexpr int kTall = kVecs == 1 ? 8 : 4;
  static HWY_INLINE int next_rows(int64_t left, bool wide) {
    if (wide) return left >= 2 ? 2 : 1;
    return left >= kTall ? kTall : left >= 4 ? 4 : static_cast<int>(left);
  }
  template <int kBits, int kQuads, bool kWide>
  static HWY_INLINE DotFn* dot(int rows) {
    constexpr bool kLow = kBits < 8 || kWide;  // no tall tiles
    static constexpr DotFn* kTable[] = {nullptr,
                                        dot_pairs<kBits, kQuads, 1, kWide>,
                                        dot_pairs<kBits, kQuads, 2, kWide>,
                                        kLow ? nullptr : dot_pairs<8, kQuads, 3, false>,
                                        kLow ? nullptr : dot_pairs<8, kQuads, 4, false>,
                                        nullptr,
                                        nullptr,
                                        nullptr,
                                        kLow || kTall < 8 ? nullptr : dot_pairs<8, kQuads, kTall, false>};
    return kTable[rows];
  }
};
#else
template <int kQuads>
HWY_NOINLINE void dot_plain(const Dot& t) {
  const uint8_t* w = t.w;
  const Numbers& n = *t.numbers;
  for (int64_t u = 0; u < t.units; ++u, w += kQuads * kPiece) {
    HWY_ALIGN int32_t sum[kPanel];
    for (int j = 0; j < kPanel; ++j) sum[j] = t.rows[0].start[u];
    const int8_t* q = t.rows[0].q + u * kQuads * kQuad;
    for (int quad = 0; quad < kQuads; ++quad)
      for (int j = 0; j < kPanel; ++j)
        for (int i = 0; i < kQuad; ++i) sum[j] += w[quad * kPiece + j * kQuad + i] * q[quad * kQuad + i];
    const int64_t block = n.block_of(u);
    for (int j = 0; j < kPanel; j += kLanes) {
      const int64_t at = block * kPanel + j;
      const VF v = scaled(hn::LoadU(DI(), sum + j), t.rows[0], u, n.scale + at, n.zero ? n.zero + at : nullptr,
                          hn::LoadU(DF(), t.acc + j));
      hn::StoreU(v, DF(), t.acc + j);
    }
  }
}

struct Plain {
  static constexpr bool kTwoPanels = false;
  static HWY_INLINE void two_panels(const Slice&, const Slice&, const ByteRow&, float*) {}
  static constexpr int kStoredRows = 0;
  static HWY_INLINE int next_rows(int64_t, bool) { return 1; }
  template <int kBits, int kQuads, bool kWide>
  static HWY_INLINE DotFn* dot(int) {
    return dot_plain<kQuads>;
  }
};
#endif

// Codes one a byte, as packed codes of 8 bits would be.
template <int kBits>
HWY_INLINE void spread_codes(const uint8_t* HWY_RESTRICT from, int64_t groups, uint8_t* HWY_RESTRICT out) {
  const DU d;
  const auto mask = hn::Set(d, ((1u << kBits) - 1) * 0x01010101u);
  for (int64_t g = 0; g < groups; ++g)
    for (int j = 0; j < kBits; ++j, from += kPiece)
      for (int v = 0; v < kVecs; ++v) {
        const auto stored = hn::LoadU(d, reinterpret_cast<const uint32_t*>(from) + v * kLanes);
#pragma GCC unroll 4
        for (int p = 0; p < 8 / kBits; ++p)
          hn::StoreU(hn::And(part_of<kBits>(stored, p), mask), d,
                     reinterpret_cast<uint32_t*>(out + (g * 8 + j + p * kBits) * kPiece) + v * kLanes);
      }
}

// Rows against a slice whose codes lie as `kBits` says.
template <class F, int kBits, int kQuads, bool kWide>
HWY_INLINE void dot_rows(Dot t, const ByteRow* a, int64_t rows, float* acc) {
  int64_t fetched = 0;
  for (int64_t r = 0; r < rows;) {
    const int height = kBits < 8 ? static_cast<int>(HWY_MIN(2, rows - r)) : F::next_rows(rows - r, kWide);
    // A little before each tile of rows.
    for (; fetched < t.next_bytes * (r + height) / rows; fetched += kPiece) __builtin_prefetch(t.next + fetched);
    t.rows = a + r;
    t.acc = acc + r * kPanel;
    F::template dot<kBits, kQuads, kWide>(height)(t);
    r += height;
  }
}

template <class F>
HWY_INLINE void bytes_slice(const Slice& s, const ByteRow* a, int64_t rows, float* acc) {
  const NBitsFormat& f = *s.f;
  const Numbers numbers(s);
  const bool half = f.block == 16;
  Dot t{s.codes(), &numbers, a, s.groups() * (half ? 2 : 1), acc};
  if (f.bits == 8) return half ? dot_rows<F, 8, 4, true>(t, a, rows, acc) : dot_rows<F, 8, 8, true>(t, a, rows, acc);
  if (!half && rows <= F::kStoredRows)
    return f.bits == 4 ? dot_rows<F, 4, 8, false>(t, a, rows, acc) : dot_rows<F, 2, 8, false>(t, a, rows, acc);
  HWY_ALIGN uint8_t spread[kDepth * kPanel];
  if (f.bits == 4)
    spread_codes<4>(t.w, s.groups(), spread);
  else
    spread_codes<2>(t.w, s.groups(), spread);
  t.next = t.w + s.groups() * f.bits * kPiece;
  t.next_bytes = s.groups() * f.bits * kPiece;
  t.w = spread;
  return half ? dot_rows<F, 8, 4, false>(t, a, rows, acc) : dot_rows<F, 8, 8, false>(t, a, rows, acc);
}

template <class F>
HWY_INLINE void run_bytes(const GemmNBits& g, const ByteRow* a, int64_t row0, int64_t rows, int64_t i0, int64_t i1,
                          int64_t p0, int64_t p1) {
  const NBitsFormat& f = *g.format;
  // Several panels are written together: rows of C may be so far apart that a cache does not hold a line of each.
  HWY_ALIGN float acc[kWritten * kRows * kPanel];
  const int64_t count = i1 - i0;
  const auto slice = [&](int64_t p, int64_t k0) {
    return Slice{&f, static_cast<const uint8_t*>(g.packed) + p * f.panel_bytes(), k0, HWY_MIN(kDepth, f.k - k0)};
  };
  for (int64_t p = p0; p < p1; p += kWritten) {
    const int64_t panels = HWY_MIN(kWritten, p1 - p);
    __builtin_memset(acc, 0, static_cast<size_t>(panels * count * kPanel) * sizeof(float));
    for (int64_t j = 0; j < panels;) {
      const bool two = F::kTwoPanels && count == 1 && j + 1 < panels && f.bits < 8 && f.block != 16;
      float* to = acc + j * count * kPanel;
      for (int64_t k0 = 0; k0 < f.k; k0 += kDepth) {
        const ByteRow* from = a + k0 / kDepth * rows + i0;
        if (two)
          F::two_panels(slice(p + j, k0), slice(p + j + 1, k0), *from, to);
        else
          bytes_slice<F>(slice(p + j, k0), from, count, to);
      }
      j += two ? 2 : 1;
    }
    for (int64_t i = 0; i < count; ++i)
      for (int64_t j = 0; j < panels; ++j)
        finish(g, p + j, acc + (j * count + i) * kPanel, 1, g.c + (row0 + i0 + i) * g.ldc);
  }
}

void bytes(const GemmNBits& g, const ByteRow* a, int64_t row0, int64_t rows, int64_t i0, int64_t i1, int64_t p0,
           int64_t p1) {
  run_bytes<Plain>(g, a, row0, rows, i0, i1, p0, p1);
}

// ---------------------------------------------------------------------------------------------- the exact policy

// Rows [i0, i1) of a slice, one row tile after the other, each as [k][rows].
void pack_rows(const GemmNBits& g, int64_t row0, int64_t rows, int64_t i0, int64_t i1, int64_t k0, float* out) {
  const int64_t depth = HWY_MIN(kFloatDepth, g.format->k - k0);
  out += k0 * rows;
  for (int64_t i = i0; i < i1;) {
    const int height = tile::next_rows(i1 - i);
    float* HWY_RESTRICT to = out + i * depth;
    for (int r = 0; r < height; ++r) {
      const float* from = g.a + (row0 + i + r) * g.lda + k0;
      for (int64_t k = 0; k < depth; ++k) to[k * height + r] = from[k];
    }
    i += height;
  }
}

// The weights of one quad in one vector of columns: four steps.
template <int kShift, int kBits>
HWY_INLINE VF weight(hn::Vec<DU> stored, VF zero) {
  const DF d;
#if HWY_TARGET == HWY_AVX3
  // A table of 16 numbers, of whose index only the low four bits count.
  if constexpr (kBits == 4)
    return hn::Sub(VF{_mm512_maskz_permutexvar_ps(0xffff, hn::ShiftRight<kShift>(stored).raw, hn::Iota(d, 0.0f).raw)},
                   zero);
#endif
  const auto mask = hn::Set(DU(), (1u << kBits) - 1);
  const auto code = hn::And(hn::ShiftRight<kShift>(stored), mask);
  return hn::Sub(hn::ConvertTo(d, hn::BitCast(DI(), code)), zero);
}

template <int kBits, int kPart>
HWY_INLINE void decode_quad(hn::Vec<DU> stored, VF zero, VF scale, float* HWY_RESTRICT out) {
  const DF d;
  hn::StoreU(hn::Mul(weight<kPart * kBits, kBits>(stored, zero), scale), d, out);
  hn::StoreU(hn::Mul(weight<kPart * kBits + 8, kBits>(stored, zero), scale), d, out + kPanel);
  hn::StoreU(hn::Mul(weight<kPart * kBits + 16, kBits>(stored, zero), scale), d, out + 2 * kPanel);
  hn::StoreU(hn::Mul(weight<kPart * kBits + 24, kBits>(stored, zero), scale), d, out + 3 * kPanel);
}

// Half a group, 16 steps, of kCount vectors of columns: calls fn(quad, vector, stored codes, part) for each.
template <int kBits, int kHalf, int kQuadIndex, class Fn>
HWY_INLINE void with_quad(const uint8_t* codes, int vec, const Fn& fn) {
  constexpr int kAt = kHalf * 4 + kQuadIndex;
  const auto stored = hn::LoadU(DU(), reinterpret_cast<const uint32_t*>(codes + kAt % kBits * kPiece) + vec * kLanes);
  fn.template operator()<kBits, kAt / kBits>(kAt, stored);
}

template <int kBits, int kHalf, class Fn>
HWY_INLINE void with_half(const uint8_t* codes, int vec, const Fn& fn) {
  with_quad<kBits, kHalf, 0>(codes, vec, fn);
  with_quad<kBits, kHalf, 1>(codes, vec, fn);
  with_quad<kBits, kHalf, 2>(codes, vec, fn);
  with_quad<kBits, kHalf, 3>(codes, vec, fn);
}

struct StoreQuad {
  VF zero, scale;
  float* out;
  template <int kBits, int kPart>
  HWY_INLINE void operator()(int quad, hn::Vec<DU> stored) const {
    decode_quad<kBits, kPart>(stored, zero, scale, out + quad * 4 * kPanel);
  }
};

// A slice as floats, [groups * 32][16].
template <int kBits>
HWY_NOINLINE void decode(const Slice& s, float* HWY_RESTRICT out) {
  const DF d;
  const Numbers n(s);
  const int64_t per_group = kGroup / unit_of(*s.f);
  const uint8_t* codes = s.codes();
  const VF implied = hn::Set(d, static_cast<float>(s.f->implied_zero));
  for (int64_t g = 0; g < s.groups(); ++g, codes += kBits * kPiece, out += kGroup * kPanel) {
    const int64_t block = n.block_of(g * per_group) * kPanel,
                  second = n.block_of(g * per_group + per_group - 1) * kPanel;
    for (int v = 0; v < kVecs; ++v) {
      const auto store = [&](int64_t at) {
        return StoreQuad{n.zero ? hn::LoadU(d, n.zero + at) : implied, hn::LoadU(d, n.scale + at), out + v * kLanes};
      };
      with_half<kBits, 0>(codes, v, store(block + v * kLanes));
      with_half<kBits, 1>(codes, v, store(second + v * kLanes));
    }
  }
}

HWY_INLINE void decode_any(const Slice& s, float* out) {
  if (s.f->bits == 2) decode<2>(s, out);
  if (s.f->bits == 4) decode<4>(s, out);
  if (s.f->bits == 8) decode<8>(s, out);
}

void floats(const GemmNBits& g, const float* a, int64_t row0, int64_t rows, int64_t i0, int64_t i1, int64_t p0,
            int64_t p1) {
  const NBitsFormat& f = *g.format;
  constexpr int64_t kPanels = HWY_MAX(1, tile::kWide / kPanel);
  HWY_ALIGN float weights[kPanels * kFloatDepth * kPanel];
  GemmEpilogue epilogue;
  epilogue.c_in = g.bias;
  epilogue.c_col_stride = 1;
  for (int64_t k0 = 0; k0 < f.k; k0 += kFloatDepth) {
    tile::Operands o{};
    o.k = HWY_MIN(kFloatDepth, f.k - k0);
    o.b_k = kPanel;
    o.b_vec = kFloatDepth * kPanel;
    const tile::Finish steps{&epilogue, k0 == 0, k0 + o.k >= f.k};
    for (int64_t p = p0; p < p1; p += kPanels) {
      for (int64_t q = p; q < HWY_MIN(p + kPanels, p1); ++q)
        decode_any({&f, static_cast<const uint8_t*>(g.packed) + q * f.panel_bytes(), k0, o.k},
                   weights + (q - p) * kFloatDepth * kPanel);
      const int64_t j1 = HWY_MIN(f.n, HWY_MIN(p + kPanels, p1) * kPanel);
      for (int64_t i = i0; i < i1;) {
        const int height = tile::next_rows(i1 - i);
        o.a = a + k0 * rows + i * o.k;
        o.a_k = height;
        for (int64_t j = p * kPanel; j < j1; j += tile::kWide) {
          o.b = weights + (j - p * kPanel) / kPanel * o.b_vec + j % kPanel;
          float* c = g.c + (row0 + i) * g.ldc + j;
          if (j + tile::kLanes < j1)
            tile::compute<2, true>(o, steps, row0 + i, j, height, static_cast<int>(HWY_MIN(j1 - j, tile::kWide)), c,
                                   g.ldc);
          else
            tile::compute<1, true>(o, steps, row0 + i, j, height, static_cast<int>(j1 - j), c, g.ldc);
        }
        i += height;
      }
    }
  }
}

// A few rows against half a group in one vector of columns; steps of a quad are summed apart.
template <int kRows>
struct AddQuad {
  VF zero;
  const float* a;
  int64_t lda;
  VF (*sum)[4];

  template <int kBits, int kPart>
  HWY_INLINE void operator()(int quad, hn::Vec<DU> stored) const {
    const VF w[4] = {weight<kPart * kBits, kBits>(stored, zero), weight<kPart * kBits + 8, kBits>(stored, zero),
                     weight<kPart * kBits + 16, kBits>(stored, zero), weight<kPart * kBits + 24, kBits>(stored, zero)};
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t) sum[r][t] = hn::MulAdd(hn::Set(DF(), a[r * lda + quad * 4 + t]), w[t], sum[r][t]);
  }
};

// acc += scale * (the sums of the four steps of all quads).
template <int kRows>
HWY_INLINE void flush(VF scale, VF (&sum)[kRows][4], VF (&acc)[kRows]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    acc[r] = hn::MulAdd(hn::Add(hn::Add(sum[r][0], sum[r][1]), hn::Add(sum[r][2], sum[r][3])), scale, acc[r]);
#pragma GCC unroll 4
    for (int t = 0; t < 4; ++t) sum[r][t] = hn::Zero(DF());
  }
}

template <int kBits, int kRows>
HWY_NOINLINE void few_slice(const Slice& s, const float* a, int64_t lda, float* HWY_RESTRICT out) {
  const DF d;
  const Numbers n(s);
  const bool half = unit_of(*s.f) == 16;
  const VF implied = hn::Set(d, static_cast<float>(s.f->implied_zero));
  for (int v = 0; v < kVecs; ++v) {
    VF acc[kRows], sum[kRows][4];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      acc[r] = hn::LoadU(d, out + r * kPanel + v * kLanes);
#pragma GCC unroll 4
      for (int t = 0; t < 4; ++t) sum[r][t] = hn::Zero(d);
    }
    const uint8_t* codes = s.codes();
    const float *scale = n.scale + v * kLanes, *zero = n.zero ? n.zero + v * kLanes : nullptr;
    int64_t left = half ? 1 : n.left;
    for (int64_t g = 0; g < s.groups(); ++g, codes += kBits * kPiece) {
      const float* at = a + g * kGroup;
      with_half<kBits, 0>(codes, v, AddQuad<kRows>{zero ? hn::LoadU(d, zero) : implied, at, lda, sum});
      if (half) {
        flush<kRows>(hn::LoadU(d, scale), sum, acc);
        scale += kPanel;
        if (zero) zero += kPanel;
      }
      with_half<kBits, 1>(codes, v, AddQuad<kRows>{zero ? hn::LoadU(d, zero) : implied, at, lda, sum});
      if (--left == 0 || g + 1 == s.groups()) {
        flush<kRows>(hn::LoadU(d, scale), sum, acc);
        left = half ? 1 : n.per_block;
        scale += kPanel;
        if (zero) zero += kPanel;
      }
    }
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) hn::StoreU(acc[r], d, out + r * kPanel + v * kLanes);
  }
}

// Rows [row, row + kRows).
template <int kRows>
HWY_INLINE void few_rows(const GemmNBits& g, const float* a, int64_t row, int64_t p0, int64_t p1) {
  const NBitsFormat& f = *g.format;
  const int64_t lda = f.groups() * kGroup;
  a += row * lda;
  HWY_ALIGN float acc[kFewRows * kPanel];
  for (int64_t p = p0; p < p1; ++p) {
    for (float& v : acc) v = 0;
    for (int64_t k0 = 0; k0 < f.k; k0 += kDepth) {
      const Slice s{&f, static_cast<const uint8_t*>(g.packed) + p * f.panel_bytes(), k0, HWY_MIN(kDepth, f.k - k0)};
      if (f.bits == 2) few_slice<2, kRows>(s, a + k0, lda, acc);
      if (f.bits == 4) few_slice<4, kRows>(s, a + k0, lda, acc);
      if (f.bits == 8) few_slice<8, kRows>(s, a + k0, lda, acc);
    }
    finish(g, p, acc, kRows, g.c + row * g.ldc);
  }
}

void few(const GemmNBits& g, const float* a, int64_t p0, int64_t p1) {
  // Targets that few machines are left with take one row at a time: less code.
  constexpr bool kSmall = HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_SSE4;
  if constexpr (kSmall) {
    for (int64_t row = 0; row < g.m; ++row) few_rows<1>(g, a, row, p0, p1);
  } else {
    if (g.m == 1) few_rows<1>(g, a, 0, p0, p1);
    if (g.m == 2) few_rows<2>(g, a, 0, p0, p1);
    if (g.m == 3) few_rows<3>(g, a, 0, p0, p1);
  }
}

constexpr Kernels kernels = {round_rows, bytes, pack_rows, floats, few};
#if HWY_TARGET == HWY_AVX3
void bytes_vnni(const GemmNBits& g, const ByteRow* a, int64_t row0, int64_t rows, int64_t i0, int64_t i1, int64_t p0,
                int64_t p1) {
  run_bytes<Vnni>(g, a, row0, rows, i0, i1, p0, p1);
}
constexpr Kernels kernels_vnni = {round_rows, bytes_vnni, pack_rows, floats, few};
#endif

}  // namespace

#if HWY_TARGET == HWY_AVX3
const nbits_parts::Kernels* vnni_kernels() { return &kernels_vnni; }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

using namespace nbits_parts;

constexpr const Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels), HWY_CHOOSE_NEON(kernels),
                                     HWY_CHOOSE_AVX2(kernels), HWY_CHOOSE_AVX3(kernels)};

constexpr int64_t kChunkBytes = 128 * 1024;  // of packed weights that a chunk of few rows reads
constexpr int64_t kChunkPanels = 8;          // that many rows are multiplied with at a time

const Kernels& choose(Target target) {
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::avx3 && cpu_has_vnni()) return *N_AVX3::vnni_kernels();
#endif
  return choose_kernels(kTable, target);
}

// fn(i0, i1, p0, p1) for blocks of rows and panels. The panel count of a block is even.
template <class F>
void for_blocks(int threads, const NBitsFormat& f, int64_t rows, const F& fn) {
  const int64_t few = std::max<int64_t>(1, kChunkBytes / f.panel_bytes());
  const int64_t panels = rows > 16 ? kChunkPanels : round_up(few, 2), row_blocks = ceil_div(rows, kRows);
  parallel_for(threads, row_blocks * ceil_div(f.panels(), panels), [&](int64_t chunk, int) {
    const int64_t i = chunk % row_blocks * kRows, p = chunk / row_blocks * panels;
    fn(i, std::min(rows, i + kRows), p, std::min(f.panels(), p + panels));
  });
}

void multiply_bytes(const Kernels& kernels, int threads, const GemmNBits& g, int64_t row0, int64_t rows,
                    ByteRow* work) {
  const int64_t k = g.format->k, blocks = ceil_div(rows, kRows);
  parallel_for(threads, ceil_div(k, kDepth) * blocks, [&](int64_t chunk, int) {
    const int64_t slice = chunk / blocks, i = chunk % blocks * kRows;
    kernels.round_rows(g, row0, i, std::min(rows, i + kRows), slice * kDepth, work + slice * rows);
  });
  for_blocks(threads, *g.format, rows, [&](int64_t i0, int64_t i1, int64_t p0, int64_t p1) {
    kernels.bytes(g, work, row0, rows, i0, i1, p0, p1);
  });
}

void multiply_floats(const Kernels& kernels, int threads, const GemmNBits& g, int64_t row0, int64_t rows, float* work) {
  const int64_t k = g.format->k, blocks = ceil_div(rows, kRows);
  parallel_for(threads, ceil_div(k, kFloatDepth) * blocks, [&](int64_t chunk, int) {
    const int64_t i = chunk % blocks * kRows;
    kernels.pack_rows(g, row0, rows, i, std::min(rows, i + kRows), chunk / blocks * kFloatDepth, work);
  });
  for_blocks(threads, *g.format, rows, [&](int64_t i0, int64_t i1, int64_t p0, int64_t p1) {
    kernels.floats(g, work, row0, rows, i0, i1, p0, p1);
  });
}

void multiply_few(const Kernels& kernels, int threads, const GemmNBits& g, float* work) {
  const int64_t k = g.format->k, padded = round_up(k, kGroup);
  for (int64_t i = 0; i < g.m; ++i) {
    std::copy_n(g.a + i * g.lda, k, work + i * padded);
    std::fill(work + i * padded + k, work + (i + 1) * padded, 0.0f);
  }
  for_blocks(threads, *g.format, g.m, [&](int64_t, int64_t, int64_t p0, int64_t p1) { kernels.few(g, work, p0, p1); });
}

}  // namespace

size_t gemm_nbits_workspace(int64_t m, int64_t k, bool int8) {
  const auto rows = static_cast<size_t>(std::min(m, kPassRows));
  if (int8) return rows * static_cast<size_t>(ceil_div(k, kDepth)) * sizeof(ByteRow);
  return rows * static_cast<size_t>(round_up(k, kGroup)) * sizeof(float);
}

void gemm_nbits(Target target, int threads, const GemmNBits& g, void* workspace) {
  const Kernels& kernels = choose(target);
  if (!g.int8 && g.m <= kFewRows) return multiply_few(kernels, threads, g, static_cast<float*>(workspace));
  for (int64_t row0 = 0; row0 < g.m; row0 += kPassRows) {
    const int64_t rows = std::min(kPassRows, g.m - row0);
    if (g.int8)
      multiply_bytes(kernels, threads, g, row0, rows, static_cast<ByteRow*>(workspace));
    else
      multiply_floats(kernels, threads, g, row0, rows, static_cast<float*>(workspace));
  }
}

}  // namespace tessera
#endif
