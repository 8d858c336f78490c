// The products that the forms of a convolution share.
#pragma once
#include <cstdint>

#include "base/cpu.h"
#include "kernels/gemm.h"

namespace tessera::conv {

// With pixels as rows and output channels as columns: c[pixel][channel] = or += patches times w, for channels filled up
// to whole panels.
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

// With output channels as rows: some of them times a block of gathered pixels, over one step of k.
struct Product {
  const float* w;        // panels of 16 output channels, [k][16] each, at this step's first k
  int64_t panel;         // elements from one panel to the next
  int64_t m0, m1;        // output channels; m0 starts a panel
  const float* patches;  // [k][row], `columns` pixels each, readable up to whole vectors
  int64_t row, columns, k;
  float* y;  // pixel 0 of the block in output channel 0
  int64_t pixels;
  const GemmEpilogue* epilogue;
  bool first, last;
};
using ProductKernel = void(const Product&);
ProductKernel* product_kernel(Target target);

}  // namespace tessera::conv
