#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/gemm_nbits.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_nbits_pack.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_KERNELS_GEMM_NBITS_PACK_SHARED_
#define TESSERA_KERNELS_GEMM_NBITS_PACK_SHARED_
namespace tessera {
namespace nbits_pack_parts {

constexpr int kPanel = 16, kGroup = 32, kQuad = 4;
constexpr int kCodes = kPanel * kGroup;  // of a group

// What vectors do; the rest is done number by number.
struct Kernels {
  // The codes of panels [p0, p1): all whole groups of steps of the panels before the one that is returned.
  int64_t (*codes)(const NBitsSource&, int64_t p0, int64_t p1, uint8_t* out);
  // 16 columns of numbers of 4 bytes, `column` bytes apart, to [blocks][16]: all blocks before the one that is
  // returned.
  int64_t (*turn)(const uint8_t* from, int64_t column, int64_t blocks, uint8_t* out);
};

}  // namespace nbits_pack_parts
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
using namespace nbits_pack_parts;

#if HWY_TARGET == HWY_SCALAR
int64_t codes(const NBitsSource&, int64_t p0, int64_t, uint8_t*) { return p0; }
int64_t turn(const uint8_t*, int64_t, int64_t, uint8_t*) { return 0; }
#else
namespace hn = hwy::HWY_NAMESPACE;
using D8 = hn::FixedTag<uint8_t, 16>;
using D16 = hn::FixedTag<uint16_t, 8>;
using D32 = hn::FixedTag<uint32_t, 4>;
using D64 = hn::FixedTag<uint64_t, 2>;
using V8 = hn::Vec<D8>;

// Elements of D side by side, of the lower and of the upper halves.
template <class D>
HWY_INLINE V8 zip_lower(V8 a, V8 b) {
  return hn::BitCast(D8(), hn::InterleaveLower(D(), hn::BitCast(D(), a), hn::BitCast(D(), b)));
}
template <class D>
HWY_INLINE V8 zip_upper(V8 a, V8 b) {
  return hn::BitCast(D8(), hn::InterleaveUpper(D(), hn::BitCast(D(), a), hn::BitCast(D(), b)));
}

// Bytes as fields of kWidth bits: the even fields of both go to a, the odd ones to b.
template <int kWidth>
HWY_INLINE void pair_fields(V8& a, V8& b) {
  const V8 low = hn::Set(D8(), kWidth == 2 ? 0x33 : 0x0f);
  const V8 up = hn::BitCast(D8(), hn::ShiftLeft<kWidth>(hn::BitCast(D16(), hn::And(b, low))));
  const V8 down = hn::And(hn::BitCast(D8(), hn::ShiftRight<kWidth>(hn::BitCast(D16(), a))), low);
  a = hn::Or(hn::And(a, low), up);
  b = hn::Or(down, hn::AndNot(low, b));
}

// 8 / kBits lists of 16 bytes of codes become one: byte i holds code i of each list, that of the first at the bottom.
template <int kBits>
HWY_INLINE void merge(V8 (&v)[8 / kBits]) {
  if constexpr (kBits == 4) {
    pair_fields<4>(v[0], v[1]);
    const V8 even = v[0];
    v[0] = zip_lower<D8>(even, v[1]);
    v[1] = zip_upper<D8>(even, v[1]);
  } else if constexpr (kBits == 2) {
    pair_fields<2>(v[0], v[1]);
    pair_fields<2>(v[2], v[3]);
    pair_fields<4>(v[0], v[2]);
    pair_fields<4>(v[1], v[3]);
    const V8 first = zip_lower<D8>(v[0], v[1]), second = zip_lower<D8>(v[2], v[3]);
    const V8 third = zip_upper<D8>(v[0], v[1]), fourth = zip_upper<D8>(v[2], v[3]);
    v[0] = zip_lower<D16>(first, second);
    v[1] = zip_upper<D16>(first, second);
    v[2] = zip_lower<D16>(third, fourth);
    v[3] = zip_upper<D16>(third, fourth);
  }
}

// Four by four elements of 32 bits.
HWY_INLINE void turn_fours(V8 (&v)[4]) {
  const V8 a = zip_lower<D32>(v[0], v[1]), b = zip_lower<D32>(v[2], v[3]);
  const V8 c = zip_upper<D32>(v[0], v[1]), d = zip_upper<D32>(v[2], v[3]);
  v[0] = zip_lower<D64>(a, b);
  v[1] = zip_upper<D64>(a, b);
  v[2] = zip_lower<D64>(c, d);
  v[3] = zip_upper<D64>(c, d);
}

HWY_INLINE V8 load(const uint8_t* from) { return hn::LoadU(D8(), from); }

template <int kBits>
HWY_INLINE V8 sign_bits(const NBitsSource& s) {
  constexpr int kOnes = kBits == 2 ? 0x55 : kBits == 4 ? 0x11 : 0x01;
  return hn::Set(D8(), static_cast<uint8_t>(s.is_signed ? kOnes << (kBits - 1) : 0));
}

// One group of panels [p0, p1), all of them whole, of a matrix with rows of n elements. A vector of a row holds as many
// panels as a byte holds codes; p1 - p0 is a multiple of that.
template <int kBits>
HWY_INLINE void pack_from_rows(const NBitsSource& s, int64_t g, int64_t p0, int64_t p1, uint8_t* out) {
  constexpr int kParts = 8 / kBits, kPanelRow = kPanel * kBits / 8;
  const V8 flip = sign_bits<kBits>(s);
  const int64_t row = s.code_k * kBits / 8, panel = s.format.panel_bytes();
  const uint8_t* codes = static_cast<const uint8_t*>(s.codes) + g * kGroup * row;
  for (int j = 0; j < kBits; ++j)
    for (int64_t p = p0; p < p1; p += kParts) {
      const uint8_t* from = codes + j * kQuad * row + p * kPanelRow;
      V8 v[kQuad][kParts];
      for (int t = 0; t < kQuad; ++t) {
        for (int q = 0; q < kParts; ++q) v[t][q] = hn::Xor(load(from + (q * kBits * kQuad + t) * row), flip);
        merge<kBits>(v[t]);
      }
      for (int q = 0; q < kParts; ++q) {
        uint8_t* to = out + (p + q) * panel + (g * kBits + j) * kPanel * kQuad;
        const V8 a = zip_lower<D8>(v[0][q], v[1][q]), b = zip_lower<D8>(v[2][q], v[3][q]);
        const V8 c = zip_upper<D8>(v[0][q], v[1][q]), d = zip_upper<D8>(v[2][q], v[3][q]);
        hn::StoreU(zip_lower<D16>(a, b), D8(), to);
        hn::StoreU(zip_upper<D16>(a, b), D8(), to + 16);
        hn::StoreU(zip_lower<D16>(c, d), D8(), to + 32);
        hn::StoreU(zip_upper<D16>(c, d), D8(), to + 48);
      }
    }
}

// One group of four columns that lie `column` bytes apart.
template <int kBits>
HWY_INLINE void pack_four_columns(const uint8_t* from, int64_t column, V8 flip, uint8_t* to) {
  constexpr int kPiece = kPanel * kQuad;
  if constexpr (kBits == 2) {
    const hn::Half<D8> half;
    V8 c[4];
    for (int i = 0; i < 4; ++i) c[i] = hn::ZeroExtendVector(D8(), hn::LoadU(half, from + i * column));
    const V8 a = zip_lower<D16>(c[0], c[1]), b = zip_lower<D16>(c[2], c[3]);
    const V8 low = hn::Xor(zip_lower<D32>(a, b), flip), high = hn::Xor(zip_upper<D32>(a, b), flip);
    V8 v[4] = {low, zip_upper<D64>(low, low), high, zip_upper<D64>(high, high)};
    merge<2>(v);
    const auto x = hn::BitCast(D32(), v[0]), y = hn::BitCast(D32(), v[1]);
    hn::StoreU(hn::BitCast(D8(), hn::ConcatEven(D32(), y, x)), D8(), to);
    hn::StoreU(hn::BitCast(D8(), hn::ConcatOdd(D32(), y, x)), D8(), to + kPiece);
    return;
  }
  for (int half = 0; half < kBits / 4; ++half) {
    V8 v[4];
    for (int i = 0; i < 4; ++i) v[i] = hn::Xor(load(from + i * column + half * 16), flip);
    for (int i = 0; i < 4 && kBits == 4; i += 2) {
      V8 two[8 / kBits] = {zip_lower<D64>(v[i], v[i + 1])};
      two[kBits == 4] = zip_upper<D64>(v[i], v[i + 1]);
      merge<kBits>(two);
      v[i] = two[0];
      v[i + 1] = two[kBits == 4];
    }
    turn_fours(v);
    for (int j = 0; j < 4; ++j) hn::StoreU(v[j], D8(), to + (half * 4 + j) * kPiece);
  }
}

// Groups [0, whole) of a whole panel of a matrix with columns of k elements. A line of cache is read in one go.
template <int kBits>
HWY_INLINE void pack_from_columns(const NBitsSource& s, int64_t whole, int64_t p, uint8_t* panel) {
  constexpr int kBytes = kCodes * kBits / 8, kColumn = kGroup * kBits / 8, kAtOnce = 64 / kColumn;
  const V8 flip = sign_bits<kBits>(s);
  const int64_t column = s.code_n * kBits / 8;
  const uint8_t* codes = static_cast<const uint8_t*>(s.codes) + p * kPanel * column;
  for (int64_t g0 = 0; g0 < whole; g0 += kAtOnce)
    for (int c = 0; c < kPanel; c += 4)
      for (int64_t g = g0; g < std::min(whole, g0 + kAtOnce); ++g)
        pack_four_columns<kBits>(codes + c * column + g * kColumn, column, flip, panel + g * kBytes + c * kQuad);
}

// Of panels [p0, p1) all groups of 32 steps; returns the end of those that vectors can read.
template <int kBits>
int64_t pack_panels(const NBitsSource& s, int64_t p0, int64_t p1, uint8_t* out) {
  constexpr int kParts = 8 / kBits;
  const int64_t panel = s.format.panel_bytes(), groups = s.format.k / kGroup;
  const int64_t full = std::clamp(s.format.n / kPanel, p0, p1);  // panels without padding end here
  int64_t p = p0;
  if (s.code_k == 1 && s.code_n * kBits % 8 == 0) {
    for (; p < full; ++p) pack_from_columns<kBits>(s, groups, p, out + p * panel);
  } else if (s.code_n == 1 && s.code_k * kBits % 8 == 0) {
    p += (full - p0) / kParts * kParts;
    for (int64_t g = 0; g < groups; ++g) pack_from_rows<kBits>(s, g, p0, p, out);
  }
  return p;
}

int64_t codes(const NBitsSource& s, int64_t p0, int64_t p1, uint8_t* out) {
  return s.format.bits == 2   ? pack_panels<2>(s, p0, p1, out)
         : s.format.bits == 4 ? pack_panels<4>(s, p0, p1, out)
                              : pack_panels<8>(s, p0, p1, out);
}

// Four blocks of 16 columns.
int64_t turn(const uint8_t* from, int64_t column, int64_t blocks, uint8_t* out) {
  int64_t b = 0;
  for (; b + 4 <= blocks; b += 4)
    for (int j = 0; j < kPanel; j += 4) {
      V8 v[4];
      for (int i = 0; i < 4; ++i) v[i] = load(from + (j + i) * column + b * 4);
      turn_fours(v);
      for (int i = 0; i < 4; ++i) hn::StoreU(v[i], D8(), out + ((b + i) * kPanel + j) * 4);
    }
  return b;
}
#endif

constexpr Kernels kernels = {codes, turn};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

using namespace nbits_pack_parts;

constexpr const Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels), HWY_CHOOSE_NEON(kernels),
                                     HWY_CHOOSE_AVX2(kernels), HWY_CHOOSE_AVX3(kernels)};

