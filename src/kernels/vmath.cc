#include "kernels/vmath.h"

#include <algorithm>
#include <cmath>

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/vmath.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/vmath-inl.h"

#ifndef TESSERA_KERNELS_VMATH_SHARED_
#define TESSERA_KERNELS_VMATH_SHARED_
namespace tessera {
namespace vmath {

enum Sides { kBothVary, kRightFixed, kLeftFixed, kSidesCount };

struct Kernels {
  void (*unary[kUnaryCount])(const float* x, float* y, int64_t n);
  void (*binary[kBinaryCount - 1][kSidesCount])(const float* a, const float* b, float* y, int64_t n);
};

// Redo the lanes whose argument the vector form cannot reduce.
void sin_large(const float* x, float* y, int lanes, float limit);
void cos_large(const float* x, float* y, int lanes, float limit);

}  // namespace vmath
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using vm::D;
using vm::V;

constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// A partial vector; what lies beyond `count` is zero.
HWY_INLINE V load_some(const float* x, int64_t count) {
  HWY_ALIGN float buffer[kLanes] = {};
  for (int64_t i = 0; i < count; ++i) buffer[i] = x[i];
  return hn::Load(D(), buffer);
}

HWY_INLINE void store_some(V v, float* y, int64_t count) {
  HWY_ALIGN float buffer[kLanes];
  hn::Store(v, D(), buffer);
  for (int64_t i = 0; i < count; ++i) y[i] = buffer[i];
}

template <V (*f)(V)>
void map(const float* x, float* y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(f(hn::LoadU(D(), x + i)), D(), y + i);
  if (i < n) store_some(f(load_some(x + i, n - i)), y + i, n - i);
}

template <V (*f)(V, V), vmath::Sides sides>
void zip(const float* a, const float* b, float* y, int64_t n) {
  if (n <= 0) return;
  const V left = hn::Set(D(), *a), right = hn::Set(D(), *b);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(f(sides == vmath::kLeftFixed ? left : hn::LoadU(D(), a + i),
                 sides == vmath::kRightFixed ? right : hn::LoadU(D(), b + i)),
               D(), y + i);
  if (i < n)
    store_some(f(sides == vmath::kLeftFixed ? left : load_some(a + i, n - i),
                 sides == vmath::kRightFixed ? right : load_some(b + i, n - i)),
               y + i, n - i);
}

HWY_INLINE V relu(V x) { return hn::IfThenElse(hn::Lt(x, hn::Zero(D())), hn::Zero(D()), x); }
HWY_INLINE V square_root(V x) { return hn::Sqrt(x); }
HWY_INLINE V reciprocal(V x) { return hn::Div(vm::set(1.0f), x); }
HWY_INLINE V negate(V x) { return hn::Neg(x); }
HWY_INLINE V absolute(V x) { return hn::Abs(x); }
HWY_INLINE V round_down(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(hn::Floor(x), x)); }
HWY_INLINE V round_up(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(hn::Ceil(x), x)); }
HWY_INLINE V round_even(V x) { return hn::IfThenElse(hn::IsNaN(x), x, hn::CopySign(hn::Round(x), x)); }

HWY_INLINE V half_times_one_plus(V x, V t) { return hn::Mul(hn::Mul(x, vm::set(0.5f)), hn::Add(t, vm::set(1.0f))); }
HWY_INLINE V gelu_erf(V x) { return half_times_one_plus(x, vm::erf(hn::Mul(x, vm::set(0.707106781f)))); }
HWY_INLINE V gelu_tanh(V x) {
  const V cubed = hn::Mul(hn::Mul(x, x), x);
  return half_times_one_plus(x, vm::tanh(hn::Mul(vm::set(0.797884561f), hn::MulAdd(vm::set(0.044715f), cubed, x))));
}

HWY_INLINE V sign(V x) {
  const V zero = hn::Zero(D()), one = vm::set(1.0f);
  const V y = hn::IfThenElse(hn::Lt(x, zero), vm::set(-1.0f), hn::IfThenElseZero(hn::Gt(x, zero), one));
  return hn::IfThenElse(hn::IsNaN(x), x, y);
}

template <int32_t quarter, void (*large)(const float*, float*, int, float)>
HWY_INLINE V sine(V x) {
  const V y = vm::sine(x, quarter);
  if (HWY_LIKELY(hn::AllTrue(D(), hn::Le(hn::Abs(x), vm::set(vm::kTrigLimit))))) return y;
  HWY_ALIGN float from[kLanes], to[kLanes];
  hn::Store(x, D(), from);
  hn::Store(y, D(), to);
  large(from, to, kLanes, vm::kTrigLimit);
  return hn::Load(D(), to);
}

