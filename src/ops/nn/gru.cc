// GRU — a layer of gated recurrent units. The gates lie in the order update (z), reset (r), hidden (h).
#include "ops/nn/recurrent.h"

namespace tessera {
namespace {
using namespace recurrent;
using Params = RecurrentParams;

constexpr int kGates = 3;

Status parse(Attrs& a, Params& p) {
  constexpr Activation::Kind kDefaults[] = {Activation::Kind::sigmoid, Activation::Kind::tanh};
  return parse_recurrent(a, p, kDefaults);
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  return recurrent::shape(p, c, kGates);
}

template <class T>
class Layer {
 public:
  Layer(const Params& p, Call& call, const Sizes& s, const WeightSet<T>& w, const WeightSet<T>& r, int64_t d)
      : p_(p), call_(call), s_(s), d_(d), w_(w.part(d, 0)), r_zr_(r.part(d, 0)), r_h_(r.part(d, 1)) {
    Room<T> room(call);
    gates_ = room.take(s.block() * s.batch * s.width());
    bias_ = room.take(s.width());
    state_ = room.take(s.states());
    other_ = room.take(s.states());
  }

  Status run() {
    load_state(call_, s_, kInitialH, d_, state_);
    const int64_t n = s_.hidden, width = s_.width();
    const T* b = call_.maybe<T>(kB);
    const T *wb = b ? b + 2 * d_ * width : nullptr, *rb = b ? wb + width : nullptr;
    for (int64_t i = 0; i < width; ++i) {
      bias_[i] = b ? wb[i] : T{0};
      // The last gate's recurrent bias is multiplied with the reset gate if that comes after.
      if (b && (i < 2 * n || !p_.linear_before_reset)) bias_[i] += rb[i];
    }
    recurrent_bias_ = b && p_.linear_before_reset ? rb + 2 * n : nullptr;
    TRY(walk(call_, s_, p_.backwards(static_cast<int>(d_)), w_, bias_, gates_,
             [&](int64_t t, T* now, int64_t ld) { step(t, now, ld); }));
    store_state(call_, s_, 1, d_, state_);
    return {};
  }

 private:
  void step(int64_t t, T* now, int64_t ld) {
    const int64_t n = s_.hidden;
    const Activation f = p_.activations[static_cast<size_t>(2 * d_)];
    multiply(call_, s_.batch, state_, n, r_zr_, now, ld, now, ld);
    each_row(call_, s_, [&](int64_t row) {
      T* z = now + row * ld;
      f.apply(call_.target(), z, 2 * n, p_.clip);
      if (p_.linear_before_reset) return;
      for (int64_t i = 0; i < n; ++i) other_[row * n + i] = z[n + i] * state_[row * n + i];
    });
    if (p_.linear_before_reset)
      multiply(call_, s_.batch, state_, n, r_h_, other_, n, recurrent_bias_, 0);
    else
      multiply(call_, s_.batch, other_, n, r_h_, now + 2 * n, ld, now + 2 * n, ld);
    each_row(call_, s_, [&](int64_t row) { finish(t, row, now + row * ld); });
  }

  void finish(int64_t t, int64_t row, T* gates) {
    const int64_t n = s_.hidden;
    T *z = gates, *r = gates + n, *h = gates + 2 * n, *state = state_ + row * n, *y = call_.out<T>(0);
    if (y) y += s_.y_at(t, row, d_);
    if (t >= length_of(call_, s_, row)) {
      if (y) std::fill_n(y, n, T{0});
      return;
    }
    for (int64_t i = 0; p_.linear_before_reset && i < n; ++i) h[i] += r[i] * other_[row * n + i];
    p_.activations[static_cast<size_t>(2 * d_ + 1)].apply(call_.target(), h, n, p_.clip);
    for (int64_t i = 0; i < n; ++i) state[i] = (1 - z[i]) * h[i] + z[i] * state[i];
    if (y) std::copy_n(state, n, y);
  }

  const Params& p_;
  Call& call_;
  const Sizes& s_;
  int64_t d_;
  Weights<T> w_, r_zr_, r_h_;
  T *gates_, *bias_, *state_, *other_;
  const T* recurrent_bias_ = nullptr;
};

template <class T>
Status compute(const Params& p, Call& call) {
  const Sizes s(p, call.shape(kX), call.shape(kR), kGates);
  TRY(check_lengths(call, s));
  const int64_t whole[] = {s.width()}, cuts[] = {2 * s.hidden, s.width()};
  WeightSet<T> w, r;
  TRY(w.load(call, kW, whole));
  TRY(r.load(call, kR, cuts));
  for (int64_t d = 0; d < s.directions; ++d) TRY(Layer<T>(p, call, s, w, r, d).run());
  return {};
}

int64_t scratch(const void* params, const ScratchCall& in) {
  return room_bytes(Sizes(*static_cast<const Params*>(params), *in[kX], *in[kR], kGates), 2, 1);
}
int64_t r_bytes(const PackCall& c) {
  const Shape& r = c.shape(kR);
  if (r.rank() != 3) return 0;
  const int64_t cuts[] = {r[1] / kGates * 2, r[1]};
  return packed_bytes(r, cuts, panel_type(c.dtype(kR)));
}
void pack_r(const PackCall& c, void* out) {
  const Shape& r = c.shape(kR);
  const int64_t cuts[] = {r[1] / kGates * 2, r[1]};
  recurrent::pack(r, cuts, panel_type(c.dtype(kR)), c.in<void>(kR), out, c.threads);
}

constexpr Packing kPacks[] = {kWholeWeight<kW>[0],
                              kWholeWeight<kW>[1],
                              kWholeWeight<kW>[2],
                              { kR, "F32.P16.gru", r_bytes, pack_r },
                              { kR, "F16.P16.gru", r_bytes, pack_r, nullptr, set_of(DType::f16) },
                              { kR, "BF16.P16.gru", r_bytes, pack_r, nullptr, set_of(DType::bf16) }};
constexpr Kernel kKernels[] = {{recurrent::kTypes<float>, compute_with<Params, compute<float>>},
                               {recurrent::kTypes<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 3, 7, 14, 22};

}  // namespace

extern constexpr Op kGRU{.domain = "",
                         .name = "GRU",
                         .versions = kVersions,
                         .parse = parse_params<Params, parse>,
                         .shape = shape_with<Params, int64_t, shape<int64_t>>,
                         .kernels = kKernels,
                         .scratch = scratch,
                         .packs = kPacks};
extern constexpr OpInference kGRUInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
