// AttnLSTM — an LSTM whose cells also see what an attention (of Bahdanau) over a memory gave at the step before.
#include <cmath>

#include "kernels/gemm_generic.h"
#include "ops/contrib/contrib.h"
#include "ops/nn/recurrent.h"

namespace tessera {
namespace {
using namespace contrib;
using namespace recurrent;
using Params = RecurrentParams;

constexpr int kGates = 4;
enum More { kQueryW = kPeepholes + 1, kMemoryW, kVector, kMemory, kMemoryLengths, kLayerW };
constexpr Arity kArity{
    in_arg(kX) | in_arg(kW) | in_arg(kR) | in_arg(kQueryW) | in_arg(kMemoryW) | in_arg(kVector) | in_arg(kMemory), 14,
    3};

Status parse(Attrs& a, Params& p) {
  constexpr Activation::Kind kDefaults[] = {Activation::Kind::sigmoid, Activation::Kind::tanh, Activation::Kind::tanh};
  TRY(parse_recurrent(a, p, kDefaults));
  return p.batch_first ? a.refuse("layout", "0") : Status{};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  for (const int i : {+kX, +kW, +kR, +kQueryW, +kMemoryW, +kMemory})
    if (c.rank(i) != 3) return c.refuse(i, "three dimensions");
  if (c.has(kLayerW) && c.rank(kLayerW) != 3) return c.refuse(kLayerW, "three dimensions");
  const D steps = c.dim(kX, 0), batch = c.dim(kX, 1), directions = p.directions();
  const D hidden = p.hidden ? D(p.hidden) : c.dim(kR, 2), all = D(kGates) * hidden;
  if (known(hidden) && (number(hidden) < 1 || number(hidden) > INT32_MAX))
    return c.refuse(kR, "a hidden size of at least 1");
  const D depth = c.dim(kMemory, 2), width = c.dim(kMemoryW, 2);
  const D attention = c.has(kLayerW) ? c.dim(kLayerW, 2) : depth;
  TRY(expect<D>(c, kW, {directions, all, c.dim(kX, 2) + attention}));
  TRY(expect<D>(c, kR, {directions, all, hidden}));
  TRY(expect<D>(c, kB, {directions, D(2) * all}));
  TRY(expect<D>(c, kLengths, {batch}));
  for (const int i : {kInitialH, kInitialC}) TRY(expect<D>(c, i, {directions, batch, hidden}));
  TRY(expect<D>(c, kPeepholes, {directions, D(3) * hidden}));
  TRY(expect<D>(c, kQueryW, {directions, hidden, width}));
  TRY(expect<D>(c, kMemoryW, {directions, depth, width}));
  TRY(expect<D>(c, kVector, {directions, width}));
  TRY(expect<D>(c, kMemory, {batch, c.dim(kMemory, 1), depth}));
  TRY(expect<D>(c, kMemoryLengths, {batch}));
  TRY(expect<D>(c, kLayerW, {directions, depth + hidden, attention}));
  const DimVec<D> state{directions, batch, hidden}, y{steps, directions, batch, hidden};
  for (int o = 0; o < c.outputs(); ++o) TRY(c.set(o, o == 0 ? y : state));
  return {};
}

// One direction.
template <class T>
class Run {
 public:
  Run(const Params& p, Call& call, const Sizes& s, int64_t d) : p_(p), call_(call), s_(s), d_(d) {
    const Shape &m = call.shape(kMemory), &w = call.shape(kMemoryW);
    slots_ = m[1];
    depth_ = m[2];
    width_ = w[2];
    seen_ = call.has(kLayerW) ? call.shape(kLayerW)[2] : depth_;
    const auto room = [](int64_t n) { return std::vector<T>(static_cast<size_t>(n)); };
    state_ = room(s.states());
    memory_ = room(s.states());
    gates_ = room(s.batch * s.width());
    rows_ = room(s.batch * (s.input + seen_));
    keys_ = room(s.batch * slots_ * width_);
    query_ = room(s.batch * width_);
    context_ = room(s.batch * depth_);
    attention_ = room(s.batch * seen_);
    load_state(call, s, kInitialH, d, state_.data());
    load_state(call, s, kInitialC, d, memory_.data());
  }

