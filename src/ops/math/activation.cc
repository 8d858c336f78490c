// Activations with constants of their own: LeakyRelu Elu Celu Selu HardSigmoid HardSwish Swish Mish ThresholdedRelu
// Shrink.
#include <cmath>
#include <type_traits>

#include "core/convert.h"
#include "kernels/activation.h"
#include "kernels/vmath.h"
#include "ops/compose.h"
#include "ops/elementwise.h"
#include "ops/retired/retired.h"

namespace tessera {
namespace {

// The constants of an activation under the names that most of them have.
struct Params {
  float alpha = 0, beta = 0;
};

template <class O>
Status parse(Attrs& a, Params& p) {
  O::parse(a, p);
  return {};
}
void parse_alpha(Attrs& a, Params& p, float standard) {
  p.alpha = standard;
  a.get("alpha", p.alpha);
}

// Activations that are one vector function; for double `apply` is.
struct LeakyReluOp {
  static constexpr auto kKind = Activation::Kind::leaky_relu;
  static void parse(Attrs& a, Params& p) { parse_alpha(a, p, 0.01f); }
  template <class T>
  static T apply(T x, T alpha, T) {
    return x < 0 ? alpha * x : x;
  }
};
struct ThresholdedReluOp {
  static constexpr auto kKind = Activation::Kind::thresholded_relu;
  template <class T>
  static T apply(T x, T alpha, T) {
    return x <= alpha ? 0 : x;
  }
};
// Before it came with 10 it was experimental.
template <>
Status parse<ThresholdedReluOp>(Attrs& a, Params& p) {
  parse_alpha(a, p, 1.0f);
  return a.version() == 1 ? check_retired(a, 1, 1) : Status{};
}
struct HardSigmoidOp {
  static constexpr auto kKind = Activation::Kind::hard_sigmoid;
  static void parse(Attrs& a, Params& p) {
    parse_alpha(a, p, 0.2f);
    p.beta = 0.5f;
    a.get("beta", p.beta);
  }
  template <class T>
  static T apply(T x, T alpha, T beta) {
    const T v = alpha * x + beta;
    return v < 0 ? 0 : v > 1 ? 1 : v;
  }
};
struct HardSwishOp {
  static constexpr auto kKind = Activation::Kind::hard_swish;
  static void parse(Attrs&, Params& p) { p = {1.0f / 6, 0.5f}; }
  static double apply(double x, double, double) { return x * HardSigmoidOp::apply(x, 1.0 / 6, 0.5); }
};
struct SwishOp {
  static constexpr auto kKind = Activation::Kind::swish;
  static void parse(Attrs& a, Params& p) { parse_alpha(a, p, 1.0f); }
  static double apply(double x, double alpha, double) { return x / (1 + std::exp(-alpha * x)); }
};

// Activations through e^x: `inner` is what the vector function is applied to, `outer` makes the result of it.

// e^x - 1 for x <= 0, given e = e^x: by its series where the difference would cancel.
inline float expm1_from(float x, float e) {
  const float series = x * (1 + x * (0.5f + x * (1.0f / 6 + x * (1.0f / 24 + x * (1.0f / 120)))));
  return x > -0.1f ? series : e - 1;
}
struct EluOp {
  static constexpr Unary kVector = Unary::exp;
  static void parse(Attrs& a, Params& p) { parse_alpha(a, p, 1.0f); }
  static float inner(float x, const Params&) { return x < 0 ? x : 0; }
  static float outer(float x, float e, const Params& p) { return x < 0 ? p.alpha * expm1_from(x, e) : x; }
  static double apply(double x, double alpha, double) { return x < 0 ? alpha * std::expm1(x) : x; }
};
struct CeluOp {
  static constexpr Unary kVector = Unary::exp;
  static void parse(Attrs& a, Params& p) { parse_alpha(a, p, 1.0f); }
  // max(0, x) + min(0, alpha * (exp(x / alpha) - 1)): with a negative alpha both parts can count.
  static float inner(float x, const Params& p) { return x / p.alpha; }
  static float outer(float x, float e, const Params& p) {
    const float t = x / p.alpha;
    const float below = p.alpha * (t > -0.1f && t < 0.1f ? expm1_from(t, e) : e - 1);
    return (x < 0 ? 0 : x) + (below > 0 ? 0 : below);
  }
  static double apply(double x, double alpha, double) {
    const double below = alpha * std::expm1(x / alpha);
    return (x < 0 ? 0 : x) + (below > 0 ? 0 : below);
  }
};
struct SeluOp {
  static constexpr Unary kVector = Unary::exp;
  static void parse(Attrs& a, Params& p) {
    parse_alpha(a, p, a.version() < 6 ? 1.6732f : 1.67326319217681884765625f);
    p.beta = a.version() < 6 ? 1.0507f : 1.05070102214813232421875f;
    a.get("gamma", p.beta);
  }
  static float inner(float x, const Params&) { return x < 0 ? x : 0; }
  static float outer(float x, float e, const Params& p) { return p.beta * (x < 0 ? p.alpha * expm1_from(x, e) : x); }
  static double apply(double x, double alpha, double gamma) { return gamma * (x < 0 ? alpha * std::expm1(x) : x); }
};

template <class O>
void through_vector(const Params& p, Target target, const float* x, float* y, int64_t n) {
  constexpr int64_t kBlock = 512;
  float inner[kBlock];
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    for (int64_t i = 0; i < count; ++i) inner[i] = O::inner(x[at + i], p);
    unary_f32(target, O::kVector, inner, inner, count);
    for (int64_t i = 0; i < count; ++i) y[at + i] = O::outer(x[at + i], inner[i], p);
  }
}

template <class O, class T>
Status compute(const Params& p, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    if constexpr (std::is_same_v<T, float> && requires { O::kKind; }) {
      activate_f32(call.target(), {O::kKind, p.alpha, p.beta}, x + begin, y + begin, n);
    } else if constexpr (std::is_same_v<T, float> && requires { O::kVector; }) {
      through_vector<O>(p, call.target(), x + begin, y + begin, n);
    } else {
      for (int64_t i = begin; i < begin + n; ++i)
        y[i] = O::apply(x[i], static_cast<T>(p.alpha), static_cast<T>(p.beta));
    }
  });
  return {};
}

