// The register tile that gemm.cc and conv.cc share, compiled once per target.
#if defined(TESSERA_KERNELS_GEMM_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_GEMM_TILE_INL_H_
#undef TESSERA_KERNELS_GEMM_TILE_INL_H_
#else
#define TESSERA_KERNELS_GEMM_TILE_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "kernels/gemm.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace tile {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, kPanelWidth>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));
// Columns of a full tile: two vectors.
constexpr int kWide = 2 * kLanes;
constexpr int kMaxRows = kLanes == kPanelWidth ? 12 : kLanes == 1 ? 4 : 6;

// Steps of k after which a line of B that is asked for now is there, from wherever it comes.
constexpr int kAhead = 48;

// Height of the next tile when `left` rows remain: full tiles first, then splits that leave no thin tile behind.
HWY_INLINE int next_rows(int64_t left) {
  constexpr unsigned char kTall[24] = {0,  1,  2, 3,  4, 3,  6,  4,  8,  6,  10, 8,
                                       12, 10, 8, 12, 8, 10, 10, 12, 10, 12, 12, 12};
  constexpr unsigned char kShort[12] = {0, 1, 2, 3, 4, 5, 6, 4, 4, 5, 5, 6};
  if (kMaxRows == 12) return left >= 24 ? 12 : kTall[left];
  if (kMaxRows == 6) return left >= 12 ? 6 : kShort[left];
  return left >= 4 ? 4 : static_cast<int>(left);
}

// Operands of a tile over k steps: element (i, p) of A is a[i * a_row + p * a_k], where a_row is 1 or a_k is 1; vector
// j of step p of B starts at b + p * b_k + j * b_vec, with b_vec read only when a vector is as wide as a panel. Unless
// `more` is null, more[i * more_row + j * more_step] is added, where more_step is 0 or 1. The result, its negative
// elements turned to zero if `rectify`, is stored to out, rows ld apart.
struct Operands {
  const float* a;
  int64_t a_row, a_k;
  const float* b;
  int64_t b_k, b_vec;
  int64_t k;
  const float* more;
  int64_t more_row, more_step;
  bool rectify;
};

HWY_INLINE V relu(V v) {
  const V zero = hn::Zero(D());
  return hn::IfThenElse(hn::Lt(v, zero), zero, v);
}

template <int kRows, int kVecs, bool kRowsAdjacent>
HWY_NOINLINE void multiply(const Operands& o, float* HWY_RESTRICT out, int64_t ld) {
  const D d;
  // Low tiles of wide vectors wait for memory alone, and reach far enough ahead by themselves.
  constexpr bool kFetch = kLanes < kPanelWidth || kRows > 2;
  V acc[kRows][kVecs];
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::Zero(d);
  const float* HWY_RESTRICT a = o.a;
  const float* HWY_RESTRICT b = o.b;
  const int64_t a_row = kRowsAdjacent ? 1 : o.a_row, a_k = kRowsAdjacent ? o.a_k : 1;
  const int64_t b_k = o.b_k, b_vec = kLanes == kPanelWidth ? o.b_vec : kLanes;
  // One sum per element whatever the tile: equal rows and columns give equal bits, wherever they lie.
  for (int64_t p = o.k; p > 0; --p, a += a_k, b += b_k) {
    V bv[kVecs];
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) bv[j] = hn::LoadU(d, b + j * b_vec);
    if (kFetch) __builtin_prefetch(b + kAhead * b_k);
    if (kFetch && kVecs == 2 && kLanes == kPanelWidth) __builtin_prefetch(b + b_vec + kAhead * b_k);
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i) {
      const V av = hn::Set(d, a[i * a_row]);
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::MulAdd(av, bv[j], acc[i][j]);
    }
  }
  if (o.more && o.more_step) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j)
        acc[i][j] = hn::Add(acc[i][j], hn::LoadU(d, o.more + i * o.more_row + j * kLanes));
  } else if (o.more) {
#pragma GCC unroll 16
    for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
      for (int j = 0; j < kVecs; ++j) acc[i][j] = hn::Add(acc[i][j], hn::Set(d, o.more[i * o.more_row]));
  }
#pragma GCC unroll 16
  for (int i = 0; i < kRows; ++i)
#pragma GCC unroll 2
    for (int j = 0; j < kVecs; ++j) {
      if (o.rectify) acc[i][j] = relu(acc[i][j]);
      hn::StoreU(acc[i][j], d, out + i * ld + j * kLanes);
    }
}

using Multiply = void(const Operands&, float*, int64_t);

