// 128-bit digests that name content: not for secrets, and the same on every machine.
#pragma once
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera {

struct Digest {
  uint64_t high = 0, low = 0;
  auto operator<=>(const Digest&) const = default;
  std::string str() const;  // 32 hexadecimal digits
};

Digest digest_of(const void* data, size_t size);
uint64_t checksum_of(const void* data, size_t size);

}  // namespace tessera
