// PackedAttention, PackedMultiHeadAttention, RemovePadding, RestorePadding, GatedRelativePositionBias,
// DecoderMaskedSelfAttention — attention on sequences without their padding, by way of the padded form. token_offset
// holds the places of the tokens among all, then those of the padding.
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;
using ir::Attribute;
using ir::ValueId;

constexpr Arity kRemove{in_arg(0) | in_arg(1), 2, 4}, kRestore{in_arg(0) | in_arg(1), 2};
constexpr Arity kPacked{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4), 6};
constexpr Arity kHeads{in_arg(0) | in_arg(4) | in_arg(5), 7};
constexpr Arity kGated{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4) | in_arg(5), 7};
constexpr Arity kMasked{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(4) | in_arg(6), 9, 2};

ValueId dims(Composer& c, ValueId x, int64_t start, int64_t end) {
  return c.op("Shape", {x}, {Attribute::integer("start", start), Attribute::integer("end", end)});
}
ValueId joined(Composer& c, std::vector<ValueId> lists) {
  return c.op("Concat", std::move(lists), {Attribute::integer("axis", 0)});
}
ValueId cast(Composer& c, ValueId x, int64_t type) { return c.op("Cast", {x}, {Attribute::integer("to", type)}); }
constexpr int64_t kInt32 = 6, kInt64 = 7;

ValueId scalar(Composer& c, int64_t v) {
  Result<Tensor> t = Tensor::scalar<int64_t>(v);
  return t.ok() ? c.constant(std::move(*t)) : ir::kNone;
}

// The places of the tokens alone.
ValueId places(Composer& c, ValueId tokens, ValueId offsets) {
  const ValueId flat = c.op("Reshape", {offsets, list(c, {-1})});
  return c.op("Slice", {flat, list(c, {0}), dims(c, tokens, 0, 1), list(c, {0})});
}

// [tokens, width] as [batch, length, width], zeros where there was padding.
ValueId restore(Composer& c, ValueId tokens, ValueId offsets) {
  const ValueId width = dims(c, tokens, 1, 2), shape = joined(c, {dims(c, offsets, 0, 2), width});
  const ValueId zeros = c.op("Expand", {c.scalar(0, tokens), shape});
  const ValueId rows = c.op("Reshape", {zeros, joined(c, {list(c, {-1}), width})});
  const ValueId at = c.op("Unsqueeze", {cast(c, places(c, tokens, offsets), kInt64), list(c, {1})});
  return c.op("Reshape", {c.op("ScatterND", {rows, at, tokens}), shape});
}

// And back.
ValueId pack(Composer& c, ValueId x, ValueId tokens, ValueId offsets) {
  const ValueId rows = c.op("Reshape", {x, joined(c, {list(c, {-1}), dims(c, x, 2, 3)})});
  return c.op("Gather", {rows, places(c, tokens, offsets)});
}

// The length of each sequence, by where they end.
ValueId lengths(Composer& c, ValueId ends) {
  const ValueId first = c.op("Slice", {ends, list(c, {0}), list(c, {-1}), list(c, {0})});
  const ValueId last = c.op("Slice", {ends, list(c, {1}), list(c, {INT64_MAX}), list(c, {0})});
  return c.op("Sub", {last, first});
}

Status compose_restore(Composer& c) {
  c.out(0, restore(c, c.in(0), c.in(1)));
  return {};
}

Status compose_remove(Composer& c) {
  const ValueId x = c.in(0), counts = c.in(1);
  const ValueId length = c.op("Squeeze", {dims(c, x, 1, 2)});
  const ValueId numbers = c.op("Range", {scalar(c, 0), length, scalar(c, 1)});
  const ValueId limit = c.op("Unsqueeze", {cast(c, counts, kInt64), list(c, {1})});
  const ValueId real = c.op("Reshape", {c.op("Less", {numbers, limit}), list(c, {-1})});
  const ValueId rows = c.op("Reshape", {x, joined(c, {list(c, {-1}), dims(c, x, 2, 3)})});
  c.out(0, c.op("Compress", {rows, real}, {Attribute::integer("axis", 0)}));
  const auto found = [&](ValueId mask) { return c.op("Reshape", {c.op("NonZero", {mask}), list(c, {-1})}); };
  const ValueId all = joined(c, {found(real), found(c.op("Not", {real}))});
  c.out(1, cast(c, c.op("Reshape", {all, dims(c, x, 0, 2)}), kInt32));
  const ValueId sums = c.op("CumSum", {cast(c, counts, kInt64), scalar(c, 0)});
  c.out(2, cast(c, joined(c, {list(c, {0}), sums}), kInt32));
  c.out(3, c.op("ReduceMax", {counts, list(c, {0})}, {Attribute::integer("keepdims", 1)}));
  return {};
}

