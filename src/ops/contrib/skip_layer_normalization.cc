// SkipLayerNormalization, SkipSimplifiedLayerNormalization and EmbedLayerNormalization: a sum of tensors, normalised.
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kSkip{in_arg(0) | in_arg(1) | in_arg(2), 5, 4}, kSimplified{in_arg(0) | in_arg(1) | in_arg(2), 4, 4};
constexpr Arity kEmbed{in_arg(0) | in_arg(2) | in_arg(3) | in_arg(5) | in_arg(6), 9, 3};

std::vector<ir::Attribute> epsilon(Composer& c, float usual) {
  c.attrs().get("epsilon", usual);
  return {ir::Attribute::real("epsilon", usual)};
}

// input + skip + bias, which is output 3.
ir::ValueId sum(Composer& c, int bias) {
  ir::ValueId x = c.op("Add", {c.in(0), c.in(1)});
  if (c.has(bias)) x = c.op("Add", {x, c.in(bias)});
  c.out(3, x);
  return x;
}

Status compose_skip(Composer& c) {
  const ir::ValueId y = c.op("LayerNormalization", {sum(c, 4), c.in(2), c.in(3)}, epsilon(c, 1e-12f), 3);
  for (int o = 0; o < 3; ++o) c.out(o, y + static_cast<ir::ValueId>(o));
  return {};
}

Status compose_simplified(Composer& c) {
  if (c.outputs() > 1 && c.attrs().node().outputs[1] != ir::kNone)
    return not_implemented("output 1 (mean): this normalisation takes no mean");
  const ir::ValueId y = c.op("SimplifiedLayerNormalization", {sum(c, 3), c.in(2)}, epsilon(c, 1e-12f), 2);
  c.out(0, y);
  c.out(2, y + 1);
  return {};
}

// Input 7 counts the words of each sentence, by ones.
ir::ValueId mask_index(Composer& c) {
  const ir::ValueId int32_ids = c.in(0);
  if (!c.has(7)) {
    const ir::ValueId none = c.op("Sub", {int32_ids, int32_ids});
    return c.op("ReduceSum", {none, list(c, {1})}, {ir::Attribute::integer("keepdims", 0)});
  }
  const ir::ValueId ones = c.op("Equal", {c.in(7), c.scalar(1, c.in(7))});
  return c.op("ReduceSum", {c.op("CastLike", {ones, int32_ids}), list(c, {1})},
              {ir::Attribute::integer("keepdims", 0)});
}

Status compose_embed(Composer& c) {
  if (c.has(1) != c.has(4)) return invalid_graph("segment_ids and segment_embedding go together");
  const ir::ValueId ids = c.in(0);
  const auto length = [&] {
    return c.op("Shape", {ids}, {ir::Attribute::integer("start", 1), ir::Attribute::integer("end", 2)});
  };
  const ir::ValueId places =
      c.has(8) ? c.op("Gather", {c.in(3), c.in(8)}) : c.op("Slice", {c.in(3), list(c, {0}), length(), list(c, {0})});
  ir::ValueId x = c.op("Add", {c.op("Gather", {c.in(2), ids}), places});
  if (c.has(1)) x = c.op("Add", {x, c.op("Gather", {c.in(4), c.in(1)})});
  c.out(0, c.op("LayerNormalization", {x, c.in(5), c.in(6)}, epsilon(c, 1e-12f)));
  if (c.outputs() > 1) c.out(1, mask_index(c));
  c.out(2, x);
  return {};
}

}  // namespace

extern constexpr Op kMicrosoftSkipLayerNormalization = composed<kSkip, compose_skip>("SkipLayerNormalization");
extern constexpr Op kMicrosoftSkipSimplifiedLayerNormalization =
    composed<kSimplified, compose_simplified>("SkipSimplifiedLayerNormalization");
extern constexpr Op kMicrosoftEmbedLayerNormalization = composed<kEmbed, compose_embed>("EmbedLayerNormalization");
extern constexpr OpInference kMicrosoftSkipLayerNormalizationInference{};
extern constexpr OpInference kMicrosoftSkipSimplifiedLayerNormalizationInference{};
extern constexpr OpInference kMicrosoftEmbedLayerNormalizationInference{};

}  // namespace tessera
