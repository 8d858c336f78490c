// FusedGemm and FusedConv, which end in an activation; ConvTransposeWithDynamicPads; NhwcMaxPool.
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;
using ir::Attribute;
using ir::ValueId;

constexpr Arity kGemm{in_arg(0) | in_arg(1), 3}, kConv{in_arg(0) | in_arg(1), 4}, kOne{in_arg(0), 1};

// How the operators' parameters (in their order) are called by the standard.
struct Activation {
  const char *name, *first = nullptr, *second = nullptr;
};
constexpr Activation kActivations[] = {{"Relu"},
                                       {"Tanh"},
                                       {"Sigmoid"},
                                       {"Softplus"},
                                       {"Softsign"},
                                       {"LeakyRelu", "alpha"},
                                       {"Elu", "alpha"},
                                       {"ThresholdedRelu", "alpha"},
                                       {"HardSigmoid", "alpha", "beta"},
                                       {"HardSwish"},
                                       {"Clip"}};

// Applies the activation that the node names, if any.
Result<ValueId> activate(Composer& c, ValueId x, const std::vector<float>& given) {
  std::string name;
  c.attrs().get("activation", name);
  if (name.empty()) return x;
  for (const Activation& a : kActivations) {
    if (name != a.name) continue;
    if (name == "Clip") {
      if (given.size() != 2) return c.attrs().refuse("activation_params", "the two bounds of Clip");
      return c.op("Clip", {x, c.scalar(given[0], x), c.scalar(given[1], x)});
    }
    std::vector<Attribute> attributes;
    if (a.first && !given.empty()) attributes.push_back(Attribute::real(a.first, given[0]));
    if (a.second && given.size() > 1) attributes.push_back(Attribute::real(a.second, given[1]));
    return c.op(a.name, {x}, std::move(attributes));
  }
  return c.attrs().refuse("activation", "the name of an activation");
}

Status compose_gemm(Composer& c) {
  std::vector<float> given;
  for (const char* name : {"activation_alpha", "activation_beta"}) {
    if (!c.attrs().has(name)) break;
    c.attrs().get(name, given.emplace_back());
  }
  std::vector<ValueId> all{c.in(0), c.in(1)};
  if (c.has(2)) all.push_back(c.in(2));
  const ValueId x = c.op("Gemm", std::move(all), keep_attributes(c, {"alpha", "beta", "transA", "transB"}));
  TRY_ASSIGN(y, activate(c, x, given));
  c.out(0, y);
  return {};
}

// Z is added before the activation.
Status compose_conv(Composer& c) {
  std::vector<float> given;
  c.attrs().get("activation_params", given);
  std::vector<ValueId> all{c.in(0), c.in(1)};
  if (c.has(2)) all.push_back(c.in(2));
  ValueId x = c.op("Conv", std::move(all),
                   keep_attributes(c, {"auto_pad", "dilations", "group", "kernel_shape", "pads", "strides"}));
  if (c.has(3)) x = c.op("Add", {x, c.in(3)});
  TRY_ASSIGN(y, activate(c, x, given));
  c.out(0, y);
  return {};
}

// Without pads, then cut: pads of a transposed convolution say how much of its result is left out.
Status compose_dynamic_pads(Composer& c) {
  std::vector<ValueId> all{c.in(0), c.in(1)};
  if (c.has(3)) all.push_back(c.in(3));
  const ValueId whole =
      c.op("ConvTranspose", std::move(all),
           keep_attributes(c, {"auto_pad", "dilations", "group", "kernel_shape", "output_padding", "strides"}));
  if (!c.has(2)) return c.out(0, whole), Status{};
  const auto joined = [&](ValueId x, ValueId y) { return c.op("Concat", {x, y}, {Attribute::integer("axis", 0)}); };
  const ValueId pads = c.op("Split", {c.in(2)}, {Attribute::integer("num_outputs", 2)}, 2);
  const ValueId ends = c.op("Sub", {c.op("Shape", {whole}, {Attribute::integer("start", 2)}), pads + 1});
  c.out(0, c.op("Slice", {whole, joined(list(c, {0, 0}), pads), joined(list(c, {INT64_MAX, INT64_MAX}), ends)}));
  return {};
}

Status compose_nhwc_max_pool(Composer& c) {
  std::vector<int64_t> kernel;
  c.attrs().get("kernel_shape", kernel);
  const auto rank = static_cast<int64_t>(kernel.size()) + 2;
  if (rank < 3 || rank > kMaxRank) return c.attrs().refuse("kernel_shape", "a size for each spatial dimension");
  std::vector<int64_t> to{0, rank - 1}, back{0};
  for (int64_t i = 1; i < rank - 1; ++i) to.push_back(i);
  for (int64_t i = 2; i < rank; ++i) back.push_back(i);
  back.push_back(1);
  const ValueId x = c.op("Transpose", {c.in(0)}, {Attribute::integers("perm", std::move(to))});
  const ValueId y = c.op("MaxPool", {x},
                         keep_attributes(c, {"auto_pad", "ceil_mode", "dilations", "kernel_shape", "pads", "strides"}));
  c.out(0, c.op("Transpose", {y}, {Attribute::integers("perm", std::move(back))}));
  return {};
}

}  // namespace

extern constexpr Op kMicrosoftFusedGemm = composed<kGemm, compose_gemm>("FusedGemm");
extern constexpr Op kMicrosoftFusedConv = composed<kConv, compose_conv>("FusedConv");
extern constexpr Op kMicrosoftConvTransposeWithDynamicPads =
    composed<kConv, compose_dynamic_pads>("ConvTransposeWithDynamicPads");
extern constexpr Op kMicrosoftNhwcMaxPool = composed<kOne, compose_nhwc_max_pool>("NhwcMaxPool");
extern constexpr OpInference kMicrosoftFusedGemmInference{};
extern constexpr OpInference kMicrosoftFusedConvInference{};
extern constexpr OpInference kMicrosoftConvTransposeWithDynamicPadsInference{};
extern constexpr OpInference kMicrosoftNhwcMaxPoolInference{};

}  // namespace tessera
