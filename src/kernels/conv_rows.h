// The product that the forms of a convolution share, with pixels as rows and output channels as columns.
#pragma once
#include <cstdint>

namespace tessera::conv {

// c[pixel][channel] = or += patches times w, for channels filled up to whole panels.
struct Rows {
  const float* w;  // panels of 16 output channels, [k][16] each
  int64_t panel;   // elements from one panel to the next
  int64_t channels;
  const float* patches;  // [k][row]
  int64_t row, rows, k;  // rows: pixels
  float* c;
  int64_t ldc;
  bool first;  // c is not read
};
using RowsKernel = void(const Rows&);

}  // namespace tessera::conv
