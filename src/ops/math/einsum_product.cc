#include "ops/math/einsum_product.h"

#include "kernels/gemm.h"

namespace tessera {

Status multiply_matrices(const Call& call, const EinsumMatrices& p, const float* a, const float* b, float* y) {
  constexpr int64_t kMostSmall = 1 << 18;
  int64_t count = 1, padded, bytes;
  for (const EinsumLoop& l : p.batch) count *= l.size;
  if (!checked_mul(p.k, round_up(p.n, kPanelWidth), &padded) || !checked_mul(padded, 4, &bytes))
    return invalid("a matrix of {} by {} is too large", p.k, p.n);
  bytes = static_cast<int64_t>(gemm_packed_bytes(p.n, p.k));
  // Many small products run side by side, each packed and multiplied by one thread.
  const bool side_by_side = count >= 4 && bytes <= kMostSmall;
  const int threads = side_by_side ? 1 : call.threads();
  TRY_ASSIGN(panels, Tensor::allocate(DType::u8, Shape{side_by_side ? call.threads() : 1, round_up(bytes, 64)}));
  const auto one = [&](int64_t i, int lane) {
    if (call.cancelled()) return;
    const EinsumOffsets at = einsum_offsets(p.batch, p.batch.size(), i);
    auto* panel = reinterpret_cast<float*>(static_cast<std::byte*>(panels.mutable_data()) + lane * round_up(bytes, 64));
    gemm_pack_b(b + at.b, p.ldb, p.trans_b, p.k, p.n, panel, threads);
    gemm_f32(call.target(), threads, p.m, p.n, p.k, a + at.a, p.lda, p.trans_a, panel, y + i * p.m * p.n, p.n, {});
  };
  if (side_by_side)
    call.parallel(count, one);
  else
    for (int64_t i = 0; i < count; ++i) one(i, 0);
  return {};
}

}  // namespace tessera
