// Adagrad, Adam, Momentum — one step of an optimizer on any number of tensors. After the learning rate R and the update
// count T the inputs come in groups of equal length: the tensors, their gradients, then each kind of state; the outputs
// are the new tensors and the new states.
#include <cmath>

#include "ops/elementwise.h"

namespace tessera {
namespace {

constexpr int kFirst = 2;  // R and T stand before the groups

struct Params {
  float alpha = 0.9f, beta = 0.999f, decay = 0, epsilon = 1e-6f, norm = 0, norm_post = 0;
  bool nesterov = false;
};

// `states` tensors beside each optimized one and its gradient.
Status check_groups(Attrs& a, size_t states) {
  TRY(a.done());
  const size_t in = a.node().inputs.size() - kFirst, out = a.node().outputs.size();
  if (a.node().inputs.size() < kFirst || in == 0 || in % (states + 2) != 0 || out != in / (states + 2) * (states + 1))
    return invalid_graph(
        "it has {} inputs and {} outputs, wanted R, T and groups of {} tensors, and {} outputs for each",
        a.node().inputs.size(), out, states + 2, states + 1);
  return {};
}

// Each optimizer: its attributes, what one run makes of R and T, and the step of one element.
struct Adagrad {
  static constexpr int kStates = 1;
  static Status parse(Attrs& a, Params& p) {
    a.get("decay_factor", p.decay);
    a.get("epsilon", p.epsilon);
    a.get("norm_coefficient", p.norm);
    return check_groups(a, kStates);
  }
  Adagrad(const Params& params, double r, int64_t t)
      : p(params), rate(r / (1 + static_cast<double>(t) * static_cast<double>(p.decay))) {}
  template <class T>
  void step(T x, T g, const T* state, T* x_new, T* state_new) const {
    const T regular = static_cast<T>(p.norm) * x + g;
    state_new[0] = state[0] + regular * regular;
    *x_new = x - static_cast<T>(rate) * regular / (std::sqrt(state_new[0]) + static_cast<T>(p.epsilon));
  }
  const Params& p;
  double rate;
};
struct Adam {
  static constexpr int kStates = 2;
  static Status parse(Attrs& a, Params& p) {
    a.get("alpha", p.alpha);
    a.get("beta", p.beta);
    a.get("epsilon", p.epsilon);
    a.get("norm_coefficient", p.norm);
    a.get("norm_coefficient_post", p.norm_post);
    return check_groups(a, kStates);
  }
  Adam(const Params& params, double r, int64_t t) : p(params), rate(r) {
    const auto times = static_cast<double>(t);
    if (t > 0)
      rate = r * std::sqrt(1 - std::pow(static_cast<double>(p.beta), times)) /
             (1 - std::pow(static_cast<double>(p.alpha), times));
  }
  template <class T>
  void step(T x, T g, const T* state, T* x_new, T* state_new) const {
    const T alpha = static_cast<T>(p.alpha), beta = static_cast<T>(p.beta);
    const T regular = static_cast<T>(p.norm) * x + g;
    state_new[0] = alpha * state[0] + (1 - alpha) * regular;
    state_new[1] = beta * state[1] + (1 - beta) * regular * regular;
    const T moved = x - static_cast<T>(rate) * state_new[0] / (std::sqrt(state_new[1]) + static_cast<T>(p.epsilon));
    *x_new = (1 - static_cast<T>(p.norm_post)) * moved;
  }
  const Params& p;
  double rate;
};
struct Momentum {
  static constexpr int kStates = 1;
  static Status parse(Attrs& a, Params& p) {
    constexpr std::string_view kModes[] = {"standard", "nesterov"};
    int mode = 0;
    a.get("alpha", p.alpha);
    a.get("beta", p.beta);
    a.get("norm_coefficient", p.norm);
    a.get_choice("mode", mode, kModes);
    p.nesterov = mode == 1;
    return check_groups(a, kStates);
  }
  Momentum(const Params& params, double r, int64_t t) : p(params), rate(r), beta(t > 0 ? p.beta : 1) {}
  template <class T>
  void step(T x, T g, const T* state, T* x_new, T* state_new) const {
    const T alpha = static_cast<T>(p.alpha), regular = static_cast<T>(p.norm) * x + g;
    state_new[0] = alpha * state[0] + static_cast<T>(beta) * regular;
    *x_new = x - static_cast<T>(rate) * (p.nesterov ? regular + alpha * state_new[0] : state_new[0]);
  }
  const Params& p;
  double rate;
  float beta;
};

template <class D, class O>
Status shape(const Params&, ShapeCall<D>& c) {
  for (int i = 0; i < kFirst; ++i) {
    const D n = c.count(i);
    if (known(n) && number(n) != 1) return c.refuse(i, "a scalar");
  }
  const int tensors = (c.inputs() - kFirst) / (O::kStates + 2);
  for (int i = kFirst + tensors; i < c.inputs(); ++i) {
    const int first = kFirst + (i - kFirst) % tensors;
    bool same = c.rank(i) == c.rank(first);
    for (int k = 0; same && k < c.rank(i); ++k) {
      const D a = c.dim(i, k), b = c.dim(first, k);
      same = !known(a) || !known(b) || number(a) == number(b);
    }
    if (!same) return c.refuse(i, format("the shape of input {}, which it belongs to", first));
  }
  for (int o = 0; o < c.outputs(); ++o) TRY(c.set(o, c.dims(kFirst + o % tensors)));
  return {};
}

template <class O, class T>
Status compute(const Params& p, Call& call) {
  const O optimizer(p, *call.in<double>(0), *call.in<int64_t>(1));
  const int tensors = (call.inputs() - kFirst) / (O::kStates + 2);
  for (int k = 0; k < tensors; ++k) {
    const T *x = call.in<T>(kFirst + k), *g = call.in<T>(kFirst + tensors + k), *state[O::kStates];
    T *x_new = call.out<T>(k), *state_new[O::kStates];
    for (int s = 0; s < O::kStates; ++s) {
      state[s] = call.in<T>(kFirst + (s + 2) * tensors + k);
      state_new[s] = call.out<T>((s + 1) * tensors + k);
    }
    for_pieces(call, call.count(kFirst + k), [&](int64_t begin, int64_t n) {
      for (int64_t i = begin; i < begin + n; ++i) {
        T before[O::kStates], after[O::kStates], moved;
        for (int s = 0; s < O::kStates; ++s) before[s] = state[s][i];
        optimizer.step(x[i], g[i], before, &moved, after);
        if (x_new) x_new[i] = moved;
        for (int s = 0; s < O::kStates; ++s)
          if (state_new[s]) state_new[s][i] = after[s];
      }
    });
    if (call.cancelled()) return call.stopped();
  }
  return {};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0), set_of(DType::f64), set_of(DType::f32)},
                               {in_arg(1), set_of(DType::i64)},
                               {in_arg(kFirst) | kRestIn | out_arg(0) | kRestOut, set_of(dtype_of<T>)}};
template <class O>
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Params, compute<O, float>>},
                               {kTypes<double>, compute_with<Params, compute<O, double>>}};
constexpr int16_t kVersions[] = {1};

template <class O>
constexpr Op optimizer(const char* name) {
  return {.domain = "ai.onnx.preview.training",
          .name = name,
          .versions = kVersions,
          .parse = parse_params<Params, O::parse>,
          .types = type_of_input<kFirst>,
          .shape = shape_with<Params, int64_t, shape<int64_t, O>>,
          .kernels = kKernels<O>};
}

}  // namespace

extern constexpr Op kTrainingAdagrad = optimizer<Adagrad>("Adagrad");
extern constexpr Op kTrainingAdam = optimizer<Adam>("Adam");
extern constexpr Op kTrainingMomentum = optimizer<Momentum>("Momentum");
extern constexpr OpInference kTrainingAdagradInference{.shape = shape_with<Params, Dim, shape<Dim, Adagrad>>};
extern constexpr OpInference kTrainingAdamInference{.shape = shape_with<Params, Dim, shape<Dim, Adam>>};
extern constexpr OpInference kTrainingMomentumInference{.shape = shape_with<Params, Dim, shape<Dim, Momentum>>};

}  // namespace tessera
