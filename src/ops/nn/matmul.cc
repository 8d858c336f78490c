// MatMul — numpy's matmul: batched matrix products with broadcasting of the batch dimensions.
#include "kernels/gemm.h"
#include "kernels/gemm_generic.h"
#include "kernels/gemv.h"
#include "ops/nn/matmul_shape.h"
#include "ops/nn/panel_room.h"

namespace tessera {
namespace {

// A few rows each: packing the matrices would take longer than the products.
void compute_rows(Call& call, const MatMulBatch& p) {
  const float *a = call.in<float>(0), *b = call.in<float>(1);
  float* y = call.out<float>(0);
  const bool small = p.batch.count() > 1 && p.n * p.k < 1 << 16;
  std::vector<std::pair<int64_t, int64_t>> places(static_cast<size_t>(p.batch.count()));
  p.each([&](int64_t i, int64_t ia, int64_t ib) { places[static_cast<size_t>(i)] = {ia, ib}; });
  const auto product = [&](int64_t i, int threads) {
    const auto [ia, ib] = places[static_cast<size_t>(i)];
    gemv_f32(call.target(), threads, p.m, p.n, p.k, a + ia * p.m * p.k, p.k, b + ib * p.k * p.n, p.n, false,
             y + i * p.m * p.n, p.n, {});
  };
  if (!small) {
    for (int64_t i = 0; i < p.batch.count(); ++i) product(i, call.threads());
    return;
  }
  const int64_t together = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, p.n * p.k));
  call.parallel(ceil_div(p.batch.count(), together), [&](int64_t chunk, int) {
    for (int64_t i = chunk * together; i < std::min(p.batch.count(), (chunk + 1) * together); ++i) product(i, 1);
  });
}

// Many small matrices: each is one chunk of work, packed in its lane's scratch.
void compute_matrices(Call& call, const MatMulBatch& p) {
  struct Place {
    int64_t a, b;
  };
  std::vector<Place> places(static_cast<size_t>(p.batch.count()));
  p.each([&](int64_t i, int64_t ia, int64_t ib) { places[static_cast<size_t>(i)] = {ia, ib}; });
  std::vector<int64_t> packed_index(static_cast<size_t>(call.threads()), -1);  // per lane
  const float *a = call.in<float>(0), *b = call.in<float>(1);
  float* y = call.out<float>(0);
  call.parallel(p.batch.count(), [&](int64_t i, int lane) {
    const Place at = places[static_cast<size_t>(i)];
    auto* panel = call.scratch<float>(lane);
    int64_t& packed = packed_index[static_cast<size_t>(lane)];
    if (packed != at.b) gemm_pack_b(b + at.b * p.k * p.n, p.n, false, p.k, p.n, panel, 1);
    packed = at.b;
    gemm_f32(call.target(), 1, p.m, p.n, p.k, a + at.a * p.m * p.k, p.k, false, panel, y + i * p.m * p.n, p.n, {});
  });
}

Status compute_float(Call& call) {
  const MatMulBatch p(call.shape(0), call.shape(1), call.out_shape(0));
  const float *a = call.in<float>(0), *b = call.in<float>(1);
  float* y = call.out<float>(0);
  if (const auto packed = packed_panels(call, 1)) {
    // One matrix for the whole batch: the rows of all of A are one tall matrix.
    gemm_f32(call.target(), call.threads(), p.batch.count() * p.m, p.n, p.k, a, p.k, false, *packed, y, p.n, {});
    return {};
  }
  if (p.m <= kGemvRows) return compute_rows(call, p), Status{};
  const auto bytes = static_cast<int64_t>(gemm_packed_bytes(p.n, p.k));
  if (p.batch.count() > 1 && bytes <= kMostPanelScratch && (p.batch.count() >= 8 || p.m * p.n * p.k < 1 << 20))
    return compute_matrices(call, p), Status{};
  PanelRoom room;
  TRY_ASSIGN(panel, room.get(call, bytes));
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
  const MatMulBatch p(call.shape(0), call.shape(1), call.out_shape(0));
  p.each([&](int64_t i, int64_t ia, int64_t ib) {
    gemm_ref<T, Acc>(call.threads(), p.m, p.n, p.k, call.in<T>(0) + ia * p.m * p.k, p.k, false,
                     call.in<T>(1) + ib * p.k * p.n, p.n, false, call.out<T>(0) + i * p.m * p.n, p.n);
  });
  return {};
}

int64_t scratch(const void*, const ScratchCall& in) {
  const Shape& b = *in[1];
  if (b.rank() == 0 || in.is_packed(1)) return 0;
  return panel_scratch(
      static_cast<int64_t>(gemm_packed_bytes(b.rank() > 1 ? b[b.rank() - 1] : 1, b[b.rank() > 1 ? b.rank() - 2 : 0])));
}

int64_t packed_bytes(const PackCall& c) {
  const Shape& b = c.shape(1);
  return b.rank() == 2 ? static_cast<int64_t>(gemm_packed_bytes(b[1], b[0], panel_type(c.dtype(1)))) : 0;
}
void pack(const PackCall& c, void* out) {
  const Shape& b = c.shape(1);
  gemm_pack_b(panel_type(c.dtype(1)), c.in<void>(1), b[1], false, b[0], b[1], out, c.threads);
}

constexpr Packing kPacks[] = {{1, "F32.P16", packed_bytes, pack},
                              {1, "F16.P16", packed_bytes, pack, nullptr, set_of(DType::f16)},
                              {1, "BF16.P16", packed_bytes, pack, nullptr, set_of(DType::bf16)}};
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
                            .shape = shape_plain<int64_t, matmul_output<int64_t, 0, 1>>,
                            .kernels = kKernels,
                            .rounded = in_arg(0) | in_arg(1),
                            .scratch = scratch,
                            .packs = kPacks};
extern constexpr OpInference kMatMulInference{.shape = shape_plain<Dim, matmul_output<Dim, 0, 1>>};

}  // namespace tessera
