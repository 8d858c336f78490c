// F32 product of a few rows with a B that is read once and therefore not packed.
#pragma once
#include "kernels/gemm.h"

namespace tessera {

inline constexpr int64_t kGemvRows = 3;  // with more, packing B pays

// C = act(alpha * A * op(B) + beta * C_in): A is m <= kGemvRows rows of k, rows lda elements apart; B is k rows of n,
// or n rows of k if trans_b, rows ldb apart. Epilogue, overlap and order of sums as for gemm_f32.
void gemv_f32(Target target, int threads, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, const float* b,
              int64_t ldb, bool trans_b, float* c, int64_t ldc, const GemmEpilogue& epilogue);

}  // namespace tessera
