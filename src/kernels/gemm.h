// F32 matrix product C = act(alpha * op(A) * B + beta * C_in) with B in packed panels.
//
// Packed layouts "F32.P16", "F16.P16" and "BF16.P16": [ceil(n/16)][k][16], 64-byte aligned, columns beyond n zero. They
// are the same on every CPU. Panels of a 16-bit type are widened on their way into the product: the result has the bits
// that the widened B would give.
// How the work is cut and in which order sums run depends on m, n and k (and on the target), never on the thread count.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace tessera {

inline constexpr int kPanelWidth = 16;

enum class GemmActivation : unsigned char { none, relu };

struct GemmEpilogue {
  float alpha = 1.0f;
  // beta * c_in[i * c_row_stride + j * c_col_stride] is added to element (i, j); nothing is read if c_in is null or
  // beta is 0. c_col_stride is 0 or 1. c_in may be the output itself (same pointer and strides); it must not overlap it
  // otherwise.
  float beta = 1.0f;
  const float* c_in = nullptr;
  int64_t c_row_stride = 0;
  int64_t c_col_stride = 0;
  GemmActivation activation = GemmActivation::none;
};

enum class PanelType : unsigned char { f32, f16, bf16 };

// Packed panels, borrowed, and what their elements are.
struct GemmPanels {
  GemmPanels(const float* panels) : data(panels) {}
  GemmPanels(const void* panels, PanelType panel_type) : data(panels), type(panel_type) {}

  const void* data;
  PanelType type = PanelType::f32;
};

// Bytes of a packed k x n matrix. The caller has checked that k * round_up(n, 16) * 4 fits.
size_t gemm_packed_bytes(int64_t n, int64_t k, PanelType type = PanelType::f32);

// Packs B, given as k rows of n (trans_b false) or n rows of k (trans_b true), rows ldb elements apart.
// `out` holds gemm_packed_bytes(n, k) bytes, 64-byte aligned.
void gemm_pack_b(const float* b, int64_t ldb, bool trans_b, int64_t k, int64_t n, float* out, int threads);
// The same for elements of `type`.
void gemm_pack_b(PanelType type, const void* b, int64_t ldb, bool trans_b, int64_t k, int64_t n, void* out,
                 int threads);

// A is m rows of k (trans_a false) or k rows of m (trans_a true), rows lda elements apart; C is m rows of n, rows ldc
// apart. m, n, k may be 0; with k = 0 the product is zeros. C must not overlap A or B.
void gemm_f32(Target target, int threads, int64_t m, int64_t n, int64_t k, const float* a, int64_t lda, bool trans_a,
              const GemmPanels& packed_b, float* c, int64_t ldc, const GemmEpilogue& epilogue);

}  // namespace tessera