  Status run() {
    multiply(s_.batch * slots_, width_, depth_, call_.in<T>(kMemory), part(kMemoryW), false, keys_);
    if (T* y = call_.out<T>(0))
      for (int64_t t = 0; t < s_.steps; ++t) std::fill_n(y + s_.y_at(t, 0, d_), s_.states(), T{0});
    for (int64_t step = 0; step < s_.steps; ++step) {
      if (call_.cancelled()) return call_.stopped();
      take_gates(step);
      each_row(call_, s_, [&](int64_t b) {
        if (step < length_of(call_, s_, b)) advance(step, b);
      });
      attend();
    }
    store_state(call_, s_, 1, d_, state_.data());
    store_state(call_, s_, 2, d_, memory_.data());
    return {};
  }

 private:
  // Of input i, what belongs to this direction.
  const T* part(int i) const { return call_.in<T>(i) + d_ * call_.count(i) / s_.directions; }
  int64_t time(int64_t step, int64_t b) const {
    const int64_t length = length_of(call_, s_, b);
    return p_.backwards(static_cast<int>(d_)) && step < length ? length - 1 - step : step;
  }
  void multiply(int64_t m, int64_t n, int64_t k, const T* a, const T* b, bool trans, std::vector<T>& y) const {
    gemm_ref<T, T>(call_.threads(), m, n, k, a, k, false, b, trans ? k : n, trans, y.data(), n);
  }

  // Inputs and attention side by side by W, the state by R, and the bias.
  void take_gates(int64_t step) {
    const int64_t k = s_.input + seen_, width = s_.width();
    for (int64_t b = 0; b < s_.batch; ++b) {
      const T* x = call_.in<T>(kX) + (time(step, b) * s_.batch + b) * s_.input;
      std::copy_n(attention_.data() + b * seen_, seen_, std::copy_n(x, s_.input, rows_.data() + b * k));
    }
    multiply(s_.batch, width, k, rows_.data(), part(kW), true, gates_);
    std::vector<T> recurrent(gates_.size());
    multiply(s_.batch, width, s_.hidden, state_.data(), part(kR), true, recurrent);
    const T* bias = call_.has(kB) ? part(kB) : nullptr;
    for (int64_t i = 0; i < s_.batch * width; ++i) {
      const int64_t g = i % width;
      gates_[static_cast<size_t>(i)] += recurrent[static_cast<size_t>(i)] + (bias ? bias[g] + bias[width + g] : T{0});
    }
  }

  void advance(int64_t step, int64_t b) {
    const int64_t n = s_.hidden;
    const Activation* act = &p_.activations[static_cast<size_t>(3 * d_)];
    const Target target = call_.target();
    T *in = gates_.data() + b * s_.width(), *out = in + n, *forget = out + n, *cell = forget + n;
    T *memory = memory_.data() + b * n, *state = state_.data() + b * n;
    const T* peepholes = call_.has(kPeepholes) ? part(kPeepholes) : nullptr;
    for (int64_t i = 0; peepholes && i < n; ++i) {
      in[i] += peepholes[i] * memory[i];
      forget[i] += peepholes[2 * n + i] * memory[i];
    }
    act[0].apply(target, in, n, p_.clip);
    act[0].apply(target, forget, n, p_.clip);
    for (int64_t i = 0; p_.input_forget && i < n; ++i) forget[i] = 1 - in[i];
    act[1].apply(target, cell, n, p_.clip);
    for (int64_t i = 0; i < n; ++i) memory[i] = forget[i] * memory[i] + in[i] * cell[i];
    for (int64_t i = 0; peepholes && i < n; ++i) out[i] += peepholes[n + i] * memory[i];
    act[0].apply(target, out, n, p_.clip);
    std::copy_n(memory, n, cell);
    act[2].apply(target, cell, n, 0);
    for (int64_t i = 0; i < n; ++i) state[i] = out[i] * cell[i];
    if (T* y = call_.out<T>(0)) std::copy_n(state, n, y + s_.y_at(time(step, b), b, d_));
  }