int64_t float_bytes(NBitsFloat type) { return type == NBitsFloat::f32 ? 4 : 2; }

float float_at(NBitsFloat type, const void* data, int64_t i) {
  if (type == NBitsFloat::f32) return static_cast<const float*>(data)[i];
  const uint32_t h = static_cast<const uint16_t*>(data)[i];
  if (type == NBitsFloat::bf16) return std::bit_cast<float>(h << 16);
  const uint32_t sign = (h & 0x8000) << 16, exponent = h >> 10 & 31, mantissa = h & 0x3ff;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  if (exponent == 0)
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(static_cast<float>(mantissa) * 0x1p-24f));
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

// Element i of a list of codes, shifted to unsigned if they are signed.
int code_at(const NBitsSource& s, const void* data, int64_t i) {
  const int bits = s.format.bits;
  const int code = static_cast<const uint8_t*>(data)[i * bits / 8] >> (i * bits % 8) & ((1 << bits) - 1);
  return s.is_signed ? code ^ 1 << (bits - 1) : code;
}

// One group of one panel, code by code.
void pack_group(const NBitsSource& s, int64_t g, int64_t p, uint8_t* panel) {
  const int bits = s.format.bits, bytes = kCodes * bits / 8;
  const int64_t k0 = g * kGroup, n0 = p * kPanel;
  const int64_t steps = std::min<int64_t>(kGroup, s.format.k - k0),
                columns = std::min<int64_t>(kPanel, s.format.n - n0);
  uint8_t* to = panel + g * bytes;
  std::memset(to, 0, static_cast<size_t>(bytes));
  for (int64_t k = 0; k < steps; ++k)
    for (int64_t j = 0; j < columns; ++j) {
      const int code = code_at(s, s.codes, (k0 + k) * s.code_k + (n0 + j) * s.code_n);
      const int64_t quad = k / kQuad;
      to[(quad % bits * kPanel + j) * kQuad + k % kQuad] |= static_cast<uint8_t>(code << (quad / bits * bits));
    }
}

