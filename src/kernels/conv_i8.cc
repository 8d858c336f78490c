#include "kernels/conv_i8.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/conv_stage.h"
#include "kernels/targets.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/conv_i8.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_KERNELS_CONV_I8_SHARED_
#define TESSERA_KERNELS_CONV_I8_SHARED_
namespace tessera {
namespace conv_i8_parts {

constexpr int kRows = 8;                     // output channels of a tile
constexpr int kPanel = 16;                   // pixels side by side
constexpr int kQuad = 4;                     // input channels side by side
constexpr int kPanelBytes = kPanel * kQuad;  // of one quad of a panel
constexpr int kMostPanels = 3;               // of a tile
constexpr int kWide = kMostPanels * kPanel;  // pixels from one row of a tile to the next
constexpr int kRowBytes = kRows * kQuad;     // of one quad of weights
constexpr int kHalfBytes = kPanelBytes / 2;
constexpr int64_t kWideQuads = 128;  // that are widened to 16 bits at a time

// Some panels of pixels, [quads][panels][16][4] unsigned bytes, or half of one, [quads][8][4], against one block of
// rows: product[row * kWide
// + pixel].
struct Tile {
  const uint8_t* pixels;
  const int8_t* weights;
  const int32_t* start;  // per row: what is added to every sum
  int64_t quads;
};
using Multiply = void(const Tile&, int32_t* product);

// What makes results of the products of one block of rows: at most kRows of them, `count` pixels.
struct Finish {
  int rows;
  int64_t count;
  const int32_t* zero;  // per row: times the pixel's sum, to be taken away; null: none
  const int32_t* pixel_sums;
  const float* scale;  // per row
  float y_zero;
  bool is_signed;
  int64_t step;   // of the output, from one row to the next
  int32_t* sums;  // one of these two
  uint8_t* bytes;
};

// Neighbouring pixels of a tile that are neighbours in the staged input.
struct Run {
  int64_t to, from, count;  // in pixels
};

// The staged input of all quads, one after the other.
struct Staged {
  const uint8_t* data;
  int64_t plane;          // bytes from one quad of channels to the next
  const int64_t* offset;  // of each tap, in pixels
  int64_t taps, planes;
};

// Planes of single channels.
struct Planes {
  const uint8_t* data;
  int64_t plane;     // bytes from one channel to the next
  int64_t channels;  // what is missing to whole quads is zero
  uint8_t flip;      // 0x80 makes signed numbers unsigned
};

struct Kernels {
  Multiply* multiply[kMostPanels + 1];         // by panels; none: half of one
  Multiply* multiply_narrow[kMostPanels + 1];  // for weights without sums of pairs that leave 16 bits
  void (*finish)(const Finish&, const int32_t* product);
  // `n` pixels of all channels, quad by quad: each quad as [n][4], and the next one `step` bytes after it.
  void (*interleave)(const Planes&, int64_t n, uint8_t* out, int64_t step);
  // A tile of pixels from their runs, each quad `step` bytes after the one before. Copies whole vectors: what lies
  // behind a run's end is the next one's to overwrite.
  void (*gather)(const Staged&, const Run* runs, int64_t count, uint8_t* out, int64_t step);
  // sums[i] = the sum of all bytes of pixel i of a panel, whose quads are `step` bytes apart.
  void (*add_up)(const uint8_t* panel, int64_t step, int64_t quads, int32_t* sums);
};

}  // namespace conv_i8_parts
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using namespace conv_i8_parts;

using D32 = hn::CappedTag<int32_t, kPanel>;
using DF = hn::Rebind<float, D32>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D32()));

#if HWY_TARGET == HWY_AVX3
template <int kPanels>
__attribute__((target(HWY_TARGET_STR ",avx512vnni"))) HWY_NOINLINE void multiply_dot(const Tile& t, int32_t* product) {
  __m512i acc[kRows][kPanels];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kPanels; ++j) acc[i][j] = _mm512_set1_epi32(t.start[i]);
  const uint8_t* x = t.pixels;
  const int8_t* w = t.weights;
  for (int64_t q = t.quads; q > 0; --q, x += kPanels * kPanelBytes, w += kRowBytes) {
    __m512i v[kPanels];
#pragma GCC unroll 3
    for (int j = 0; j < kPanels; ++j) v[j] = _mm512_loadu_si512(x + j * kPanelBytes);
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int32_t four;
      __builtin_memcpy(&four, w + i * kQuad, 4);
      const __m512i wv = _mm512_set1_epi32(four);
#pragma GCC unroll 3
      for (int j = 0; j < kPanels; ++j) acc[i][j] = _mm512_dpbusd_epi32(acc[i][j], v[j], wv);
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 3
    for (int j = 0; j < kPanels; ++j) _mm512_store_si512(product + i * kWide + j * kPanel, acc[i][j]);
}
#endif