  // The memory, weighted by softmax(v . tanh(keys + query)); then, with the state, through the layer if there is one.
  void attend() {
    multiply(s_.batch, width_, s_.hidden, state_.data(), part(kQueryW), false, query_);
    for (int64_t b = 0; b < s_.batch; ++b) weigh_memory(b);
    if (!call_.has(kLayerW)) {
      attention_ = context_;
      return;
    }
    const T* layer = part(kLayerW);
    multiply(s_.batch, seen_, s_.hidden, state_.data(), layer, false, attention_);
    std::vector<T> other(attention_.size());
    multiply(s_.batch, seen_, depth_, context_.data(), layer + s_.hidden * seen_, false, other);
    for (size_t i = 0; i < other.size(); ++i) attention_[i] += other[i];
  }

  void weigh_memory(int64_t b) {
    const int64_t used = call_.has(kMemoryLengths) ? call_.in<int32_t>(kMemoryLengths)[b] : slots_;
    const T *v = part(kVector), *query = query_.data() + b * width_;
    std::vector<T> weights(static_cast<size_t>(used));
    T most = -std::numeric_limits<T>::infinity(), sum = 0;
    for (int64_t m = 0; m < used; ++m) {
      const T* key = keys_.data() + (b * slots_ + m) * width_;
      T score = 0;
      for (int64_t i = 0; i < width_; ++i) score += v[i] * std::tanh(key[i] + query[i]);
      weights[static_cast<size_t>(m)] = score;
      most = std::max(most, score);
    }
    for (T& w : weights) sum += w = std::exp(w - most);
    T* context = context_.data() + b * depth_;
    std::fill_n(context, depth_, T{0});
    for (int64_t m = 0; m < used; ++m) {
      const T w = weights[static_cast<size_t>(m)] / sum, *value = call_.in<T>(kMemory) + (b * slots_ + m) * depth_;
      for (int64_t i = 0; i < depth_; ++i) context[i] += w * value[i];
    }
  }

  const Params& p_;
  Call& call_;
  const Sizes& s_;
  int64_t d_, slots_, depth_, width_, seen_;
  std::vector<T> state_, memory_, gates_, rows_, keys_, query_, context_, attention_;
};

template <class T>
Status compute(const Params& p, Call& call) {
  const Sizes s(p, call.shape(kX), call.shape(kR), kGates);
  TRY(check_lengths(call, s));
  for (int64_t b = 0; call.has(kMemoryLengths) && b < s.batch; ++b) {
    const int32_t used = call.in<int32_t>(kMemoryLengths)[b];
    if (used < 1 || used > call.shape(kMemory)[1])
      return call.refuse(kMemoryLengths, "lengths from 1 to {} (sample {} has {})", call.shape(kMemory)[1], b, used);
  }
  for (int64_t d = 0; d < s.directions; ++d) TRY(Run<T>(p, call, s, d).run());
  return {};
}

template <class T>
constexpr TypeRule kAttnTypes[] = {
    {in_arg(kX) | in_arg(kW) | in_arg(kR) | in_arg(kB) | in_arg(kInitialH) | in_arg(kInitialC) | in_arg(kPeepholes) |
         in_arg(kQueryW) | in_arg(kMemoryW) | in_arg(kVector) | in_arg(kMemory) | in_arg(kLayerW) | out_arg(0) |
         out_arg(1) | out_arg(2),
     set_of(dtype_of<T>)},
    {in_arg(kLengths) | in_arg(kMemoryLengths), set_of(DType::i32)}};
constexpr Kernel kKernels[] = {{kAttnTypes<float>, compute_with<Params, compute<float>>},
                               {kAttnTypes<double>, compute_with<Params, compute<double>>}};

}  // namespace

extern constexpr Op kMicrosoftAttnLSTM{.domain = kDomain,
                                       .name = "AttnLSTM",
                                       .versions = contrib::kVersions,
                                       .parse = parse_checked<Params, kArity, parse>,
                                       .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                       .kernels = kKernels};
extern constexpr OpInference kMicrosoftAttnLSTMInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