// Shrink: alpha is lambd, beta the bias. Integers are compared and moved as real numbers, then truncated.
struct ShrinkOp {
  static void parse(Attrs& a, Params& p) {
    p.alpha = 0.5f;
    a.get("lambd", p.alpha);
    a.get("bias", p.beta);
  }
  template <class T>
  static T moved(T x, float by) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      if (by == std::trunc(by) && std::fabs(by) < 0x1p31f)
        return static_cast<T>(static_cast<U>(x) + static_cast<U>(static_cast<int64_t>(by)));
      return to_integer<T>(static_cast<double>(x) + by);
    } else {
      return x + static_cast<T>(by);
    }
  }
  template <class T>
  static T apply(T x, float lambd, float bias) {
    using Wide = std::conditional_t<std::is_same_v<T, float>, float, double>;
    const Wide v = static_cast<Wide>(x), limit = static_cast<Wide>(lambd);
    return v < -limit ? moved(x, bias) : v > limit ? moved(x, -bias) : v != v ? x : T{0};
  }
};
template <class T>
Status compute_shrink(const Params& p, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) y[i] = ShrinkOp::apply(x[i], p.alpha, p.beta);
  });
  return {};
}

// x * tanh(log(1 + e^x)).
Status compose_mish(Composer& c) {
  const ir::ValueId x = c.in(0);
  c.out(0, c.op("Mul", {x, c.op("Tanh", {c.op("Softplus", {x})})}));
  return {};
}

template <class O>
constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute<O, float>>},
                               {kAllSame<double>, compute_with<Params, compute<O, double>>}};
template <class... T>
constexpr Kernel kShrinkKernels[] = {{kAllSame<T>, compute_with<Params, compute_shrink<T>>}...};

constexpr int16_t kFrom1[] = {1, 6, 22};
constexpr int16_t kLeakyReluVersions[] = {1, 6, 16};
constexpr int16_t kCeluVersions[] = {12, 28};
constexpr int16_t kHardSwishVersions[] = {14, 22};
constexpr int16_t kSwishVersions[] = {24};
constexpr int16_t kMishVersions[] = {18, 22};
constexpr int16_t kThresholdedReluVersions[] = {1, 10, 22};
constexpr int16_t kShrinkVersions[] = {9};

template <class O>
constexpr Op activation(const char* name, std::span<const int16_t> versions, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = versions,
          .parse = parse_params<Params, parse<O>>,
          .shape = shape_of_input<int64_t>,
          .kernels = kernels,
          .inplace = in_arg(0)};
}
template <class O>
constexpr Op activation(const char* name, std::span<const int16_t> versions) {
  return activation<O>(name, versions, kKernels<O>);
}

}  // namespace

extern constexpr Op kLeakyRelu = activation<LeakyReluOp>("LeakyRelu", kLeakyReluVersions);
extern constexpr Op kElu = activation<EluOp>("Elu", kFrom1);
extern constexpr Op kCelu = activation<CeluOp>("Celu", kCeluVersions);
extern constexpr Op kSelu = activation<SeluOp>("Selu", kFrom1);
extern constexpr Op kHardSigmoid = activation<HardSigmoidOp>("HardSigmoid", kFrom1);
extern constexpr Op kHardSwish = activation<HardSwishOp>("HardSwish", kHardSwishVersions);
extern constexpr Op kSwish = activation<SwishOp>("Swish", kSwishVersions);
extern constexpr Op kThresholdedRelu = activation<ThresholdedReluOp>("ThresholdedRelu", kThresholdedReluVersions);
extern constexpr Op kShrink = activation<ShrinkOp>("Shrink", kShrinkVersions,
                                                   kShrinkKernels<float, double, int32_t, int64_t, uint32_t, uint64_t>);
extern constexpr Op kMish{
    .domain = "", .name = "Mish", .versions = kMishVersions, .kernels = {}, .compose = compose_mish};
extern constexpr OpInference kLeakyReluInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kEluInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kCeluInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kSeluInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kHardSigmoidInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kHardSwishInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kSwishInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kThresholdedReluInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kShrinkInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kMishInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
