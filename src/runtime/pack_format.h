// The fixed parts of a pack file, as they lie in it.
#pragma once
#include <cstdint>

namespace tessera {

inline constexpr char kPackMagic[8] = {'T', 'E', 'S', 'S', 'P', 'A', 'C', 'K'};
inline constexpr uint32_t kPackVersion = 1;
inline constexpr uint32_t kPackByteOrder = 0x01020304;
inline constexpr uint64_t kPackPage = 4096;  // blobs of this length or more begin at a multiple of it

struct PackHeader {
  char magic[8];
  uint32_t version, byte_order;
  uint64_t reserved[6];
};
static_assert(sizeof(PackHeader) == 64);

struct PackFooter {
  uint64_t table_offset, entry_count, table_checksum, header_checksum, file_size, reserved;
  char magic[8];
  uint64_t footer_checksum;  // of what stands before it
};
static_assert(sizeof(PackFooter) == 64);

}  // namespace tessera
