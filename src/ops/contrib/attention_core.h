// What com.microsoft's Attention, QAttention, MultiHeadAttention and DecoderMaskedMultiHeadAttention share: padding
// masks in their many forms, a cache, and the engine.
#pragma once
#include "ops/agree.h"
#include "ops/contrib/contrib.h"
#include "ops/nn/attention_run.h"

namespace tessera::contrib {

// The index of an input that an operator does not have.
inline constexpr int kNoInput = 64;

struct AttentionParams {
  int64_t heads = 0;
  float scale = 0;  // 0: 1 / sqrt(size of a head)
  float filter = -10000;
  bool causal = false;
  bool shared = false;  // past and present are buffers of one size, of which only a part is in use
  std::vector<int64_t> hidden_sizes;
};
Status parse_attention(Attrs& a, AttentionParams& p);

// How the rows of a padding mask select keys. The forms are told apart by their shapes.
template <class D>
Status check_padding_mask(ShapeCall<D>& c, int i, const D& batch, const D& queries, const D& keys) {
  if (!c.has(i)) return {};
  const int rank = c.rank(i);
  bool good = rank >= 1 && rank <= 4;
  if (rank == 1 && known(c.dim(i, 0)) && known(batch)) {
    const int64_t n = number(c.dim(i, 0)), b = number(batch);
    good = n == b || n == 2 * b || n == 3 * b + 2;
  }
  if (rank >= 2) good = agree(c.dim(i, 0), batch);
  if (rank == 2) good = good && agree(c.dim(i, 1), keys);
  if (rank == 3) good = good && agree(c.dim(i, 1), queries) && agree(c.dim(i, 2), keys);
  if (rank == 4) {
    good = good && agree(c.dim(i, 1), D(1)) && agree(c.dim(i, 2), c.dim(i, 3));
    if (known(c.dim(i, 3)) && known(keys)) good = good && number(c.dim(i, 3)) >= number(keys);
  }
  if (good) return {};
  return c.refuse(i,
                  "a mask [batch, keys], [batch, queries, keys] or [batch, 1, length, length], or lengths for each "
                  "sample");
}

// A bias of the scores broadcasts to [batch, heads, queries, keys]; its last two dimensions do not.
template <class D>
Status check_score_bias(ShapeCall<D>& c, int i, const D& batch, int64_t heads, const D& queries, const D& keys) {
  if (!c.has(i)) return {};
  const auto one_or = [](const D& d, const D& want) { return !known(d) || number(d) == 1 || agree(d, want); };
  if (c.rank(i) == 4 && one_or(c.dim(i, 0), batch) && one_or(c.dim(i, 1), D(heads)) && agree(c.dim(i, 2), queries) &&
      agree(c.dim(i, 3), keys))
    return {};
  return c.refuse(i, "[batch or 1, heads or 1, queries, keys]");
}

// One call of the engine. The adapters say where heads lie, as elements of `type` or as floats.
struct AttentionCall {
  attention::Sizes sizes;  // up to v_size; the rest is filled here
  DType type = DType::f32;
  attention::HeadTensor q, k, v;
  const std::byte *past_k = nullptr, *past_v = nullptr;  // [batch, heads, past_room, size]
  int64_t past_room = 0;
  std::byte *present_k = nullptr, *present_v = nullptr;  // [batch, heads, present_room, size]
  int64_t present_room = 0;
  int padding = kNoInput, bias = kNoInput;  // inputs
  void* scores = nullptr;                   // before the softmax
  std::byte* scratch = nullptr;             // attend_scratch() bytes for each lane
};
Status attend(const AttentionParams& p, Call& call, AttentionCall& a);

// Of sizes up to v_size, for a cache that has room for past_room rows.
int64_t attend_scratch(const AttentionParams& p, attention::Sizes s, int64_t past_room);

// Heads that lie side by side in rows of `row_step` elements.
attention::HeadTensor head_rows(DType type, const void* data, int64_t rows, int64_t row_step, int64_t size);

}  // namespace tessera::contrib
