// The F32 functions of vmath.h on one vector, compiled once per target. None of them needs fused multiply-adds to be as
// accurate as promised: range reductions subtract multiples of short constants, whose products are exact.
#if defined(TESSERA_KERNELS_VMATH_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_VMATH_INL_H_
#undef TESSERA_KERNELS_VMATH_INL_H_
#else
#define TESSERA_KERNELS_VMATH_INL_H_
#endif

#include <cstdint>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace vm {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kLn2High = 0.693359375f, kLn2Low = -2.12194440e-4f;

HWY_INLINE V set(float value) { return hn::Set(D(), value); }

// c[0] + x * (c[1] + x * (...)).
template <int kCount>
HWY_INLINE V polynomial(V x, const float (&c)[kCount]) {
  V sum = set(c[kCount - 1]);
#pragma GCC unroll 16
  for (int i = kCount - 2; i >= 0; --i) sum = hn::MulAdd(sum, x, set(c[i]));
  return sum;
}

// 2^n for -126 <= n <= 127.
HWY_INLINE V power_of_two(VI n) { return hn::BitCast(D(), hn::ShiftLeft<23>(hn::Add(n, hn::Set(DI(), 127)))); }

// e^x; NaN gives an unspecified value.
HWY_INLINE V exp_no_nan(V x) {
  constexpr float kTerms[] = {0.5f, 0.166665182f, 0.041666206f, 0.00836895406f, 0.00139505987f};
  x = hn::Min(hn::Max(x, set(-104.0f)), set(89.0f));
  const V n = hn::Round(hn::Mul(x, set(1.44269504f)));
  V r = hn::NegMulAdd(n, set(kLn2High), x);
  r = hn::NegMulAdd(n, set(kLn2Low), r);
  const V tail = hn::MulAdd(hn::Mul(r, r), polynomial(r, kTerms), r);
  // Two factors: 2^n itself may be beyond the range of normal numbers.
  const VI exponent = hn::ConvertTo(DI(), n), half = hn::ShiftRight<1>(exponent);
  const V scaled = hn::Mul(hn::Add(tail, set(1.0f)), power_of_two(half));
  return hn::Mul(scaled, power_of_two(hn::Sub(exponent, half)));
}

HWY_INLINE V exp(V x) { return hn::IfThenElse(hn::IsNaN(x), x, exp_no_nan(x)); }

// log(1 + f) + exponent * log(2) for sqrt(1/2) <= 1 + f <= sqrt(2).
HWY_INLINE V log_reduced(V f, V exponent) {
  constexpr float kTerms[] = {0.333333135f,  -0.250000089f, 0.200021237f,  -0.166680053f, 0.142194495f,
                              -0.124053448f, 0.118887223f,  -0.116774946f, 0.067476511f};
  const V square = hn::Mul(f, f);
  V y = hn::Mul(hn::Mul(square, f), polynomial(f, kTerms));
  y = hn::MulAdd(exponent, set(kLn2Low), y);
  y = hn::NegMulAdd(set(0.5f), square, y);
  return hn::MulAdd(exponent, set(kLn2High), hn::Add(f, y));
}

HWY_INLINE V log(V x) {
  const auto tiny = hn::Lt(x, set(std::numeric_limits<float>::min()));
  const V normal = hn::IfThenElse(tiny, hn::Mul(x, set(8388608.0f)), x);
  const VI bits = hn::BitCast(DI(), normal);
  constexpr int32_t kRootHalf = 0x3f3504f3;
  const VI exponent = hn::ShiftRight<23>(hn::Sub(bits, hn::Set(DI(), kRootHalf)));
  const V mantissa = hn::BitCast(D(), hn::Sub(bits, hn::ShiftLeft<23>(exponent)));
  const V shift = hn::Sub(hn::ConvertTo(D(), exponent), hn::IfThenElseZero(tiny, set(23.0f)));
  V y = log_reduced(hn::Sub(mantissa, set(1.0f)), shift);
  y = hn::IfThenElse(hn::Lt(x, set(kInfinity)), y, x);
  y = hn::IfThenElse(hn::Eq(x, hn::Zero(D())), set(-kInfinity), y);
  return hn::IfThenElse(hn::Lt(x, hn::Zero(D())), set(std::numeric_limits<float>::quiet_NaN()), y);
}