// Heights that next_rows never returns stay null.
template <int kVecs, bool kRowsAdjacent>
HWY_INLINE Multiply* multiply_for(int rows) {
#if HWY_TARGET == HWY_AVX3
  static constexpr Multiply* kTable[13] = {nullptr,
                                           multiply<1, kVecs, kRowsAdjacent>,
                                           multiply<2, kVecs, kRowsAdjacent>,
                                           multiply<3, kVecs, kRowsAdjacent>,
                                           multiply<4, kVecs, kRowsAdjacent>,
                                           nullptr,
                                           multiply<6, kVecs, kRowsAdjacent>,
                                           nullptr,
                                           multiply<8, kVecs, kRowsAdjacent>,
                                           nullptr,
                                           multiply<10, kVecs, kRowsAdjacent>,
                                           nullptr,
                                           multiply<12, kVecs, kRowsAdjacent>};
#elif HWY_TARGET == HWY_SCALAR
  static constexpr Multiply* kTable[5] = {nullptr, multiply<1, kVecs, kRowsAdjacent>, multiply<2, kVecs, kRowsAdjacent>,
                                          multiply<3, kVecs, kRowsAdjacent>, multiply<4, kVecs, kRowsAdjacent>};
#else
  static constexpr Multiply* kTable[7] = {nullptr,
                                          multiply<1, kVecs, kRowsAdjacent>,
                                          multiply<2, kVecs, kRowsAdjacent>,
                                          multiply<3, kVecs, kRowsAdjacent>,
                                          multiply<4, kVecs, kRowsAdjacent>,
                                          multiply<5, kVecs, kRowsAdjacent>,
                                          multiply<6, kVecs, kRowsAdjacent>};
#endif
  return kTable[rows];
}

// What happens to a product on its way into C. The first block of k takes c_in in, later ones add to C, the last one
// applies the activation.
struct Finish {
  const GemmEpilogue* epilogue;
  bool first, last;
};

HWY_INLINE V finished(V product, V addend, const GemmEpilogue& e, float scale, bool add, bool rectify) {
  const D d;
  V v = hn::Mul(hn::Set(d, e.alpha), product);
  if (add) v = hn::MulAdd(hn::Set(d, scale), addend, v);
  return rectify ? relu(v) : v;
}

// c[0..columns) = the finished form of product[0..columns); `in` is c_in's row or C's own.
HWY_INLINE void finish_row(const float* product, const float* in, int64_t in_step, float scale, bool add, bool rectify,
                           const GemmEpilogue& e, float* c, int columns) {
  const D d;
  int j = 0;
  for (; j + kLanes <= columns; j += kLanes) {
    const V addend = !add ? hn::Zero(d) : in_step ? hn::LoadU(d, in + j) : hn::Set(d, in[0]);
    hn::StoreU(finished(hn::LoadU(d, product + j), addend, e, scale, add, rectify), d, c + j);
  }
  if (j == columns) return;
  HWY_ALIGN float tail[kPanelWidth] = {};
  for (int i = j; add && i < columns; ++i) tail[i - j] = in[i * in_step];
  hn::StoreU(finished(hn::LoadU(d, product + j), hn::LoadU(d, tail), e, scale, add, rectify), d, tail);
  for (int i = j; i < columns; ++i) c[i] = tail[i - j];
}

// Finishes rows x columns products (rows `ld` apart) into C at row `i`, column `j` of the whole matrix.
inline HWY_NOINLINE void finish(const float* product, int64_t ld, const Finish& f, int64_t i, int64_t j, int rows,
                                int columns, float* c, int64_t ldc) {
  const GemmEpilogue& e = *f.epilogue;
  const bool take_in = f.first && e.c_in && e.beta != 0.0f;
  const bool add = take_in || !f.first;
  const float scale = take_in ? e.beta : 1.0f;
  const bool rectify = f.last && e.activation == GemmActivation::relu;
  for (int r = 0; r < rows; ++r, c += ldc, product += ld) {
    const float* in = take_in ? e.c_in + (i + r) * e.c_row_stride + j * e.c_col_stride : c;
    finish_row(product, in, take_in ? e.c_col_stride : 1, scale, add, rectify, e, c, columns);
  }
}

// Computes one tile and puts it into C (whose element (i, j) is at c). A full tile goes straight to C unless a factor
// has to be applied.
template <int kVecs, bool kRowsAdjacent>
HWY_INLINE void compute(Operands& o, const Finish& f, int64_t i, int64_t j, int rows, int columns, float* c,
                        int64_t ldc) {
  const GemmEpilogue& e = *f.epilogue;
  Multiply* const run = multiply_for<kVecs, kRowsAdjacent>(rows);
  const bool take_in = f.first && e.c_in && e.beta != 0.0f;
  if (columns == kVecs * kLanes && e.alpha == 1.0f && (!take_in || e.beta == 1.0f)) {
    o.more = take_in ? e.c_in + i * e.c_row_stride + j * e.c_col_stride : f.first ? nullptr : c;
    o.more_row = take_in ? e.c_row_stride : ldc;
    o.more_step = take_in ? e.c_col_stride : 1;
    o.rectify = f.last && e.activation == GemmActivation::relu;
    return run(o, c, ldc);
  }
  HWY_ALIGN float product[kMaxRows * kWide];
  o.more = nullptr;
  o.rectify = false;
  run(o, product, kWide);
  finish(product, kWide, f, i, j, rows, columns, c, ldc);
}

}  // namespace tile
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif
