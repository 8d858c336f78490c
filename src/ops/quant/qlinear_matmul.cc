// QLinearMatMul — the product of two quantized matrices, quantized.
#include <cmath>

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

// E: what the elements are multiplied as.
template <class E, class Acc>
Status compute(Call& call) {
  const MatMulBatch p(call.shape(kA), call.shape(kB), call.out_shape(0));
  const std::vector<E> a = centred<E>(call, kA, kAZero, true), b = centred<E>(call, kB, kBZero, false);
  const Multiplier scale(call);
  const DType type = call.out_dtype(0);
  const float zero = std::is_integral_v<E> ? PerLine<float>(call, kYZero, 0).at(0, 0, 1) : 0;
  const float low = type == DType::i8 ? -128 : 0, high = type == DType::i8 ? 127 : 255;
  std::vector<E> sums(static_cast<size_t>(p.m * p.n));
  std::vector<float> row(static_cast<size_t>(p.n));
  p.each([&](int64_t i, int64_t ia, int64_t ib) {
    gemm_ref<E, Acc>(call.threads(), p.m, p.n, p.k, a.data() + ia * p.m * p.k, p.k, false, b.data() + ib * p.k * p.n,
                     p.n, false, sums.data(), p.n);
    for (int64_t r = 0; r < p.m; ++r) {
      for (int64_t j = 0; j < p.n; ++j) {
        float v = static_cast<float>(sums[static_cast<size_t>(r * p.n + j)]) * scale.at(p, ia, r, ib, j);
        if (std::is_integral_v<E>) {
          v = std::nearbyint(v) + zero;
          v = v > low ? std::min(v, high) : low;
        }
        row[static_cast<size_t>(j)] = v;
      }
      encode(type, call.out(0), (i * p.m + r) * p.n, p.n, row.data());
    }
  });
  return {};
}

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
constexpr Kernel kKernels[] = {{kByteTypes, compute_plain<compute<int32_t, uint32_t>>},
                               {kFloatTypes, compute_plain<compute<float, float>>}};
constexpr int16_t kVersions[] = {10, 21};

}  // namespace

extern constexpr Op kQLinearMatMul{.domain = "",
                                   .name = "QLinearMatMul",
                                   .versions = kVersions,
                                   .types = types,
                                   .shape = shape_plain<int64_t, shape<int64_t>>,
                                   .kernels = kKernels};
extern constexpr OpInference kQLinearMatMulInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
