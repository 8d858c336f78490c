// F32 convolution over one to three spatial dimensions, channels first: x is [batch, channels, in...], w is
// [out_channels, channels / groups, kernel...], y is [batch, out_channels, out...].
//
// Weights are packed once; patches of the input are gathered block by block into scratch memory that the caller owns.
// How the work is cut and in which order sums run depends on the shape (and the target), never on the thread count.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"
#include "kernels/gemm.h"

namespace tessera {

// Spatial entries are (depth, height, width); a convolution over fewer dimensions leaves the leading ones as they are.
// Output position o of a dimension meets the input at o * stride + tap * dilation - pad; whatever lies outside counts
// as zero, so the padding behind is implied by `out`. These expressions and all element counts fit in 63 bits.
struct ConvShape {
  int64_t batch = 1, channels = 1, out_channels = 1, groups = 1;
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0};
};

// The packed form depends on channels, out_channels, groups, kernel and the weights' type alone. 64-byte aligned.
size_t conv_packed_bytes(const ConvShape& shape, PanelType type = PanelType::f32);
void conv_pack(const ConvShape& shape, const float* w, float* packed, int threads);
// The same for weights of `type`, which stay narrow, but for those of depthwise convolutions.
void conv_pack(const ConvShape& shape, PanelType type, const void* w, void* packed, int threads);

// Scratch memory each thread needs, a multiple of 64 bytes.
size_t conv_scratch_bytes(const ConvShape& shape);

// y = activation(conv(x, w) + bias), with the bits that widened weights would give; bias has out_channels elements or
// is null. `scratch` holds `threads` times conv_scratch_bytes, 64-byte aligned. y must not overlap the others.
void conv_f32(Target target, int threads, const ConvShape& shape, const float* x, const GemmPanels& packed,
              const float* bias, GemmActivation activation, float* y, void* scratch);

}  // namespace tessera
