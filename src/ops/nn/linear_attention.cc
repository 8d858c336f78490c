// LinearAttention — a state per key head, [key size, value size], that every token decays, corrects and adds to, and
// that the queries of the token read.
#include <cmath>

#include "ops/elementwise.h"

namespace tessera {
namespace {

enum Input { kQuery, kKey, kValue, kPastState, kDecay, kBeta };
enum Output { kOutput, kPresentState };

struct Params {
  int64_t q_heads = 0, kv_heads = 0;
  float scale = 0;  // 0: 1 / sqrt(key size)
  bool gated = true, delta = true;
};

Status parse(Attrs& a, Params& p) {
  constexpr std::string_view kRules[] = {"linear", "gated", "delta", "gated_delta"};
  int rule = 3;
  a.get_choice("update_rule", rule, kRules);
  a.get("q_num_heads", p.q_heads);
  a.get("kv_num_heads", p.kv_heads);
  a.get("scale", p.scale);
  if (p.kv_heads < 1) return a.refuse("kv_num_heads", "at least 1");
  if (p.q_heads < 1 || p.q_heads % p.kv_heads) return a.refuse("q_num_heads", "a positive multiple of kv_num_heads");
  p.gated = rule & 1;
  p.delta = rule & 2;
  const auto given = [&](size_t i) { return i < a.node().inputs.size() && a.node().inputs[i] != ir::kNone; };
  if (given(kDecay) != p.gated)
    return invalid_graph("update_rule {} {} the input decay", quote(kRules[rule]), p.gated ? "needs" : "forbids");
  if (given(kBeta) != p.delta)
    return invalid_graph("update_rule {} {} the input beta", quote(kRules[rule]), p.delta ? "needs" : "forbids");
  return {};
}

template <class D>
bool differ(const D& a, const D& b) {
  return known(a) && known(b) && number(a) != number(b);
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  for (const int i : {kQuery, kKey, kValue}) {
    const int64_t heads = i == kQuery ? p.q_heads : p.kv_heads;
    if (c.rank(i) != 3 || differ(c.dim(i, 0), c.dim(kQuery, 0)) || differ(c.dim(i, 1), c.dim(kQuery, 1)) ||
        (known(c.dim(i, 2)) && number(c.dim(i, 2)) % heads))
      return c.refuse(i, format("[batch, length, size] of {} heads, of the query's batch and length", heads));
  }
  const D batch = c.dim(kQuery, 0), length = c.dim(kQuery, 1);
  const D key_size = floor_div(c.dim(kQuery, 2), D(p.q_heads)), value_size = floor_div(c.dim(kValue, 2), D(p.kv_heads));
  if (differ(floor_div(c.dim(kKey, 2), D(p.kv_heads)), key_size)) return c.refuse(kKey, "heads of the query's size");
  const DimVec<D> state{batch, D(p.kv_heads), key_size, value_size};
  if (c.has(kPastState)) {
    bool good = c.rank(kPastState) == 4;
    for (int i = 0; good && i < 4; ++i) good = !differ(c.dim(kPastState, i), state[i]);
    if (!good) return c.refuse(kPastState, "[batch, key heads, key size, value size]");
  }
  for (const int i : {kDecay, kBeta}) {
    if (!c.has(i)) continue;
    const D most = i == kDecay ? D(p.kv_heads) * key_size : D(1);
    if (c.rank(i) != 3 || differ(c.dim(i, 0), batch) || differ(c.dim(i, 1), length) ||
        (differ(c.dim(i, 2), D(p.kv_heads)) && differ(c.dim(i, 2), most)))
      return c.refuse(
          i, i == kDecay ? "[batch, length, key heads or key heads * key size]" : "[batch, length, key heads or 1]");
  }
  TRY(c.set(kOutput, {batch, length, D(p.q_heads) * value_size}));
  return c.outputs() > kPresentState ? c.set(kPresentState, state) : Status{};
}

// Columns of a state that one piece of work owns: they never meet.
constexpr int64_t kColumns = 64;

struct Sizes {
  int64_t batch, length, key, value, group;
  Sizes(const Params& p, const Shape& q, const Shape& v)
      : batch(q[0]), length(q[1]), key(q[2] / p.q_heads), value(v[2] / p.kv_heads), group(p.q_heads / p.kv_heads) {}
};

int64_t scratch(const void* params, const ScratchCall& in) {
  const auto& p = *static_cast<const Params*>(params);
  const Sizes s(p, *in[kQuery], *in[kValue]);
  return static_cast<int64_t>(sizeof(float)) * (s.key + 1) * std::min(kColumns, s.value);
}

// y[j] += a * x[j]
void add_scaled(float a, const float* x, float* y, int64_t n) {
  for (int64_t j = 0; j < n; ++j) y[j] += a * x[j];
}

// One token of one head: `columns` columns of its state, rows one after the other.
class Token {
 public:
  Token(const Params& p, Call& call, const Sizes& s) : p_(p), call_(call), s_(s) {}