#if HWY_TARGET == HWY_AVX3
__attribute__((target(HWY_TARGET_STR ",avx512vnni"))) HWY_NOINLINE void multiply_half(const Tile& t, int32_t* product) {
  __m256i acc[kRows];
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) acc[i] = _mm256_set1_epi32(t.start[i]);
  const uint8_t* x = t.pixels;
  const int8_t* w = t.weights;
  for (int64_t q = t.quads; q > 0; --q, x += kHalfBytes, w += kRowBytes) {
    const __m256i v = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x));
#pragma GCC unroll 8
    for (int i = 0; i < kRows; ++i) {
      int32_t four;
      __builtin_memcpy(&four, w + i * kQuad, 4);
      acc[i] = _mm256_dpbusd_epi32(acc[i], v, _mm256_set1_epi32(four));
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) _mm256_store_si256(reinterpret_cast<__m256i*>(product + i * kWide), acc[i]);
}
#endif

#if HWY_TARGET == HWY_AVX2
// Four rows at a time. kStep: bytes from one quad to the next.
template <int kPanels, int kStep = kPanels* kPanelBytes>
HWY_NOINLINE void multiply_pairs(const Tile& t, int32_t* product) {
  constexpr int kAtOnce = 4;
  const __m256i ones = _mm256_set1_epi16(1);
  for (int p = 0; p < kPanels; ++p)
    for (int first = 0; first < kRows; first += kAtOnce) {
      __m256i acc[kAtOnce][2];
#pragma GCC unroll 4
      for (int i = 0; i < kAtOnce; ++i) acc[i][0] = acc[i][1] = _mm256_set1_epi32(t.start[first + i]);
      const uint8_t* x = t.pixels + p * kPanelBytes;
      const int8_t* w = t.weights + first * kQuad;
      for (int64_t q = t.quads; q > 0; --q, x += kStep, w += kRowBytes) {
        const __m256i x0 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x)),
                      x1 = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + 32));
#pragma GCC unroll 4
        for (int i = 0; i < kAtOnce; ++i) {
          int32_t four;
          __builtin_memcpy(&four, w + i * kQuad, 4);
          const __m256i wv = _mm256_set1_epi32(four);
          acc[i][0] = _mm256_add_epi32(acc[i][0], _mm256_madd_epi16(_mm256_maddubs_epi16(x0, wv), ones));
          acc[i][1] = _mm256_add_epi32(acc[i][1], _mm256_madd_epi16(_mm256_maddubs_epi16(x1, wv), ones));
        }
      }
#pragma GCC unroll 4
      for (int i = 0; i < kAtOnce; ++i)
#pragma GCC unroll 2
        for (int j = 0; j < 2; ++j)
          _mm256_store_si256(reinterpret_cast<__m256i*>(product + (first + i) * kWide + p * kPanel + j * 8), acc[i][j]);
    }
}
#endif

#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_SSE4
// 16-bit products of pairs, added in 32 bits: two sums for each pixel. Four rows and two vectors of pixels at a time.
HWY_INLINE void multiply_wide_part(const uint8_t* x, int64_t x_step, const int16_t* w, int64_t quads,
                                   int32_t* product) {
  constexpr int kAtOnce = 4;
  const D32 d32;
  const hn::Repartition<int16_t, D32> d16;
  const hn::Repartition<int64_t, D32> d64;
  const hn::Rebind<uint8_t, decltype(d16)> d8;
  constexpr int kLanes16 = 2 * kLanes;
  auto unused = hn::Zero(d32);
  hn::Vec<D32> acc[kAtOnce][2];
#pragma GCC unroll 4
  for (int i = 0; i < kAtOnce; ++i) acc[i][0] = acc[i][1] = hn::Zero(d32);
  for (int64_t q = quads; q > 0; --q, x += x_step, w += kRowBytes) {
    const auto x0 = hn::PromoteTo(d16, hn::LoadU(d8, x)), x1 = hn::PromoteTo(d16, hn::LoadU(d8, x + kLanes16));
#pragma GCC unroll 4
    for (int i = 0; i < kAtOnce; ++i) {
      int64_t four;
      __builtin_memcpy(&four, w + i * kQuad, 8);
      const auto wv = hn::BitCast(d16, hn::Set(d64, four));
      acc[i][0] = hn::ReorderWidenMulAccumulate(d32, wv, x0, acc[i][0], unused);
      acc[i][1] = hn::ReorderWidenMulAccumulate(d32, wv, x1, acc[i][1], unused);
    }
  }
  HWY_ALIGN int32_t sums[2 * kPanel];
#pragma GCC unroll 4
  for (int i = 0; i < kAtOnce; ++i) {
    hn::Store(acc[i][0], d32, sums);
    hn::Store(acc[i][1], d32, sums + kLanes);
    int32_t* to = product + i * kWide;
    for (int j = 0; j < kLanes; ++j)
      to[j] = static_cast<int32_t>(static_cast<uint32_t>(to[j]) + static_cast<uint32_t>(sums[2 * j]) +
                                   static_cast<uint32_t>(sums[2 * j + 1]));
  }
}

