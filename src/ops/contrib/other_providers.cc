// Operators that ONNX Runtime has for other processors only, by way of those they are made of: normalisations,
// activations behind a bias, quantised arithmetic, Fourier transforms.
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;
using ir::Attribute;
using ir::ValueId;

constexpr Arity kOne{in_arg(0), 1}, kTwo{in_arg(0) | in_arg(1), 2}, kThree{in_arg(0) | in_arg(1) | in_arg(2), 3};
constexpr Arity kGemm{in_arg(0) | in_arg(1), 3}, kConv{in_arg(0) | in_arg(1), 4}, kNorm = kThree;
constexpr Arity kSkipNorm{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3), 5, 2}, kMulInteger{in_arg(0) | in_arg(2), 4};
constexpr Arity kReduce{in_arg(0) | in_arg(1) | in_arg(3), 5}, kEmbedding{in_arg(0) | in_arg(1), 4};
constexpr Arity kFinite{in_arg(0), 64}, kDropout{in_arg(0) | in_arg(1), 5, 2}, kBitDropout{in_arg(0), 3, 2};
constexpr Arity kGemma{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4), 5, 2};

ValueId split(Composer& c, ValueId x, int64_t axis) {
  return c.op("Split", {x}, {Attribute::integer("axis", axis), Attribute::integer("num_outputs", 2)}, 2);
}
ValueId dims(Composer& c, ValueId x, int64_t start, int64_t end) {
  return c.op("Shape", {x}, {Attribute::integer("start", start), Attribute::integer("end", end)});
}
ValueId as_float(Composer& c, ValueId x) { return c.op("Cast", {x}, {Attribute::integer("to", 1)}); }
ValueId transpose(Composer& c, ValueId x, std::vector<int64_t> perm) {
  return c.op("Transpose", {x}, {Attribute::integers("perm", std::move(perm))});
}
bool wants(Composer& c, int o) {
  return o < c.outputs() && c.attrs().node().outputs[static_cast<size_t>(o)] != ir::kNone;
}

// ------------------------------------------------------------------------------------ behind a bias

Status compose_bias_add(Composer& c) {
  c.out(0, c.op("Add", {c.op("Add", {c.in(0), c.in(1)}), c.in(2)}));
  return {};
}

Status compose_bias_split_gelu(Composer& c) {
  const ValueId half = split(c, c.op("Add", {c.in(0), c.in(1)}), -1);
  c.out(0, c.op("Mul", {half, c.op("Gelu", {half + 1})}));
  return {};
}

// The softmax runs over all dimensions from the axis on.
Status compose_bias_softmax(Composer& c) {
  int64_t axis = 1;
  c.attrs().get("axis", axis);
  const ValueId x = c.op("Add", {c.in(0), c.in(1)});
  const ValueId rows = c.op("Flatten", {x}, {Attribute::integer("axis", axis)});
  const ValueId y = c.op("Softmax", {rows}, {Attribute::integer("axis", 1)});
  c.out(0, c.op("Reshape", {y, c.op("Shape", {x})}));
  return {};
}

Status compose_gemm_fast_gelu(Composer& c) {
  std::vector<ValueId> in{c.op("MatMul", {c.in(0), c.in(1)})};
  if (c.has(2)) in.push_back(c.in(2));
  c.out(0, c.op("com.microsoft.FastGelu", std::move(in)));
  return {};
}

Status compose_matmul_activation(Composer& c) {
  static constexpr std::string_view kNames[] = {"Relu",      "Tanh",       "Sigmoid",  "Softplus",        "Softsign",
                                                "LeakyRelu", "Elu",        "Selu",     "ThresholdedRelu", "HardSigmoid",
                                                "Softmax",   "LogSoftmax", "HardSwish"};
  if (!c.attrs().has("activation")) return c.attrs().refuse("activation", "the name of an activation");
  int kind = 0;
  c.attrs().get_choice("activation", kind, kNames);
  TRY(c.attrs().done());
  std::vector<Attribute> attributes;
  for (const char* name : {"alpha", "beta", "gamma"}) {
    const std::string given = std::string("activation_") + name;
    float v = 0;
    c.attrs().get(given, v);
    if (c.attrs().has(given)) attributes.push_back(Attribute::real(name, v));
  }
  int64_t axis = -1;
  c.attrs().get("activation_axis", axis);
  if (c.attrs().has("activation_axis")) attributes.push_back(Attribute::integer("axis", axis));
  const ValueId x = c.op("com.microsoft.FusedMatMul", {c.in(0), c.in(1)},
                         keep_attributes(c, {"alpha", "transA", "transB", "transBatchA", "transBatchB"}));
  c.out(0, c.op(std::string(kNames[static_cast<size_t>(kind)]).c_str(), {x}, std::move(attributes)));
  return {};
}

