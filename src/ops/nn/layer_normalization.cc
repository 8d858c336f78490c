// LayerNormalization — each row to mean 0 and variance 1, then scaled and shifted.
//
// ONNX Runtime has it in the standard's domain from version 1 on, and writes it into models of older operator sets.
#include "kernels/rows.h"
#include "ops/nn/row_norm.h"

namespace tessera {
namespace {

using Params = RowNormParams;

Status parse(Attrs& a, Params& p) {
  const auto& in = a.node().inputs;
  if (in.size() < 2 || in.size() > 3 || in[0] == ir::kNone || in[1] == ir::kNone || a.node().outputs.size() > 3)
    return invalid_graph("the operator has two or three inputs and at most three outputs");
  TRY(Params::parse(a, p));
  if (p.stash_type != DType::f32 && p.stash_type != DType::bf16) return a.refuse("stash_type", "1 or 16");
  return {};
}

void types(TypeCall& c) {
  c.out[0] = c.in[0];
  const DType stash = static_cast<const Params*>(c.params)->stash_type;
  for (size_t o = 1; o < c.out.size(); ++o) c.out[o] = {Kind::tensor, stash, Kind::tensor};
}

Status compute_float(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  const int axis = *normalize_axis(p.axis, shape.rank());
  const int64_t rows = shape.count(0, axis), cols = shape.count(axis, shape.rank());
  const float *scale = call.in<float>(1), *bias = call.maybe<float>(2);
  const bool direct = is_row(call, 1, axis) && is_row(call, 2, axis);
  NormRows norm{direct ? scale : nullptr, direct ? bias : nullptr, p.epsilon, call.out<float>(1), call.out<float>(2)};
  layer_norm_rows(call.target(), call.threads(), call.in<float>(0), call.out<float>(0), rows, cols, norm);
  if (!direct) scale_and_shift(call, call.out<float>(0), scale, bias);
  return {};
}

Status compute_double(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  const int axis = *normalize_axis(p.axis, shape.rank());
  const int64_t rows = shape.count(0, axis), cols = shape.count(axis, shape.rank());
  float *means = call.out<float>(1), *inv_stds = call.out<float>(2);
  each_row(call, rows, cols, [&](int64_t r) {
    const double* x = call.in<double>(0) + r * cols;
    double* y = call.out<double>(0) + r * cols;
    double sum = 0, squares = 0;
    for (int64_t i = 0; i < cols; ++i) sum += x[i];
    const double mean = sum / static_cast<double>(cols);
    for (int64_t i = 0; i < cols; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const double inv_std = 1 / std::sqrt(squares / static_cast<double>(cols) + static_cast<double>(p.epsilon));
    for (int64_t i = 0; i < cols; ++i) y[i] = (x[i] - mean) * inv_std;
    if (means) means[r] = static_cast<float>(mean);
    if (inv_stds) inv_stds[r] = static_cast<float>(inv_std);
  });
  scale_and_shift(call, call.out<double>(0), call.in<double>(1), call.maybe<double>(2));
  return {};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0) | in_arg(1) | in_arg(2) | out_arg(0), set_of(dtype_of<T>), widened_to<T>},
                               {out_arg(1) | out_arg(2), set_of(DType::f32), set_of(DType::bf16)}};
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Params, compute_float>},
                               {kTypes<double>, compute_with<Params, compute_double>}};
constexpr int16_t kVersions[] = {1, 17};  // 1: ONNX Runtime's own, for older operator sets

}  // namespace

extern constexpr Op kLayerNormalization{.domain = "",
                                        .name = "LayerNormalization",
                                        .versions = kVersions,
                                        .parse = parse_params<Params, parse>,
                                        .types = types,
                                        .shape = shape_with<Params, int64_t, row_norm_shape<int64_t>>,
                                        .kernels = kKernels,
                                        .inplace = in_arg(0)};
extern constexpr OpInference kLayerNormalizationInference{.shape = shape_with<Params, Dim, row_norm_shape<Dim>>};

}  // namespace tessera