// -0 would come out as +0: the last reduction step adds a zero of the other sign.
HWY_INLINE V sin(V x) { return hn::IfThenElse(hn::Eq(x, hn::Zero(D())), x, sine<0, vmath::sin_large>(x)); }
HWY_INLINE V cos(V x) { return sine<1, vmath::cos_large>(x); }

HWY_INLINE V add(V a, V b) { return hn::Add(a, b); }
HWY_INLINE V sub(V a, V b) { return hn::Sub(a, b); }
HWY_INLINE V mul(V a, V b) { return hn::Mul(a, b); }
HWY_INLINE V div(V a, V b) { return hn::Div(a, b); }

using vmath::kBothVary;
using vmath::kLeftFixed;
using vmath::kRightFixed;

// In the order of the enums.
constexpr vmath::Kernels kernels = {
    {map<vm::exp>, map<vm::log>, map<vm::tanh>, map<vm::sigmoid>, map<vm::erf>, map<relu>, map<gelu_erf>,
     map<gelu_tanh>, map<square_root>, map<reciprocal>, map<negate>, map<absolute>, map<round_down>, map<round_up>,
     map<round_even>, map<sin>, map<cos>, map<vm::softplus>, map<sign>},
    {{zip<add, kBothVary>, zip<add, kRightFixed>, zip<add, kLeftFixed>},
     {zip<sub, kBothVary>, zip<sub, kRightFixed>, zip<sub, kLeftFixed>},
     {zip<mul, kBothVary>, zip<mul, kRightFixed>, zip<mul, kLeftFixed>},
     {zip<div, kBothVary>, zip<div, kRightFixed>, zip<div, kLeftFixed>},
     {zip<vm::minimum, kBothVary>, zip<vm::minimum, kRightFixed>, zip<vm::minimum, kLeftFixed>},
     {zip<vm::maximum, kBothVary>, zip<vm::maximum, kRightFixed>, zip<vm::maximum, kLeftFixed>}}};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const vmath::Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                            HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                            HWY_CHOOSE_AVX3(kernels)};

void pow_f32(const float* a, int64_t a_step, const float* b, int64_t b_step, float* y, int64_t n) {
  // y may be a or b: a fixed side is read once.
  const float exponent = *b;
  if (b_step == 0 && exponent == 2.0f) {
    for (int64_t i = 0; i < n; ++i) y[i] = a[i * a_step] * a[i * a_step];
  } else if (b_step == 0 && exponent == 0.5f) {
    // Unlike the square root, pow(-0, 1/2) is +0 and pow(-inf, 1/2) is +inf.
    for (int64_t i = 0; i < n; ++i) {
      const float x = a[i * a_step];
      y[i] = std::sqrt(std::isinf(x) ? std::fabs(x) : x + 0.0f);
    }
  } else {
    for (int64_t i = 0; i < n; ++i) y[i] = std::pow(a[i * a_step], b_step ? b[i] : exponent);
  }
}

}  // namespace

namespace vmath {

void sin_large(const float* x, float* y, int lanes, float limit) {
  for (int i = 0; i < lanes; ++i)
    if (!(std::fabs(x[i]) <= limit)) y[i] = std::sin(x[i]);
}

void cos_large(const float* x, float* y, int lanes, float limit) {
  for (int i = 0; i < lanes; ++i)
    if (!(std::fabs(x[i]) <= limit)) y[i] = std::cos(x[i]);
}

}  // namespace vmath

void unary_f32(Target target, Unary op, const float* x, float* y, int64_t n) {
  choose_kernels(kTable, target).unary[static_cast<int>(op)](x, y, n);
}

void binary_f32(Target target, Binary op, const float* a, int64_t a_step, const float* b, int64_t b_step, float* y,
                int64_t n) {
  if (n <= 0) return;
  if (op == Binary::pow) return pow_f32(a, a_step, b, b_step, y, n);
  const bool both_fixed = a_step == 0 && b_step == 0;
  const int sides = both_fixed    ? vmath::kBothVary
                    : a_step == 0 ? vmath::kLeftFixed
                    : b_step == 0 ? vmath::kRightFixed
                                  : vmath::kBothVary;
  choose_kernels(kTable, target).binary[static_cast<int>(op)][sides](a, b, y, both_fixed ? 1 : n);
  if (both_fixed) std::fill(y + 1, y + n, y[0]);
}

}  // namespace tessera
#endif
