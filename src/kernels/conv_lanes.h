// Depthwise convolution with vectors across channels: the rows of some channels are turned side by side, a few rows at
// a time, and the outputs turned back.
#pragma once
#include "kernels/conv.h"

namespace tessera::conv {

// Whether this form computes the (depthwise) shape on the target, and faster than rows of single channels.
bool is_lanes(Target target, const ConvShape& s);

// As the functions of conv.h; the weights are plain.
size_t lanes_scratch_bytes(const ConvShape& s);
void lanes(Target target, int threads, const ConvShape& s, const float* x, const float* w, const float* bias,
           GemmActivation activation, float* y, void* scratch);

}  // namespace tessera::conv