template <int kPanels, int kStep = kPanels* kPanelBytes>
HWY_NOINLINE void multiply_wide(const Tile& t, int32_t* product) {
  const hn::CappedTag<int16_t, 16> d16;
  const hn::Rebind<int8_t, decltype(d16)> d8;
  HWY_ALIGN int16_t wide[kWideQuads * kRowBytes];
  for (int row = 0; row < kRows; ++row)
    for (int i = 0; i < kPanels * kPanel; ++i) product[row * kWide + i] = t.start[row];
  for (int64_t q0 = 0; q0 < t.quads; q0 += kWideQuads) {
    const int64_t quads = HWY_MIN(kWideQuads, t.quads - q0);
    const int8_t* w = t.weights + q0 * kRowBytes;
    for (int64_t i = 0; i < quads * kRowBytes; i += static_cast<int64_t>(hn::Lanes(d16)))
      hn::Store(hn::PromoteTo(d16, hn::LoadU(d8, w + i)), d16, wide + i);
    for (int p = 0; p < kPanels; ++p)
      for (int pixel = 0; pixel < kPanel; pixel += kLanes)
        for (int row = 0; row < kRows; row += 4)
          multiply_wide_part(t.pixels + q0 * kStep + p * kPanelBytes + pixel * kQuad, kStep, wide + row * kQuad, quads,
                             product + row * kWide + p * kPanel + pixel);
  }
}
#else
template <int kPanels, int kStep = kPanels* kPanelBytes>
HWY_NOINLINE void multiply_wide(const Tile& t, int32_t* product) {
  for (int p = 0; p < kPanels; ++p)
    for (int row = 0; row < kRows; ++row) {
      uint32_t sums[kPanel] = {};
      const uint8_t* x = t.pixels + p * kPanelBytes;
      const int8_t* w = t.weights + row * kQuad;
      for (int64_t q = t.quads; q > 0; --q, x += kStep, w += kRowBytes)
        for (int j = 0; j < kPanel; ++j)
          for (int k = 0; k < kQuad; ++k) sums[j] += static_cast<uint32_t>(x[j * kQuad + k] * w[k]);
      for (int j = 0; j < kPanel; ++j)
        product[row * kWide + p * kPanel + j] = static_cast<int32_t>(static_cast<uint32_t>(t.start[row]) + sums[j]);
    }
}
#endif

// The sums of one vector of pixels of a row.
template <bool kZeros>
HWY_INLINE hn::Vec<D32> sums_of(const Finish& f, int row, int64_t at, const int32_t* product) {
  const D32 d;
  auto v = hn::Load(d, product + row * kWide + at);
  if (kZeros) v = hn::Sub(v, hn::Mul(hn::Set(d, f.zero[row]), hn::Load(d, f.pixel_sums + at)));
  return v;
}

template <bool kZeros>
HWY_INLINE void finish_sums(const Finish& f, const int32_t* product) {
  const D32 d;
  for (int row = 0; row < f.rows; ++row) {
    int32_t* out = f.sums + row * f.step;
    int64_t at = 0;
    for (; at + kLanes <= f.count; at += kLanes) hn::StoreU(sums_of<kZeros>(f, row, at, product), d, out + at);
    if (at == f.count) continue;
    HWY_ALIGN int32_t rest[kLanes];
    hn::Store(sums_of<kZeros>(f, row, at, product), d, rest);
    for (int64_t i = at; i < f.count; ++i) out[i] = rest[i - at];
  }
}

// Between the bounds; NaN becomes the lower one.
HWY_INLINE hn::Vec<DF> bound(hn::Vec<DF> v, hn::Vec<DF> low, hn::Vec<DF> high) {
#if HWY_TARGET == HWY_AVX3
  return hn::Min(hn::Max(v, low), high);
#else
  return hn::IfThenElse(hn::Gt(v, low), hn::Min(v, high), low);
#endif
}

HWY_INLINE hn::Vec<hn::Rebind<uint8_t, D32>> low_bytes(hn::Vec<D32> v) {
#if HWY_TARGET == HWY_AVX3
  return hn::U8FromU32(hn::BitCast(hn::RebindToUnsigned<D32>(), v));
#else
  return hn::DemoteTo(hn::Rebind<uint8_t, D32>(), hn::And(v, hn::Set(D32(), 0xff)));
#endif
}

// The nearest integer to sum * scale, plus zero: bounds are whole numbers, so that it does not matter whether they or
// the rounding come first. NaN becomes the lowest.
template <bool kZeros>
HWY_INLINE void finish_bytes(const Finish& f, const int32_t* product) {
  const D32 d;
  const DF df;
  const hn::Rebind<uint8_t, D32> d8;
  const auto low = hn::Set(df, (f.is_signed ? -128.0f : 0.0f) - f.y_zero),
             high = hn::Set(df, (f.is_signed ? 127.0f : 255.0f) - f.y_zero);
  const auto zero = hn::Set(d, static_cast<int32_t>(f.y_zero));
  for (int row = 0; row < f.rows; ++row) {
    uint8_t* out = f.bytes + row * f.step;
    const auto scale = hn::Set(df, f.scale[row]);
    const auto narrowed = [&](int64_t at) HWY_ATTR {
      const auto v = hn::Mul(hn::ConvertTo(df, sums_of<kZeros>(f, row, at, product)), scale);
      const auto bounded = bound(v, low, high);
      return low_bytes(hn::Add(hn::NearestInt(bounded), zero));
    };
    int64_t at = 0;
    for (; at + kLanes <= f.count; at += kLanes) hn::StoreU(narrowed(at), d8, out + at);
    if (at == f.count) continue;
    uint8_t rest[kLanes];
    hn::StoreU(narrowed(at), d8, rest);
    for (int64_t i = at; i < f.count; ++i) out[i] = rest[i - at];
  }
}

