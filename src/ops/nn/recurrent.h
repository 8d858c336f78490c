// What LSTM, GRU and RNN share: attributes, shapes, activations, and the walk over time.
//
// The products of the inputs with W are taken for many time steps at once; only the products with R follow the
// recurrence. Gates of one step and one batch row lie side by side.
#pragma once
#include <cstring>

#include "kernels/gemm.h"
#include "ops/nn/panel_room.h"
#include "ops/op.h"

namespace tessera {

struct Activation {
  enum class Kind : uint8_t {
    relu,
    tanh,
    sigmoid,
    affine,
    leaky_relu,
    thresholded_relu,
    scaled_tanh,
    hard_sigmoid,
    elu,
    softsign,
    softplus
  } kind = Kind::tanh;
  float alpha = 0, beta = 0;

  // x = f(clamp(x, -clip, clip)); no clamp if clip is 0.
  template <class T>
  void apply(Target target, T* x, int64_t n, float clip) const;
};

struct RecurrentParams {
  enum class Direction : uint8_t { forward, reverse, both } direction = Direction::forward;
  int64_t hidden = 0;                   // 0: as R says
  std::vector<Activation> activations;  // of the first direction, then of the second
  float clip = 0;                       // 0: none
  bool batch_first = false;
  bool input_forget = false;         // LSTM
  bool linear_before_reset = false;  // GRU

  int directions() const { return direction == Direction::both ? 2 : 1; }
  // Whether direction d runs from the last step to the first.
  bool backwards(int d) const { return direction == Direction::reverse || d == 1; }
};

// `defaults`: the activations of one direction.
Status parse_recurrent(Attrs& a, RecurrentParams& p, std::span<const Activation::Kind> defaults);

namespace recurrent {

// The argument order of all three: X, W, R, B, sequence_lens, initial_h, then LSTM's initial_c and P.
enum Input { kX, kW, kR, kB, kLengths, kInitialH, kInitialC, kPeepholes };

template <class D>
Status expect(ShapeCall<D>& c, int i, std::initializer_list<D> dims) {
  if (!c.has(i)) return {};
  bool good = c.rank(i) == static_cast<int>(dims.size());
  std::string wanted;
  int k = 0;
  for (const D& d : dims) {
    good = good && (!known(d) || !known(c.dim(i, k)) || number(d) == number(c.dim(i, k)));
    wanted += (k++ ? "," : "") + (known(d) ? std::to_string(number(d)) : "?");
  }
  return good ? Status{} : c.refuse(i, "the shape [" + wanted + "]");
}

template <class D>
Status shape(const RecurrentParams& p, ShapeCall<D>& c, int gates) {
  for (const int i : {kX, kW, kR})
    if (c.rank(i) != 3) return c.refuse(i, "three dimensions");
  const D steps = c.dim(kX, p.batch_first), batch = c.dim(kX, !p.batch_first), directions = p.directions();
  const D hidden = p.hidden ? D(p.hidden) : c.dim(kR, 2), all = D(gates) * hidden;
  if (known(hidden) && (number(hidden) < 1 || number(hidden) > INT32_MAX))
    return c.refuse(kR, "a hidden size of at least 1");
  TRY(expect<D>(c, kW, {directions, all, c.dim(kX, 2)}));
  TRY(expect<D>(c, kR, {directions, all, hidden}));
  TRY(expect<D>(c, kB, {directions, D(2) * all}));
  TRY(expect<D>(c, kLengths, {batch}));
  const DimVec<D> state = p.batch_first ? DimVec<D>{batch, directions, hidden} : DimVec<D>{directions, batch, hidden};
  for (const int i : {kInitialH, kInitialC}) TRY(expect<D>(c, i, {state[0], state[1], state[2]}));
  TRY(expect<D>(c, kPeepholes, {directions, D(3) * hidden}));
  const DimVec<D> y =
      p.batch_first ? DimVec<D>{batch, steps, directions, hidden} : DimVec<D>{steps, directions, batch, hidden};
  for (int o = 0; o < c.outputs(); ++o) TRY(c.set(o, o == 0 ? y : state));
  return {};
}

struct Sizes {
  int64_t steps, batch, input, hidden, gates, directions;
  bool batch_first;

  Sizes(const RecurrentParams& p, const Shape& x, const Shape& r, int64_t gate_count)
      : steps(x[p.batch_first]),
        batch(x[!p.batch_first]),
        input(x[2]),
        hidden(r[2]),
        gates(gate_count),
        directions(p.directions()),
        batch_first(p.batch_first) {}
  int64_t width() const { return gates * hidden; }
  int64_t states() const { return batch * hidden; }
  // Steps whose gates are held at a time.
  int64_t block() const {
    return std::clamp<int64_t>((1 << 17) / std::max<int64_t>(1, batch * width()), 1, std::max<int64_t>(1, steps));
  }
  int64_t y_at(int64_t t, int64_t b, int64_t d) const {
    return (batch_first ? (b * steps + t) * directions + d : (t * directions + d) * batch + b) * hidden;
  }
  int64_t state_at(int64_t b, int64_t d) const { return (batch_first ? b * directions + d : d * batch + b) * hidden; }
};

// A matrix [n, k], by which rows of k elements are multiplied: packed panels of `type` for float, plain rows for
// double.
template <class T>
struct Weights {
  const void* data;
  int64_t n, k;
  PanelType type;
};

// y = a * w' + add; row i of `add` starts at add + i * add_row. y may be add.
void multiply(const Call& call, int64_t m, const float* a, int64_t lda, const Weights<float>& w, float* y, int64_t ldy,
              const float* add, int64_t add_row);
void multiply(const Call& call, int64_t m, const double* a, int64_t lda, const Weights<double>& w, double* y,
              int64_t ldy, const double* add, int64_t add_row);

// Weights [directions, rows, k] packed in parts of the rows: `cuts` ends each part (GRU multiplies some of R apart).
int64_t packed_bytes(const Shape& w, std::span<const int64_t> cuts, PanelType type);
void pack(const Shape& w, std::span<const int64_t> cuts, PanelType type, const void* from, void* out, int threads);

// The weights of input i (W or R), packed if the type asks for it.
template <class T>
class WeightSet {
 public:
  Status load(Call& call, int i, std::span<const int64_t> cuts);
  Weights<T> part(int64_t direction, size_t part) const;

