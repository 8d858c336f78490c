#include "kernels/convert.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/convert.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/half-inl.h"

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
using DH = hn::Rebind<uint16_t, D>;
using V = hn::Vec<D>;
using VH = hn::Vec<DH>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

template <V (*f)(D, VH)>
void widen(const uint16_t* HWY_RESTRICT x, float* HWY_RESTRICT y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(f(D(), hn::LoadU(DH(), x + i)), D(), y + i);
  if (i == n) return;
  HWY_ALIGN uint16_t from[kLanes] = {};
  HWY_ALIGN float to[kLanes];
  for (int64_t j = i; j < n; ++j) from[j - i] = x[j];
  hn::Store(f(D(), hn::Load(DH(), from)), D(), to);
  for (int64_t j = i; j < n; ++j) y[j] = to[j - i];
}

template <VH (*f)(D, V)>
void narrow(const float* HWY_RESTRICT x, uint16_t* HWY_RESTRICT y, int64_t n) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(f(D(), hn::LoadU(D(), x + i)), DH(), y + i);
  if (i == n) return;
  HWY_ALIGN float from[kLanes] = {};
  HWY_ALIGN uint16_t to[kLanes];
  for (int64_t j = i; j < n; ++j) from[j - i] = x[j];
  hn::Store(f(D(), hn::Load(D(), from)), DH(), to);
  for (int64_t j = i; j < n; ++j) y[j] = to[j - i];
}

constexpr convert::Kernels kernels = {widen<half::widen_f16<D>>, narrow<half::narrow_f16<D>>,
                                      widen<half::widen_bf16<D>>, narrow<half::narrow_bf16<D>>};

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
