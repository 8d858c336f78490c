// F32 transposed convolution: every element of x spreads over a window of y.
//
// How the work is cut and in which order sums run depends on the shape (and the target), never on the thread count.
#pragma once
#include "kernels/conv.h"

namespace tessera {

// The shape is that of the convolution from y to x: `in` are y's spatial sizes and `out` are x's, `channels` are x's
// and `out_channels` are y's. x is [batch, channels, out...], y is [batch, out_channels, in...]; element o of x and tap
// t meet y at o * stride + t * dilation - pad. The weights [channels, out_channels / groups, kernel...] of each group
// are packed by gemm_pack_b, as `channels / groups` rows of n = out_channels / groups * taps.

// Scratch memory each thread needs, a multiple of 64 bytes.
size_t conv_transpose_scratch_bytes(const ConvShape& shape);

// y = bias + the spread products; bias has out_channels elements or is null. `scratch` holds `threads` times
// conv_transpose_scratch_bytes, 64-byte aligned. y must not overlap the others.
void conv_transpose_f32(Target target, int threads, const ConvShape& shape, const float* x, const float* packed,
                        const float* bias, float* y, void* scratch);

}  // namespace tessera
