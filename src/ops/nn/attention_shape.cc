#include "ops/nn/attention_shape.h"

#include "kernels/gemm.h"

namespace tessera::attention {

Status parse(Attrs& a, Params& p) {
  a.get("q_num_heads", p.q_heads);
  a.get("kv_num_heads", p.kv_heads);
  a.get("scale", p.scale);
  a.get("is_causal", p.causal);
  a.get("softcap", p.softcap);
  DType softmax_type = DType::undefined;
  a.get("softmax_precision", softmax_type);
  p.wide_softmax = set_of(DType::f32, DType::f64).has(softmax_type);
  a.get("qk_matmul_output_mode", p.scores_mode);
  a.get("left_window_size", p.left_window);
  a.get("right_window_size", p.right_window);
  const auto& inputs = a.node().inputs;
  p.has_past = inputs.size() > kPastKey && inputs[kPastKey] != ir::kNone;
  if (p.q_heads < 0 || p.q_heads > INT32_MAX) return a.refuse("q_num_heads", "at least 1");
  if (p.kv_heads < 0 || p.kv_heads > INT32_MAX) return a.refuse("kv_num_heads", "at least 1");
  if (p.scores_mode < 0 || p.scores_mode > 3) return a.refuse("qk_matmul_output_mode", "0, 1, 2 or 3");
  if (!(p.softcap >= 0)) return a.refuse("softcap", "at least 0");
  if (p.left_window < -1 || p.left_window > INT32_MAX) return a.refuse("left_window_size", "at least -1");
  if (p.right_window < -1 || p.right_window > INT32_MAX) return a.refuse("right_window_size", "at least -1");
  return {};
}

Sizes::Sizes(const Params& p, const Shape& q_shape, const Shape& k_shape, const Shape& v_shape, int64_t past_length)
    : four(q_shape.rank() == 4), batch(q_shape[0]), past(past_length) {
  q_heads = four ? q_shape[1] : p.q_heads;
  kv_heads = four ? k_shape[1] : p.kv_heads;
  queries = q_shape[four ? 2 : 1];
  fresh = k_shape[four ? 2 : 1];
  keys = past + fresh;
  size = four ? q_shape[3] : q_shape[2] / q_heads;
  v_size = four ? v_shape[3] : v_shape[2] / kv_heads;
  cut(keys);
}

void Sizes::cut(int64_t most_keys) {
  group = q_heads / kv_heads;
  const int64_t wanted = std::clamp<int64_t>((1 << 17) / std::max<int64_t>(1, most_keys), 24, 96) / 12 * 12;
  block = std::clamp<int64_t>(wanted / std::max<int64_t>(1, group), 1, std::max<int64_t>(1, queries));
  rows = group * block;
}

Workspace::Workspace(const Sizes& s, int64_t element) {
  int64_t at = 0;
  const auto room = [&](int64_t elements) {
    const int64_t from = at;
    at += round_up(elements * element, 64);
    return from;
  };
  const bool plain = element != sizeof(float), few = s.few();
  q = room(s.rows * s.size);
  scores = room(s.rows * s.score_step());
  y = room(s.rows * s.v_size);
  factors = room(s.rows);
  mask = room(s.keys);
  decoded = room(Sizes::kKeyBlock * std::max(s.size, s.v_size));
  packed_k = room(few || plain ? 0 : round_up(s.keys, kPanelWidth) * s.size);
  packed_v = room(few || plain ? 0 : s.key_blocks() * Sizes::kKeyBlock * round_up(s.v_size, kPanelWidth));
  total = at;
}

}  // namespace tessera::attention
