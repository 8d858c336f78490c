// MatMulIntegerToFloat — the product of two quantized matrices as numbers — and the products made of it or of
// MatMulInteger: DynamicQuantizeMatMul, QGemm, MatMulInteger16.
#include "ops/agree.h"
#include "ops/contrib/contrib.h"
#include "ops/quant/integer_matmul.h"

namespace tessera {
namespace {
using namespace contrib;

enum Input { kA, kB, kAScale, kBScale, kAZero, kBZero, kBias };
constexpr Arity kToFloat{in_arg(kA) | in_arg(kB) | in_arg(kAScale) | in_arg(kBScale), 7};
constexpr Arity kDynamic{in_arg(0) | in_arg(1) | in_arg(2), 5}, kTwo{in_arg(0) | in_arg(1), 2};
constexpr Arity kQGemm{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4) | in_arg(5), 9};

template <class D>
Status shape(ShapeCall<D>& c) {
  for (const int i : {kAScale, kAZero}) TRY(check_per_line(c, i, kA, true));
  for (const int i : {kBScale, kBZero}) TRY(check_per_line(c, i, kB, false));
  TRY((matmul_output<D, kA, kB>(c)));
  const int rank = c.rank(kB);
  if (c.has(kBias) && !is_list(c, kBias, rank > 1 ? c.dim(kB, rank - 1) : D(1)))
    return c.refuse(kBias, "a number for each column of the product");
  return {};
}

Status compute(Call& call) {
  const MatMulBatch p(call.shape(kA), call.shape(kB), call.out_shape(0));
  const PerLine<float> a_scale(call, kAScale, 1), b_scale(call, kBScale, 1);
  const float* bias = call.maybe<float>(kBias);
  float* y = call.out<float>(0);
  TRY_ASSIGN(sums, Tensor::allocate(DType::i32, Shape{p.m, p.n}));
  auto* from = static_cast<int32_t*>(sums.mutable_data());
  return integer_products(
      call, p, {kA, kAZero, kB, kBZero}, [&](int64_t) { return from; },
      [&](int64_t i, int64_t ia, int64_t ib) {
        for_pieces(call, p.m * p.n, [&](int64_t begin, int64_t count) {
          for (int64_t e = begin; e < begin + count; ++e) {
            const int64_t r = e / p.n, j = e % p.n;
            const float scale = a_scale.at(ia, r, p.m) * b_scale.at(ib, j, p.n);
            y[i * p.m * p.n + e] = static_cast<float>(from[e]) * scale + (bias ? bias[j] : 0);
          }
        });
      });
}

// Quantizes A, then multiplies.
Status compose_dynamic(Composer& c) {
  const ir::ValueId a = c.op("DynamicQuantizeLinear", {c.in(0)}, {}, 3);
  c.out(0, c.op("com.microsoft.MatMulIntegerToFloat", {a, c.in(1), a + 1, c.in(2), a + 2, c.in(3), c.in(4)}));
  return {};
}

Status compose_qgemm(Composer& c) {
  bool trans_a = false, trans_b = false;
  float alpha = 1;
  c.attrs().get("transA", trans_a);
  c.attrs().get("transB", trans_b);
  c.attrs().get("alpha", alpha);
  const auto turned = [&](bool turn, ir::ValueId x) {
    return turn ? c.op("Transpose", {x}, {ir::Attribute::integers("perm", {1, 0})}) : x;
  };
  ir::ValueId sum = c.op("MatMulInteger", {turned(trans_a, c.in(0)), turned(trans_b, c.in(3)), c.in(2), c.in(5)});
  if (c.has(6)) sum = c.op("Add", {sum, c.in(6)});
  ir::ValueId scale = c.op("Mul", {c.in(1), c.in(4)});
  if (alpha != 1) scale = c.op("Mul", {scale, c.scalar(alpha, scale)});
  const ir::ValueId y = c.op("Mul", {c.op("CastLike", {sum, scale}), scale});
  if (!c.has(7)) return c.out(0, y), Status{};
  if (!c.has(8)) return invalid_graph("y_scale and y_zero_point go together");
  c.out(0, c.op("QuantizeLinear", {y, c.in(7), c.in(8)}));
  return {};
}

Status compose_integer16(Composer& c) {
  const auto wide = [&](ir::ValueId x) {
    return c.op("Cast", {x}, {ir::Attribute::integer("to", static_cast<int64_t>(DType::i32))});
  };
  c.out(0, c.op("MatMul", {wide(c.in(0)), wide(c.in(1))}));
  return {};
}

constexpr Packing kPacks[] = {byte_matrix<kB>()};
constexpr TypeSet kBytes = set_of(DType::i8, DType::u8);
constexpr TypeRule kTypes[] = {
    {in_arg(kA) | in_arg(kAZero), kBytes},
    {in_arg(kB) | in_arg(kBZero), kBytes},
    {in_arg(kAScale) | in_arg(kBScale) | in_arg(kBias) | out_arg(0), set_of(DType::f32), kHalfFloats}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};

}  // namespace

extern constexpr Op kMicrosoftMatMulIntegerToFloat{.domain = kDomain,
                                                   .name = "MatMulIntegerToFloat",
                                                   .versions = kVersions,
                                                   .parse = parse_nothing<kToFloat>,
                                                   .types = type_of_input<kAScale>,
                                                   .shape = shape_plain<int64_t, shape<int64_t>>,
                                                   .kernels = kKernels,
                                                   .scratch = byte_matrix_scratch<kB>,
                                                   .packs = kPacks};
extern constexpr Op kMicrosoftDynamicQuantizeMatMul = composed<kDynamic, compose_dynamic>("DynamicQuantizeMatMul");
extern constexpr Op kMicrosoftQGemm = composed<kQGemm, compose_qgemm>("QGemm");
extern constexpr Op kMicrosoftMatMulInteger16 = composed<kTwo, compose_integer16>("MatMulInteger16");
extern constexpr OpInference kMicrosoftMatMulIntegerToFloatInference{.shape = shape_plain<Dim, shape<Dim>>};
extern constexpr OpInference kMicrosoftDynamicQuantizeMatMulInference{};
extern constexpr OpInference kMicrosoftQGemmInference{};
extern constexpr OpInference kMicrosoftMatMulInteger16Inference{};

}  // namespace tessera
