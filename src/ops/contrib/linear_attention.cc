// LinearAttention, LinearAttentionGate, CausalConvWithState and MRotaryEmbedding, by way of the operators that the
// standard (or this domain) has for them.
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;
using ir::Attribute;
using ir::ValueId;

constexpr Arity kLinear{in_arg(0) | in_arg(1) | in_arg(2), 6, 2}, kGate{in_arg(0) | in_arg(1) | in_arg(2), 4, 2};
constexpr Arity kConv{in_arg(0) | in_arg(1), 4, 2}, kRotary{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3), 4};

Status only(Composer& c, const char* name, int64_t wanted) {
  int64_t v = wanted;
  c.attrs().get(name, v);
  return v == wanted ? Status{} : c.attrs().refuse(name, format("{}", wanted));
}

// The same node in the standard's operator set.
void as_standard(Composer& c, const char* name, int inputs, std::initializer_list<std::string_view> attributes) {
  std::vector<ValueId> all;
  for (int i = 0; i < inputs; ++i) all.push_back(c.in(i));
  const ValueId y = c.op(name, std::move(all), keep_attributes(c, attributes), 2);
  c.out(0, y);
  c.out(1, y + 1);
}

Status compose_linear(Composer& c) {
  TRY(only(c, "state_window", 0));
  as_standard(c, "LinearAttention", 6, {"q_num_heads", "kv_num_heads", "scale", "update_rule"});
  return {};
}

// Taps that are `dilation` apart: zeros between them.
ValueId dilated(Composer& c, ValueId w, int64_t dilation) {
  if (dilation == 1) return w;
  const ValueId apart = c.op("Unsqueeze", {w, list(c, {3})});
  const ValueId wide = c.op("Pad", {apart, list(c, {0, 0, 0, 0, 0, 0, 0, dilation - 1})});
  const ValueId taps = c.op("Reshape", {wide, list(c, {0, 1, -1})});
  return c.op("Slice", {taps, list(c, {0}), list(c, {1 - dilation}), list(c, {2})});
}

// Channels that come last, in however many dimensions, go to the front of the sequence.
ValueId channels_first(Composer& c, ValueId x) {
  return c.op("Transpose", {c.op("Reshape", {x, list(c, {0, 0, -1})})}, {Attribute::integers("perm", {0, 2, 1})});
}

Status compose_conv(Composer& c) {
  TRY(only(c, "state_window", 0));
  TRY(only(c, "ndim", 1));
  int64_t dilation = 1;
  bool last = false;
  c.attrs().get("dilation", dilation);
  c.attrs().get("channels_last", last);
  if (dilation < 1 || dilation > 1 << 20) return c.attrs().refuse("dilation", "at least 1");
  std::vector<ValueId> in{last ? channels_first(c, c.in(0)) : c.in(0), dilated(c, c.in(1), dilation), c.in(2), c.in(3)};
  if (last && c.has(3)) in[3] = channels_first(c, c.in(3));
  const ValueId y = c.op("CausalConvWithState", std::move(in), keep_attributes(c, {"activation"}), 2);
  if (!last) {
    c.out(0, y);
    c.out(1, y + 1);
    return {};
  }
  const ValueId channels =
      c.op("Shape", {c.in(0)}, {Attribute::integer("start", 2), Attribute::integer("end", INT64_MAX)});
  for (const int o : {0, 1}) {
    const ValueId turned = c.op("Transpose", {y + static_cast<ValueId>(o)}, {Attribute::integers("perm", {0, 2, 1})});
    const ValueId lead = c.op("Shape", {turned}, {Attribute::integer("start", 0), Attribute::integer("end", 2)});
    c.out(o, c.op("Reshape", {turned, c.op("Concat", {lead, channels}, {Attribute::integer("axis", 0)})}));
  }
  return {};
}

// decay = scale * softplus(a + bias), in float; beta = sigmoid(b).
Status compose_gate(Composer& c) {
  const ValueId a = c.op("CastLike", {c.in(0), c.in(1)});
  const ValueId decay = c.op("Mul", {c.op("Softplus", {c.op("Add", {a, c.in(1)})}), c.in(2)});
  c.out(0, c.op("CastLike", {decay, c.in(0)}));
  if (c.outputs() < 2 || c.attrs().node().outputs[1] == ir::kNone) return {};
  if (!c.has(3)) return invalid_graph("the output beta wants the input b");
  c.out(1, c.op("Sigmoid", {c.in(3)}));
  return {};
}