  void step(int64_t token, int64_t head, int64_t first, int64_t columns, float* state, float* update) const {
    const float* k = call_.in<float>(kKey) + (token * p_.kv_heads + head) * s_.key;
    const float* v = call_.in<float>(kValue) + (token * p_.kv_heads + head) * s_.value + first;
    if (p_.gated) decay(token, head, columns, state);
    std::copy(v, v + columns, update);
    if (p_.delta) {
      for (int64_t d = 0; d < s_.key; ++d) add_scaled(-k[d], state + d * columns, update, columns);
      const int64_t rates = call_.shape(kBeta)[2];
      const float rate = call_.in<float>(kBeta)[token * rates + (rates == 1 ? 0 : head)];
      for (int64_t j = 0; j < columns; ++j) update[j] *= rate;
    }
    for (int64_t d = 0; d < s_.key; ++d) add_scaled(k[d], update, state + d * columns, columns);
    for (int64_t g = 0; g < s_.group; ++g) read(token, head * s_.group + g, first, columns, state);
  }

 private:
  void decay(int64_t token, int64_t head, int64_t columns, float* state) const {
    const int64_t width = call_.shape(kDecay)[2];
    const bool per_head = width == p_.kv_heads;
    const float* g = call_.in<float>(kDecay) + token * width + head * (per_head ? 1 : s_.key);
    float factor = 0;
    for (int64_t d = 0; d < s_.key; ++d) {
      if (d == 0 || !per_head) factor = std::exp(g[d]);
      for (int64_t j = 0; j < columns; ++j) state[d * columns + j] *= factor;
    }
  }

  void read(int64_t token, int64_t head, int64_t first, int64_t columns, const float* state) const {
    const float* q = call_.in<float>(kQuery) + (token * p_.q_heads + head) * s_.key;
    float* y = call_.out<float>(kOutput);
    if (!y) return;
    y += (token * p_.q_heads + head) * s_.value + first;
    const float scale = p_.scale != 0 ? p_.scale : 1 / std::sqrt(static_cast<float>(s_.key));
    std::fill_n(y, columns, 0.0f);
    for (int64_t d = 0; d < s_.key; ++d) add_scaled(q[d], state + d * columns, y, columns);
    for (int64_t j = 0; j < columns; ++j) y[j] *= scale;
  }

  const Params& p_;
  Call& call_;
  const Sizes& s_;
};

Status compute(const Params& p, Call& call) {
  const Sizes s(p, call.shape(kQuery), call.shape(kValue));
  const float* past = call.maybe<float>(kPastState);
  float* present = call.out<float>(kPresentState);
  const int64_t blocks = ceil_div(s.value, kColumns);
  const Token token(p, call, s);
  call.parallel(s.batch * p.kv_heads * blocks, [&](int64_t chunk, int lane) {
    const int64_t i = chunk / blocks, first = chunk % blocks * kColumns, n = std::min(kColumns, s.value - first);
    float *state = call.scratch<float>(lane), *update = state + s.key * n;
    const int64_t at = i * s.key * s.value + first;
    for (int64_t d = 0; d < s.key; ++d) {
      if (past)
        std::copy_n(past + at + d * s.value, n, state + d * n);
      else
        std::fill_n(state + d * n, n, 0.0f);
    }
    for (int64_t t = 0; t < s.length && !call.cancelled(); ++t)
      token.step(i / p.kv_heads * s.length + t, i % p.kv_heads, first, n, state, update);
    for (int64_t d = 0; present && d < s.key; ++d) std::copy_n(state + d * n, n, present + at + d * s.value);
  });
  return call.cancelled() ? call.stopped() : Status{};
}

void types(TypeCall& c) {
  for (TypeDesc& t : c.out) t = c.in[kQuery];
  // Without a past state nothing says the type of the state: it is the query's.
  const bool past = c.in.size() > kPastState && c.in[kPastState].kind != Kind::unknown;
  if (past && c.out.size() > kPresentState) c.out[kPresentState] = c.in[kPastState];
}

constexpr TypeRule kTypes[] = {
    {in_arg(kQuery) | in_arg(kKey) | in_arg(kValue) | in_arg(kDecay) | in_arg(kBeta) | out_arg(kOutput),
     set_of(DType::f32), kHalfFloats},
    {in_arg(kPastState) | out_arg(kPresentState), set_of(DType::f32), kHalfFloats}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {27};

}  // namespace

extern constexpr Op kLinearAttention{.domain = "",
                                     .name = "LinearAttention",
                                     .versions = kVersions,
                                     .parse = parse_params<Params, parse>,
                                     .types = types,
                                     .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                     .kernels = kKernels,
                                     .scratch = scratch};
extern constexpr OpInference kLinearAttentionInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
