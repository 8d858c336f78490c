// RMSNormalization and SimplifiedLayerNormalization — each row divided by the root of its mean square, then scaled. The
// second, ONNX Runtime's name for the same, can also give what rows were multiplied by.
#include "kernels/rows.h"
#include "ops/nn/row_norm.h"

namespace tessera {
namespace {

using Params = RowNormParams;

Status compute_float(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  const int axis = *normalize_axis(p.axis, shape.rank());
  const bool direct = is_row(call, 1, axis);
  const NormRows norm{direct ? call.in<float>(1) : nullptr, nullptr, p.epsilon, nullptr, call.out<float>(1)};
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
    if (float* factors = call.out<float>(1)) factors[r] = static_cast<float>(factor);
  });
  scale_and_shift<double>(call, call.out<double>(0), call.in<double>(1), nullptr);
  return {};
}

constexpr TypeRule kFloat[] = {{in_arg(0), set_of(DType::f32), kHalfFloats},
                               {in_arg(1) | out_arg(0), set_of(DType::f32), kHalfFloats},
                               {out_arg(1), set_of(DType::f32)}};
constexpr TypeSet kNarrower = kHalfFloats | set_of(DType::f32);
constexpr TypeRule kDouble[] = {{in_arg(0), set_of(DType::f64), kNarrower},
                                {in_arg(1) | out_arg(0), set_of(DType::f64), kNarrower},
                                {out_arg(1), set_of(DType::f32)}};
constexpr Kernel kKernels[] = {{kFloat, compute_with<Params, compute_float>},
                               {kDouble, compute_with<Params, compute_double>}};
constexpr int16_t kVersions[] = {23}, kSimplifiedVersions[] = {1};

void types(TypeCall& c) {
  c.out[0] = c.in[1];
  if (c.out.size() > 1) c.out[1] = {Kind::tensor, DType::f32, Kind::tensor};
}

Status parse_simplified(Attrs& a, Params& p) {
  const auto& in = a.node().inputs;
  if (in.size() != 2 || in[0] == ir::kNone || in[1] == ir::kNone || a.node().outputs.size() > 2)
    return invalid_graph("the operator has two inputs and at most two outputs");
  return Params::parse(a, p);
}

}  // namespace

extern constexpr Op kRMSNormalization{.domain = "",
                                      .name = "RMSNormalization",
                                      .versions = kVersions,
                                      .parse = parse_params<Params, Params::parse>,
                                      .types = types,
                                      .shape = shape_with<Params, int64_t, row_norm_shape<int64_t>>,
                                      .kernels = kKernels,
                                      .inplace = in_arg(0)};
extern constexpr Op kSimplifiedLayerNormalization{.domain = "",
                                                  .name = "SimplifiedLayerNormalization",
                                                  .versions = kSimplifiedVersions,
                                                  .parse = parse_params<Params, parse_simplified>,
                                                  .types = types,
                                                  .shape = shape_with<Params, int64_t, row_norm_shape<int64_t>>,
                                                  .kernels = kKernels,
                                                  .inplace = in_arg(0)};
extern constexpr OpInference kRMSNormalizationInference{.shape = shape_with<Params, Dim, row_norm_shape<Dim>>};
extern constexpr OpInference kSimplifiedLayerNormalizationInference{.shape =
                                                                        shape_with<Params, Dim, row_norm_shape<Dim>>};

}  // namespace tessera
