#include "ops/contrib/attention_core.h"

#include <cmath>
#include <limits>

namespace tessera::contrib {
namespace {
using namespace attention;

// The keys [begin, end) of each sample that its lengths leave.
struct KeyRange {
  int64_t begin, end;
};
KeyRange range_of(const Call& call, int i, int64_t batch, int64_t b) {
  const int32_t* lengths = call.in<int32_t>(i);
  return {call.count(i) == 2 * batch && batch ? lengths[batch + b] : 0, lengths[b]};
}

// The padding mask as numbers to add, [batch, queries or 1, keys].
std::vector<float> padding_numbers(const Call& call, int i, const Sizes& s, float filter, Mask* mask) {
  const Shape& shape = call.shape(i);
  const int32_t* m = call.in<int32_t>(i);
  const int rank = shape.rank();
  const int64_t rows = rank >= 3 ? s.queries : 1;
  std::vector<float> out(static_cast<size_t>(s.batch * rows * s.keys));
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t r = 0; r < rows; ++r) {
      float* to = out.data() + (b * rows + r) * s.keys;
      const int32_t* from = rank == 2   ? m + b * s.keys
                            : rank == 3 ? m + (b * rows + r) * s.keys
                            : rank == 4 ? m + (b * shape[2] + s.keys - s.queries + r) * shape[3]
                                        : nullptr;
      const KeyRange range = from ? KeyRange{0, s.keys} : range_of(call, i, s.batch, b);
      for (int64_t j = 0; j < s.keys; ++j)
        to[j] = (from ? from[j] > 0 : j >= range.begin && j < range.end) ? 0 : filter;
    }
  *mask = {out.data(), DType::f32, rows * s.keys, 0, rows > 1 ? s.keys : 0, s.keys};
  return out;
}

// The cache: fresh rows behind the past ones, wherever the result is wanted. The step is null if it is not.
const CacheStep* keep(const AttentionCall& a, const std::byte* past, std::byte* present, int64_t size,
                      HeadTensor& fresh, HeadTensor& old, const int64_t* past_rows, CacheStep* step) {
  const Sizes& s = a.sizes;
  if (!present) {
    if (past) old = {past, a.type, Layout::of(true, s.kv_heads, a.past_room, size)};
    return nullptr;
  }
  *step = {s.batch, s.kv_heads, size, past, a.past_room, past_rows, fresh, s.fresh, present, a.present_room, a.type};
  step->zeros_behind = true;
  fresh = {present, a.type, Layout::of(true, s.kv_heads, a.present_room, size)};
  return step;
}

}  // namespace

Status parse_attention(Attrs& a, AttentionParams& p) {
  a.get("num_heads", p.heads);
  a.get("scale", p.scale);
  a.get("mask_filter_value", p.filter);
  a.get("unidirectional", p.causal);
  a.get("past_present_share_buffer", p.shared);
  a.get("qkv_hidden_sizes", p.hidden_sizes);
  bool rotary = false;
  a.get("do_rotary", rotary);
  if (p.heads < 1 || p.heads > INT32_MAX) return a.refuse("num_heads", "at least 1");
  if (rotary) return a.refuse("do_rotary", "0");
  return {};
}

HeadTensor head_rows(DType type, const void* data, int64_t rows, int64_t row_step, int64_t size) {
  return {static_cast<const std::byte*>(data), type, {rows * row_step, size, row_step}};
}

int64_t attend_scratch(const AttentionParams& p, Sizes s, int64_t past_room) {
  s.keys = p.shared && past_room ? past_room : past_room + s.fresh;
  s.cut(s.keys);
  return scratch_bytes(s);
}

Status attend(const AttentionParams& p, Call& call, AttentionCall& a) {
  Sizes& s = a.sizes;
  s.keys = s.past + s.fresh;
  s.cut(p.shared && a.past_room ? a.past_room : s.keys);
  Problem problem(s);
  problem.q = a.q;
  problem.k = a.k;
  problem.v = a.v;
  const std::vector<int64_t> past_rows(static_cast<size_t>(s.batch), s.past);
  CacheStep keep_k, keep_v;
  problem.keep_k = keep(a, a.past_k, a.present_k, s.size, problem.k, problem.past_k, past_rows.data(), &keep_k);
  problem.keep_v = keep(a, a.past_v, a.present_v, s.v_size, problem.v, problem.past_v, past_rows.data(), &keep_v);
  problem.y = call.out(0);
  problem.y_type = a.type;
  problem.y_layout = Layout::of(false, s.q_heads, s.queries, s.v_size);
  problem.scale = p.scale != 0 ? p.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(s.size)));
  problem.causal = p.causal;
  problem.scores = a.scores;
  problem.scores_type = a.type;
  problem.scores_mode = 2;
  std::vector<float> padding;
  if (call.has(a.padding)) padding = padding_numbers(call, a.padding, s, p.filter, &problem.masks[0]);
  if (call.has(a.bias)) problem.masks[1] = Mask::of(call, a.bias);
  problem.scratch_step = scratch_bytes(s);
  problem.scratch = a.scratch;
  TRY(run(problem, call));
  // Who sees the scores sees finite numbers.
  for (int64_t i = 0, n = s.batch * s.q_heads * s.queries * s.keys; a.scores && a.type == DType::f32 && i < n; ++i) {
    float& score = static_cast<float*>(a.scores)[i];
    score = std::max(score, std::numeric_limits<float>::lowest());
  }
  return {};
}

}  // namespace tessera::contrib