void finish(const Finish& f, const int32_t* product) {
  if (f.bytes) return f.zero ? finish_bytes<true>(f, product) : finish_bytes<false>(f, product);
  f.zero ? finish_sums<true>(f, product) : finish_sums<false>(f, product);
}

// Sixteen pixels of four channels.
HWY_INLINE void interleave_panel(const uint8_t* const (&from)[kQuad], int64_t at, uint8_t flip, uint8_t* out) {
#if HWY_TARGET == HWY_SCALAR
  for (int64_t i = 0; i < kPanel; ++i)
    for (int c = 0; c < kQuad; ++c) out[i * kQuad + c] = from[c][at + i] ^ flip;
#else
  const hn::CappedTag<uint8_t, 16> d;
  const hn::Repartition<uint16_t, decltype(d)> d16;
  const auto f = hn::Set(d, flip);
  const auto r0 = hn::Xor(hn::LoadU(d, from[0] + at), f), r1 = hn::Xor(hn::LoadU(d, from[1] + at), f),
             r2 = hn::Xor(hn::LoadU(d, from[2] + at), f), r3 = hn::Xor(hn::LoadU(d, from[3] + at), f);
  const auto low01 = hn::BitCast(d16, hn::InterleaveLower(d, r0, r1)),
             high01 = hn::BitCast(d16, hn::InterleaveUpper(d, r0, r1)),
             low23 = hn::BitCast(d16, hn::InterleaveLower(d, r2, r3)),
             high23 = hn::BitCast(d16, hn::InterleaveUpper(d, r2, r3));
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, low01, low23)), d, out);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, low01, low23)), d, out + 16);
  hn::StoreU(hn::BitCast(d, hn::InterleaveLower(d16, high01, high23)), d, out + 32);
  hn::StoreU(hn::BitCast(d, hn::InterleaveUpper(d16, high01, high23)), d, out + 48);
#endif
}

void interleave(const Planes& p, int64_t n, uint8_t* HWY_RESTRICT out, int64_t step) {
  for (int64_t c = 0; c < p.channels; c += kQuad, out += step) {
    const uint8_t* x = p.data + c * p.plane;
    int64_t i = 0;
    if (c + kQuad <= p.channels) {
      const uint8_t* const from[kQuad] = {x, x + p.plane, x + 2 * p.plane, x + 3 * p.plane};
      for (; i + kPanel <= n; i += kPanel) interleave_panel(from, i, p.flip, out + i * kQuad);
      // The last pixels once more with some before them.
      if (i < n && n >= kPanel) interleave_panel(from, n - kPanel, p.flip, out + (n - kPanel) * kQuad), i = n;
    }
    const int64_t there = HWY_MIN(kQuad, p.channels - c);
    for (; i < n; ++i)
      for (int64_t k = 0; k < kQuad; ++k)
        out[i * kQuad + k] = k < there ? static_cast<uint8_t>(x[k * p.plane + i] ^ p.flip) : uint8_t{0};
  }
}

void gather(const Staged& s, const Run* runs, int64_t count, uint8_t* out, int64_t step) {
  const hn::CappedTag<uint8_t, kPanelBytes> d;
  constexpr int64_t kStep = hn::MaxLanes(d);
  const uint8_t* plane = s.data;
  for (int64_t p = 0; p < s.planes; ++p, plane += s.plane)
    for (int64_t t = 0; t < s.taps; ++t, out += step)
      for (int64_t r = 0; r < count; ++r) {
        const uint8_t* from = plane + (s.offset[t] + runs[r].from) * kQuad;
        uint8_t* to = out + runs[r].to * kQuad;
        for (int64_t i = 0; i < runs[r].count * kQuad; i += kStep) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
      }
}

void add_up(const uint8_t* panel, int64_t step, int64_t quads, int32_t* sums) {
  const hn::RebindToUnsigned<D32> d;
  const auto pairs = hn::Set(d, 0x00ff00ffu), low = hn::Set(d, 0xffffu);
  for (int j = 0; j < kPanel; j += kLanes) {
    auto sum = hn::Zero(d);
    for (int64_t q = 0; q < quads; ++q) {
      const auto v = hn::LoadU(d, reinterpret_cast<const uint32_t*>(panel + q * step) + j);
      const auto two = hn::Add(hn::And(v, pairs), hn::And(hn::ShiftRight<8>(v), pairs));
      sum = hn::Add(sum, hn::Add(hn::And(two, low), hn::ShiftRight<16>(two)));
    }
    hn::StoreU(hn::BitCast(D32(), sum), D32(), sums + j);
  }
}

