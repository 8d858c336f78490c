// Matrix product for any arithmetic type, plain C++: C = op(A) * op(B), sums kept in Acc, each in the order of k.
#pragma once
#include <algorithm>
#include <cstdint>

#include "base/checked.h"
#include "base/thread_pool.h"

namespace tessera {

// A is m x k (or k x m if trans_a), B is k x n (or n x k if trans_b), C is m x n; lda, ldb, ldc are row lengths in
// elements. Integer products wrap when Acc is an unsigned type at least as wide as int; pass one for signed T. C must
// not overlap A or B.
template <class T, class Acc>
void gemm_ref(int threads, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda, bool trans_a, const T* b,
              int64_t ldb, bool trans_b, T* c, int64_t ldc) {
  constexpr int64_t kColumns = 64;
  if (m <= 0 || n <= 0) return;
  const int64_t a_row = trans_a ? 1 : lda, a_k = trans_a ? lda : 1;
  const int64_t b_k = trans_b ? 1 : ldb, b_col = trans_b ? ldb : 1;
  const int64_t strips = ceil_div(n, kColumns);
  const int64_t rows_per_chunk =
      std::clamp<int64_t>((1 << 16) / (std::max<int64_t>(k, 1) * std::min(n, kColumns)), 1, m);
  const int64_t row_blocks = ceil_div(m, rows_per_chunk);
  const auto chunk = [&](int64_t index, int) {
    const int64_t j0 = index / row_blocks * kColumns, columns = std::min(kColumns, n - j0);
    const int64_t i0 = index % row_blocks * rows_per_chunk, i1 = std::min(m, i0 + rows_per_chunk);
    for (int64_t i = i0; i < i1; ++i) {
      Acc sum[kColumns] = {};
      for (int64_t p = 0; p < k; ++p) {
        const Acc av = static_cast<Acc>(a[i * a_row + p * a_k]);
        const T* bp = b + p * b_k + j0 * b_col;
        if (b_col == 1)
          for (int64_t j = 0; j < columns; ++j) sum[j] += av * static_cast<Acc>(bp[j]);
        else
          for (int64_t j = 0; j < columns; ++j) sum[j] += av * static_cast<Acc>(bp[j * b_col]);
      }
      for (int64_t j = 0; j < columns; ++j) c[i * ldc + j0 + j] = static_cast<T>(sum[j]);
    }
  };
  parallel_for(threads, strips * row_blocks, chunk);
}

}  // namespace tessera
