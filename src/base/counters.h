// What loading and running have moved, for tests, reports and memory statistics.
#pragma once
#include <cstdint>

namespace tessera {

struct Counters {
  int64_t bytes_mapped = 0;  // of files
  int64_t bytes_copied = 0;  // weights that had to move for alignment or decoding
  int64_t bytes_packed_in = 0, bytes_packed_out = 0, pack_calls = 0;
  int64_t packs_mapped = 0, packs_shared = 0;  // found in a pack file; made by another session
  int64_t packs_stale = 0;                     // not in the pack file, or there of other weights

  Counters& operator+=(const Counters& o) {
    bytes_mapped += o.bytes_mapped;
    bytes_copied += o.bytes_copied;
    bytes_packed_in += o.bytes_packed_in;
    bytes_packed_out += o.bytes_packed_out;
    pack_calls += o.pack_calls;
    packs_mapped += o.packs_mapped;
    packs_shared += o.packs_shared;
    packs_stale += o.packs_stale;
    return *this;
  }
};

}  // namespace tessera