// Dropout of data + bias, and a residual.
Status compose_bias_dropout(Composer& c) {
  const ValueId x = c.op("Add", {c.in(0), c.in(1)});
  const ValueId y = c.op("Dropout", {x, c.in(3), c.in(4)}, keep_attributes(c, {"seed"}), 2);
  c.out(0, c.has(2) ? c.op("Add", {y, c.in(2)}) : y);
  c.out(1, y + 1);
  return {};
}

Status no_bitmask(Composer& c) { return wants(c, 1) ? not_implemented("output 1 (mask): masks of bits") : Status{}; }

Status compose_bitmask_bias_dropout(Composer& c) {
  TRY(no_bitmask(c));
  return compose_bias_dropout(c);
}

Status compose_bitmask_dropout(Composer& c) {
  TRY(no_bitmask(c));
  c.out(0, c.op("Dropout", {c.in(0), c.in(1), c.in(2)}, keep_attributes(c, {"seed"}), 2));
  return {};
}

// ------------------------------------------------------------------------------------ normalisations

// Of [n, h, w, c], or of [n, c, h, w]; in float.
Status normalize(Composer& c, ValueId sum) {
  bool last = true;
  int64_t activation = 0;
  c.attrs().get("channels_last", last);
  c.attrs().get("activation", activation);
  if (activation != 0 && activation != 1) return c.attrs().refuse("activation", "0 or 1");
  std::vector<Attribute> attributes = keep_attributes(c, {"epsilon"});
  int64_t groups = 0;
  c.attrs().get("groups", groups);
  if (groups < 1) return c.attrs().refuse("groups", "at least 1");
  attributes.push_back(Attribute::integer("num_groups", groups));
  const ValueId x = as_float(c, last ? transpose(c, sum, {0, 3, 1, 2}) : sum);
  ValueId y = c.op("GroupNormalization", {x, as_float(c, c.in(1)), as_float(c, c.in(2))}, std::move(attributes));
  if (activation == 1) y = c.op("Mul", {y, c.op("Sigmoid", {y})});
  c.out(0, c.op("CastLike", {last ? transpose(c, y, {0, 2, 3, 1}) : y, c.in(0)}));
  return {};
}

Status compose_group_norm(Composer& c) { return normalize(c, c.in(0)); }

// The skip is like x, or has one element for each channel of a sample.
Status compose_skip_group_norm(Composer& c) {
  bool last = true;
  c.attrs().get("channels_last", last);
  if (!last) return c.attrs().refuse("channels_last", "1");
  const ValueId x = c.in(0);
  const ValueId flat =
      c.op("Concat", {dims(c, x, 0, 1), list(c, {-1}), dims(c, x, 3, 4)}, {Attribute::integer("axis", 0)});
  ValueId sum = c.op("Add", {c.op("Reshape", {x, flat}), c.op("Reshape", {c.in(3), flat})});
  if (c.has(4)) sum = c.op("Add", {sum, c.in(4)});
  sum = c.op("Reshape", {sum, c.op("Shape", {x})});
  c.out(1, sum);
  return normalize(c, sum);
}

// ------------------------------------------------------------------------------------ channels last

Status compose_nhwc_conv(Composer& c) {
  std::vector<ValueId> in{transpose(c, c.in(0), {0, 3, 1, 2}), c.in(1), c.in(2)};
  if (c.has(3)) in.push_back(transpose(c, c.in(3), {0, 3, 1, 2}));
  const ValueId y = c.op("com.microsoft.FusedConv", std::move(in),
                         keep_attributes(c, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides",
                                             "activation", "activation_params"}));
  c.out(0, transpose(c, y, {0, 2, 3, 1}));
  return {};
}

// ------------------------------------------------------------------------------------ numbers

