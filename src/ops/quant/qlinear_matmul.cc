// QLinearMatMul — the product of two quantized matrices, quantized.
#include <cmath>

#include "kernels/requantize.h"
#include "ops/quant/integer_matmul.h"

namespace tessera {
namespace {

enum Input { kA, kAScale, kAZero, kB, kBScale, kBZero, kYScale, kYZero };

template <class D>
Status shape(ShapeCall<D>& c) {
  for (const int i : {kAScale, kAZero}) TRY(check_per_line(c, i, kA, true));
  for (const int i : {kBScale, kBZero}) TRY(check_per_line(c, i, kB, false));
  TRY((matmul_output<D, kA, kB>(c)));
  for (const int i : {kYScale, kYZero}) {
    const D n = c.count(i);
    if (known(n) && number(n) != 1) return c.refuse(i, "one number");
  }
  return {};
}

// The product's scale over the output's, each operation rounded to the type of the scales.
class Multiplier {
 public:
  explicit Multiplier(const Call& call)
      : type_(call.dtype(kAScale)), a_(call, kAScale, 1), b_(call, kBScale, 1), y_(call, kYScale, 1) {}
  // The same for all rows.
  bool one_row() const { return a_.one(); }
  float at(const MatMulBatch& p, int64_t ia, int64_t row, int64_t ib, int64_t column) const {
    return rounded(rounded(a_.at(ia, row, p.m) * b_.at(ib, column, p.n)) / y_.at(0, 0, 1));
  }

 private:
  float rounded(float v) const {
    if (type_ == DType::f16) return f16_to_float(float_to_f16(v));
    if (type_ == DType::bf16) return bf16_to_float(float_to_bf16(v));
    return v;
  }
  DType type_;
  PerLine<float> a_, b_, y_;
};

// Bytes to bytes.
Status compute_bytes(Call& call) {
  const MatMulBatch p(call.shape(kA), call.shape(kB), call.out_shape(0));
  const Multiplier multiplier(call);
  std::vector<int32_t> sums(static_cast<size_t>(p.m * p.n));
  std::vector<float> scale(static_cast<size_t>(p.n));
  auto* y = call.out<uint8_t>(0);
  Requantize r;
  r.scale = scale.data();
  r.scale_step = 1;
  r.zero = PerLine<float>(call, kYZero, 0).at(0, 0, 1);
  r.is_signed = call.out_dtype(0) == DType::i8;
  return integer_products(
      call, p, {kA, kAZero, kB, kBZero}, [&](int64_t) { return sums.data(); },
      [&](int64_t i, int64_t ia, int64_t ib) {
        for (int64_t row = 0; row < p.m; ++row) {
          for (int64_t j = 0; j < p.n && (row == 0 || !multiplier.one_row()); ++j)
            scale[static_cast<size_t>(j)] = multiplier.at(p, ia, row, ib, j);
          requantize(call.target(), r, sums.data() + row * p.n, p.n, y + (i * p.m + row) * p.n);
        }
      });
}

// 8-bit floats: products and sums in float.
Status compute_float8(Call& call) {
  const MatMulBatch p(call.shape(kA), call.shape(kB), call.out_shape(0));
  const std::vector<float> a = centred<float>(call, kA, kAZero, true), b = centred<float>(call, kB, kBZero, false);
  const Multiplier scale(call);
  std::vector<float> sums(static_cast<size_t>(p.m * p.n));
  p.each([&](int64_t i, int64_t ia, int64_t ib) {
    gemm_ref<float, float>(call.threads(), p.m, p.n, p.k, a.data() + ia * p.m * p.k, p.k, false,
                           b.data() + ib * p.k * p.n, p.n, false, sums.data(), p.n);
    for (int64_t r = 0; r < p.m; ++r)
      for (int64_t j = 0; j < p.n; ++j) sums[static_cast<size_t>(r * p.n + j)] *= scale.at(p, ia, r, ib, j);
    encode(call.out_dtype(0), call.out(0), i * p.m * p.n, p.m * p.n, sums.data());
  });
  return {};
}

constexpr Packing kPacks[] = {byte_matrix<kB>()};
void types(TypeCall& c) { c.out[0] = c.in[kYZero]; }

constexpr TypeSet kBytes = set_of(DType::i8, DType::u8);
constexpr TypeSet kScales = kHalfFloats | set_of(DType::f32);
constexpr TypeRule kScaleRule{in_arg(kAScale) | in_arg(kBScale) | in_arg(kYScale), kScales};
constexpr TypeRule kByteTypes[] = {{in_arg(kA) | in_arg(kAZero), kBytes},
                                   {in_arg(kB) | in_arg(kBZero), kBytes},
                                   {in_arg(kYZero) | out_arg(0), kBytes},
                                   kScaleRule};
constexpr TypeRule kFloatTypes[] = {{in_arg(kA) | in_arg(kAZero), kBytes | kFloat8},
                                    {in_arg(kB) | in_arg(kBZero), kBytes | kFloat8},
                                    {in_arg(kYZero) | out_arg(0), kFloat8},
                                    kScaleRule};
constexpr Kernel kKernels[] = {{kByteTypes, compute_plain<compute_bytes>},
                               {kFloatTypes, compute_plain<compute_float8>}};
constexpr int16_t kVersions[] = {10, 21};

}  // namespace

extern constexpr Op kQLinearMatMul{.domain = "",
                                   .name = "QLinearMatMul",
                                   .versions = kVersions,
                                   .types = types,
                                   .shape = shape_plain<int64_t, shape<int64_t>>,
                                   .kernels = kKernels,
                                   .scratch = byte_matrix_scratch<kB>,
                                   .packs = kPacks};
extern constexpr OpInference kQLinearMatMulInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