 private:
  const std::byte* data_ = nullptr;
  PanelType type_ = PanelType::f32;
  int64_t k_ = 0, stride_ = 0;  // stride_: bytes of a direction
  std::vector<int64_t> cuts_;
  Tensor own_;
};

// The room of one call in lane 0's scratch.
template <class T>
class Room {
 public:
  explicit Room(const Call& call) : next_(call.scratch<T>(0)) {}
  T* take(int64_t n) {
    T* p = next_;
    next_ += round_up(n, 16);
    return p;
  }

 private:
  T* next_;
};
// Bytes for the gates of a block of steps, a bias and `states` arrays like a state.
int64_t room_bytes(const Sizes& s, int64_t states, int64_t widths);

// Lengths between 0 and the number of steps.
Status check_lengths(Call& call, const Sizes& s);
inline int64_t length_of(const Call& call, const Sizes& s, int64_t b) {
  return call.has(kLengths) ? call.in<int32_t>(kLengths)[b] : s.steps;
}

// Copies an initial state (zeros when absent) to [batch, hidden], and a final one back.
template <class T>
void load_state(const Call& call, const Sizes& s, int i, int64_t d, T* to) {
  for (int64_t b = 0; b < s.batch; ++b) {
    if (call.has(i))
      std::memcpy(to + b * s.hidden, call.in<T>(i) + s.state_at(b, d), static_cast<size_t>(s.hidden) * sizeof(T));
    else
      std::fill_n(to + b * s.hidden, s.hidden, T{0});
  }
}
template <class T>
void store_state(Call& call, const Sizes& s, int o, int64_t d, const T* from) {
  T* y = call.out<T>(o);
  for (int64_t b = 0; y && b < s.batch; ++b)
    std::memcpy(y + s.state_at(b, d), from + b * s.hidden, static_cast<size_t>(s.hidden) * sizeof(T));
}

// Multiplies the inputs with w, adds `bias` (one row), and calls step(t, gates, ld) in the order of the recurrence;
// batch row b of the step's gates starts at gates + b * ld.
template <class T, class F>
Status walk(Call& call, const Sizes& s, bool backwards, const Weights<T>& w, const T* bias, T* gates, F&& step) {
  const T* x = call.in<T>(kX);
  const int64_t block = s.block(), blocks = ceil_div(s.steps, block), width = s.width();
  for (int64_t k = 0; k < blocks; ++k) {
    if (call.cancelled()) return call.stopped();
    const int64_t first = (backwards ? blocks - 1 - k : k) * block, n = std::min(block, s.steps - first);
    if (!s.batch_first) multiply(call, n * s.batch, x + first * s.batch * s.input, s.input, w, gates, width, bias, 0);
    for (int64_t b = 0; s.batch_first && b < s.batch; ++b)
      multiply(call, n, x + (b * s.steps + first) * s.input, s.input, w, gates + b * n * width, width, bias, 0);
    for (int64_t i = 0; i < n; ++i) {
      const int64_t at = backwards ? n - 1 - i : i;
      step(first + at, gates + at * width * (s.batch_first ? 1 : s.batch), width * (s.batch_first ? n : 1));
    }
  }
  return {};
}

// fn(b) for all batch rows, in parallel when there is enough to do.
template <class F>
void each_row(const Call& call, const Sizes& s, F&& fn) {
  const int64_t per_chunk = std::max<int64_t>(1, 4096 / s.hidden);
  call.parallel(ceil_div(s.batch, per_chunk), [&](int64_t chunk, int) {
    for (int64_t b = chunk * per_chunk, end = std::min(s.batch, b + per_chunk); b < end; ++b) fn(b);
  });
}

// The packing of a weight whose gates are multiplied all at once, if it is of this type.
int64_t whole_bytes(const PackCall& c, int i);
void pack_whole(const PackCall& c, int i, void* out);
template <int I>
constexpr Packing whole_weight(const char* layout, DType type) {
  return {I,
          layout,
          [](const PackCall& c) { return whole_bytes(c, I); },
          [](const PackCall& c, void* out) { pack_whole(c, I, out); },
          nullptr,
          set_of(type)};
}
template <int I>
inline constexpr Packing kWholeWeight[] = {whole_weight<I>("F32.P16.rows", DType::f32),
                                           whole_weight<I>("F16.P16.rows", DType::f16),
                                           whole_weight<I>("BF16.P16.rows", DType::bf16)};

// Floats of either width; sequence_lens is int32.
template <class T>
inline constexpr TypeRule kTypes[] = {
    {in_arg(kX) | in_arg(kW) | in_arg(kR) | in_arg(kB) | in_arg(kInitialH) | in_arg(kInitialC) | in_arg(kPeepholes) |
         out_arg(0) | out_arg(1) | out_arg(2),
     set_of(dtype_of<T>), sizeof(T) == 4 ? kHalfFloats : TypeSet{}},
    {in_arg(kLengths), set_of(DType::i32)}};

}  // namespace recurrent
}  // namespace tessera
