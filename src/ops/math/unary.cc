// Functions of one number applied to every element: rounding, signs, exponentials, trigonometry.
#include <cmath>
#include <type_traits>

#include "core/convert.h"
#include "kernels/vmath.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

template <class T>
constexpr bool kIsInt = std::is_integral_v<T>;

struct ReluOp {
  static constexpr Unary kVector = Unary::relu;
  template <class T>
  static T apply(T x) {
    return x < T{0} ? T{0} : x;
  }
};
// The lowest integer is its own opposite: it wraps.
struct NegOp {
  static constexpr Unary kVector = Unary::neg;
  template <class T>
  static T apply(T x) {
    if constexpr (kIsInt<T>)
      return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(x));
    else
      return -x;
  }
};
struct AbsOp {
  static constexpr Unary kVector = Unary::abs;
  template <class T>
  static T apply(T x) {
    if constexpr (kIsInt<T>)
      return x < T{0} ? NegOp::apply(x) : x;
    else
      return std::fabs(x);
  }
};
struct SignOp {
  static constexpr Unary kVector = Unary::sign;
  template <class T>
  static T apply(T x) {
    if constexpr (!kIsInt<T>)
      if (std::isnan(x)) return x;
    return static_cast<T>((x > T{0}) - (x < T{0}));
  }
};
struct ErfOp {
  static constexpr Unary kVector = Unary::erf;
  template <class T>
  static T apply(T x) {
    if constexpr (kIsInt<T>)
      return to_integer<T>(std::erf(static_cast<double>(x)));
    else
      return std::erf(x);
  }
};
struct ExpOp {
  static constexpr Unary kVector = Unary::exp;
  static double apply(double x) { return std::exp(x); }
};
struct LogOp {
  static constexpr Unary kVector = Unary::log;
  static double apply(double x) { return std::log(x); }
};
struct SqrtOp {
  static constexpr Unary kVector = Unary::sqrt;
  static double apply(double x) { return std::sqrt(x); }
};
struct TanhOp {
  static constexpr Unary kVector = Unary::tanh;
  static double apply(double x) { return std::tanh(x); }
};
struct SigmoidOp {
  static constexpr Unary kVector = Unary::sigmoid;
  static double apply(double x) { return 1 / (1 + std::exp(-x)); }
};
struct ReciprocalOp {
  static constexpr Unary kVector = Unary::reciprocal;
  static double apply(double x) { return 1 / x; }
};
struct FloorOp {
  static constexpr Unary kVector = Unary::floor;
  static double apply(double x) { return std::floor(x); }
};
struct CeilOp {
  static constexpr Unary kVector = Unary::ceil;
  static double apply(double x) { return std::ceil(x); }
};
struct RoundOp {
  static constexpr Unary kVector = Unary::round;
  static double apply(double x) { return std::nearbyint(x); }
};
struct SinOp {
  static constexpr Unary kVector = Unary::sin;
  static double apply(double x) { return std::sin(x); }
};
struct CosOp {
  static constexpr Unary kVector = Unary::cos;
  static double apply(double x) { return std::cos(x); }
};
struct SoftplusOp {
  static constexpr Unary kVector = Unary::softplus;
  static double apply(double x) { return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x))); }
};
struct SoftsignOp {
  template <class T>
  static T apply(T x) {
    return std::isinf(x) ? std::copysign(T{1}, x) : x / (1 + std::fabs(x));
  }
};
struct TanOp {
  template <class T>
  static T apply(T x) {
    return std::tan(x);
  }
};
struct AsinOp {
  template <class T>
  static T apply(T x) {
    return std::asin(x);
  }
};
struct AcosOp {
  template <class T>
  static T apply(T x) {
    return std::acos(x);
  }
};
struct AtanOp {
  template <class T>
  static T apply(T x) {
    return std::atan(x);
  }
};
struct SinhOp {
  template <class T>
  static T apply(T x) {
    return std::sinh(x);
  }
};
struct CoshOp {
  template <class T>
  static T apply(T x) {
    return std::cosh(x);
  }
};
struct AsinhOp {
  template <class T>
  static T apply(T x) {
    return std::asinh(x);
  }
};
struct AcoshOp {
  template <class T>
  static T apply(T x) {
    return std::acosh(x);
  }
};
struct AtanhOp {
  template <class T>
  static T apply(T x) {
    return std::atanh(x);
  }
};

template <class O, class T>
Status compute(Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    if constexpr (std::is_same_v<T, float> && requires { O::kVector; }) {
      unary_f32(call.target(), O::kVector, x + begin, y + begin, n);
    } else {
      for (int64_t i = begin; i < begin + n; ++i) y[i] = O::apply(x[i]);
    }
  });
  return {};
}

