#include "kernels/activation.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/activation.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/vmath-inl.h"

#ifndef TESSERA_KERNELS_ACTIVATION_SHARED_
#define TESSERA_KERNELS_ACTIVATION_SHARED_
namespace tessera {
namespace activation {

struct Kernels {
  void (*of[kActivationCount])(float alpha, float beta, const float* x, float* y, int64_t n);
};

}  // namespace activation
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;
using vm::D;
using vm::V;

constexpr int64_t kLanes = hn::MaxLanes(D());

HWY_INLINE V leaky_relu(V x, V alpha, V) { return hn::IfThenElse(hn::Lt(x, hn::Zero(D())), hn::Mul(alpha, x), x); }
HWY_INLINE V thresholded_relu(V x, V alpha, V) { return hn::IfThenElse(hn::Le(x, alpha), hn::Zero(D()), x); }
HWY_INLINE V hard_sigmoid(V x, V alpha, V beta) {
  const V zero = hn::Zero(D()), one = vm::set(1.0f), v = hn::Add(hn::Mul(alpha, x), beta);
  return hn::IfThenElse(hn::Lt(v, zero), zero, hn::IfThenElse(hn::Gt(v, one), one, v));
}
HWY_INLINE V hard_swish(V x, V alpha, V beta) { return hn::Mul(x, hard_sigmoid(x, alpha, beta)); }
HWY_INLINE V swish(V x, V alpha, V) { return hn::Mul(x, vm::sigmoid(hn::Mul(alpha, x))); }

template <V (*f)(V, V, V)>
void map(float alpha, float beta, const float* x, float* y, int64_t n) {
  const D d;
  const V a = hn::Set(d, alpha), b = hn::Set(d, beta);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(f(hn::LoadU(d, x + i), a, b), d, y + i);
  if (i == n) return;
  HWY_ALIGN float tail[kLanes] = {};
  for (int64_t k = i; k < n; ++k) tail[k - i] = x[k];
  hn::Store(f(hn::Load(d, tail), a, b), d, tail);
  for (int64_t k = i; k < n; ++k) y[k] = tail[k - i];
}

// In the order of the enum.
constexpr activation::Kernels kernels = {
    {map<leaky_relu>, map<thresholded_relu>, map<hard_sigmoid>, map<hard_swish>, map<swish>}};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const activation::Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                                 HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                                 HWY_CHOOSE_AVX3(kernels)};

}  // namespace

void activate_f32(Target target, const Activation& f, const float* x, float* y, int64_t n) {
  choose_kernels(kTable, target).of[static_cast<int>(f.kind)](f.alpha, f.beta, x, y, n);
}

}  // namespace tessera
#endif