Status compose_mul_integer(Composer& c) {
  const auto wide = [&](int i) {
    const auto cast = [&](ValueId v) { return c.op("Cast", {v}, {Attribute::integer("to", 6)}); };
    return c.has(i + 1) ? c.op("Sub", {cast(c.in(i)), cast(c.in(i + 1))}) : cast(c.in(i));
  };
  c.out(0, c.op("Mul", {wide(0), wide(2)}));
  return {};
}

Status compose_qlinear_reduce_mean(Composer& c) {
  std::vector<int64_t> axes;
  c.attrs().get("axes", axes);
  const ValueId x = c.op("DequantizeLinear", {c.in(0), c.in(1), c.in(2)});
  const ValueId mean = c.op("ReduceMean", {x, list(c, std::move(axes))}, keep_attributes(c, {"keepdims"}));
  const ValueId zero = c.has(4) ? c.in(4) : c.op("CastLike", {c.scalar(0, c.in(3)), c.in(0)});
  c.out(0, c.op("QuantizeLinear", {mean, c.in(3), zero}));
  return {};
}

Status compose_embedding(Composer& c) {
  c.out(0, c.op("Gather", {c.in(0), c.in(1)}));
  return {};
}

// Pairs of numbers in the last dimension; with the second factor's conjugate if asked for.
template <bool Conjugate>
Status compose_complex_mul(Composer& c) {
  const ValueId a = split(c, c.in(0), -1), b = split(c, c.in(1), -1);
  const auto mul = [&](ValueId x, ValueId y) { return c.op("Mul", {x, y}); };
  const ValueId real = c.op(Conjugate ? "Add" : "Sub", {mul(a, b), mul(a + 1, b + 1)});
  const ValueId imaginary = c.op(Conjugate ? "Sub" : "Add", {mul(a + 1, b), mul(a, b + 1)});
  c.out(0, c.op("Concat", {real, imaginary}, {Attribute::integer("axis", -1)}));
  return {};
}

Status check_fourier(Composer& c) {
  int64_t normalized = 0, onesided = 1, rank = 1;
  c.attrs().get("normalized", normalized);
  c.attrs().get("onesided", onesided);
  c.attrs().get("signal_ndim", rank);
  if (normalized != 0) return c.attrs().refuse("normalized", "0");
  if (onesided != 1) return c.attrs().refuse("onesided", "1");
  return rank == 1 ? Status{} : c.attrs().refuse("signal_ndim", "1");
}

ValueId axis(Composer& c, int64_t v) {
  Result<Tensor> t = Tensor::scalar<int64_t>(v);
  return t.ok() ? c.constant(std::move(*t)) : ir::kNone;
}

Status compose_rfft(Composer& c) {
  TRY(check_fourier(c));
  const ValueId x = c.op("Unsqueeze", {c.in(0), list(c, {-1})});
  c.out(0, c.op("DFT", {x, ir::kNone, axis(c, -2)}, {Attribute::integer("onesided", 1)}));
  return {};
}

// The other half of the spectrum is the conjugate of the first, backwards.
Status compose_irfft(Composer& c) {
  TRY(check_fourier(c));
  TRY_ASSIGN(signs, Tensor::of<float>(Shape{2}, std::array{1.f, -1.f}));
  const ValueId other = c.op("Slice", {c.in(0), list(c, {-2}), list(c, {0}), list(c, {-2}), list(c, {-1})});
  const ValueId conjugate = c.op("Mul", {other, c.op("CastLike", {c.constant(std::move(signs)), c.in(0)})});
  const ValueId whole = c.op("Concat", {c.in(0), conjugate}, {Attribute::integer("axis", -2)});
  const ValueId y = c.op("DFT", {whole, ir::kNone, axis(c, -2)}, {Attribute::integer("inverse", 1)});
  c.out(0, c.op("Squeeze", {split(c, y, -1), list(c, {-1})}));
  return {};
}