#if HWY_TARGET == HWY_AVX2
constexpr Kernels kernels = {{multiply_wide<1, kHalfBytes>, multiply_wide<1>, multiply_wide<2>, multiply_wide<3>},
                             {multiply_pairs<1, kHalfBytes>, multiply_pairs<1>, multiply_pairs<2>, multiply_pairs<3>},
                             finish,
                             interleave,
                             gather,
                             add_up};
#else
constexpr Kernels kernels = {{multiply_wide<1, kHalfBytes>, multiply_wide<1>, multiply_wide<2>, multiply_wide<3>},
                             {multiply_wide<1, kHalfBytes>, multiply_wide<1>, multiply_wide<2>, multiply_wide<3>},
                             finish,
                             interleave,
                             gather,
                             add_up};
#endif
#if HWY_TARGET == HWY_AVX3
constexpr Kernels kernels_dot = {{multiply_half, multiply_dot<1>, multiply_dot<2>, multiply_dot<3>},
                                 {multiply_half, multiply_dot<1>, multiply_dot<2>, multiply_dot<3>},
                                 finish,
                                 interleave,
                                 gather,
                                 add_up};
#endif

}  // namespace

#if HWY_TARGET == HWY_AVX3
const conv_i8_parts::Kernels* conv_i8_dot_kernels() { return &kernels_dot; }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

using namespace conv_i8_parts;

constexpr const Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels), HWY_CHOOSE_NEON(kernels),
                                     HWY_CHOOSE_AVX2(kernels), HWY_CHOOSE_AVX3(kernels)};

const Kernels& choose(Target target) {
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::avx3 && cpu_has_vnni()) return *N_AVX3::conv_i8_dot_kernels();
#endif
  return choose_kernels(kTable, target);
}

// Sizes of the weights.
struct Weights {
  static constexpr int64_t kHead = 64;
  int64_t taps, channels, rows, quads, blocks;  // channels, rows, blocks of rows: per group
  explicit Weights(const ConvShape& s)
      : taps(conv::volume(s.kernel)),
        channels(s.channels / s.groups),
        rows(s.out_channels / s.groups),
        quads(ceil_div(channels, kQuad) * taps),
        blocks(ceil_div(rows, kRows)) {}
  int64_t block_bytes() const { return quads * kRowBytes; }
  const int8_t* block(const void* packed, int64_t group, int64_t b) const {
    return static_cast<const int8_t*>(packed) + kHead + (group * blocks + b) * block_bytes();
  }
  const int32_t* sums(const void* packed, int64_t groups) const {
    return reinterpret_cast<const int32_t*>(block(packed, groups, 0));
  }
};

// How the output of a group is cut: into blocks of pixels that share a staged input, and parts of the rows.
struct Cut {
  bool direct;            // each pixel of the output is one of the input: nothing is staged
  conv::Stage stage;      // of one channel, if not
  int64_t rows, columns;  // of a block: all columns unless there is one row; direct: one row of all pixels
  int64_t across, down;   // blocks
  int64_t parts, part_blocks;

  Cut(const ConvShape& s, const Weights& w) {
    constexpr int64_t kStageBytes = 192 << 10, kPieces = 4, kPixels = 192, kPartRows = 256;
    direct = true;
    for (int d = 0; d < 3; ++d)
      direct = direct && s.kernel[d] == 1 && s.stride[d] == 1 && s.pad[d] == 0 && s.in[d] == s.out[d];
    const int64_t pixels = std::max<int64_t>(1, direct ? conv::volume(s.out) : s.out[1] * s.out[2]);
    const int64_t pieces = std::clamp<int64_t>(pixels / kPixels, 1, kPieces);
    if (direct) {
      rows = 1;
      down = 1;
      columns = round_up(std::min(ceil_div(pixels, pieces), 4 * kPixels), kPanel);
      across = ceil_div(pixels, columns);
    } else {
      fit(s, ceil_div(w.channels, kQuad) * kQuad, kStageBytes, pieces);
    }
    const int64_t all = s.batch * s.groups * (direct ? 1 : s.out[0]) * across * down;
    parts = std::clamp<int64_t>(std::min(ceil_div(kPieces, std::max<int64_t>(all, 1)), w.rows / kPartRows), 1, kPieces);
    part_blocks = ceil_div(w.blocks, parts);
    parts = ceil_div(w.blocks, part_blocks);
  }
  // Rows of output whose input takes about that much memory, or a part of one row.
  void fit(const ConvShape& s, int64_t channels, int64_t bytes, int64_t pieces) {
    constexpr int64_t kMostBytes = 8 << 20;
    const int64_t height = std::max<int64_t>(1, s.out[1]), width = std::max<int64_t>(1, s.out[2]);
    stage = conv::plan_stage(s, 1, std::min<int64_t>(kWide, width));
    if (stage.floats(s.kernel[0]) > kMostBytes / channels) {
      stage.height = {false, s.kernel[1], 0};
      stage.width = {false, s.kernel[2], 0};
    }
    const int64_t per_element = s.kernel[0] * stage.height.count * stage.width.count * channels;
    const int64_t length = bytes / per_element / stage.class_rows() - stage.width.reach;
    columns = std::min(width, round_up(std::max<int64_t>(length, kWide), kPanel));
    rows = 1;
    if (columns == width) {
      stage.columns = columns;
      const int64_t most = bytes / (per_element * stage.length()) - stage.height.reach;
      down = ceil_div(height, std::clamp<int64_t>(most, 1, height));
      rows = ceil_div(height, std::min(height, std::max(down, pieces)));
    }
    stage.rows = rows;
    stage.columns = columns;
    across = ceil_div(width, columns);
    down = ceil_div(height, rows);
  }
};