// The codes of panels [p0, p1).
void pack_codes(const Kernels& kernels, const NBitsSource& s, int64_t p0, int64_t p1, uint8_t* out) {
  const int64_t done = kernels.codes(s, p0, p1, out), groups = s.format.k / kGroup;
  for (int64_t p = p0; p < p1; ++p)
    for (int64_t g = p < done ? groups : 0; g < s.format.groups(); ++g)
      pack_group(s, g, p, out + p * s.format.panel_bytes());
}

// Numbers of kBytes bytes of one panel, [blocks][16]; columns beyond the matrix stay as they are. The source has one
// for each `n_block` columns.
template <int kBytes>
void pack_numbers(const Kernels& kernels, const NBitsSource& s, const void* data, int64_t by_block, int64_t by_n,
                  int64_t n0, std::byte* out) {
  const int64_t columns = std::min<int64_t>(kPanel, s.format.n - n0), blocks = ceil_div(s.format.k, s.format.block);
  const auto* from = static_cast<const std::byte*>(data);
  int64_t done = 0;
  if (s.n_block == 1 && by_n == 1) {
    for (; done < blocks; ++done)
      std::memcpy(out + done * kPanel * kBytes, from + (done * by_block + n0) * kBytes,
                  static_cast<size_t>(columns * kBytes));
  } else if (kBytes == 4 && s.n_block == 1 && by_block == 1 && columns == kPanel) {
    done = kernels.turn(reinterpret_cast<const uint8_t*>(from) + n0 * by_n * kBytes, by_n * kBytes, blocks,
                        reinterpret_cast<uint8_t*>(out));
  }
  for (; done < blocks; ++done)
    for (int64_t j = 0; j < columns; ++j)
      std::memcpy(out + (done * kPanel + j) * kBytes, from + (done * by_block + (n0 + j) / s.n_block * by_n) * kBytes,
                  kBytes);
}

