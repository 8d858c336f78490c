// QEmbedLayerNormalization — EmbedLayerNormalization of quantised tables: only the rows that are used are unpacked.
// MemcpyFromHost, MemcpyToHost — between memories of one CPU, the value itself.
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;
using ir::ValueId;

enum In { kIds, kSegments, kWord, kPosition, kSegment, kGamma, kBeta, kMask, kScales, kZeros = kScales + 5 };
constexpr Arity kArity{in_arg(kIds) | in_arg(kWord) | in_arg(kPosition) | in_arg(kGamma) | in_arg(kBeta), 18, 2};
constexpr Arity kOne{in_arg(0), 1};

Status compose_embed(Composer& c) {
  for (const int k : {0, 1, 3, 4})
    if (!c.has(kScales + k) || !c.has(kZeros + k))
      return invalid_graph("it lacks a scale or a zero point of input {}", kWord + k);
  const bool segments = c.has(kSegments);
  if (c.has(kSegment) != segments || c.has(kScales + 2) != segments || c.has(kZeros + 2) != segments)
    return invalid_graph("segment_ids, segment_embedding, its scale and its zero point go together");
  const auto floats = [&](ValueId rows, int table) {
    return c.op("DequantizeLinear", {rows, c.in(kScales + table - kWord), c.in(kZeros + table - kWord)});
  };
  const ValueId length =
      c.op("Shape", {c.in(kIds)}, {ir::Attribute::integer("start", 1), ir::Attribute::integer("end", 2)});
  const ValueId places = c.op("Slice", {c.in(kPosition), list(c, {0}), length, list(c, {0})});
  ValueId x = c.op("Add", {floats(c.op("Gather", {c.in(kWord), c.in(kIds)}), kWord), floats(places, kPosition)});
  if (segments) x = c.op("Add", {x, floats(c.op("Gather", {c.in(kSegment), c.in(kSegments)}), kSegment)});
  float epsilon = 1e-12f;
  c.attrs().get("epsilon", epsilon);
  c.out(0, c.op("LayerNormalization", {x, floats(c.in(kGamma), kGamma), floats(c.in(kBeta), kBeta)},
                {ir::Attribute::real("epsilon", epsilon)}));
  if (c.outputs() < 2) return {};
  // How many words a sentence has, by ones.
  const ValueId words = c.has(kMask)
                            ? c.op("CastLike", {c.op("Equal", {c.in(kMask), c.scalar(1, c.in(kMask))}), c.in(kIds)})
                            : c.op("Sub", {c.in(kIds), c.in(kIds)});
  c.out(1, c.op("ReduceSum", {words, list(c, {1})}, {ir::Attribute::integer("keepdims", 0)}));
  return {};
}

Status compose_copy(Composer& c) {
  c.out(0, c.op("Identity", {c.in(0)}));
  return {};
}

constexpr Op copy(const char* name) {
  return {
      .domain = "", .name = name, .versions = kVersions, .kernels = {}, .compose = compose_checked<kOne, compose_copy>};
}

}  // namespace

extern constexpr Op kMicrosoftQEmbedLayerNormalization = composed<kArity, compose_embed>("QEmbedLayerNormalization");
extern constexpr Op kMemcpyFromHost = copy("MemcpyFromHost");
extern constexpr Op kMemcpyToHost = copy("MemcpyToHost");
extern constexpr OpInference kMicrosoftQEmbedLayerNormalizationInference{};
extern constexpr OpInference kMemcpyFromHostInference{};
extern constexpr OpInference kMemcpyToHostInference{};

}  // namespace tessera