// Where the parts of a lane's scratch start. The tile of pixels comes first.
struct Room {
  int64_t start, zero;                              // of all rows of a group
  int64_t offsets = 0, image = 0, staged = 0, end;  // image: the rows of one quad that a stage is made of
  int64_t plane = 0;                                // bytes of one staged quad

  Room(const ConvShape& s, const Weights& w, const Cut& cut) {
    start = round_up(w.quads * kPanelBytes * kMostPanels + kPanelBytes, 64);
    zero = start + w.blocks * kRows * 4;
    end = zero + round_up(w.blocks * kRows * 4, 64);
    if (cut.direct) return;
    plane = round_up(cut.stage.floats(s.kernel[0]) * kQuad, 64);
    offsets = end;
    image = offsets + round_up(w.taps * 8, 64);
    staged = image + round_up(image_rows(s, cut) * s.in[2] * kQuad, 64);
    end = staged + plane * ceil_div(w.channels, kQuad) + kPanelBytes;
  }
  // Rows of input that a block of output rows may meet.
  static int64_t image_rows(const ConvShape& s, const Cut& cut) {
    const int64_t span = (s.kernel[1] - 1) * s.dilation[1] + 1;
    return span >= s.in[1] ? s.in[1] : std::min(s.in[1], (cut.rows - 1) * s.stride[1] + span);
  }
};

// The work of one chunk.
class Piece {
 public:
  Piece(const Kernels& kernels, const ConvI8& c, uint8_t* scratch)
      : k_(kernels), c_(c), s_(*c.shape), w_(s_), cut_(s_, w_), room_(s_, w_, cut_), scratch_(scratch) {}

  void run(int64_t chunk) {
    const auto next = [&](int64_t n) {
      const int64_t i = chunk % n;
      chunk /= n;
      return i;
    };
    part_ = next(cut_.parts);
    const int64_t across = next(cut_.across), down = next(cut_.down), depth = next(cut_.direct ? 1 : s_.out[0]);
    group_ = next(s_.groups);
    sample_ = chunk;
    x_ = static_cast<const uint8_t*>(c_.x) + (sample_ * s_.groups + group_) * w_.channels * conv::volume(s_.in);
    const int64_t ox = across * cut_.columns, oy = down * cut_.rows;
    const int64_t width = cut_.direct ? conv::volume(s_.out) : s_.out[2];
    const int64_t rows = cut_.direct ? 1 : std::min(cut_.rows, s_.out[1] - oy);
    count_ = rows * std::min(cut_.columns, width - ox);
    first_ = cut_.direct ? ox : (depth * s_.out[1] + oy) * s_.out[2] + ox;
    begin_ = part_ * cut_.part_blocks;
    end_ = std::min(w_.blocks, begin_ + cut_.part_blocks);
    set_rows();
    if (!cut_.direct) stage(depth, oy, rows, ox);
    // Tiles of nearly equal width, the last of half a panel if that will do.
    const int64_t rest = count_ % kPanel, panels = count_ / kPanel + (rest > kPanel / 2);
    const int64_t tiles = ceil_div(panels, kMostPanels);
    for (int64_t t = 0, p = 0; t < tiles; ++t) {
      const int64_t n = ceil_div(panels - p, tiles - t);
      tile(p * kPanel, n * kPanel);
      p += n;
    }
    if (panels * kPanel < count_) tile(panels * kPanel, kPanel / 2);
  }

 private:
  template <class T>
  T* at(int64_t offset) const {
    return reinterpret_cast<T*>(scratch_ + offset);
  }
  uint8_t x_flip() const { return c_.x_signed ? 0x80 : 0; }
  Planes planes(const uint8_t* x, int64_t channels) const { return {x, conv::volume(s_.in), channels, x_flip()}; }

