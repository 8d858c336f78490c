// Exact product of matrices of 8-bit integers, modulo 2^32: C = (A - a_zero) * (B - b_zero) with B in packed panels.
//
// Packed layout "I8.P16x4": [ceil(n/16)][ceil(k/4)][16][4], B's bytes as they are, zero beyond its ends. It is the same
// on every CPU and for signed and unsigned B. The result is the same on every target and for any thread count.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace tessera {

// Bytes of a packed k x n matrix. The caller has checked that round_up(k, 4) * round_up(n, 16) fits.
size_t gemm_i8_packed_bytes(int64_t n, int64_t k);

// Packs B, given as k rows of n bytes, rows ldb bytes apart. `out` holds gemm_i8_packed_bytes(n, k), 64-byte aligned.
void gemm_i8_pack_b(Target target, int threads, const void* b, int64_t ldb, int64_t k, int64_t n, void* out);

// One number for all lines of a matrix, or one for each.
struct ZeroPoints {
  const int32_t* values = nullptr;  // null: zeros
  int64_t step = 0;                 // 0 or 1
};

struct GemmI8 {
  int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;  // m rows of k bytes, rows lda apart
  int64_t lda = 0;
  bool a_signed = false;
  ZeroPoints a_zero;  // per row; in the range of A's type
  const void* packed_b = nullptr;
  bool b_signed = false;
  ZeroPoints b_zero;     // per column; in the range of B's type
  int32_t* c = nullptr;  // m rows of n, rows ldc apart; overlaps nothing
  int64_t ldc = 0;
};

void gemm_i8(Target target, int threads, const GemmI8& g);

}  // namespace tessera
