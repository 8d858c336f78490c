// Copies of input planes with their padding, so that the outputs of a convolution meet their inputs without a look at
// the borders.
#pragma once
#include <cstdint>

#include "kernels/conv.h"

namespace tessera::conv {

inline int64_t volume(const int64_t (&d)[3]) { return d[0] * d[1] * d[2]; }

// Outputs [begin, end) of [0, out) that meet the input inside [0, in) at o * stride + shift.
struct Range {
  int64_t begin, end;
};
Range inside(int64_t in, int64_t out, int64_t stride, int64_t shift);

void set_zero(float* to, int64_t n);
// to[i] = row[i * stride + shift] for i in `valid`, and 0 for the other i < n.
void copy_padded(const float* row, int64_t stride, int64_t shift, Range valid, float* to, int64_t n);

inline constexpr int64_t kSlack = 64;  // elements a kernel may read beyond what is staged

// How a plane is staged. For some rows of the output and a block of columns, the input they need is copied with its
// padding, so that neighbouring outputs of a row meet neighbouring elements, and outputs of neighbouring rows elements
// `length` apart: for each tap along the depth, for each class of rows, for each class of columns, the rows of that
// class. A class is a remainder modulo the stride, or one tap.
struct Classes {
  bool by_phase;
  int64_t count;  // of classes
  int64_t reach;  // how much longer than the outputs a class is
};

struct Stage {
  Classes height, width;
  int64_t rows, columns;  // of output at a time
  int64_t class_rows() const { return rows + height.reach; }
  int64_t length() const { return columns + width.reach; }
  int64_t class_floats() const { return class_rows() * length(); }
  int64_t floats(int64_t depth) const { return depth * height.count * width.count * class_floats() + kSlack; }
};

// A stage of at most so many output rows and columns.
Stage plan_stage(const ConvShape& s, int64_t rows, int64_t columns);
// One that takes about `floats`.
Stage fit_stage(const ConvShape& s, int64_t floats);

// Stages the input for `rows` output rows from (oz, oy) and columns from ox on; x is one channel. What lies outside is
// `outside`. T is float, uint32_t or uint8_t.
template <class T>
void stage(const ConvShape& s, const Stage& g, const T* x, int64_t oz, int64_t oy, int64_t rows, int64_t ox, T* to,
           T outside = 0);
// True if the stage holds a whole plane, whose padding stays as it is when another plane follows.
bool can_stage_again(const ConvShape& s, const Stage& g);
// offset[tap]: where the tap of the first output lies, for every tap of the kernel.
void set_offsets(const ConvShape& s, const Stage& g, int64_t* offset);

// The patches of some channels of bytes by way of a staged copy of each: out[channel * taps + tap][count] of `count`
// outputs from output `first` on. For shapes without depth. Writes up to 15 bytes beyond the end; `staged` holds
// g.floats(1) bytes for as many rows as the outputs lie in.
void gather_bytes(const ConvShape& s, const Stage& g, const int64_t* offset, const uint8_t* x, int64_t channels,
                  uint8_t outside, int64_t first, int64_t count, uint8_t* staged, uint8_t* out);

}  // namespace tessera::conv
