#include "kernels/quantize.h"

#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/quantize.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_KERNELS_QUANTIZE_SHARED_
#define TESSERA_KERNELS_QUANTIZE_SHARED_
namespace tessera {
struct QuantizeKernels {
  void (*dequantize)(const ByteScale&, const uint8_t* x, int64_t n, float* out);
  void (*quantize)(const ByteScale&, const float* x, int64_t n, uint8_t* out);
  void (*combine)(ByteArithmetic, const ByteOperand&, const ByteOperand&, const ByteScale&, int64_t n, uint8_t* out);
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
using V = hn::Vec<D>;
constexpr int64_t kLanes = hn::MaxLanes(D());

HWY_INLINE V load(const ByteScale& from, const uint8_t* x) {
  const D d;
  const I i;
  const auto wide = from.is_signed
                        ? hn::PromoteTo(i, hn::LoadU(hn::Rebind<int8_t, D>(), reinterpret_cast<const int8_t*>(x)))
                        : hn::PromoteTo(i, hn::LoadU(hn::Rebind<uint8_t, D>(), x));
  return hn::Mul(hn::Sub(hn::ConvertTo(d, wide), hn::Set(d, from.zero)), hn::Set(d, from.scale));
}

HWY_INLINE void store(const ByteScale& to, V v, uint8_t* out) {
  const D d;
  const I i;
  const auto low = hn::Set(d, (to.is_signed ? -128.0f : 0.0f) - to.zero),
             high = hn::Set(d, (to.is_signed ? 127.0f : 255.0f) - to.zero);
  const auto q = hn::Div(v, hn::Set(d, to.scale));
  const auto bounded = hn::IfThenElse(hn::Gt(q, low), hn::Min(q, high), low);
  const auto whole = hn::ConvertTo(i, hn::Add(hn::Round(bounded), hn::Set(d, to.zero)));
  if (to.is_signed)
    hn::StoreU(hn::DemoteTo(hn::Rebind<int8_t, D>(), whole), hn::Rebind<int8_t, D>(), reinterpret_cast<int8_t*>(out));
  else
    hn::StoreU(hn::DemoteTo(hn::Rebind<uint8_t, D>(), whole), hn::Rebind<uint8_t, D>(), out);
}

void dequantize(const ByteScale& from, const uint8_t* x, int64_t n, float* out) {
  const D d;
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) hn::StoreU(load(from, x + k), d, out + k);
  if (k == n) return;
  uint8_t rest[kLanes] = {};
  HWY_ALIGN float floats[kLanes];
  for (int64_t j = 0; j < n - k; ++j) rest[j] = x[k + j];
  hn::Store(load(from, rest), d, floats);
  for (int64_t j = 0; j < n - k; ++j) out[k + j] = floats[j];
}

void quantize(const ByteScale& to, const float* x, int64_t n, uint8_t* out) {
  const D d;
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) store(to, hn::LoadU(d, x + k), out + k);
  if (k == n) return;
  HWY_ALIGN float floats[kLanes] = {};
  uint8_t rest[kLanes];
  for (int64_t j = 0; j < n - k; ++j) floats[j] = x[k + j];
  store(to, hn::Load(d, floats), rest);
  for (int64_t j = 0; j < n - k; ++j) out[k + j] = rest[j];
}

// One block of an operand's elements, `count` of them from element k on.
HWY_INLINE V operand(const ByteOperand& o, int64_t k, int64_t count) {
  const auto* x = static_cast<const uint8_t*>(o.data);
  if (o.step == 1 && count == kLanes) return load(o.scale, x + k);
  uint8_t some[kLanes] = {};
  for (int64_t j = 0; j < count; ++j) some[j] = x[(k + j) * o.step];
  return load(o.scale, some);
}

template <class F>
HWY_INLINE void each(const ByteOperand& a, const ByteOperand& b, const ByteScale& to, int64_t n, uint8_t* out, F f) {
  const V one_a = operand(a, 0, a.step == 0 ? kLanes : 0), one_b = operand(b, 0, b.step == 0 ? kLanes : 0);
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes)
    store(to, f(a.step ? operand(a, k, kLanes) : one_a, b.step ? operand(b, k, kLanes) : one_b), out + k);
  if (k == n) return;
  uint8_t rest[kLanes];
  store(to, f(a.step ? operand(a, k, n - k) : one_a, b.step ? operand(b, k, n - k) : one_b), rest);
  for (int64_t j = 0; j < n - k; ++j) out[k + j] = rest[j];
}

void combine(ByteArithmetic op, const ByteOperand& a, const ByteOperand& b, const ByteScale& to, int64_t n,
             uint8_t* out) {
  if (op == ByteArithmetic::add) return each(a, b, to, n, out, [](V x, V y) HWY_ATTR { return hn::Add(x, y); });
  if (op == ByteArithmetic::subtract) return each(a, b, to, n, out, [](V x, V y) HWY_ATTR { return hn::Sub(x, y); });
  each(a, b, to, n, out, [](V x, V y) HWY_ATTR { return hn::Mul(x, y); });
}

constexpr QuantizeKernels kernels = {dequantize, quantize, combine};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const QuantizeKernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                             HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                             HWY_CHOOSE_AVX3(kernels)};

}  // namespace

void dequantize_bytes(Target target, const ByteScale& from, const void* x, int64_t n, float* out) {
  choose_kernels(kTable, target).dequantize(from, static_cast<const uint8_t*>(x), n, out);
}

void quantize_bytes(Target target, const ByteScale& to, const float* x, int64_t n, void* out) {
  choose_kernels(kTable, target).quantize(to, x, n, static_cast<uint8_t*>(out));
}

void combine_bytes(Target target, ByteArithmetic op, const ByteOperand& a, const ByteOperand& b, const ByteScale& to,
                   int64_t n, void* out) {
  choose_kernels(kTable, target).combine(op, a, b, to, n, static_cast<uint8_t*>(out));
}

}  // namespace tessera
#endif
