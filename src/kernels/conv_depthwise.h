// Depthwise convolution: every group has one input channel.
#pragma once
#include "kernels/conv.h"

namespace tessera::conv {

inline bool is_depthwise(const ConvShape& s) { return s.groups > 1 && s.channels == s.groups; }

// As the functions of conv.h, for depthwise shapes.
size_t depthwise_packed_bytes(const ConvShape& s);
void depthwise_pack(const ConvShape& s, const float* w, float* packed);
size_t depthwise_scratch_bytes(const ConvShape& s);
void depthwise(Target target, int threads, const ConvShape& s, const float* x, const float* packed, const float* bias,
               GemmActivation activation, float* y, void* scratch);

}  // namespace tessera::conv
