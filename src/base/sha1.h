// SHA-1, which ONNX names as the checksum of external data. Not for anything that must withstand an attacker.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace tessera {

class Sha1 {
 public:
  void add(const void* data, size_t size);
  // 40 hexadecimal digits; nothing is added afterwards.
  std::string finish();

 private:
  static constexpr size_t kBlock = 64;
  void mix(const unsigned char* block);

  uint32_t state_[5] = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476, 0xc3d2e1f0};
  unsigned char rest_[kBlock];
  uint64_t size_ = 0;
};

}  // namespace tessera
