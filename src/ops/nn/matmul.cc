// MatMul — numpy's matmul: batched matrix products with broadcasting of the batch dimensions.
#include "kernels/gemm.h"
#include "kernels/gemm_generic.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

// Vectors count as a one-row (A) or one-column (B) matrix, and that dimension disappears again.
template <class D>
Status shape(ShapeCall<D>& c) {
  const int ra = c.rank(0), rb = c.rank(1);
  if (ra == 0) return c.refuse(0, "at least one dimension");
  if (rb == 0) return c.refuse(1, "at least one dimension");
  const D ka = c.dim(0, ra - 1), kb = c.dim(1, rb == 1 ? 0 : rb - 2);
  if (known(ka) && known(kb) && number(ka) != number(kb))
    return c.refuse(1, format("{} rows, as many as input 0 has columns", number(ka)));
  DimVec<D> out;
  if (ra > 2) out.append(c.dims(0).first(static_cast<size_t>(ra - 2)));
  if (rb > 2 && !broadcast_into(out, c.dims(1).first(static_cast<size_t>(rb - 2)), c))
    return c.refuse(1, "batch dimensions that broadcast with those of input 0");
  if (ra > 1) out.push(c.dim(0, ra - 2));
  if (rb > 1) out.push(c.dim(1, rb - 1));
  return c.set(0, out);
}

struct Product {
  int64_t m, n, k;
  Shape batch;  // of the output
  std::span<const int64_t> batch_a, batch_b;

  explicit Product(const Call& call) {
    const Shape &a = call.shape(0), &b = call.shape(1);
    m = a.rank() > 1 ? a[a.rank() - 2] : 1;
    k = a[a.rank() - 1];
    n = b.rank() > 1 ? b[b.rank() - 1] : 1;
    batch_a = a.dims().first(static_cast<size_t>(std::max(0, a.rank() - 2)));
    batch_b = b.dims().first(static_cast<size_t>(std::max(0, b.rank() - 2)));
    const auto out = call.out_shape(0).dims();
    batch = Shape(out.first(std::max(batch_a.size(), batch_b.size())));
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

Status compute_float(Call& call) {
  const Product p(call);
  const float *a = call.in<float>(0), *b = call.in<float>(1);
  float* y = call.out<float>(0);
  if (const auto* packed = static_cast<const float*>(call.packed(1))) {
    // One matrix for the whole batch: the rows of all of A are one tall matrix.
    gemm_f32(call.target(), call.threads(), p.batch.count() * p.m, p.n, p.k, a, p.k, false, packed, y, p.n, {});
    return {};
  }
  auto* panel = call.scratch<float>(0);
  int64_t packed_index = -1;
  p.each([&](int64_t i, int64_t ia, int64_t ib) {
    if (ib != packed_index) gemm_pack_b(b + ib * p.k * p.n, p.n, false, p.k, p.n, panel, call.threads());
    packed_index = ib;
    gemm_f32(call.target(), call.threads(), p.m, p.n, p.k, a + ia * p.m * p.k, p.k, false, panel, y + i * p.m * p.n,
             p.n, {});
  });
  return {};
}

template <class T, class Acc>
Status compute(Call& call) {
  const Product p(call);
  p.each([&](int64_t i, int64_t ia, int64_t ib) {
    gemm_ref<T, Acc>(call.threads(), p.m, p.n, p.k, call.in<T>(0) + ia * p.m * p.k, p.k, false,
                     call.in<T>(1) + ib * p.k * p.n, p.n, false, call.out<T>(0) + i * p.m * p.n, p.n);
  });
  return {};
}

int64_t scratch(const void*, std::span<const Shape* const> in) {
  const Shape& b = *in[1];
  if (b.rank() == 0) return 0;
  return static_cast<int64_t>(
      gemm_packed_bytes(b.rank() > 1 ? b[b.rank() - 1] : 1, b[b.rank() > 1 ? b.rank() - 2 : 0]));
}

int64_t packed_bytes(const void*, const Shape& b) {
  return b.rank() == 2 ? static_cast<int64_t>(gemm_packed_bytes(b[1], b[0])) : 0;
}
void pack(const void*, const Shape& b, const void* weight, void* out, int threads) {
  gemm_pack_b(static_cast<const float*>(weight), b[1], false, b[0], b[1], static_cast<float*>(out), threads);
}

constexpr Packing kPacks[] = {{1, "F32.P16", packed_bytes, pack}};
constexpr Kernel kKernels[] = {{kAllSame<float>, compute_plain<compute_float>},
                               {kAllSame<double>, compute_plain<compute<double, double>>},
                               {kAllSame<int32_t>, compute_plain<compute<int32_t, uint32_t>>},
                               {kAllSame<int64_t>, compute_plain<compute<int64_t, uint64_t>>},
                               {kAllSame<uint32_t>, compute_plain<compute<uint32_t, uint32_t>>},
                               {kAllSame<uint64_t>, compute_plain<compute<uint64_t, uint64_t>>}};
constexpr int16_t kVersions[] = {1, 9, 13};

}  // namespace

extern constexpr Op kMatMul{.domain = "",
                            .name = "MatMul",
                            .versions = kVersions,
                            .shape = shape_plain<int64_t, shape<int64_t>>,
                            .kernels = kKernels,
                            .scratch = scratch,
                            .packs = kPacks};
extern constexpr OpInference kMatMulInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