void pack_floats(const Kernels& kernels, const NBitsSource& s, NBitsFloat type, const void* data, int64_t by_block,
                 int64_t by_n, int64_t n0, std::byte* out) {
  if (type == NBitsFloat::f32)
    pack_numbers<4>(kernels, s, data, by_block, by_n, n0, out);
  else
    pack_numbers<2>(kernels, s, data, by_block, by_n, n0, out);
}

// 16 zeros that lie side by side from a byte's start on.
void spread_zeros(const NBitsSource& s, int64_t first, std::byte* out) {
  const int bits = s.format.bits, mask = (1 << bits) - 1, flip = s.is_signed ? 1 << (bits - 1) : 0;
  const uint8_t* from = static_cast<const uint8_t*>(s.zeros) + first * bits / 8;
  for (int shift = 0; shift < 8; shift += bits)
    for (int i = 0; i < kPanel * bits / 8; ++i)
      out[i * 8 / bits + shift / bits] = static_cast<std::byte>((from[i] >> shift & mask) ^ flip);
}

// The scales and zeros of panel p.
void pack_scales(const Kernels& kernels, const NBitsSource& s, int64_t p, std::byte* panel) {
  const NBitsFormat& f = s.format;
  const int64_t n0 = p * kPanel, columns = std::min<int64_t>(kPanel, f.n - n0), blocks = ceil_div(f.k, f.block);
  std::byte* zeros = panel + f.zeros_at();
  std::memset(panel + f.scales_at(), 0, static_cast<size_t>(f.panel_bytes() - f.scales_at()));
  pack_floats(kernels, s, f.scale_type, s.scales, s.scale_block, s.scale_n, n0, panel + f.scales_at());
  if (f.zero == NBitsZero::floats) pack_floats(kernels, s, f.zero_type, s.zeros, s.zero_block, s.zero_n, n0, zeros);
  if (f.zero != NBitsZero::codes) return;
  const bool bytewise = s.zero_n == 1 && s.n_block == 1 && columns == kPanel && s.zero_block * f.bits % 8 == 0;
  for (int64_t b = 0; b < blocks && bytewise; ++b) spread_zeros(s, b * s.zero_block + n0, zeros + b * kPanel);
  for (int64_t b = 0; b < blocks && !bytewise; ++b)
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t from = b * s.zero_block + (n0 + j) / s.n_block * s.zero_n;
      zeros[b * kPanel + j] = static_cast<std::byte>(code_at(s, s.zeros, from));
    }
}