  // The sum of (x - x_zero) * (w - w_zero) is that of x * w, less x_zero times the sum of w, less w_zero times that of
  // x, plus both zeros for each element. Zeros are those of x made unsigned and w made signed.
  void set_rows() {
    const auto u = [](int64_t v) { return static_cast<uint32_t>(v); };
    const uint32_t x_zero = u(c_.x_zero + (c_.x_signed ? 128 : 0));
    const int32_t* sums = w_.sums(c_.packed, s_.groups) + group_ * w_.blocks * kRows;
    zeros_ = false;
    std::fill_n(at<int32_t>(room_.start) + begin_ * kRows, (end_ - begin_) * kRows, 0);
    for (int64_t i = begin_ * kRows; i < std::min(w_.rows, end_ * kRows); ++i) {
      const int64_t row = group_ * w_.rows + i;
      const int32_t zero = (c_.w_zero ? c_.w_zero[row * c_.w_zero_step] : 0) - (c_.w_signed ? 0 : 128);
      const uint32_t both = x_zero * u(zero) * u(w_.channels * w_.taps);
      at<int32_t>(room_.zero)[i] = zero;
      at<int32_t>(room_.start)[i] =
          static_cast<int32_t>(u(c_.out.bias ? c_.out.bias[row] : 0) - x_zero * u(sums[i]) + both);
      zeros_ = zeros_ || zero != 0;
    }
  }

  // For some rows of output of one depth: each quad of channels becomes one channel of four bytes, which is staged.
  void stage(int64_t oz, int64_t oy, int64_t rows, int64_t ox) {
    conv::set_offsets(s_, cut_.stage, at<int64_t>(room_.offsets));
    ConvShape flat = s_;
    flat.in[0] = flat.kernel[0] = flat.dilation[0] = flat.stride[0] = 1;
    flat.pad[0] = 0;
    const int64_t span = (s_.kernel[1] - 1) * s_.dilation[1], from = oy * s_.stride[1] - s_.pad[1];
    const int64_t low = std::clamp<int64_t>(from, 0, s_.in[1]),
                  high = std::clamp<int64_t>(from + (rows - 1) * s_.stride[1] + span + 1, low, s_.in[1]);
    flat.in[1] = high - low;
    flat.pad[1] += low;
    const int64_t one = cut_.stage.floats(1) - conv::kSlack;
    for (int64_t c = 0; c < w_.channels; c += kQuad) {
      const int64_t channels = std::min<int64_t>(kQuad, w_.channels - c);
      uint32_t outside = 0;
      std::memset(&outside, static_cast<uint8_t>(c_.x_zero) ^ x_flip(), static_cast<size_t>(channels));
      auto* to = at<uint32_t>(room_.staged + c / kQuad * room_.plane);
      for (int64_t z = 0; z < s_.kernel[0]; ++z, to += one) {
        const int64_t iz = oz * s_.stride[0] + z * s_.dilation[0] - s_.pad[0];
        if (iz < 0 || iz >= s_.in[0]) {
          std::fill_n(to, one, outside);
          continue;
        }
        const uint8_t* x = x_ + c * conv::volume(s_.in) + (iz * s_.in[1] + low) * s_.in[2];
        interleave_rows(planes(x, channels), low, high);
        conv::stage(flat, cut_.stage, at<const uint32_t>(room_.image), 0, oy, rows, ox, to, outside);
      }
    }
  }

  // Rows [low, high), but for those that strides step over.
  void interleave_rows(Planes p, int64_t low, int64_t high) {
    const int64_t width = s_.in[2];
    if (s_.stride[1] <= s_.kernel[1] || s_.dilation[1] > 1)
      return k_.interleave(p, (high - low) * width, at<uint8_t>(room_.image), 0);
    for (int64_t y = low; y < high; ++y, p.data += width)
      if ((y + s_.pad[1]) % s_.stride[1] < s_.kernel[1])
        k_.interleave(p, width, at<uint8_t>(room_.image) + (y - low) * width * kQuad, 0);
  }

  // `width` pixels from `first` of the block on, or those that there are, as a tile.
  void take_direct(int64_t first, int64_t width) {
    k_.interleave(planes(x_ + first_ + first, w_.channels), std::min(width, count_ - first), scratch_, width * kQuad);
  }
  void take_staged(int64_t first, int64_t width) {
    Run runs[kWide];
    int64_t count = 0;
    const int64_t columns = cut_.columns, n = std::min(width, count_ - first);
    for (int64_t to = 0; to < n; ++count) {
      const int64_t row = (first + to) / columns, column = (first + to) % columns;
      runs[count] = {to, row * cut_.stage.length() + column, std::min(columns - column, n - to)};
      to += runs[count].count;
    }
    const Staged staged{scratch_ + room_.staged, room_.plane, at<const int64_t>(room_.offsets), w_.taps,
                        ceil_div(w_.channels, kQuad)};
    k_.gather(staged, runs, count, scratch_, width * kQuad);
  }