Status compose_packed(Composer& c) {
  const ValueId x = c.in(0), offsets = c.in(3);
  const ValueId y = c.op("com.microsoft.Attention",
                         {restore(c, x, offsets), c.in(1), c.in(2), lengths(c, c.in(4)), ir::kNone, c.in(5)},
                         keep_attributes(c, {"num_heads", "qkv_hidden_sizes", "scale"}));
  c.out(0, pack(c, y, x, offsets));
  return {};
}

// Queries, keys and values are apart, or lie in the query as [tokens, heads, 3, size].
Status compose_heads(Composer& c) {
  const ValueId x = c.in(0), offsets = c.in(4);
  if (c.has(1) != c.has(2)) return invalid_graph("key and value go together");
  std::vector<ValueId> in;
  if (c.has(1)) {
    for (int i = 0; i < 3; ++i) in.push_back(restore(c, c.in(i), offsets));
  } else {
    const ValueId rows = restore(c, c.op("Reshape", {x, list(c, {0, -1})}), offsets);
    in = {c.op("Reshape", {rows, joined(c, {dims(c, rows, 0, 2), dims(c, x, 1, 4)})}), ir::kNone, ir::kNone};
  }
  in.insert(in.end(), {c.in(3), lengths(c, c.in(5)), c.in(6)});
  const ValueId y = c.op("com.microsoft.MultiHeadAttention", std::move(in),
                         keep_attributes(c, {"num_heads", "scale", "mask_filter_value"}));
  c.out(0, pack(c, y, x, offsets));
  return {};
}

// rel_pos * (u * (r * eco_a - 1) + 2), u and r being sums of halves of a layer's output for each query.
Status compose_gated(Composer& c) {
  int64_t heads = 0;
  c.attrs().get("num_heads", heads);
  if (heads < 1) return c.attrs().refuse("num_heads", "at least 1");
  const ValueId query = c.has(6) ? restore(c, c.in(0), c.in(6)) : c.in(0);
  const ValueId rows = c.op("Reshape", {c.op("Add", {query, c.in(1)}), list(c, {0, 0, heads, -1})});
  const ValueId x = c.op("Transpose", {rows}, {Attribute::integers("perm", {0, 2, 1, 3})});
  const ValueId layer = c.op("Add", {c.op("MatMul", {x, c.in(3)}), c.in(4)});
  const ValueId halves = c.op("Reshape", {layer, list(c, {0, 0, 0, 2, -1})});
  const ValueId sums = c.op("ReduceSum", {halves, list(c, {4})}, {Attribute::integer("keepdims", 0)});
  const ValueId gate = c.op("Split", {c.op("Sigmoid", {sums})},
                            {Attribute::integer("axis", 3), Attribute::integer("num_outputs", 2)}, 2);
  const ValueId one = c.scalar(1, c.in(0)), two = c.scalar(2, c.in(0));
  const ValueId inner = c.op("Sub", {c.op("Mul", {gate + 1, c.in(5)}), one});
  c.out(0, c.op("Mul", {c.op("Add", {c.op("Mul", {gate, inner}), two}), c.in(2)}));
  return {};
}

Status compose_masked(Composer& c) {
  if (c.has(7) || c.has(8)) return not_implemented("inputs 7 and 8: beams that share a cache");
  const ValueId y = c.op(
      "com.microsoft.Attention", {c.in(0), c.in(1), c.in(2), c.in(3), c.in(4), c.in(5), c.in(6)},
      keep_attributes(c, {"num_heads", "scale", "mask_filter_value", "past_present_share_buffer", "do_rotary"}), 2);
  c.out(0, y);
  c.out(1, y + 1);
  return {};
}

}  // namespace

extern constexpr Op kMicrosoftRemovePadding = composed<kRemove, compose_remove>("RemovePadding");
extern constexpr Op kMicrosoftRestorePadding = composed<kRestore, compose_restore>("RestorePadding");
extern constexpr Op kMicrosoftPackedAttention = composed<kPacked, compose_packed>("PackedAttention");
extern constexpr Op kMicrosoftPackedMultiHeadAttention = composed<kHeads, compose_heads>("PackedMultiHeadAttention");
extern constexpr Op kMicrosoftGatedRelativePositionBias = composed<kGated, compose_gated>("GatedRelativePositionBias");
extern constexpr Op kMicrosoftDecoderMaskedSelfAttention =
    composed<kMasked, compose_masked>("DecoderMaskedSelfAttention");
extern constexpr OpInference kMicrosoftRemovePaddingInference{};
extern constexpr OpInference kMicrosoftRestorePaddingInference{};
extern constexpr OpInference kMicrosoftPackedAttentionInference{};
extern constexpr OpInference kMicrosoftPackedMultiHeadAttentionInference{};
extern constexpr OpInference kMicrosoftGatedRelativePositionBiasInference{};
extern constexpr OpInference kMicrosoftDecoderMaskedSelfAttentionInference{};

}  // namespace tessera
