// RNN — a layer of simple recurrent cells: h = f(x W' + h R' + b).
#include "ops/nn/recurrent.h"

namespace tessera {
namespace {
using namespace recurrent;
using Params = RecurrentParams;

Status parse(Attrs& a, Params& p) {
  constexpr Activation::Kind kDefaults[] = {Activation::Kind::tanh};
  return parse_recurrent(a, p, kDefaults);
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  return recurrent::shape(p, c, 1);
}

template <class T>
Status run(const Params& p, Call& call, const Sizes& s, const WeightSet<T>& w, const WeightSet<T>& r, int64_t d) {
  Room<T> room(call);
  T *gates = room.take(s.block() * s.batch * s.width()), *bias = room.take(s.width()), *state = room.take(s.states());
  load_state(call, s, kInitialH, d, state);
  const T* b = call.maybe<T>(kB);
  for (int64_t i = 0; i < s.hidden; ++i) bias[i] = b ? b[2 * d * s.hidden + i] + b[(2 * d + 1) * s.hidden + i] : T{0};
  const Activation f = p.activations[static_cast<size_t>(d)];
  T* y = call.out<T>(0);
  TRY(walk(call, s, p.backwards(static_cast<int>(d)), w.part(d, 0), bias, gates, [&](int64_t t, T* now, int64_t ld) {
    multiply(call, s.batch, state, s.hidden, r.part(d, 0), now, ld, now, ld);
    each_row(call, s, [&](int64_t row) {
      T* h = now + row * ld;
      const bool active = t < length_of(call, s, row);
      if (active) {
        f.apply(call.target(), h, s.hidden, p.clip);
        std::copy_n(h, s.hidden, state + row * s.hidden);
      }
      if (y && active) std::copy_n(h, s.hidden, y + s.y_at(t, row, d));
      if (y && !active) std::fill_n(y + s.y_at(t, row, d), s.hidden, T{0});
    });
  }));
  store_state(call, s, 1, d, state);
  return {};
}

template <class T>
Status compute(const Params& p, Call& call) {
  const Sizes s(p, call.shape(kX), call.shape(kR), 1);
  TRY(check_lengths(call, s));
  const int64_t cuts[] = {s.width()};
  WeightSet<T> w, r;
  TRY(w.load(call, kW, cuts));
  TRY(r.load(call, kR, cuts));
  for (int64_t d = 0; d < s.directions; ++d) TRY(run(p, call, s, w, r, d));
  return {};
}

int64_t scratch(const void* params, const ScratchCall& in) {
  return room_bytes(Sizes(*static_cast<const Params*>(params), *in[kX], *in[kR], 1), 1, 1);
}

constexpr Packing kPacks[] = {kWholeWeight<kW>[0], kWholeWeight<kW>[1], kWholeWeight<kW>[2],
                              kWholeWeight<kR>[0], kWholeWeight<kR>[1], kWholeWeight<kR>[2]};
constexpr Kernel kKernels[] = {{recurrent::kTypes<float>, compute_with<Params, compute<float>>},
                               {recurrent::kTypes<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 7, 14, 22};

}  // namespace

extern constexpr Op kRNN{.domain = "",
                         .name = "RNN",
                         .versions = kVersions,
                         .parse = parse_params<Params, parse>,
                         .shape = shape_with<Params, int64_t, shape<int64_t>>,
                         .kernels = kKernels,
                         .scratch = scratch,
                         .packs = kPacks};
extern constexpr OpInference kRNNInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