template <class O, class... T>
constexpr Kernel kKernels[] = {{kAllSame<T>, compute_plain<compute<O, T>>}...};
template <class O>
constexpr std::span<const Kernel> kReal = kKernels<O, float, double>;
template <class O>
constexpr std::span<const Kernel> kSigned = kKernels<O, float, double, int32_t, int64_t>;
template <class O>
constexpr std::span<const Kernel> kAll = kKernels<O, float, double, int32_t, int64_t, uint32_t, uint64_t>;

constexpr int16_t kFrom1[] = {1, 6, 13};
constexpr int16_t kFrom7[] = {7, 22};
constexpr int16_t kFrom9[] = {9, 22};
constexpr int16_t kReluVersions[] = {1, 6, 13, 14};
constexpr int16_t kErfVersions[] = {9, 13};
constexpr int16_t kRoundVersions[] = {11, 22};
constexpr int16_t kSoftVersions[] = {1, 22};

constexpr Op unary(const char* name, std::span<const int16_t> versions, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = versions,
          .shape = shape_of_input<int64_t>,
          .kernels = kernels,
          .inplace = in_arg(0)};
}

Status infer_neg(const void* params, ShapeCall<Dim>& c) {
  TRY(shape_of_input<Dim>(params, c));
  const auto content = c.content(0);
  if (!content) return {};
  std::vector<Dim> out;
  for (const Dim& d : *content) out.push_back(Dim(0) - d);
  c.set_content(0, out);
  return {};
}

}  // namespace

extern constexpr Op kAbs = unary("Abs", kFrom1, kAll<AbsOp>);
extern constexpr Op kNeg = unary("Neg", kFrom1, kSigned<NegOp>);
extern constexpr Op kSign = unary("Sign", kErfVersions, kAll<SignOp>);
extern constexpr Op kRelu = unary("Relu", kReluVersions, kSigned<ReluOp>);
extern constexpr Op kErf = unary("Erf", kErfVersions, kAll<ErfOp>);
extern constexpr Op kExp = unary("Exp", kFrom1, kReal<ExpOp>);
extern constexpr Op kLog = unary("Log", kFrom1, kReal<LogOp>);
extern constexpr Op kSqrt = unary("Sqrt", kFrom1, kReal<SqrtOp>);
extern constexpr Op kTanh = unary("Tanh", kFrom1, kReal<TanhOp>);
extern constexpr Op kSigmoid = unary("Sigmoid", kFrom1, kReal<SigmoidOp>);
extern constexpr Op kReciprocal = unary("Reciprocal", kFrom1, kReal<ReciprocalOp>);
extern constexpr Op kFloor = unary("Floor", kFrom1, kReal<FloorOp>);
extern constexpr Op kCeil = unary("Ceil", kFrom1, kReal<CeilOp>);
extern constexpr Op kRound = unary("Round", kRoundVersions, kReal<RoundOp>);
extern constexpr Op kSin = unary("Sin", kFrom7, kReal<SinOp>);
extern constexpr Op kCos = unary("Cos", kFrom7, kReal<CosOp>);
extern constexpr Op kTan = unary("Tan", kFrom7, kReal<TanOp>);
extern constexpr Op kAsin = unary("Asin", kFrom7, kReal<AsinOp>);
extern constexpr Op kAcos = unary("Acos", kFrom7, kReal<AcosOp>);
extern constexpr Op kAtan = unary("Atan", kFrom7, kReal<AtanOp>);
extern constexpr Op kSinh = unary("Sinh", kFrom9, kReal<SinhOp>);
extern constexpr Op kCosh = unary("Cosh", kFrom9, kReal<CoshOp>);
extern constexpr Op kAsinh = unary("Asinh", kFrom9, kReal<AsinhOp>);
extern constexpr Op kAcosh = unary("Acosh", kFrom9, kReal<AcoshOp>);
extern constexpr Op kAtanh = unary("Atanh", kFrom9, kReal<AtanhOp>);
extern constexpr Op kSoftplus = unary("Softplus", kSoftVersions, kReal<SoftplusOp>);
extern constexpr Op kSoftsign = unary("Softsign", kSoftVersions, kReal<SoftsignOp>);

extern constexpr OpInference kAbsInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kNegInference{.shape = infer_neg};
extern constexpr OpInference kSignInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kReluInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kErfInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kExpInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kLogInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kSqrtInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kTanhInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kSigmoidInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kReciprocalInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kFloorInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kCeilInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kRoundInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kSinInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kCosInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kTanInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kAsinInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kAcosInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kAtanInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kSinhInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kCoshInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kAsinhInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kAcoshInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kAtanhInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kSoftplusInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kSoftsignInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