HWY_INLINE V tanh(V x) {
  constexpr float kTerms[] = {-0.333332688f, 0.133310929f, -0.0537096523f, 0.0205388013f, -0.0055909981f};
  const V magnitude = hn::Abs(x), square = hn::Mul(x, x);
  const V small = hn::MulAdd(hn::Mul(square, magnitude), polynomial(square, kTerms), magnitude);
  const V e = exp_no_nan(hn::Add(magnitude, magnitude));
  const V large = hn::Sub(set(1.0f), hn::Div(set(2.0f), hn::Add(e, set(1.0f))));
  const V y = hn::CopySign(hn::IfThenElse(hn::Lt(magnitude, set(0.625f)), small, large), x);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V sigmoid(V x) {
  const V one = set(1.0f), e = exp_no_nan(hn::Neg(hn::Abs(x)));
  const V y = hn::Div(hn::IfThenElse(hn::Lt(x, hn::Zero(D())), e, one), hn::Add(one, e));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V erf(V x) {
  // erf(x) / x - 1 in x^2, and log(1 - erf(x)) in x for 0.9 < x < 4; beyond that erf rounds to 1.
  constexpr float kNear[] = {0.128379226f,  -0.376126319f,    0.112836637f,   -0.0268577058f,
                             0.0051969518f, -0.000809770194f, 8.18508779e-05f};
  constexpr float kFar[] = {-0.00016642992f, -1.12779737f,    -0.636975944f,  -0.104113817f,
                            0.0223152842f,   -0.00306550995f, 0.000198221824f};
  const V magnitude = hn::Abs(x), square = hn::Mul(x, x);
  const V near = hn::MulAdd(magnitude, polynomial(square, kNear), magnitude);
  const V far = hn::Sub(set(1.0f), exp_no_nan(polynomial(hn::Min(magnitude, set(4.0f)), kFar)));
  const V y = hn::CopySign(hn::IfThenElse(hn::Lt(magnitude, set(0.92f)), near, far), x);
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

HWY_INLINE V softplus(V x) {
  const V e = exp_no_nan(hn::Neg(hn::Abs(x))), one = set(1.0f);
  // 1 + e is either near 1 or halved to be so; both steps are exact in e.
  const auto small = hn::Lt(e, set(0.41421356f));
  const V f = hn::IfThenElse(small, e, hn::Mul(hn::Sub(e, one), set(0.5f)));
  const V y = hn::Add(hn::Max(x, hn::Zero(D())), log_reduced(f, hn::IfThenZeroElse(small, one)));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

// sin(x + quarter * pi/2) for |x| <= kTrigLimit.
constexpr float kTrigLimit = 8192.0f;

HWY_INLINE V sine(V x, int32_t quarter) {
  constexpr float kSin[] = {-0.166666672f, 0.00833332911f, -0.000198393274f, 2.71823706e-06f};
  constexpr float kCos[] = {0.0416666679f, -0.00138888834f, 2.47995122e-05f, -2.72095434e-07f};
  const V n = hn::Round(hn::Mul(x, set(0.636619772f)));
  V r = hn::NegMulAdd(n, set(1.5703125f), x);
  r = hn::NegMulAdd(n, set(0x1.fb4p-12f), r);
  r = hn::NegMulAdd(n, set(0x1.444p-24f), r);
  r = hn::NegMulAdd(n, set(0x1.68c234p-39f), r);
  const V square = hn::Mul(r, r);
  const V s = hn::MulAdd(hn::Mul(r, square), polynomial(square, kSin), r);
  const V c =
      hn::MulAdd(hn::Mul(square, square), polynomial(square, kCos), hn::NegMulAdd(set(0.5f), square, set(1.0f)));
  const VI turns = hn::Add(hn::ConvertTo(DI(), n), hn::Set(DI(), quarter));
  const VI odd = hn::ShiftLeft<31>(turns);
  const V y = hn::IfThenElse(hn::MaskFromVec(hn::BitCast(D(), hn::BroadcastSignBit(odd))), c, s);
  const VI sign = hn::ShiftLeft<30>(hn::And(turns, hn::Set(DI(), 2)));
  return hn::Xor(y, hn::BitCast(D(), sign));
}

HWY_INLINE V minimum(V a, V b) { return hn::IfThenElse(hn::IsNaN(b), b, hn::IfThenElse(hn::Lt(b, a), b, a)); }
HWY_INLINE V maximum(V a, V b) { return hn::IfThenElse(hn::IsNaN(b), b, hn::IfThenElse(hn::Gt(b, a), b, a)); }

}  // namespace vm
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif
