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
  int32_t* y = call.out<int32_t>(0);
  return integer_products(
      call, p, {0, 2, 1, 3}, [&](int64_t i) { return y + i * p.m * p.n; }, [](int64_t, int64_t, int64_t) {});
}

constexpr Packing kPacks[] = {byte_matrix<1>()};
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
                                   .kernels = kKernels,
                                   .scratch = byte_matrix_scratch<1>,
                                   .packs = kPacks};
extern constexpr OpInference kMatMulIntegerInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
