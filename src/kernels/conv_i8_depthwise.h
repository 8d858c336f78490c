// Convolution of bytes in two dimensions with one filter for each channel, quantised, on CPUs with dot products of
// bytes. The result is that of exact sums.
#pragma once
#include "kernels/conv_i8.h"

namespace tessera {

// Whether there is a kernel for that. c.packed is not read: weights are taken as they are.
bool conv_i8_depthwise_takes(Target target, const ConvShape& shape);
// Scratch memory each thread needs, for any target.
size_t conv_i8_depthwise_scratch_bytes(const ConvShape& shape);
int64_t conv_i8_depthwise_chunks(const ConvShape& shape);
void conv_i8_depthwise_run(const ConvI8& c, const void* w, int64_t chunk, void* scratch);

}  // namespace tessera
