#include <algorithm>
#include <bit>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/gemm_nbits.h"

namespace tessera {
namespace {

constexpr int kPanel = 16, kGroup = 32, kQuad = 4;
constexpr int kStaged = kPanel * kGroup;  // codes of a group, one a byte: [8][16][4]

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

// Four codes that lie side by side from a byte's start on (of 2 bits: within one byte), one a byte.
template <int kBits>
uint32_t four_codes(const uint8_t* from) {
  if constexpr (kBits == 2) {
    const uint32_t v = (from[0] | uint32_t{from[0]} << 12) & 0x000f000f;
    return (v | v << 6) & 0x03030303;
  } else if constexpr (kBits == 4) {
    const uint32_t two = from[0] | uint32_t{from[1]} << 8, v = (two | two << 8) & 0x00ff00ff;
    return (v | v << 4) & 0x0f0f0f0f;
  } else {
    return from[0] | uint32_t{from[1]} << 8 | uint32_t{from[2]} << 16 | uint32_t{from[3]} << 24;
  }
}

void put_four(uint32_t codes, uint8_t* out) {
  for (int t = 0; t < 4; ++t) out[t] = static_cast<uint8_t>(codes >> (8 * t));
}

// Four by four bytes.
void transpose(uint32_t (&v)[4]) {
  constexpr uint32_t kEven = 0x00ff00ff, kLow = 0x0000ffff;
  const uint32_t even01 = (v[0] & kEven) | (v[1] & kEven) << 8, odd01 = (v[0] >> 8 & kEven) | (v[1] & ~kEven);
  const uint32_t even23 = (v[2] & kEven) | (v[3] & kEven) << 8, odd23 = (v[2] >> 8 & kEven) | (v[3] & ~kEven);
  v[0] = (even01 & kLow) | even23 << 16;
  v[1] = (odd01 & kLow) | odd23 << 16;
  v[2] = even01 >> 16 | (even23 & ~kLow);
  v[3] = odd01 >> 16 | (odd23 & ~kLow);
}

// 32 steps of 16 columns; what lies beyond the matrix stays as it is.
template <int kBits>
void stage(const NBitsSource& s, int64_t k0, int64_t n0, uint8_t* staged) {
  const int64_t steps = std::min<int64_t>(kGroup, s.format.k - k0),
                columns = std::min<int64_t>(kPanel, s.format.n - n0);
  const auto* codes = static_cast<const uint8_t*>(s.codes);
  const uint32_t flip = s.is_signed ? 0x01010101u << (kBits - 1) : 0;
  const int64_t first = k0 * s.code_k + n0 * s.code_n;
  const auto on_byte = [](int64_t i) { return i * kBits % 8 == 0; };
  if (s.code_k == 1 && steps == kGroup && on_byte(first) && on_byte(s.code_n)) {
    for (int64_t j = 0; j < columns; ++j) {
      const uint8_t* from = codes + (first + j * s.code_n) * kBits / 8;
      for (int q = 0; q < kGroup / kQuad; ++q)
        put_four(four_codes<kBits>(from + q * kBits / 2) ^ flip, staged + q * kPanel * kQuad + j * kQuad);
    }
  } else if (s.code_n == 1 && steps == kGroup && columns == kPanel && on_byte(first) && on_byte(s.code_k)) {
    const int64_t row = s.code_k * kBits / 8;
    const uint8_t* from = codes + first * kBits / 8;
    for (int q = 0; q < kGroup / kQuad; ++q, from += kQuad * row, staged += kPanel * kQuad)
      for (int j = 0; j < kPanel / 4; ++j) {
        const uint8_t* at = from + j * kBits / 2;
        uint32_t v[4] = {four_codes<kBits>(at), four_codes<kBits>(at + row), four_codes<kBits>(at + 2 * row),
                         four_codes<kBits>(at + 3 * row)};
        transpose(v);
        for (int c = 0; c < 4; ++c) put_four(v[c] ^ flip, staged + (j * 4 + c) * kQuad);
      }
  } else {
    for (int64_t k = 0; k < steps; ++k)
      for (int64_t j = 0; j < columns; ++j)
        staged[k / kQuad * kPanel * kQuad + j * kQuad + k % kQuad] =
            static_cast<uint8_t>(code_at(s, s.codes, first + k * s.code_k + j * s.code_n));
  }
}

// The codes of panels [p0, p1). Rows of n elements are read for all of them at once: a line of cache holds several.
template <int kBits>
void pack_codes(const NBitsSource& s, int64_t p0, int64_t p1, uint8_t* out) {
  constexpr int kBytes = kStaged * kBits / 8;
  const int64_t groups = s.format.groups(), panel = s.format.panel_bytes(), at_once = s.code_n == 1 ? p1 - p0 : 1;
  for (int64_t first = p0; first < p1; first += at_once)
    for (int64_t g = 0; g < groups; ++g)
      for (int64_t p = first; p < first + at_once; ++p) {
        uint8_t staged[kStaged] = {};
        stage<kBits>(s, g * kGroup, p * kPanel, staged);
        uint8_t* to = out + p * panel + g * kBytes;
        for (int i = 0; i < kBytes; ++i) {
          unsigned byte = staged[i];
          for (int q = 1; q < 8 / kBits; ++q) byte |= unsigned{staged[i + q * kBytes]} << (q * kBits);
          to[i] = static_cast<uint8_t>(byte);
        }
      }
}

// Numbers of one panel, [blocks][16]; columns beyond the matrix stay zero.
void pack_scales(const NBitsSource& s, int64_t n0, std::byte* panel) {
  const NBitsFormat& f = s.format;
  const int64_t columns = std::min<int64_t>(kPanel, f.n - n0), blocks = ceil_div(f.k, f.block);
  const auto copy = [&](const void* data, int64_t size, int64_t from, std::byte* out, int64_t to) {
    std::memcpy(out + to * size, static_cast<const std::byte*>(data) + from * size, static_cast<size_t>(size));
  };
  for (int64_t b = 0; b < blocks; ++b)
    for (int64_t j = 0; j < columns; ++j) {
      const int64_t n = (n0 + j) / s.n_block, to = b * kPanel + j, zero_from = b * s.zero_block + n * s.zero_n;
      copy(s.scales, float_bytes(f.scale_type), b * s.scale_block + n * s.scale_n, panel + f.scales_at(), to);
      if (f.zero == NBitsZero::floats)
        copy(s.zeros, float_bytes(f.zero_type), zero_from, panel + f.zeros_at(), to);
      else if (f.zero == NBitsZero::codes)
        panel[f.zeros_at() + to] = static_cast<std::byte>(code_at(s, s.zeros, zero_from));
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
  const int64_t per_chunk = std::max<int64_t>(8, (1 << 15) / (f.groups() * kStaged));
  parallel_for(threads, ceil_div(f.panels(), per_chunk),
               [&](int64_t chunk, int) { fn(chunk * per_chunk, std::min(f.panels(), (chunk + 1) * per_chunk)); });
}

}  // namespace

int64_t NBitsFormat::groups() const { return ceil_div(k, kGroup); }
int64_t NBitsFormat::blocks() const { return block == 16 ? 2 * groups() : block >= k ? 1 : ceil_div(k, block); }
int64_t NBitsFormat::panels() const { return ceil_div(n, kPanel); }
int64_t NBitsFormat::scales_at() const { return groups() * kStaged * bits / 8; }
int64_t NBitsFormat::zeros_at() const { return scales_at() + blocks() * kPanel * float_bytes(scale_type); }
int64_t NBitsFormat::panel_bytes() const {
  const int64_t each = zero == NBitsZero::implied ? 0 : zero == NBitsZero::codes ? 1 : float_bytes(zero_type);
  return round_up(zeros_at() + blocks() * kPanel * each, 64);
}

bool nbits_packs(int64_t k, int64_t block) { return block == 16 || block % kGroup == 0 || block >= k; }

size_t nbits_packed_bytes(const NBitsFormat& format) {
  return static_cast<size_t>(format.panels()) * static_cast<size_t>(format.panel_bytes());
}

void nbits_pack(int threads, const NBitsSource& source, void* out) {
  const NBitsFormat& f = source.format;
  for_panels(threads, f, [&](int64_t p0, int64_t p1) {
    auto* codes = static_cast<uint8_t*>(out);
    if (f.bits == 2) pack_codes<2>(source, p0, p1, codes);
    if (f.bits == 4) pack_codes<4>(source, p0, p1, codes);
    if (f.bits == 8) pack_codes<8>(source, p0, p1, codes);
    for (int64_t p = p0; p < p1; ++p) {
      std::byte* panel = static_cast<std::byte*>(out) + p * f.panel_bytes();
      std::memset(panel + f.scales_at(), 0, static_cast<size_t>(f.panel_bytes() - f.scales_at()));
      pack_scales(source, p * kPanel, panel);
    }
  });
}

void nbits_unpack(int threads, const NBitsSource& s, const int32_t* block_of, float* out) {
  for_panels(threads, s.format, [&](int64_t p0, int64_t p1) {
    for (int64_t p = p0; p < p1; ++p) unpack_panel(s, p, block_of, out + p * kPanel * s.format.k);
  });
}

}  // namespace tessera
