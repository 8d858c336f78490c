// What loading and running have moved, for tests, reports and memory statistics.
#pragma once
#include <cstdint>

namespace tessera {

struct Counters {
  int64_t bytes_mapped = 0;  // of files
  int64_t bytes_copied = 0;  // weights that had to move for alignment or decoding
  int64_t bytes_packed_in = 0, bytes_packed_out = 0, pack_calls = 0;

  Counters& operator+=(const Counters& o) {
    bytes_mapped += o.bytes_mapped;
    bytes_copied += o.bytes_copied;
    bytes_packed_in += o.bytes_packed_in;
    bytes_packed_out += o.bytes_packed_out;
    pack_calls += o.pack_calls;
    return *this;
  }
};

}  // namespace tessera
