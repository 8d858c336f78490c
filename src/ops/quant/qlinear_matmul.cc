// QLinearMatMul — the product of two quantized matrices, quantized.
#include <algorithm>
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

// Of the product, summed and quantized at a time. Columns are whole panels of the packed matrix.
constexpr int64_t kTileRows = 48, kTileColumns = 512;

// Bytes to bytes.
Status compute_bytes(Call& call) {
  const MatMulBatch p(call.shape(kA), call.shape(kB), call.out_shape(0));
  const Multiplier multiplier(call);
  auto* y = call.out<uint8_t>(0);
  const float zero = PerLine<float>(call, kYZero, 0).at(0, 0, 1);
  const bool is_signed = call.out_dtype(0) == DType::i8;
  const int64_t across = ceil_div(p.n, kTileColumns);
  return each_integer_product(
      call, p, {kA, kAZero, kB, kBZero}, [&](const GemmI8& g, int64_t i, int64_t ia, int64_t ib) {
        call.parallel(ceil_div(p.m, kTileRows) * across, [&](int64_t chunk, int) {
          const int64_t row = chunk / across * kTileRows, column = chunk % across * kTileColumns;
          alignas(64) int32_t sums[kTileRows * kTileColumns];
          float scale[kTileColumns];
          const GemmI8 tile = part_of(g, row, std::min(kTileRows, p.m - row), column,
                                      std::min(kTileColumns, p.n - column), sums, kTileColumns);
          gemm_i8(call.target(), 1, tile);
          const Requantize r{scale, 1, 0, zero, is_signed};
          for (int64_t k = 0; k < tile.m; ++k) {
            for (int64_t j = 0; j < tile.n && (k == 0 || !multiplier.one_row()); ++j)
              scale[j] = multiplier.at(p, ia, row + k, ib, column + j);
            requantize(call.target(), r, sums + k * kTileColumns, tile.n, y + (i * p.m + row + k) * p.n + column);
          }
        });
      });
}

// Sums as bytes around a zero point.
void round_to_bytes(std::vector<float>& sums, float zero, bool is_signed) {
  const float least = is_signed ? -128.0f : 0.0f;
  for (float& v : sums) v = std::isnan(v) ? zero : std::clamp(std::nearbyint(v) + zero, least, least + 255);
}

// 8-bit floats: products and sums in float.
Status compute_float8(Call& call) {
  const MatMulBatch p(call.shape(kA), call.shape(kB), call.out_shape(0));
  const std::vector<float> a = centred<float>(call, kA, kAZero, true), b = centred<float>(call, kB, kBZero, false);
  const Multiplier scale(call);
  std::vector<float> sums(static_cast<size_t>(p.m * p.n));
  const bool to_bytes = !kFloat8.has(call.out_dtype(0));
  const float zero = PerLine<float>(call, kYZero, 0).at(0, 0, 1);
  p.each([&](int64_t i, int64_t ia, int64_t ib) {
    gemm_ref<float, float>(call.threads(), p.m, p.n, p.k, a.data() + ia * p.m * p.k, p.k, false,
                           b.data() + ib * p.k * p.n, p.n, false, sums.data(), p.n);
    for (int64_t r = 0; r < p.m; ++r)
      for (int64_t j = 0; j < p.n; ++j) sums[static_cast<size_t>(r * p.n + j)] *= scale.at(p, ia, r, ib, j);
    if (to_bytes) round_to_bytes(sums, zero, call.out_dtype(0) == DType::i8);
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
                                    {in_arg(kYZero) | out_arg(0), kBytes | kFloat8},
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