// Three positions for each token: of each pair of elements, which of them counts.
Result<std::vector<int>> streams(Composer& c) {
  std::vector<int64_t> section;
  int64_t layout = 0, half = 0;
  c.attrs().get("mrope_section", section);
  c.attrs().get("mrope_layout", layout);
  if (section.size() != 3) return c.attrs().refuse("mrope_section", "three sizes");
  for (const int64_t s : section) {
    if (s < 0 || s > 1 << 20) return c.attrs().refuse("mrope_section", "three sizes of at least 0");
    half += s;
  }
  if (half < 1) return c.attrs().refuse("mrope_section", "at least one pair");
  if (layout != 0 && layout != 1) return c.attrs().refuse("mrope_layout", "0 or 1");
  std::vector<int> out(static_cast<size_t>(half), 0);
  for (int64_t i = 0; i < half; ++i) {
    int& s = out[static_cast<size_t>(i)];
    if (layout == 0)
      s = i < section[0] ? 0 : i < section[0] + section[1] ? 1 : 2;
    else if (i % 3 != 0 && i < 3 * section[static_cast<size_t>(i % 3)])
      s = static_cast<int>(i % 3);
  }
  return out;
}

// Cosines and sines are picked from the tables by the three positions, one row for each token; then rows are counted.
Status compose_rotary(Composer& c) {
  TRY_ASSIGN(stream, streams(c));
  const auto half = static_cast<int64_t>(stream.size());
  const ValueId apart =
      c.op("Split", {c.in(1)}, {Attribute::integer("axis", 0), Attribute::integer("num_outputs", 3)}, 3);
  ValueId positions[3], mask[3];
  for (uint32_t k = 0; k < 3; ++k) {
    positions[k] = c.op("Squeeze", {apart + k, list(c, {0})});
    TRY_ASSIGN(t, Tensor::allocate(DType::boolean, Shape{half}));
    for (size_t i = 0; i < stream.size(); ++i)
      static_cast<bool*>(t.mutable_data())[i] = stream[i] == static_cast<int>(k);
    mask[k] = c.constant(std::move(t));
  }
  const auto table = [&](int i) {
    ValueId rows = c.op("Gather", {c.in(i), positions[0]});
    for (const uint32_t k : {1u, 2u}) rows = c.op("Where", {mask[k], c.op("Gather", {c.in(i), positions[k]}), rows});
    return c.op("Reshape", {rows, list(c, {-1, half})});
  };
  const auto number = [&](int64_t v) {
    Result<Tensor> t = Tensor::scalar<int64_t>(v);
    return t.ok() ? c.constant(std::move(*t)) : ir::kNone;
  };
  const ValueId count = c.op("Range", {number(0), c.op("Size", {positions[0]}), number(1)});
  const ValueId places = c.op("Reshape", {count, c.op("Shape", {positions[0]})});
  c.out(0, c.op("com.microsoft.RotaryEmbedding", {c.in(0), places, table(2), table(3)},
                keep_attributes(c, {"num_heads", "rotary_embedding_dim", "interleaved"})));
  return {};
}

}  // namespace

extern constexpr Op kMicrosoftLinearAttention = composed<kLinear, compose_linear>("LinearAttention");
extern constexpr Op kMicrosoftLinearAttentionGate = composed<kGate, compose_gate>("LinearAttentionGate");
extern constexpr Op kMicrosoftCausalConvWithState = composed<kConv, compose_conv>("CausalConvWithState");
extern constexpr Op kMicrosoftMRotaryEmbedding = composed<kRotary, compose_rotary>("MRotaryEmbedding");
extern constexpr OpInference kMicrosoftLinearAttentionInference{};
extern constexpr OpInference kMicrosoftLinearAttentionGateInference{};
extern constexpr OpInference kMicrosoftCausalConvWithStateInference{};
extern constexpr OpInference kMicrosoftMRotaryEmbeddingInference{};

}  // namespace tessera
