#include "base/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace tessera {

Digest digest_of(const void* data, size_t size) {
  const XXH128_hash_t h = XXH3_128bits(data, size);
  return {h.high64, h.low64};
}

uint64_t checksum_of(const void* data, size_t size) { return XXH3_64bits(data, size); }

std::string Digest::str() const {
  std::string out;
  for (const uint64_t half : {high, low})
    for (int shift = 60; shift >= 0; shift -= 4) out += "0123456789abcdef"[half >> shift & 15];
  return out;
}

}  // namespace tessera