  void tile(int64_t first, int64_t width) {
    cut_.direct ? take_direct(first, width) : take_staged(first, width);
    alignas(64) int32_t pixel_sums[kWide], product[kRows * kWide];
    for (int64_t p = 0; zeros_ && p < width; p += kPanel)
      k_.add_up(scratch_ + p * kQuad, width * kQuad, w_.quads, pixel_sums + p);
    const bool narrow = *static_cast<const int32_t*>(c_.packed) != 0;
    Multiply* multiply = narrow ? k_.multiply_narrow[width / kPanel] : k_.multiply[width / kPanel];
    Finish f{};
    f.count = std::min(width, count_ - first);
    f.pixel_sums = pixel_sums;
    f.y_zero = c_.out.zero;
    f.is_signed = c_.out.is_signed;
    f.step = conv::volume(s_.out);
    for (int64_t b = begin_; b < end_; ++b) {
      multiply({scratch_, w_.block(c_.packed, group_, b), at<const int32_t>(room_.start) + b * kRows, w_.quads},
               product);
      const int64_t row = group_ * w_.rows + b * kRows;
      const int64_t out = (sample_ * s_.out_channels + row) * f.step + first_ + first;
      f.rows = static_cast<int>(std::min<int64_t>(kRows, w_.rows - b * kRows));
      f.zero = zeros_ ? at<const int32_t>(room_.zero) + b * kRows : nullptr;
      f.scale = c_.out.bytes ? c_.out.scale + row : nullptr;
      f.bytes = c_.out.bytes ? static_cast<uint8_t*>(c_.out.bytes) + out : nullptr;
      f.sums = c_.out.bytes ? nullptr : c_.out.sums + out;
      k_.finish(f, product);
    }
  }

  const Kernels& k_;
  const ConvI8& c_;
  const ConvShape& s_;
  const Weights w_;
  const Cut cut_;
  const Room room_;
  uint8_t* scratch_;
  int64_t sample_ = 0, group_ = 0, part_ = 0, begin_ = 0, end_ = 0;  // blocks of rows
  int64_t first_ = 0, count_ = 0;                                    // pixels of the block
  bool zeros_ = false;
  const uint8_t* x_ = nullptr;
};

// One block of rows, `rows` of which there are; the others are zero already. from: [rows][channels][taps].
void pack_block(const Weights& w, const uint8_t* from, uint8_t flip, int64_t rows, int8_t* out, int32_t* sums) {
  for (int64_t r = 0; r < rows; ++r) {
    uint32_t sum = 0;
    for (int64_t c = 0; c < w.channels; ++c) {
      int8_t* to = out + c / kQuad * w.taps * kRowBytes + r * kQuad + c % kQuad;
      for (int64_t t = 0; t < w.taps; ++t, to += kRowBytes) {
        *to = static_cast<int8_t>(*from++ ^ flip);
        sum += static_cast<uint32_t>(int32_t{*to});
      }
    }
    sums[r] = static_cast<int32_t>(sum);
  }
}

// Whether no sum of two neighbouring products leaves 16 bits.
bool is_narrow(const int8_t* w, int64_t n) {
  int most = 0;
  for (int64_t i = 0; i < n; i += 2) most = std::max(most, std::abs(int{w[i]}) + std::abs(int{w[i + 1]}));
  return most <= 32767 / 255;
}

}  // namespace

size_t conv_i8_packed_bytes(const ConvShape& s) {
  const Weights w(s);
  return static_cast<size_t>(Weights::kHead + s.groups * w.blocks * (w.block_bytes() + kRows * 4));
}

void conv_i8_pack(const ConvShape& s, const void* weights, bool is_signed, void* packed, int threads) {
  const Weights w(s);
  std::atomic<bool> narrow = true;
  parallel_for(threads, s.groups * w.blocks, [&](int64_t chunk, int) {
    const int64_t group = chunk / w.blocks, block = chunk % w.blocks, row = group * w.rows + block * kRows;
    const auto* from = static_cast<const uint8_t*>(weights) + row * w.channels * w.taps;
    auto* to = const_cast<int8_t*>(w.block(packed, group, block));
    auto* sums = const_cast<int32_t*>(w.sums(packed, s.groups)) + chunk * kRows;
    std::memset(to, 0, static_cast<size_t>(w.block_bytes()));
    std::fill_n(sums, kRows, 0);
    pack_block(w, from, is_signed ? 0 : 0x80, std::min<int64_t>(kRows, w.rows - block * kRows), to, sums);
    if (!is_narrow(to, w.block_bytes())) narrow = false;
  });
  std::memset(packed, 0, Weights::kHead);
  *static_cast<int32_t*>(packed) = narrow;
}

size_t conv_i8_scratch_bytes(const ConvShape& s) {
  const Weights w(s);
  return static_cast<size_t>(Room(s, w, Cut(s, w)).end);
}

int64_t conv_i8_chunks(const ConvShape& s) {
  const Cut cut(s, Weights(s));
  return s.batch * s.groups * (cut.direct ? 1 : s.out[0]) * cut.across * cut.down * cut.parts;
}

void conv_i8_run(Target target, const ConvI8& c, int64_t chunk, void* scratch) {
  Piece(choose(target), c, static_cast<uint8_t*>(scratch)).run(chunk);
}

}  // namespace tessera
#endif
