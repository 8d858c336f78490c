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

// The cache: fresh rows behind the past ones, wherever the result is wanted.
void keep(const Call& call, const AttentionCall& a, const float* past, float* present, int64_t size,
          const std::vector<int64_t>& past_rows, HeadTensor& fresh, HeadTensor& old) {
  const Sizes& s = a.sizes;
  const auto* bytes = reinterpret_cast<const std::byte*>(past);
  if (!present) {
    if (past) old = {bytes, DType::f32, Layout::of(true, s.kv_heads, a.past_room, size)};
    return;
  }
  if (present != past && a.present_room > s.keys)
    std::fill_n(present, s.batch * s.kv_heads * a.present_room * size, 0.f);
  append(call, {s.batch, s.kv_heads, size, bytes, a.past_room, past_rows.data(), fresh, s.fresh,
                reinterpret_cast<std::byte*>(present), a.present_room});
  fresh = {reinterpret_cast<const std::byte*>(present), DType::f32, Layout::of(true, s.kv_heads, a.present_room, size)};
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

HeadTensor float_rows(const float* data, int64_t rows, int64_t row_step, int64_t size) {
  return {reinterpret_cast<const std::byte*>(data), DType::f32, {rows * row_step, size, row_step}};
}

Status attend(const AttentionParams& p, Call& call, AttentionCall& a) {
  Sizes& s = a.sizes;
  s.keys = s.past + s.fresh;
  s.cut();
  Problem problem(s);
  problem.q = a.q;
  problem.k = a.k;
  problem.v = a.v;
  const std::vector<int64_t> past_rows(static_cast<size_t>(s.batch), s.past);
  keep(call, a, a.past_k, a.present_k, s.size, past_rows, problem.k, problem.past_k);
  keep(call, a, a.past_v, a.present_v, s.v_size, past_rows, problem.v, problem.past_v);
  problem.y = call.out(0);
  problem.y_type = DType::f32;
  problem.y_layout = Layout::of(false, s.q_heads, s.queries, s.v_size);
  problem.scale = p.scale != 0 ? p.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(s.size)));
  problem.causal = p.causal;
  problem.scores = a.scores;
  problem.scores_type = DType::f32;
  problem.scores_mode = 2;
  std::vector<float> padding;
  if (call.has(a.padding)) padding = padding_numbers(call, a.padding, s, p.filter, &problem.masks[0]);
  if (call.has(a.bias)) problem.masks[1] = Mask::of(call, a.bias);
  problem.scratch_step = scratch_bytes(s);
  TRY_ASSIGN(scratch, Tensor::allocate(DType::u8, Shape{problem.scratch_step * call.threads()}));
  problem.scratch = static_cast<std::byte*>(scratch.mutable_data());
  TRY(run(problem, call));
  // Who sees the scores sees finite numbers.
  for (int64_t i = 0, n = s.batch * s.q_heads * s.queries * s.keys; a.scores && i < n; ++i)
    a.scores[i] = std::max(a.scores[i], std::numeric_limits<float>::lowest());
  return {};
}

}  // namespace tessera::contrib
