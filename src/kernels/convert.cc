#include "kernels/convert.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_KERNELS_CONVERT_SHARED_
#define TESSERA_KERNELS_CONVERT_SHARED_
namespace tessera {
namespace convert {

struct Kernels {
  void (*f16_to_f32)(const uint16_t*, float*, int64_t);
  void (*f32_to_f16)(const float*, uint16_t*, int64_t);
  void (*bf16_to_f32)(const uint16_t*, float*, int64_t);
  void (*f32_to_bf16)(const float*, uint16_t*, int64_t);
};

}  // namespace convert
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<D>;
using DH = hn::Rebind<uint16_t, D>;
using V = hn::Vec<D>;
using VI = hn::Vec<DI>;
using VH = hn::Vec<DH>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

HWY_INLINE VI set(int32_t value) { return hn::Set(DI(), value); }

HWY_INLINE V widen_f16(VH x) {
  const VI half = hn::PromoteTo(DI(), x);
  const VI magnitude = hn::And(half, set(0x7fff));
  const VI sign = hn::ShiftLeft<16>(hn::Sub(half, magnitude));
  // Rebias the exponent; once more for infinities and NaNs, whose exponent stays all ones.
  const VI shifted = hn::ShiftLeft<13>(magnitude);
  VI bits = hn::Add(shifted, set(112 << 23));
  const auto special = hn::Gt(magnitude, set(0x7bff));
  bits = hn::IfThenElse(special, hn::Or(shifted, set(0x7f800000)), bits);
  bits = hn::IfThenElse(hn::Gt(magnitude, set(0x7c00)), hn::Or(bits, set(0x400000)), bits);
  const V denormal = hn::Mul(hn::ConvertTo(D(), magnitude), hn::Set(D(), 0x1p-24f));
  bits = hn::IfThenElse(hn::Lt(magnitude, set(0x400)), hn::BitCast(DI(), denormal), bits);
  return hn::BitCast(D(), hn::Or(bits, sign));
}

HWY_INLINE VH narrow_f16(V x) {
  const VI bits = hn::BitCast(DI(), x);
  const VI magnitude = hn::And(bits, set(0x7fffffff));
  const VI sign = hn::And(hn::ShiftRight<16>(bits), set(0x8000));
  const VI odd = hn::And(hn::ShiftRight<13>(magnitude), set(1));
  VI half = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, set(0xfff - (112 << 23)))));
  half = hn::IfThenElse(hn::Gt(magnitude, set(0x477fffff)), set(0x7c00), half);
  // Adding 1/2 leaves a denormal result's bits, rounded, at the bottom of the mantissa.
  const V moved = hn::Add(hn::BitCast(D(), magnitude), hn::Set(D(), 0.5f));
  half = hn::IfThenElse(hn::Lt(magnitude, set(0x38800000)), hn::Sub(hn::BitCast(DI(), moved), set(0x3f000000)), half);
  const VI payload = hn::And(hn::ShiftRight<13>(magnitude), set(0x3ff));
  half = hn::IfThenElse(hn::Gt(magnitude, set(0x7f800000)), hn::Or(payload, set(0x7e00)), half);
  return hn::DemoteTo(DH(), hn::Or(half, sign));
}

HWY_INLINE V widen_bf16(VH x) { return hn::BitCast(D(), hn::ShiftLeft<16>(hn::PromoteTo(DI(), x))); }

HWY_INLINE VH narrow_bf16(V x) {
  const VI bits = hn::BitCast(DI(), x), high = hn::And(hn::ShiftRight<16>(bits), set(0xffff));
  const VI carry = hn::ShiftRight<16>(hn::Add(hn::And(bits, set(0xffff)), hn::Add(hn::And(high, set(1)), set(0x7fff))));
  const auto is_nan = hn::Gt(hn::And(bits, set(0x7fffffff)), set(0x7f800000));
  return hn::DemoteTo(DH(), hn::IfThenElse(is_nan, hn::Or(high, set(0x40)), hn::Add(high, carry)));
}

template <V (*f)(VH)>
void widen(const uint16_t* HWY_RESTRICT x, float* HWY_RESTRICT y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(f(hn::LoadU(DH(), x + i)), D(), y + i);
  if (i == n) return;
  HWY_ALIGN uint16_t from[kLanes] = {};
  HWY_ALIGN float to[kLanes];
  for (int64_t j = i; j < n; ++j) from[j - i] = x[j];
  hn::Store(f(hn::Load(DH(), from)), D(), to);
  for (int64_t j = i; j < n; ++j) y[j] = to[j - i];
}

template <VH (*f)(V)>
void narrow(const float* HWY_RESTRICT x, uint16_t* HWY_RESTRICT y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(f(hn::LoadU(D(), x + i)), DH(), y + i);
  if (i == n) return;
  HWY_ALIGN float from[kLanes] = {};
  HWY_ALIGN uint16_t to[kLanes];
  for (int64_t j = i; j < n; ++j) from[j - i] = x[j];
  hn::Store(f(hn::Load(D(), from)), DH(), to);
  for (int64_t j = i; j < n; ++j) y[j] = to[j - i];
}

constexpr convert::Kernels kernels = {widen<widen_f16>, narrow<narrow_f16>, widen<widen_bf16>, narrow<narrow_bf16>};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const convert::Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                              HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                              HWY_CHOOSE_AVX3(kernels)};

}  // namespace

void f16_to_f32(Target target, const uint16_t* x, float* y, int64_t n) {
  choose_kernels(kTable, target).f16_to_f32(x, y, n);
}
void f32_to_f16(Target target, const float* x, uint16_t* y, int64_t n) {
  choose_kernels(kTable, target).f32_to_f16(x, y, n);
}
void bf16_to_f32(Target target, const uint16_t* x, float* y, int64_t n) {
  choose_kernels(kTable, target).bf16_to_f32(x, y, n);
}
void f32_to_bf16(Target target, const float* x, uint16_t* y, int64_t n) {
  choose_kernels(kTable, target).f32_to_bf16(x, y, n);
}

}  // namespace tessera
#endif
