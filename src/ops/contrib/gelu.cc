// Gelu, BiasGelu, FastGelu and QuickGelu: the standard's Gelu and Swish, some with a bias before.
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kOne{in_arg(0), 1}, kWithBias{in_arg(0), 2}, kBoth{in_arg(0) | in_arg(1), 2};

Status compose_gelu(Composer& c) {
  c.out(0, c.op("Gelu", {c.in(0)}));
  return {};
}
Status compose_bias_gelu(Composer& c) {
  c.out(0, c.op("Gelu", {c.op("Add", {c.in(0), c.in(1)})}));
  return {};
}
Status compose_fast_gelu(Composer& c) {
  const ir::ValueId x = c.has(1) ? c.op("Add", {c.in(0), c.in(1)}) : c.in(0);
  c.out(0, c.op("Gelu", {x}, {ir::Attribute::text("approximate", "tanh")}));
  return {};
}
// x * sigmoid(alpha * x)
Status compose_quick_gelu(Composer& c) {
  float alpha = 1.702f;
  c.attrs().get("alpha", alpha);
  c.out(0, c.op("Swish", {c.in(0)}, {ir::Attribute::real("alpha", alpha)}));
  return {};
}

}  // namespace

extern constexpr Op kMicrosoftGelu = composed<kOne, compose_gelu>("Gelu");
extern constexpr Op kMicrosoftBiasGelu = composed<kBoth, compose_bias_gelu>("BiasGelu");
extern constexpr Op kMicrosoftFastGelu = composed<kWithBias, compose_fast_gelu>("FastGelu");
extern constexpr Op kMicrosoftQuickGelu = composed<kOne, compose_quick_gelu>("QuickGelu");
extern constexpr OpInference kMicrosoftGeluInference{};
extern constexpr OpInference kMicrosoftBiasGeluInference{};
extern constexpr OpInference kMicrosoftFastGeluInference{};
extern constexpr OpInference kMicrosoftQuickGeluInference{};

}  // namespace tessera
