// LSTM — a layer of long short-term memory cells. The gates lie in the order input, output, forget, cell.
#include "ops/nn/recurrent.h"

namespace tessera {
namespace {
using namespace recurrent;
using Params = RecurrentParams;

constexpr int kGates = 4;

Status parse(Attrs& a, Params& p) {
  constexpr Activation::Kind kDefaults[] = {Activation::Kind::sigmoid, Activation::Kind::tanh, Activation::Kind::tanh};
  return parse_recurrent(a, p, kDefaults);
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  return recurrent::shape(p, c, kGates);
}

// The cell of one batch row.
template <class T>
struct Cell {
  Target target;
  int64_t hidden;
  float clip;
  bool input_forget;
  Activation f, g, h;
  const T* peepholes;  // input, output, forget; or null

  // Replaces memory and state; the gates are used up.
  void step(T* gates, T* memory, T* state) const {
    const int64_t n = hidden;
    T *in = gates, *out = gates + n, *forget = gates + 2 * n, *cell = gates + 3 * n;
    for (int64_t i = 0; peepholes && i < n; ++i) {
      in[i] += peepholes[i] * memory[i];
      forget[i] += peepholes[2 * n + i] * memory[i];
    }
    f.apply(target, in, n, clip);
    if (input_forget)
      for (int64_t i = 0; i < n; ++i) forget[i] = 1 - in[i];
    else
      f.apply(target, forget, n, clip);
    g.apply(target, cell, n, clip);
    for (int64_t i = 0; i < n; ++i) memory[i] = forget[i] * memory[i] + in[i] * cell[i];
    for (int64_t i = 0; peepholes && i < n; ++i) out[i] += peepholes[n + i] * memory[i];
    f.apply(target, out, n, clip);
    std::copy_n(memory, n, cell);
    h.apply(target, cell, n, 0);
    for (int64_t i = 0; i < n; ++i) state[i] = out[i] * cell[i];
  }
};

template <class T>
Status run(const Params& p, Call& call, const Sizes& s, const WeightSet<T>& w, const WeightSet<T>& r, int64_t d) {
  Room<T> room(call);
  T *gates = room.take(s.block() * s.batch * s.width()), *bias = room.take(s.width());
  T *state = room.take(s.states()), *memory = room.take(s.states());
  load_state(call, s, kInitialH, d, state);
  load_state(call, s, kInitialC, d, memory);
  const T* b = call.maybe<T>(kB);
  for (int64_t i = 0; i < s.width(); ++i)
    bias[i] = b ? b[2 * d * s.width() + i] + b[(2 * d + 1) * s.width() + i] : T{0};
  const Activation* act = &p.activations[static_cast<size_t>(3 * d)];
  const T* peepholes = call.maybe<T>(kPeepholes);
  const Cell<T> cell{call.target(), s.hidden, p.clip, p.input_forget,
                     act[0],        act[1],   act[2], peepholes ? peepholes + 3 * d * s.hidden : nullptr};
  T* y = call.out<T>(0);
  TRY(walk(call, s, p.backwards(static_cast<int>(d)), w.part(d, 0), bias, gates, [&](int64_t t, T* now, int64_t ld) {
    multiply(call, s.batch, state, s.hidden, r.part(d, 0), now, ld, now, ld);
    each_row(call, s, [&](int64_t row) {
      T* h = state + row * s.hidden;
      const bool active = t < length_of(call, s, row);
      if (active) cell.step(now + row * ld, memory + row * s.hidden, h);
      if (y && active) std::copy_n(h, s.hidden, y + s.y_at(t, row, d));
      if (y && !active) std::fill_n(y + s.y_at(t, row, d), s.hidden, T{0});
    });
  }));
  store_state(call, s, 1, d, state);
  store_state(call, s, 2, d, memory);
  return {};
}

template <class T>
Status compute(const Params& p, Call& call) {
  const Sizes s(p, call.shape(kX), call.shape(kR), kGates);
  TRY(check_lengths(call, s));
  const int64_t cuts[] = {s.width()};
  WeightSet<T> w, r;
  TRY(w.load(call, kW, cuts));
  TRY(r.load(call, kR, cuts));
  for (int64_t d = 0; d < s.directions; ++d) TRY(run(p, call, s, w, r, d));
  return {};
}

int64_t scratch(const void* params, const ScratchCall& in) {
  return room_bytes(Sizes(*static_cast<const Params*>(params), *in[kX], *in[kR], kGates), 2, 1);
}

constexpr Packing kPacks[] = {kWholeWeight<kW>[0], kWholeWeight<kW>[1], kWholeWeight<kW>[2],
                              kWholeWeight<kR>[0], kWholeWeight<kR>[1], kWholeWeight<kR>[2]};
constexpr Kernel kKernels[] = {{recurrent::kTypes<float>, compute_with<Params, compute<float>>},
                               {recurrent::kTypes<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 7, 14, 22};

}  // namespace

extern constexpr Op kLSTM{.domain = "",
                          .name = "LSTM",
                          .versions = kVersions,
                          .parse = parse_params<Params, parse>,
                          .shape = shape_with<Params, int64_t, shape<int64_t>>,
                          .kernels = kKernels,
                          .scratch = scratch,
                          .packs = kPacks};
extern constexpr OpInference kLSTMInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