float zero_at(const NBitsSource& s, int64_t block, int64_t n) {
  const int64_t i = block * s.zero_block + n * s.zero_n;
  switch (s.format.zero) {
    case NBitsZero::implied: return static_cast<float>(s.format.implied_zero);
    case NBitsZero::codes: return static_cast<float>(code_at(s, s.zeros, i));
    case NBitsZero::floats: return float_at(s.format.zero_type, s.zeros, i);
  }
  return 0;
}

// One panel of floats.
void unpack_panel(const NBitsSource& s, int64_t p, const int32_t* block_of, float* to) {
  const NBitsFormat& f = s.format;
  const int64_t columns = std::min<int64_t>(kPanel, f.n - p * kPanel);
  for (int64_t k = 0; k < f.k; ++k, to += kPanel) {
    const int64_t block = block_of ? block_of[k] : k / f.block;
    std::fill(to + columns, to + kPanel, 0.0f);
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t n = p * kPanel + j, shared = n / s.n_block;
      const float scale = float_at(f.scale_type, s.scales, block * s.scale_block + shared * s.scale_n);
      const int code = code_at(s, s.codes, k * s.code_k + n * s.code_n);
      to[j] = (static_cast<float>(code) - zero_at(s, block, shared)) * scale;
    }
  }
}

// fn(p0, p1) for ranges of panels.
template <class F>
void for_panels(int threads, const NBitsFormat& f, const F& fn) {
  const int64_t per_chunk = std::max<int64_t>(16, (1 << 15) / (f.groups() * kCodes));
  parallel_for(threads, ceil_div(f.panels(), per_chunk),
               [&](int64_t chunk, int) { fn(chunk * per_chunk, std::min(f.panels(), (chunk + 1) * per_chunk)); });
}

}  // namespace

int64_t NBitsFormat::groups() const { return ceil_div(k, kGroup); }
int64_t NBitsFormat::blocks() const { return block == 16 ? 2 * groups() : block >= k ? 1 : ceil_div(k, block); }
int64_t NBitsFormat::panels() const { return ceil_div(n, kPanel); }
int64_t NBitsFormat::scales_at() const { return groups() * kCodes * bits / 8; }
int64_t NBitsFormat::zeros_at() const { return scales_at() + blocks() * kPanel * float_bytes(scale_type); }
int64_t NBitsFormat::panel_bytes() const {
  const int64_t each = zero == NBitsZero::implied ? 0 : zero == NBitsZero::codes ? 1 : float_bytes(zero_type);
  return round_up(zeros_at() + blocks() * kPanel * each, 64);
}

bool nbits_packs(int64_t k, int64_t block) { return block == 16 || block % kGroup == 0 || block >= k; }

size_t nbits_packed_bytes(const NBitsFormat& format) {
  return static_cast<size_t>(format.panels()) * static_cast<size_t>(format.panel_bytes());
}

void nbits_pack(int threads, const NBitsSource& source, void* out, Target target) {
  const NBitsFormat& f = source.format;
  const Kernels& kernels = choose_kernels(kTable, target);
  for_panels(threads, f, [&](int64_t p0, int64_t p1) {
    pack_codes(kernels, source, p0, p1, static_cast<uint8_t*>(out));
    for (int64_t p = p0; p < p1; ++p)
      pack_scales(kernels, source, p, static_cast<std::byte*>(out) + p * f.panel_bytes());
  });
}

void nbits_unpack(int threads, const NBitsSource& s, const int32_t* block_of, float* out) {
  for_panels(threads, s.format, [&](int64_t p0, int64_t p1) {
    for (int64_t p = p0; p < p1; ++p) unpack_panel(s, p, block_of, out + p * kPanel * s.format.k);
  });
}

}  // namespace tessera
#endif
