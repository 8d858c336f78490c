// Convolution of 3 x 3 with stride 1 by Winograd's minimal filtering F(4x4, 3x3): a quarter of the multiplications.
//
// With the points 0, +-1/sqrt(2), +-sqrt(2) and infinity, a 6 x 6 tile d of the input and a kernel g give the 4 x 4
// outputs At [(G g Gt) * (Bt d B)] A, where * is element by element and summed over the channels. The error of an
// output is at most some 1e-6 of the sum over channels of the largest |d| of the tile times the sum of |g|; the error
// of an element may therefore show in other outputs of its tile.
#pragma once
#include "kernels/conv.h"
#include "kernels/conv_rows.h"
#include "kernels/conv_weights.h"

namespace tessera::conv {

// Whether the shape is one that this form computes, and faster than the others.
bool is_winograd(const ConvShape& s);

// As the functions of conv.h, with the packed weights of a product. False, with y unspecified, if a number of the input
// or the weights is not finite or so large that an intermediate could overflow.
size_t winograd_scratch_bytes(const ConvShape& s);
bool winograd(int threads, const ConvShape& s, RowsKernel* rows, const float* x, const Weights& packed,
              const float* bias, GemmActivation activation, float* y, void* scratch);

}  // namespace tessera::conv
