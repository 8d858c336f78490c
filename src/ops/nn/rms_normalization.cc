// RMSNormalization — each row divided by the root of its mean square, then scaled.
#include "kernels/rows.h"
#include "ops/nn/row_norm.h"

namespace tessera {
namespace {

using Params = RowNormParams;

Status compute_float(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  const int axis = *normalize_axis(p.axis, shape.rank());
  const bool direct = is_row(call, 1, axis);
  const NormRows norm{direct ? call.in<float>(1) : nullptr, nullptr, p.epsilon, nullptr, nullptr};
  rms_norm_rows(call.target(), call.threads(), call.in<float>(0), call.out<float>(0), shape.count(0, axis),
                shape.count(axis, shape.rank()), norm);
  if (!direct) scale_and_shift<float>(call, call.out<float>(0), call.in<float>(1), nullptr);
  return {};
}

Status compute_double(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  const int axis = *normalize_axis(p.axis, shape.rank());
  const int64_t rows = shape.count(0, axis), cols = shape.count(axis, shape.rank());
  each_row(call, rows, cols, [&](int64_t r) {
    const double* x = call.in<double>(0) + r * cols;
    double* y = call.out<double>(0) + r * cols;
    double squares = 0;
    for (int64_t i = 0; i < cols; ++i) squares += x[i] * x[i];
    const double factor = 1 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(p.epsilon));
    for (int64_t i = 0; i < cols; ++i) y[i] = x[i] * factor;
  });
  scale_and_shift<double>(call, call.out<double>(0), call.in<double>(1), nullptr);
  return {};
}

constexpr TypeRule kFloat[] = {{in_arg(0), set_of(DType::f32), kHalfFloats},
                               {in_arg(1) | out_arg(0), set_of(DType::f32), kHalfFloats}};
constexpr TypeSet kNarrower = kHalfFloats | set_of(DType::f32);
constexpr TypeRule kDouble[] = {{in_arg(0), set_of(DType::f64), kNarrower},
                                {in_arg(1) | out_arg(0), set_of(DType::f64), kNarrower}};
constexpr Kernel kKernels[] = {{kFloat, compute_with<Params, compute_float>},
                               {kDouble, compute_with<Params, compute_double>}};
constexpr int16_t kVersions[] = {23};

}  // namespace

extern constexpr Op kRMSNormalization{.domain = "",
                                      .name = "RMSNormalization",
                                      .versions = kVersions,
                                      .parse = parse_params<Params, Params::parse>,
                                      .types = type_of_input<1>,
                                      .shape = shape_with<Params, int64_t, row_norm_shape<int64_t>>,
                                      .kernels = kKernels,
                                      .inplace = in_arg(0)};
extern constexpr OpInference kRMSNormalizationInference{.shape = shape_with<Params, Dim, row_norm_shape<Dim>>};

}  // namespace tessera
