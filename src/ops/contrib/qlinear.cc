// Operators on quantized numbers that are the float operator between DequantizeLinear and QuantizeLinear.
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;
using ir::ValueId;

// The inputs of one quantized tensor.
struct Quantized {
  int x, scale, zero;
};

ValueId real(Composer& c, const Quantized& q) {
  std::vector<ValueId> inputs{c.in(q.x), c.in(q.scale)};
  if (c.has(q.zero)) inputs.push_back(c.in(q.zero));
  return c.op("DequantizeLinear", std::move(inputs));
}
// Output 0: v, of the type of input `like` where there is no zero point.
void quantized(Composer& c, ValueId v, int scale, int zero, int like) {
  c.out(0, c.op("QuantizeLinear", {v, c.in(scale), c.has(zero) ? c.in(zero) : c.scalar(0, c.in(like))}));
}

constexpr uint32_t inputs(std::initializer_list<int> list) {
  uint32_t all = 0;
  for (const int i : list) all |= in_arg(i);
  return all;
}

constexpr Arity kBinary{inputs({0, 1, 3, 4, 6}), 8}, kUnary{inputs({0, 1, 3}), 5},
    kWhere{inputs({0, 1, 2, 4, 5, 7}), 9};
constexpr Arity kConcat{inputs({0, 1, 2, 3}), 1 << 20}, kLinear{inputs({0, 1}), 3};
constexpr Arity kConv{inputs({0, 1, 2, 3, 4, 5, 6, 7}), 9};

template <const char* const& Name>
Status compose_binary(Composer& c) {
  quantized(c, c.op(Name, {real(c, {0, 1, 2}), real(c, {3, 4, 5})}), 6, 7, 0);
  return {};
}
constexpr const char *kAddName = "Add", *kMulName = "Mul";

Status compose_leaky_relu(Composer& c) {
  float alpha = 0.01f;
  c.attrs().get("alpha", alpha);
  quantized(c, c.op("LeakyRelu", {real(c, {0, 1, 2})}, {ir::Attribute::real("alpha", alpha)}), 3, 4, 0);
  return {};
}

Status compose_sigmoid(Composer& c) {
  quantized(c, c.op("Sigmoid", {real(c, {0, 1, 2})}), 3, 4, 0);
  return {};
}

// Before operator set 13 all dimensions from the axis on are one.
Status compose_softmax(Composer& c) {
  int64_t axis = -1, opset = 0;
  c.attrs().get("axis", axis);
  c.attrs().get("opset", opset);
  if (opset < 1) return c.attrs().refuse("opset", "the operator set of the Softmax that is meant");
  const ValueId x = real(c, {0, 1, 2});
  const auto along = [](int64_t a) { return std::vector{ir::Attribute::integer("axis", a)}; };
  if (opset >= 13) {
    quantized(c, c.op("Softmax", {x}, along(axis)), 3, 4, 0);
    return {};
  }
  const ValueId flat = c.op("Softmax", {c.op("Flatten", {x}, along(axis))}, along(-1));
  quantized(c, c.op("Reshape", {flat, c.op("Shape", {x})}), 3, 4, 0);
  return {};
}

Status compose_where(Composer& c) {
  quantized(c, c.op("Where", {c.in(0), real(c, {1, 2, 3}), real(c, {4, 5, 6})}), 7, 8, 1);
  return {};
}

// [n, spatial..., c] to [n, c, spatial...], or back.
ValueId channels_moved(Composer& c, ValueId x, int64_t rank, bool back) {
  std::vector<int64_t> perm{0};
  if (!back) perm.push_back(rank - 1);
  for (int64_t i = back ? 2 : 1; i < (back ? rank : rank - 1); ++i) perm.push_back(i);
  if (back) perm.push_back(1);
  return c.op("Transpose", {x}, {ir::Attribute::integers("perm", std::move(perm))});
}

Status compose_average_pool(Composer& c) {
  std::vector<int64_t> kernel;
  bool channels_last = false;
  c.attrs().get("kernel_shape", kernel);
  c.attrs().get("channels_last", channels_last);
  const auto rank = static_cast<int64_t>(kernel.size()) + 2;
  if (rank < 3 || rank > kMaxRank) return c.attrs().refuse("kernel_shape", "a size for each spatial dimension");
  ValueId x = real(c, {0, 1, 2});
  if (channels_last) x = channels_moved(c, x, rank, false);
  x = c.op("AveragePool", {x},
           keep_attributes(c, {"auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides"}));
  if (channels_last) x = channels_moved(c, x, rank, true);
  quantized(c, x, 3, 4, 0);
  return {};
}

Status compose_global_average_pool(Composer& c) {
  bool channels_last = false;
  c.attrs().get("channels_last", channels_last);
  const ValueId x = real(c, {0, 1, 2});
  if (!channels_last) return quantized(c, c.op("GlobalAveragePool", {x}), 3, 4, 0), Status{};
  const auto number = [&](int64_t v) {
    Result<Tensor> t = Tensor::scalar<int64_t>(v);
    return t.ok() ? c.constant(std::move(*t)) : ir::kNone;
  };
  const ValueId rank = c.op("Size", {c.op("Shape", {x})});
  const ValueId axes = c.op("Range", {number(1), c.op("Sub", {rank, number(1)}), number(1)});
  quantized(c, c.op("ReduceMean", {x, axes}), 3, 4, 0);
  return {};
}

