// Product with a block-quantized matrix: C = A * W (+ bias), where W's element (k, n) is (code - zero) * scale, codes
// have 2, 4 or 8 bits, and one scale and one zero belong to a block of steps of k in one column.
//
// Packed layout "NBITS.P16", the same on every CPU. A panel of 16 columns is, one after the other:
//   codes   [ceil(k/32)][bits][16][4] bytes. Byte (j, column, t) of a group of 32 steps holds, from its low bits on,
//   the
//           codes of steps 4 * (j + bits * p) + t for p = 0, 1, ...
//   scales  [blocks][16] in the type the model gives them
//   zeros   [blocks][16], as bytes or in the type the model gives them; nothing if they are implied
// and padding to 64 bytes. `blocks` is ceil(k/block), or twice the count of groups if a block is 16. Codes are
// unsigned: signed ones are shifted up together with their zeros. Columns beyond n are zero in all parts.
//
// Two policies: exact, in which weights become floats; and int8, in which every 32 elements of a row of A are rounded
// to 8 bits with a scale of their own, and integer products are exact on every target. Work is cut by sizes alone:
// results are the same for any thread count, and equal rows of A give equal rows of C.
#pragma once
#include <cstddef>
#include <cstdint>

#include "base/cpu.h"

namespace tessera {

enum class NBitsFloat : uint8_t { f32, f16, bf16 };
enum class NBitsZero : uint8_t { implied, codes, floats };

struct NBitsFormat {
  int64_t n = 0, k = 0;  // both at least 1
  int bits = 4;
  int64_t block = 32;
  NBitsFloat scale_type = NBitsFloat::f32;
  NBitsZero zero = NBitsZero::implied;
  NBitsFloat zero_type = NBitsFloat::f32;  // of floats
  int implied_zero = 8;                    // of all blocks, of unsigned codes

  int64_t groups() const;
  int64_t blocks() const;
  int64_t panels() const;
  int64_t scales_at() const;  // in bytes, from a panel's start
  int64_t zeros_at() const;
  int64_t panel_bytes() const;
};

// Whether there is a packed layout for blocks of that many steps: 16, a multiple of 32, or all of k.
bool nbits_packs(int64_t k, int64_t block);

// A matrix as a model has it. Elements lie side by side from the low bits of a byte on.
struct NBitsSource {
  NBitsFormat format;
  const void* codes = nullptr;
  bool is_signed = false;          // codes, and zeros that are codes
  int64_t code_k = 0, code_n = 0;  // elements from one step of k, or column, to the next
  const void* scales = nullptr;
  int64_t scale_block = 0, scale_n = 0;
  const void* zeros = nullptr;  // of the codes' width, or floats beside unsigned codes
  int64_t zero_block = 0, zero_n = 0;
  int64_t n_block = 1;  // columns that share scale and zero
};

// Bytes of the packed matrix. nbits_packs(k, block) holds, and k * n elements fit in memory.
size_t nbits_packed_bytes(const NBitsFormat& format);
// Reads every byte of the source once. `out` is 64-byte aligned. The bytes are the same on every target.
void nbits_pack(int threads, const NBitsSource& source, void* out, Target target = best_target());
// The matrix as floats in panels "F32.P16" (gemm.h), for any block. block_of, unless null, names the block of each step
// of k, each of them one of the source's.
void nbits_unpack(int threads, const NBitsSource& source, const int32_t* block_of, float* out);

struct GemmNBits {
  int64_t m = 0;
  const float* a = nullptr;  // m rows of k, rows lda apart
  int64_t lda = 0;
  const NBitsFormat* format = nullptr;
  const void* packed = nullptr;
  const float* bias = nullptr;  // n, or null
  float* c = nullptr;           // m rows of n, rows ldc apart; overlaps nothing
  int64_t ldc = 0;
  bool int8 = false;
};

// Bytes of memory, 64-byte aligned, that a product needs while it runs.
size_t gemm_nbits_workspace(int64_t m, int64_t k, bool int8);
void gemm_nbits(Target target, int threads, const GemmNBits& g, void* workspace);

}  // namespace tessera
