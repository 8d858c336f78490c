// numpy's matmul: what the matrix products over batches share.
#pragma once
#include "ops/elementwise.h"

namespace tessera {

// Output 0 of the product of inputs A and B. Vectors count as a one-row (A) or one-column (B) matrix, and that
// dimension disappears again.
template <class D, int A, int B>
Status matmul_output(ShapeCall<D>& c) {
  const int ra = c.rank(A), rb = c.rank(B);
  if (ra == 0) return c.refuse(A, "at least one dimension");
  if (rb == 0) return c.refuse(B, "at least one dimension");
  const D ka = c.dim(A, ra - 1), kb = c.dim(B, rb == 1 ? 0 : rb - 2);
  if (known(ka) && known(kb) && number(ka) != number(kb))
    return c.refuse(B, format("{} rows, as many as input {} has columns", number(ka), A));
  DimVec<D> out;
  if (ra > 2) out.append(c.dims(A).first(static_cast<size_t>(ra - 2)));
  if (rb > 2 && !broadcast_into(out, c.dims(B).first(static_cast<size_t>(rb - 2)), c))
    return c.refuse(B, format("batch dimensions that broadcast with those of input {}", A));
  if (ra > 1) out.push(c.dim(A, ra - 2));
  if (rb > 1) out.push(c.dim(B, rb - 1));
  return c.set(0, out);
}

// The matrices of a product of two accepted shapes.
struct MatMulBatch {
  int64_t m, n, k;
  Shape batch;  // of the output
  std::span<const int64_t> batch_a, batch_b;

  // The shapes outlive this.
  MatMulBatch(const Shape& a, const Shape& b, const Shape& y) {
    m = a.rank() > 1 ? a[a.rank() - 2] : 1;
    k = a[a.rank() - 1];
    n = b.rank() > 1 ? b[b.rank() - 1] : 1;
    batch_a = a.dims().first(static_cast<size_t>(std::max(0, a.rank() - 2)));
    batch_b = b.dims().first(static_cast<size_t>(std::max(0, b.rank() - 2)));
    batch = Shape(y.dims().first(std::max(batch_a.size(), batch_b.size())));
  }
  // fn(i, a_index, b_index) for every matrix of the batch.
  template <class F>
  void each(F&& fn) const {
    const std::span<const int64_t> inputs[] = {batch_a, batch_b};
    BroadcastRows(batch, inputs).run(1, [&](const BroadcastRows::Row& r) {
      for (int64_t i = 0; i < r.n; ++i) fn(r.out + i, r.in[0] + i * r.step[0], r.in[1] + i * r.step[1]);
    });
  }
};

}  // namespace tessera
