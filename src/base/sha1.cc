#include "base/sha1.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace tessera {

void Sha1::mix(const unsigned char* block) {
  uint32_t w[80];
  for (size_t i = 0; i < 16; ++i)
    w[i] = static_cast<uint32_t>(block[4 * i]) << 24 | static_cast<uint32_t>(block[4 * i + 1]) << 16 |
           static_cast<uint32_t>(block[4 * i + 2]) << 8 | block[4 * i + 3];
  for (size_t i = 16; i < 80; ++i) w[i] = std::rotl(w[i - 3] ^ w[i - 8] ^ w[i - 14] ^ w[i - 16], 1);
  auto [a, b, c, d, e] = state_;
  for (size_t i = 0; i < 80; ++i) {
    const uint32_t f = i < 20   ? (b & c) | (~b & d)
                       : i < 40 ? b ^ c ^ d
                       : i < 60 ? (b & c) | (b & d) | (c & d)
                                : b ^ c ^ d;
    constexpr uint32_t kRound[] = {0x5a827999, 0x6ed9eba1, 0x8f1bbcdc, 0xca62c1d6};
    const uint32_t next = std::rotl(a, 5) + f + e + kRound[i / 20] + w[i];
    e = d;
    d = c;
    c = std::rotl(b, 30);
    b = a;
    a = next;
  }
  const uint32_t add[] = {a, b, c, d, e};
  for (size_t i = 0; i < 5; ++i) state_[i] += add[i];
}

void Sha1::add(const void* data, size_t size) {
  const auto* next = static_cast<const unsigned char*>(data);
  while (size > 0) {
    const size_t at = static_cast<size_t>(size_ % kBlock);
    const size_t n = std::min(size, kBlock - at);
    if (n == kBlock) {
      mix(next);
    } else {
      std::memcpy(rest_ + at, next, n);
      if (at + n == kBlock) mix(rest_);
    }
    size_ += n;
    next += n;
    size -= n;
  }
}

std::string Sha1::finish() {
  const uint64_t bits = size_ * 8;
  const unsigned char one = 0x80, zero = 0;
  add(&one, 1);
  while (size_ % kBlock != kBlock - 8) add(&zero, 1);
  unsigned char length[8];
  for (int i = 0; i < 8; ++i) length[i] = static_cast<unsigned char>(bits >> (56 - 8 * i));
  add(length, sizeof length);
  std::string out;
  for (const uint32_t s : state_)
    for (int shift = 28; shift >= 0; shift -= 4) out += "0123456789abcdef"[s >> shift & 15];
  return out;
}

}  // namespace tessera
