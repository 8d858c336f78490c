// MatMulInteger — the product of two matrices of 8-bit integers, in 32 bits.
#include "ops/quant/integer_matmul.h"

namespace tessera {
namespace {

template <class D>
Status shape(ShapeCall<D>& c) {
  TRY(check_per_line(c, 2, 0, true));
  TRY(check_per_line(c, 3, 1, false));
  return matmul_output<D, 0, 1>(c);
}

Status compute(Call& call) {
  const MatMulBatch p(call.shape(0), call.shape(1), call.out_shape(0));
  const std::vector<int32_t> a = centred<int32_t>(call, 0, 2, true), b = centred<int32_t>(call, 1, 3, false);
  int32_t* y = call.out<int32_t>(0);
  p.each([&](int64_t i, int64_t ia, int64_t ib) {
    gemm_ref<int32_t, uint32_t>(call.threads(), p.m, p.n, p.k, a.data() + ia * p.m * p.k, p.k, false,
                                b.data() + ib * p.k * p.n, p.n, false, y + i * p.m * p.n, p.n);
  });
  return {};
}

constexpr TypeSet kBytes = set_of(DType::i8, DType::u8);
constexpr TypeRule kTypes[] = {
    {in_arg(0) | in_arg(2), kBytes}, {in_arg(1) | in_arg(3), kBytes}, {out_arg(0), set_of(DType::i32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};
constexpr int16_t kVersions[] = {10};

}  // namespace

extern constexpr Op kMatMulInteger{.domain = "",
                                   .name = "MatMulInteger",
                                   .versions = kVersions,
                                   .types = type_always<DType::i32>,
                                   .shape = shape_plain<int64_t, shape<int64_t>>,
                                   .kernels = kKernels};
extern constexpr OpInference kMatMulIntegerInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
