// Sums of products of two strided operands, for Einsum.
#pragma once
#include <type_traits>
#include <vector>

#include "ops/op.h"

namespace tessera {

// One dimension of a strided loop: its size, and how far apart its elements are in the two operands.
struct EinsumLoop {
  int64_t size, a, b;
};

// Integers wrap; floating-point sums are kept in double.
template <class T>
using EinsumSum = std::conditional_t<std::is_floating_point_v<T>, double,
                                     std::make_unsigned_t<std::conditional_t<std::is_floating_point_v<T>, int, T>>>;

// Merges neighbouring loops that are one longer loop for both operands.
inline std::vector<EinsumLoop> merged(const std::vector<EinsumLoop>& loops) {
  std::vector<EinsumLoop> out;
  for (const EinsumLoop& l : loops) {
    if (!out.empty() && out.back().a == l.a * l.size && out.back().b == l.b * l.size)
      out.back() = {out.back().size * l.size, l.a, l.b};
    else
      out.push_back(l);
  }
  return out;
}

struct EinsumOffsets {
  int64_t a, b;
};
// Where element `index` of the first `count` loops lies in both operands.
inline EinsumOffsets einsum_offsets(const std::vector<EinsumLoop>& loops, size_t count, int64_t index) {
  EinsumOffsets at{0, 0};
  for (size_t d = count; d-- > 0; index /= loops[d].size) {
    at.a += index % loops[d].size * loops[d].a;
    at.b += index % loops[d].size * loops[d].b;
  }
  return at;
}

// sum[j] += a[j * a_step] * b[j * b_step]
template <class T, class S>
void add_products(S* sum, int64_t n, const T* a, int64_t a_step, const T* b, int64_t b_step) {
  if (a_step == 1 && b_step == 1) {
    for (int64_t j = 0; j < n; ++j) sum[j] += static_cast<S>(a[j]) * static_cast<S>(b[j]);
  } else if (a_step == 1 && b_step == 0) {
    for (int64_t j = 0; j < n; ++j) sum[j] += static_cast<S>(a[j]) * static_cast<S>(*b);
  } else if (a_step == 0 && b_step == 1) {
    for (int64_t j = 0; j < n; ++j) sum[j] += static_cast<S>(*a) * static_cast<S>(b[j]);
  } else {
    for (int64_t j = 0; j < n; ++j) sum[j] += static_cast<S>(a[j * a_step]) * static_cast<S>(b[j * b_step]);
  }
}

// y = sum over the loops `sums` of a * b, for every element of the loops `outs`, in whose order y is contiguous.
template <class T>
void sum_of_products(const Call& call, const std::vector<EinsumLoop>& outs, const std::vector<EinsumLoop>& sums,
                     const T* a, const T* b, T* y) {
  using S = EinsumSum<T>;
  constexpr int64_t kBlock = 256;
  std::vector<EinsumLoop> out = merged(outs), sum = merged(sums);
  if (out.empty()) out.push_back({1, 0, 0});
  if (sum.empty()) sum.push_back({1, 0, 0});
  int64_t rows = 1, repeats = 1;
  for (size_t d = 0; d + 1 < out.size(); ++d) rows *= out[d].size;
  for (size_t d = 0; d + 1 < sum.size(); ++d) repeats *= sum[d].size;
  const EinsumLoop row = out.back(), run = sum.back();
  // The loop with the shorter steps is the inner one.
  const bool across = run.size == 1 || (row.size > 1 && row.a + row.b <= run.a + run.b);
  const int64_t per_row = ceil_div(row.size, kBlock), blocks = rows * per_row;
  const int64_t work = std::min(kBlock, row.size) * std::min<int64_t>(repeats * run.size, 1 << 16);
  const int64_t each = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(work, 1));
  call.parallel(ceil_div(blocks, each), [&](int64_t chunk, int) {
    for (int64_t block = chunk * each; block < std::min(blocks, (chunk + 1) * each) && !call.cancelled(); ++block) {
      const int64_t first = block % per_row * kBlock, n = std::min(kBlock, row.size - first);
      const EinsumOffsets at = einsum_offsets(out, out.size() - 1, block / per_row);
      const T *pa = a + at.a + first * row.a, *pb = b + at.b + first * row.b;
      S total[kBlock] = {};
      for (int64_t r = 0; r < repeats; ++r) {
        const EinsumOffsets in = einsum_offsets(sum, sum.size() - 1, r);
        const T *qa = pa + in.a, *qb = pb + in.b;
        if (across) {
          for (int64_t k = 0; k < run.size; ++k) add_products(total, n, qa + k * run.a, row.a, qb + k * run.b, row.b);
        } else {
          for (int64_t j = 0; j < n; ++j)
            for (int64_t k = 0; k < run.size; ++k)
              total[j] += static_cast<S>(qa[j * row.a + k * run.a]) * static_cast<S>(qb[j * row.b + k * run.b]);
        }
      }
      T* to = y + block / per_row * row.size + first;
      for (int64_t j = 0; j < n; ++j) to[j] = static_cast<T>(total[j]);
    }
  });
}

// A batch of matrix products y[i] = A[i] * B[i]; y is contiguous.
struct EinsumMatrices {
  std::vector<EinsumLoop> batch;
  int64_t m, n, k;
  int64_t lda, ldb;
  bool trans_a, trans_b;  // as kernels/gemm.h has them
};
Status multiply_matrices(const Call& call, const EinsumMatrices& p, const float* a, const float* b, float* y);

}  // namespace tessera
