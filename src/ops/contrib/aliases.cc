// Operators that the standard has too, perhaps under another name or with an input in another form, and some that are a
// line of standard operators.
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;
using ir::Attribute;
using ir::ValueId;

constexpr Arity kOne{in_arg(0), 1}, kOneOrTwo{in_arg(0), 2}, kTwo{in_arg(0) | in_arg(1), 2};
constexpr Arity kTwoOrThree{in_arg(0) | in_arg(1), 3}, kThree{in_arg(0) | in_arg(1) | in_arg(2), 3};
constexpr Arity kOneToThree{in_arg(0), 1, 3};

ValueId to_int64(Composer& c, ValueId x) {
  return c.op("Cast", {x}, {Attribute::integer("to", static_cast<int64_t>(DType::i64))});
}

Status compose_identity(Composer& c) {
  c.out(0, c.op("Identity", {c.in(0)}));
  return {};
}

// The pads may be [1, n].
Status compose_pad(Composer& c) {
  std::vector<ValueId> all{c.in(0), c.op("Reshape", {c.in(1), list(c, {-1})})};
  if (c.has(2)) all.push_back(c.op("Reshape", {c.in(2), list(c, {})}));
  c.out(0, c.op("Pad", std::move(all), keep_attributes(c, {"mode"})));
  return {};
}

Status compose_gather_nd(Composer& c) {
  c.out(0, c.op("GatherND", {c.in(0), to_int64(c, c.in(1))}));
  return {};
}

Status compose_expand_dims(Composer& c) {
  c.out(0, c.op("Unsqueeze", {c.in(0), c.op("Reshape", {to_int64(c, c.in(1)), list(c, {-1})})}));
  return {};
}

Status compose_trilu(Composer& c) {
  std::vector<ValueId> all{c.in(0)};
  if (c.has(1)) all.push_back(c.op("Reshape", {c.in(1), list(c, {})}));
  c.out(0, c.op("Trilu", std::move(all), keep_attributes(c, {"upper"})));
  return {};
}

// Its numbers may be [1].
Status compose_range(Composer& c) {
  const auto number = [&](int i) { return c.op("Reshape", {c.in(i), list(c, {})}); };
  c.out(0, c.op("Range", {number(0), number(1), c.has(2) ? number(2) : c.scalar(1, c.in(0))}));
  return {};
}

// Values in the order in which they occur first.
Status compose_unique(Composer& c) {
  const ValueId y = c.op("Unique", {c.in(0)}, {Attribute::integer("sorted", 0)}, 4);
  c.out(0, y);
  c.out(1, y + 2);
  c.out(2, y + 3);
  return {};
}

Status compose_grid_sample(Composer& c) {
  static constexpr std::string_view kModes[] = {"bilinear", "nearest", "bicubic"};
  static constexpr const char* kNames[] = {"linear", "nearest", "cubic"};
  int mode = 0;
  c.attrs().get_choice("mode", mode, kModes);
  TRY(c.attrs().done());
  std::vector<Attribute> attributes = keep_attributes(c, {"align_corners", "padding_mode"});
  attributes.push_back(Attribute::text("mode", kNames[mode]));
  c.out(0, c.op("GridSample", {c.in(0), c.in(1)}, std::move(attributes)));
  return {};
}

// The product is rounded to the type before it is added.
Status compose_gated_add(Composer& c) {
  const ValueId product = c.op("CastLike", {c.op("Mul", {c.in(1), c.in(2)}), c.in(0)});
  c.out(0, c.op("Add", {c.in(0), product}));
  return {};
}

// Rows of as many elements as the scale has are normalised, then gated.
Status compose_gated_rms_norm(Composer& c) {
  static constexpr std::string_view kActivations[] = {"silu", "swish", "sigmoid"};
  float epsilon = 1e-5f;
  int activation = 0;
  c.attrs().get("epsilon", epsilon);
  c.attrs().get_choice("activation", activation, kActivations);
  TRY(c.attrs().done());
  const ValueId rows = c.op(
      "Reshape", {c.in(0), c.op("Concat", {list(c, {-1}), c.op("Shape", {c.in(1)})}, {Attribute::integer("axis", 0)})});
  const ValueId norm = c.op("RMSNormalization", {rows, c.in(1)}, {Attribute::real("epsilon", epsilon)});
  const ValueId gate = c.op(activation == 2 ? "Sigmoid" : "Swish", {c.in(2)});
  c.out(0, c.op("Mul", {c.op("Reshape", {norm, c.op("Shape", {c.in(0)})}), gate}));
  return {};
}

}  // namespace

extern constexpr Op kMicrosoftSampleOp = composed<kOne, compose_identity>("SampleOp");
extern constexpr Op kMicrosoftPad = composed<kTwoOrThree, compose_pad>("Pad");
extern constexpr Op kMicrosoftGatherND = composed<kTwo, compose_gather_nd>("GatherND");
extern constexpr Op kMicrosoftExpandDims = composed<kTwo, compose_expand_dims>("ExpandDims");
extern constexpr Op kMicrosoftTrilu = composed<kOneOrTwo, compose_trilu>("Trilu");
extern constexpr Op kMicrosoftRange = composed<kTwoOrThree, compose_range>("Range");
extern constexpr Op kMicrosoftUnique = composed<kOneToThree, compose_unique>("Unique");
extern constexpr Op kMicrosoftGridSample = composed<kTwo, compose_grid_sample>("GridSample");
extern constexpr Op kMicrosoftGatedAdd = composed<kThree, compose_gated_add>("GatedAdd");
extern constexpr Op kMicrosoftGatedRMSNorm = composed<kThree, compose_gated_rms_norm>("GatedRMSNorm");
extern constexpr OpInference kMicrosoftSampleOpInference{};
extern constexpr OpInference kMicrosoftPadInference{};
extern constexpr OpInference kMicrosoftGatherNDInference{};
extern constexpr OpInference kMicrosoftExpandDimsInference{};
extern constexpr OpInference kMicrosoftTriluInference{};
extern constexpr OpInference kMicrosoftRangeInference{};
extern constexpr OpInference kMicrosoftUniqueInference{};
extern constexpr OpInference kMicrosoftGridSampleInference{};
extern constexpr OpInference kMicrosoftGatedAddInference{};
extern constexpr OpInference kMicrosoftGatedRMSNormInference{};

}  // namespace tessera
