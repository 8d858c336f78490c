// Convolution of 8-bit integers over one to three spatial dimensions, channels first, in exact 32-bit sums modulo 2^32.
//
// Packed weights "I8.R8x4", the same on every CPU: a head of 64 bytes, then for each group of output channels
// [ceil(rows/8)][quads][8][4] signed bytes (unsigned weights less 128), where a quad is four input channels at one tap,
// ordered [ceil(channels/4)][taps], zero beyond the ends; then one 32-bit sum per row, padded likewise.
// Work is cut by sizes alone: the result is the same on every target and for any thread count.
#pragma once
#include <cstddef>
#include <cstdint>

#include "kernels/conv.h"

namespace tessera {

// Depends on channels, out_channels, groups and kernel alone. 64-byte aligned.
size_t conv_i8_packed_bytes(const ConvShape& shape);
void conv_i8_pack(const ConvShape& shape, const void* w, bool is_signed, void* packed, int threads);

// What becomes of sums. Null `bytes`: they are kept as they are in `sums`.
struct ConvI8Output {
  int32_t* sums = nullptr;
  void* bytes = nullptr;
  const float* scale = nullptr;   // per output channel
  const int32_t* bias = nullptr;  // per output channel, or null
  float zero = 0;
  bool is_signed = false;
};

struct ConvI8 {
  const ConvShape* shape = nullptr;
  const void* x = nullptr;
  bool x_signed = false;
  int32_t x_zero = 0;  // also what lies outside
  const void* packed = nullptr;
  bool w_signed = false;
  const int32_t* w_zero = nullptr;  // null: zeros
  int64_t w_zero_step = 0;          // 0: one for all; 1: one per output channel
  ConvI8Output out;
};

// Scratch memory each thread needs, a multiple of 64 bytes.
size_t conv_i8_scratch_bytes(const ConvShape& shape);
// How many independent pieces the work has; piece `chunk` uses `scratch`, 64-byte aligned, alone.
int64_t conv_i8_chunks(const ConvShape& shape);
void conv_i8_run(Target target, const ConvI8& c, int64_t chunk, void* scratch);

}  // namespace tessera
