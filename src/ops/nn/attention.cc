// Attention — softmax(scale * Q K' + mask) V over heads, with a cache of keys and values.
//
// Half floats are rounded where the body that the standard gives for this operator rounds them: after each of its
// steps.
#include <cmath>

#include "ops/nn/attention_run.h"

namespace tessera {
namespace {
using namespace attention;

HeadTensor heads(const Call& call, int i, Layout layout) {
  if (!call.has(i)) return {};
  return {static_cast<const std::byte*>(call.in(i)), call.dtype(i), layout};
}

// The lengths of the keys, and where the queries of each sample begin among them.
Status check_lengths(const Call& call, const Sizes& s, std::vector<int64_t>* first) {
  for (int64_t b = 0; call.has(kValidKeys) && b < s.batch; ++b) {
    const int64_t n = call.in<int64_t>(kValidKeys)[b];
    if (n < 0 || n > s.keys) return call.refuse(kValidKeys, "lengths from 0 to {} (element {} is {})", s.keys, b, n);
    first->push_back(n - s.queries);
  }
  return {};
}

// Keeps the cache where somebody wants it; the keys (or values) then lie there. The step is null otherwise.
const CacheStep* keep_cache(Call& call, const Sizes& s, int output, int64_t size, HeadTensor& past, HeadTensor& fresh,
                            CacheStep* step) {
  auto* to = call.out<std::byte>(output);
  if (!to) return nullptr;
  *step = {s.batch, s.kv_heads, size, past.data, s.past, nullptr, fresh, s.fresh, to, s.keys, fresh.type};
  fresh = {to, fresh.type, Layout::of(true, s.kv_heads, s.keys, size)};
  past = {};
  return step;
}

Status compute(const Params& p, Call& call) {
  const int64_t past = p.has_past ? call.shape(kPastKey)[2] : 0;
  Problem problem(Sizes(p, call.shape(kQ), call.shape(kK), call.shape(kV), past));
  const Sizes& s = problem.sizes;
  std::vector<int64_t> first;
  TRY(check_lengths(call, s, &first));
  problem.q = heads(call, kQ, Layout::of(s.four, s.q_heads, s.queries, s.size));
  problem.k = heads(call, kK, Layout::of(s.four, s.kv_heads, s.fresh, s.size));
  problem.v = heads(call, kV, Layout::of(s.four, s.kv_heads, s.fresh, s.v_size));
  problem.past_k = heads(call, kPastKey, Layout::of(true, s.kv_heads, s.past, s.size));
  problem.past_v = heads(call, kPastValue, Layout::of(true, s.kv_heads, s.past, s.v_size));
  CacheStep keep_k, keep_v;
  problem.keep_k = keep_cache(call, s, kPresentKey, s.size, problem.past_k, problem.k, &keep_k);
  problem.keep_v = keep_cache(call, s, kPresentValue, s.v_size, problem.past_v, problem.v, &keep_v);
  problem.y = call.out(kY);
  if (problem.y) problem.y_type = call.out_dtype(kY);
  problem.y_layout = Layout::of(s.four, s.q_heads, s.queries, s.v_size);
  if (call.has(kMask)) problem.masks[0] = Mask::of(call, kMask);
  problem.valid = call.maybe<int64_t>(kValidKeys);
  if (problem.valid) problem.first = first.data();
  problem.scale = p.scale ? *p.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(s.size)));
  problem.softcap = p.softcap;
  problem.causal = p.causal;
  problem.left_window = p.left_window;
  problem.right_window = p.right_window;
  problem.in_steps = true;
  problem.wide_softmax = p.wide_softmax;
  problem.scores = call.out(kScores);
  if (problem.scores) problem.scores_type = call.out_dtype(kScores);
  problem.scores_mode = p.scores_mode;
  problem.scratch = call.scratch<std::byte>(0);
  problem.scratch_step = scratch_bytes(s);
  return run(problem, call);
}

void types(TypeCall& c) {
  for (TypeDesc& t : c.out) t = c.in[kQ];
  if (c.out.size() > kPresentValue) c.out[kPresentValue] = c.in[kV];
}

int64_t scratch(const void* params, const ScratchCall& in) {
  const auto& p = *static_cast<const Params*>(params);
  return scratch_bytes(Sizes(p, *in[kQ], *in[kK], *in[kV], p.has_past ? (*in[kPastKey])[2] : 0));
}

constexpr uint32_t kLikeQuery =
    in_arg(kQ) | in_arg(kK) | in_arg(kPastKey) | out_arg(kY) | out_arg(kPresentKey) | out_arg(kScores);
constexpr uint32_t kLikeValue = in_arg(kV) | in_arg(kPastValue) | out_arg(kPresentValue);
constexpr TypeRule kMaskTypes{in_arg(kMask), kNumbers | set_of(DType::boolean)};
constexpr TypeRule kLengthTypes{in_arg(kValidKeys), set_of(DType::i64)};
constexpr TypeRule kTypes[] = {{kLikeQuery, kFloats}, {kLikeValue, kFloats}, kMaskTypes, kLengthTypes};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {23, 24, 25};

}  // namespace

extern constexpr Op kAttention{.domain = "",
                               .name = "Attention",
                               .versions = kVersions,
                               .parse = parse_params<Params, attention::parse>,
                               .types = types,
                               .shape = shape_with<Params, int64_t, attention::shape<int64_t>>,
                               .kernels = kKernels,
                               .scratch = scratch};
extern constexpr OpInference kAttentionInference{.shape = shape_with<Params, Dim, attention::shape<Dim>>};

}  // namespace tessera
