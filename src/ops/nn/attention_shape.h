// Attention's sizes: who is what in Q, K, V, the mask and the cache.
#pragma once
#include "ops/elementwise.h"

namespace tessera::attention {

enum Input { kQ, kK, kV, kMask, kPastKey, kPastValue, kValidKeys };
enum Output { kY, kPresentKey, kPresentValue, kScores };

struct Params {
  int64_t q_heads = 0, kv_heads = 0;  // of inputs with three dimensions
  std::optional<float> scale;
  bool causal = false;
  float softcap = 0;    // 0: none
  int scores_mode = 0;  // 0 products, 1 after softcap, 2 after the mask, 3 after softmax
  bool has_past = false;
  bool wide_softmax = false;                    // the softmax of half floats is computed in a wider type
  int64_t left_window = -1, right_window = -1;  // -1: unbounded
};

Status parse(Attrs& a, Params& p);

// [batch, heads, length, size] of an input with three ([batch, length, heads * size]) or four dimensions.
template <class D>
struct Heads {
  D batch, heads, length, size;
};

template <class D>
Status heads_of(ShapeCall<D>& c, int i, int64_t heads, Heads<D>* out) {
  if (c.rank(i) != c.rank(kQ)) return c.refuse(i, format("{} dimensions, as input 0 has", c.rank(kQ)));
  if (c.rank(i) == 4) {
    *out = {c.dim(i, 0), c.dim(i, 1), c.dim(i, 2), c.dim(i, 3)};
    return {};
  }
  if (heads < 1) return c.refuse(i, "four dimensions, or the attributes q_num_heads and kv_num_heads");
  const D hidden = c.dim(i, 2);
  if (known(hidden) && number(hidden) % heads) return c.refuse(i, format("{} heads of equal size", heads));
  *out = {c.dim(i, 0), D(heads), c.dim(i, 1), floor_div(hidden, D(heads))};
  return {};
}

template <class D>
bool differ(const D& a, const D& b) {
  return known(a) && known(b) && number(a) != number(b);
}

// The mask broadcasts to [batch, heads, queries, keys]; its last dimension may be shorter.
template <class D>
Status check_mask(ShapeCall<D>& c, const DimVec<D>& scores) {
  if (!c.has(kMask)) return {};
  const int rank = c.rank(kMask);
  if (rank < 1 || rank > 4) return c.refuse(kMask, "one to four dimensions");
  for (int i = 0; i < rank; ++i) {
    const D d = c.dim(kMask, i), w = scores[4 - rank + i];
    if (!known(d) || !known(w)) continue;
    const bool good = i == rank - 1 ? number(d) <= number(w) : number(d) == 1 || number(d) == number(w);
    if (!good)
      return c.refuse(kMask, format("a shape that broadcasts to the scores ({} in dimension {})", number(w), i));
  }
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(kQ) != 3 && c.rank(kQ) != 4) return c.refuse(kQ, "three or four dimensions");
  Heads<D> q, k, v;
  TRY(heads_of(c, kQ, p.q_heads, &q));
  TRY(heads_of(c, kK, p.kv_heads, &k));
  TRY(heads_of(c, kV, p.kv_heads, &v));
  if (differ(k.batch, q.batch) || differ(k.size, q.size)) return c.refuse(kK, "the batch and head size of input 0");
  if (differ(v.batch, q.batch) || differ(v.heads, k.heads) || differ(v.length, k.length))
    return c.refuse(kV, "the batch, heads and length of input 1");
  if (known(k.heads) && known(q.heads) && (number(k.heads) < 1 || number(q.heads) % number(k.heads)))
    return c.refuse(kK, "a number of heads that divides that of input 0");
  D keys = k.length;
  if (c.has(kPastKey) != c.has(kPastValue))
    return c.refuse(c.has(kPastKey) ? kPastKey : kPastValue, "both parts of the cache");
  if (c.has(kPastKey)) {
    const D past = c.rank(kPastKey) == 4 ? c.dim(kPastKey, 2) : D(0);
    for (const auto& [i, like] : {std::pair(kPastKey, k), std::pair(kPastValue, v)})
      if (c.rank(i) != 4 || differ(c.dim(i, 0), q.batch) || differ(c.dim(i, 1), like.heads) ||
          differ(c.dim(i, 2), past) || differ(c.dim(i, 3), like.size))
        return c.refuse(i, "the shape [batch, heads, past length, size] of the keys and values");
    keys = keys + past;
  }
  if (c.has(kValidKeys)) {
    if (c.has(kPastKey)) return c.refuse(kValidKeys, "no nonpad_kv_seqlen together with past_key");
    if (c.rank(kValidKeys) != 1 || differ(c.dim(kValidKeys, 0), q.batch))
      return c.refuse(kValidKeys, "a length for each sample");
  }
  const DimVec<D> scores{q.batch, q.heads, q.length, keys};
  TRY(check_mask(c, scores));
  const DimVec<D> outputs[] = {
      c.rank(kQ) == 4 ? DimVec<D>{q.batch, q.heads, q.length, v.size} : DimVec<D>{q.batch, q.length, q.heads * v.size},
      {q.batch, k.heads, keys, k.size},
      {q.batch, v.heads, keys, v.size},
      scores};
  for (int o = 0; o < c.outputs(); ++o) TRY(c.set(o, outputs[o]));
  return {};
}

// One tensor of heads in memory, in elements.
struct Layout {
  int64_t batch_step, head_step, row_step;
  int64_t at(int64_t b, int64_t h, int64_t row) const { return b * batch_step + h * head_step + row * row_step; }
  static Layout of(bool four, int64_t heads, int64_t length, int64_t size) {
    if (four) return {heads * length * size, length * size, size};
    return {heads * length * size, size, heads * size};
  }
};

// Sizes of one run, and how it is cut: `rows` of the scores at a time, from all query heads that share a key head.
struct Sizes {
  static constexpr int64_t kKeyBlock = 256;
  static constexpr int64_t kFewRows = 16;  // up to here keys and values are used as they lie, without packing

  Sizes(const Params& p, const Shape& q_shape, const Shape& k_shape, const Shape& v_shape, int64_t past_length);
  // To be filled up to v_size, then cut() for the most keys there may be: with fewer of them less scratch is wanted.
  Sizes() = default;
  void cut(int64_t most_keys);

  bool few() const { return rows <= kFewRows; }
  int64_t key_blocks() const { return ceil_div(keys, kKeyBlock); }
  // From row to row of the scores: an odd number of cache lines, lest many rows share a few sets.
  int64_t score_step() const { return (ceil_div(keys, 16) | 1) * 16; }
  int64_t query_blocks() const { return ceil_div(queries, block); }

  bool four;
  int64_t batch, q_heads, kv_heads, queries, fresh, past, keys, size, v_size;
  int64_t group;  // query heads for each key head
  int64_t block;  // queries of a block
  int64_t rows;   // group * block
};

// A lane's memory, as offsets in bytes, for computing with elements of `element` bytes.
struct Workspace {
  Workspace(const Sizes& s, int64_t element);
  int64_t q, scores, y, factors, decoded, packed_k, packed_v, mask, total;
};

}  // namespace tessera::attention