Status compose_all_finite(Composer& c) {
  bool only_inf = false, only_nan = false;
  c.attrs().get("isinf_only", only_inf);
  c.attrs().get("isnan_only", only_nan);
  if (only_inf && only_nan) return c.attrs().refuse("isnan_only", "0 beside isinf_only");
  std::vector<ValueId> counts;
  for (int i = 0; i < static_cast<int>(c.attrs().node().inputs.size()); ++i) {
    if (!c.has(i)) return invalid_graph("it lacks input {}", i);
    std::vector<ValueId> found;
    if (!only_nan) found.push_back(c.op("IsInf", {c.in(i)}));
    if (!only_inf) found.push_back(c.op("IsNaN", {c.in(i)}));
    const ValueId odd = found.size() == 2 ? c.op("Or", std::move(found)) : found[0];
    const ValueId ones = c.op("Cast", {odd}, {Attribute::integer("to", 7)});
    counts.push_back(c.op("ReduceSum", {ones}, {Attribute::integer("keepdims", 0)}));
  }
  const ValueId sum = counts.size() == 1 ? counts[0] : c.op("Max", std::move(counts));
  c.out(0, c.op("Not", {c.op("Cast", {sum}, {Attribute::integer("to", 9)})}));
  return {};
}

Status compose_gemma(Composer& c) {
  const auto table = [&](const char* name) {
    return c.op("Unsqueeze", {c.op("CastLike", {c.op(name, {c.in(0)}), c.in(1)}), list(c, {1})});
  };
  const ValueId cos = table("Cos"), sin = table("Sin");
  for (const int o : {0, 1})
    c.out(o, c.op("Add", {c.op("Mul", {c.in(1 + 2 * o), cos}), c.op("Mul", {c.in(2 + 2 * o), sin})}));
  return {};
}

// ------------------------------------------------------------------------------------ products of quantised weights

constexpr Arity kMlp{in_arg(0) | in_arg(3) | in_arg(4) | in_arg(6) | in_arg(7), 9, 2};
constexpr Arity kQkv{in_arg(0) | in_arg(2) | in_arg(3) | in_arg(4) | in_arg(6) | in_arg(7) | in_arg(9) | in_arg(10), 12,
                     4};

// What the products share: the input, normalised (with a residual) if there is a scale for that.
ValueId normalized_input(Composer& c, int sum_output, float epsilon) {
  c.attrs().get("epsilon", epsilon);
  if (!c.has(2)) return c.in(0);
  const ValueId sum = c.has(1) ? c.op("Add", {c.in(0), c.in(1)}) : c.in(0);
  if (c.has(1)) c.out(sum_output, sum);
  return c.op("SimplifiedLayerNormalization", {sum, c.in(2)}, {Attribute::real("epsilon", epsilon)}, 2);
}

ValueId product(Composer& c, ValueId x, int first, const char* columns) {
  int64_t n = 0;
  c.attrs().get(columns, n);
  std::vector<Attribute> attributes = keep_attributes(c, {"K", "bits", "block_size", "accuracy_level"});
  attributes.push_back(Attribute::integer("N", n));
  return c.op("com.microsoft.MatMulNBits", {x, c.in(first), c.in(first + 1), ir::kNone, ir::kNone, c.in(first + 2)},
              std::move(attributes));
}

Status compose_mlp(Composer& c) {
  static constexpr std::string_view kNames[] = {"silu", "swish", "gelu", "relu"};
  int kind = -1;
  c.attrs().get_choice("activation", kind, kNames);
  TRY(c.attrs().done());
  if (kind < 0) return c.attrs().refuse("activation", "silu, swish, gelu or relu");
  const ValueId x = normalized_input(c, 1, 1e-5f);
  ValueId gate = product(c, x, 3, "N");
  gate = kind < 2 ? c.op("Mul", {gate, c.op("Sigmoid", {gate})}) : c.op(kind == 2 ? "Gelu" : "Relu", {gate});
  c.out(0, c.op("Mul", {gate, product(c, x, 6, "N")}));
  return {};
}

Status compose_qkv(Composer& c) {
  const ValueId x = normalized_input(c, 3, 1e-6f);
  for (const int o : {0, 1, 2}) c.out(o, product(c, x, 3 + 3 * o, o == 0 ? "Nq" : "Nkv"));
  return {};
}

}  // namespace

extern constexpr Op kMicrosoftBiasAdd = composed<kThree, compose_bias_add>("BiasAdd");
extern constexpr Op kMicrosoftBiasSplitGelu = composed<kTwo, compose_bias_split_gelu>("BiasSplitGelu");
extern constexpr Op kMicrosoftBiasSoftmax = composed<kTwo, compose_bias_softmax>("BiasSoftmax");
extern constexpr Op kMicrosoftGemmFastGelu = composed<kGemm, compose_gemm_fast_gelu>("GemmFastGelu");
extern constexpr Op kMicrosoftFusedMatMulActivation =
    composed<kTwo, compose_matmul_activation>("FusedMatMulActivation");