// The convolution itself stays in integers.
Status compose_conv(Composer& c) {
  std::vector<int64_t> kernel;
  bool channels_last = false;
  c.attrs().get("kernel_shape", kernel);
  c.attrs().get("channels_last", channels_last);
  const auto rank = static_cast<int64_t>(kernel.size()) + 2;
  if (channels_last && (rank < 3 || rank > kMaxRank))
    return c.attrs().refuse("kernel_shape", "a size for each spatial dimension");
  std::vector<ValueId> all{channels_last ? channels_moved(c, c.in(0), rank, false) : c.in(0)};
  for (int i = 1; i < 9; ++i) all.push_back(c.in(i));
  const ValueId y = c.op("QLinearConv", std::move(all),
                         keep_attributes(c, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  c.out(0, channels_last ? channels_moved(c, y, rank, true) : y);
  return {};
}

Status compose_concat(Composer& c) {
  int64_t axis = 0;
  if (!c.attrs().has("axis")) return c.attrs().refuse("axis", "an integer");
  c.attrs().get("axis", axis);
  const auto count = static_cast<int>(c.attrs().node().inputs.size());
  if ((count - 2) % 3) return invalid_graph("each tensor comes with its scale and its zero point");
  std::vector<ValueId> parts;
  for (int i = 2; i < count; i += 3) {
    if (!c.has(i) || !c.has(i + 1)) return invalid_graph("input {} is missing", c.has(i) ? i + 1 : i);
    parts.push_back(real(c, {i, i + 1, i + 2}));
  }
  quantized(c, c.op("Concat", std::move(parts), {ir::Attribute::integer("axis", axis)}), 0, 1, 2);
  return {};
}

template <const char* const& Name>
Status compose_linear(Composer& c) {
  std::vector<ValueId> all{c.in(0), c.in(1)};
  if (c.has(2)) all.push_back(c.in(2));
  c.out(0, c.op(Name, std::move(all), keep_attributes(c, {"axis"})));
  return {};
}
constexpr const char *kQuantizeName = "QuantizeLinear", *kDequantizeName = "DequantizeLinear";

}  // namespace

extern constexpr Op kMicrosoftQLinearAdd = composed<kBinary, compose_binary<kAddName>>("QLinearAdd");
extern constexpr Op kMicrosoftQLinearMul = composed<kBinary, compose_binary<kMulName>>("QLinearMul");
extern constexpr Op kMicrosoftQLinearLeakyRelu = composed<kUnary, compose_leaky_relu>("QLinearLeakyRelu");
extern constexpr Op kMicrosoftQLinearSigmoid = composed<kUnary, compose_sigmoid>("QLinearSigmoid");
extern constexpr Op kMicrosoftQLinearSoftmax = composed<kUnary, compose_softmax>("QLinearSoftmax");
extern constexpr Op kMicrosoftQLinearWhere = composed<kWhere, compose_where>("QLinearWhere");
extern constexpr Op kMicrosoftQLinearAveragePool = composed<kUnary, compose_average_pool>("QLinearAveragePool");
extern constexpr Op kMicrosoftQLinearGlobalAveragePool =
    composed<kUnary, compose_global_average_pool>("QLinearGlobalAveragePool");
extern constexpr Op kMicrosoftQLinearConv = composed<kConv, compose_conv>("QLinearConv");
extern constexpr Op kMicrosoftQLinearConcat = composed<kConcat, compose_concat>("QLinearConcat");
extern constexpr Op kMicrosoftQuantizeLinear = composed<kLinear, compose_linear<kQuantizeName>>("QuantizeLinear");
extern constexpr Op kMicrosoftDequantizeLinear = composed<kLinear, compose_linear<kDequantizeName>>("DequantizeLinear");
extern constexpr OpInference kMicrosoftQLinearAddInference{};
extern constexpr OpInference kMicrosoftQLinearMulInference{};
extern constexpr OpInference kMicrosoftQLinearLeakyReluInference{};
extern constexpr OpInference kMicrosoftQLinearSigmoidInference{};
extern constexpr OpInference kMicrosoftQLinearSoftmaxInference{};
extern constexpr OpInference kMicrosoftQLinearWhereInference{};
extern constexpr OpInference kMicrosoftQLinearAveragePoolInference{};
extern constexpr OpInference kMicrosoftQLinearGlobalAveragePoolInference{};
extern constexpr OpInference kMicrosoftQLinearConvInference{};
extern constexpr OpInference kMicrosoftQLinearConcatInference{};
extern constexpr OpInference kMicrosoftQuantizeLinearInference{};
extern constexpr OpInference kMicrosoftDequantizeLinearInference{};

}  // namespace tessera
