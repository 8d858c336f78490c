#include "kernels/requantize.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/requantize.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_KERNELS_REQUANTIZE_SHARED_
#define TESSERA_KERNELS_REQUANTIZE_SHARED_
namespace tessera {
struct RequantizeKernels {
  void (*run)(const Requantize&, const int32_t* sums, int64_t n, uint8_t* out);
};
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::CappedTag<float, 16>;
using I = hn::Rebind<int32_t, D>;
constexpr int64_t kLanes = hn::MaxLanes(D());

HWY_INLINE hn::Vec<I> quantized(hn::Vec<I> sums, hn::Vec<D> scale, const Requantize& r) {
  const D d;
  const I i;
  const auto low = hn::Set(d, r.is_signed ? -128.0f : 0.0f), high = hn::Set(d, r.is_signed ? 127.0f : 255.0f);
  const auto v = hn::ConvertTo(d, hn::Add(sums, hn::Set(i, r.bias)));
  const auto near = hn::Add(hn::Round(hn::Mul(v, scale)), hn::Set(d, r.zero));
  return hn::ConvertTo(i, hn::IfThenElse(hn::Gt(near, low), hn::Min(near, high), low));
}

void run(const Requantize& r, const int32_t* sums, int64_t n, uint8_t* out) {
  const D d;
  const I i;
  const hn::Rebind<uint8_t, D> bytes;
  const hn::Rebind<int8_t, D> signed_bytes;
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    const auto scale = r.scale_step ? hn::LoadU(d, r.scale + k) : hn::Set(d, r.scale[0]);
    const auto v = quantized(hn::LoadU(i, sums + k), scale, r);
    if (r.is_signed)
      hn::StoreU(hn::DemoteTo(signed_bytes, v), signed_bytes, reinterpret_cast<int8_t*>(out) + k);
    else
      hn::StoreU(hn::DemoteTo(bytes, v), bytes, out + k);
  }
  if (k == n) return;
  HWY_ALIGN int32_t rest[kLanes] = {};
  HWY_ALIGN float scale[kLanes] = {};
  for (int64_t j = 0; j < n - k; ++j) {
    rest[j] = sums[k + j];
    scale[j] = r.scale[(k + j) * r.scale_step];
  }
  hn::Store(quantized(hn::Load(i, rest), hn::Load(d, scale), r), i, rest);
  for (int64_t j = 0; j < n - k; ++j) out[k + j] = static_cast<uint8_t>(rest[j]);
}

constexpr RequantizeKernels kernels = {run};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const RequantizeKernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                               HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                               HWY_CHOOSE_AVX3(kernels)};

}  // namespace

void requantize(Target target, const Requantize& r, const int32_t* sums, int64_t n, void* out) {
  choose_kernels(kTable, target).run(r, sums, n, static_cast<uint8_t*>(out));
}

}  // namespace tessera
#endif