extern constexpr Op kMicrosoftBiasDropout = composed<kDropout, compose_bias_dropout>("BiasDropout");
extern constexpr Op kMicrosoftBitmaskBiasDropout =
    composed<kDropout, compose_bitmask_bias_dropout>("BitmaskBiasDropout");
extern constexpr Op kMicrosoftBitmaskDropout = composed<kBitDropout, compose_bitmask_dropout>("BitmaskDropout");
extern constexpr Op kMicrosoftGroupNorm = composed<kNorm, compose_group_norm>("GroupNorm");
extern constexpr Op kMicrosoftSkipGroupNorm = composed<kSkipNorm, compose_skip_group_norm>("SkipGroupNorm");
extern constexpr Op kMicrosoftNhwcConv = composed<kGemm, compose_nhwc_conv>("NhwcConv");
extern constexpr Op kMicrosoftNhwcFusedConv = composed<kConv, compose_nhwc_conv>("NhwcFusedConv");
extern constexpr Op kMicrosoftMulInteger = composed<kMulInteger, compose_mul_integer>("MulInteger");
extern constexpr Op kMicrosoftQLinearReduceMean = composed<kReduce, compose_qlinear_reduce_mean>("QLinearReduceMean");
extern constexpr Op kMicrosoftTorchEmbedding = composed<kEmbedding, compose_embedding>("TorchEmbedding");
extern constexpr Op kMicrosoftComplexMul = composed<kTwo, compose_complex_mul<false>>("ComplexMul");
extern constexpr Op kMicrosoftComplexMulConj = composed<kTwo, compose_complex_mul<true>>("ComplexMulConj");
extern constexpr Op kMicrosoftRfft = composed<kOne, compose_rfft>("Rfft");
extern constexpr Op kMicrosoftIrfft = composed<kOne, compose_irfft>("Irfft");
extern constexpr Op kMicrosoftIsAllFinite = composed<kFinite, compose_all_finite>("IsAllFinite");
extern constexpr Op kMicrosoftGemmaRotaryEmbedding = composed<kGemma, compose_gemma>("GemmaRotaryEmbedding");
extern constexpr Op kMicrosoftMatMulNBitsMlp = composed<kMlp, compose_mlp>("MatMulNBitsMlp");
extern constexpr Op kMicrosoftMatMulNBitsQkv = composed<kQkv, compose_qkv>("MatMulNBitsQkv");
extern constexpr OpInference kMicrosoftBiasAddInference{};
extern constexpr OpInference kMicrosoftBiasSplitGeluInference{};
extern constexpr OpInference kMicrosoftBiasSoftmaxInference{};
extern constexpr OpInference kMicrosoftGemmFastGeluInference{};
extern constexpr OpInference kMicrosoftFusedMatMulActivationInference{};
extern constexpr OpInference kMicrosoftBiasDropoutInference{};
extern constexpr OpInference kMicrosoftBitmaskBiasDropoutInference{};
extern constexpr OpInference kMicrosoftBitmaskDropoutInference{};
extern constexpr OpInference kMicrosoftGroupNormInference{};
extern constexpr OpInference kMicrosoftSkipGroupNormInference{};
extern constexpr OpInference kMicrosoftNhwcConvInference{};
extern constexpr OpInference kMicrosoftNhwcFusedConvInference{};
extern constexpr OpInference kMicrosoftMulIntegerInference{};
extern constexpr OpInference kMicrosoftQLinearReduceMeanInference{};
extern constexpr OpInference kMicrosoftTorchEmbeddingInference{};
extern constexpr OpInference kMicrosoftComplexMulInference{};
extern constexpr OpInference kMicrosoftComplexMulConjInference{};
extern constexpr OpInference kMicrosoftRfftInference{};
extern constexpr OpInference kMicrosoftIrfftInference{};
extern constexpr OpInference kMicrosoftIsAllFiniteInference{};
extern constexpr OpInference kMicrosoftGemmaRotaryEmbeddingInference{};
extern constexpr OpInference kMicrosoftMatMulNBitsMlpInference{};
extern constexpr OpInference kMicrosoftMatMulNBitsQkvInference{};

}  // namespace tessera
