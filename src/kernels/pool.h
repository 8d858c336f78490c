// The largest or the mean number of every window of a map of floats.
#pragma once
#include <cstdint>

#include "base/cpu.h"

namespace tessera {

// Entries are (height, width). Output o of a dimension meets the input at o * stride + tap * dilation - pad; what lies
// outside has no part in the result.
struct PoolShape {
  int64_t in[2], out[2], kernel[2], stride[2], dilation[2], pad[2];
};

enum class Pool : unsigned char { max, mean };

// Scratch memory that one call needs.
int64_t pool_scratch_bytes(const PoolShape& s);

// Rows [y0, y1) of the output of one map. NaN is larger than any number, and a window without inputs has the largest
// element -infinity and the mean 0. A mean is the sum divided by row_count[y] * column_count[x] (or 1, if that is 0).
struct PoolRows {
  const float* x;
  float* y;  // of row 0
  int64_t y0, y1;
  const float *row_count = nullptr, *column_count = nullptr;
};
void pool_rows(Target target, Pool pool, const PoolShape& s, const PoolRows& rows, void* scratch);

// y[m] = the mean of map m, of n elements each.
void pool_means(Target target, const float* x, int64_t maps, int64_t n, float* y);

}  // namespace tessera
