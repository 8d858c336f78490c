#include "kernels/quantize.h"

#include "kernels/targets.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

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
  void (*range)(const float* x, int64_t n, float* low, float* high);
  void (*look_up)(const uint8_t* table, const uint8_t* x, int64_t n, uint8_t* out);
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

// By value: what is written to memory may not change it.
class Dequantizer {
 public:
  explicit HWY_INLINE Dequantizer(const ByteScale& from)
      : scale_(hn::Set(D(), from.scale)), zero_(hn::Set(D(), from.zero)), is_signed_(from.is_signed) {}
  HWY_INLINE V load(const uint8_t* x) const {
    const D d;
    const I i;
    const auto wide = is_signed_
                          ? hn::PromoteTo(i, hn::LoadU(hn::Rebind<int8_t, D>(), reinterpret_cast<const int8_t*>(x)))
                          : hn::PromoteTo(i, hn::LoadU(hn::Rebind<uint8_t, D>(), x));
    return hn::Mul(hn::Sub(hn::ConvertTo(d, wide), zero_), scale_);
  }

 private:
  V scale_, zero_;
  bool is_signed_;
};

// Quotients are taken as products with the reciprocal, and as such only where that is too near to a half to tell.
class Quantizer {
 public:
  explicit HWY_INLINE Quantizer(const ByteScale& to)
      : divides_(!(to.scale > 0x1p-100f && to.scale < 0x1p100f)),
        scale_(to.scale),
        inverse_(hn::Set(D(), divides_ ? 0.0f : 1.0f / to.scale)),
        low_(hn::Set(D(), (to.is_signed ? -128.0f : 0.0f) - to.zero)),
        high_(hn::Set(D(), (to.is_signed ? 127.0f : 255.0f) - to.zero)),
        zero_(hn::Set(I(), static_cast<int32_t>(to.zero))) {}

  HWY_INLINE void store(V v, uint8_t* out) const {
    // Bounded products are less than 2^-13 away from the quotients.
    constexpr float kClear = 0.4998f;
    const D d;
    const V bounded = bound(hn::Mul(v, inverse_));
    auto near = hn::NearestInt(bounded);
    const auto unclear = hn::Gt(hn::Abs(hn::Sub(bounded, hn::ConvertTo(d, near))), hn::Set(d, kClear));
    if (HWY_UNLIKELY(divides_ || !hn::AllFalse(d, unclear)))
      near = hn::NearestInt(bound(hn::Div(v, hn::Set(d, scale_))));
    hn::StoreU(low_bytes(hn::Add(near, zero_)), hn::Rebind<uint8_t, D>(), out);
  }

 private:
  HWY_INLINE V bound(V q) const {
#if HWY_TARGET == HWY_AVX3
    return hn::Min(hn::Max(q, low_), high_);  // NaN becomes the second operand
#else
    return hn::IfThenElse(hn::Gt(q, low_), hn::Min(q, high_), low_);
#endif
  }
  static HWY_INLINE hn::Vec<hn::Rebind<uint8_t, D>> low_bytes(hn::Vec<I> v) {
#if HWY_TARGET == HWY_AVX3
    return hn::U8FromU32(hn::BitCast(hn::RebindToUnsigned<I>(), v));
#else
    return hn::DemoteTo(hn::Rebind<uint8_t, D>(), hn::And(v, hn::Set(I(), 0xff)));
#endif
  }
  bool divides_;
  float scale_;
  V inverse_, low_, high_;
  hn::Vec<I> zero_;
};

void dequantize(const ByteScale& scale, const uint8_t* x, int64_t n, float* out) {
  const D d;
  const Dequantizer from(scale);
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) hn::StoreU(from.load(x + k), d, out + k);
  if (k == n) return;
  uint8_t rest[kLanes] = {};
  HWY_ALIGN float floats[kLanes];
  for (int64_t j = 0; j < n - k; ++j) rest[j] = x[k + j];
  hn::Store(from.load(rest), d, floats);
  for (int64_t j = 0; j < n - k; ++j) out[k + j] = floats[j];
}

void quantize(const ByteScale& scale, const float* x, int64_t n, uint8_t* out) {
  const D d;
  const Quantizer to(scale);
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) to.store(hn::LoadU(d, x + k), out + k);
  if (k == n) return;
  HWY_ALIGN float floats[kLanes] = {};
  uint8_t rest[kLanes];
  for (int64_t j = 0; j < n - k; ++j) floats[j] = x[k + j];
  to.store(hn::Load(d, floats), rest);
  for (int64_t j = 0; j < n - k; ++j) out[k + j] = rest[j];
}

// Elements of an operand.
class Operand {
 public:
  explicit HWY_INLINE Operand(const ByteOperand& o)
      : from_(o.scale), data_(static_cast<const uint8_t*>(o.data)), each_(o.step != 0) {
    uint8_t same[kLanes];
    for (uint8_t& v : same) v = *data_;
    one_ = from_.load(same);
  }
  HWY_INLINE V at(int64_t k) const { return each_ ? from_.load(data_ + k) : one_; }
  // Less than a vector of them.
  HWY_INLINE V some(int64_t k, int64_t count) const {
    uint8_t rest[kLanes] = {};
    for (int64_t j = 0; each_ && j < count; ++j) rest[j] = data_[k + j];
    return each_ ? from_.load(rest) : one_;
  }

 private:
  Dequantizer from_;
  const uint8_t* data_;
  bool each_;
  V one_;
};

template <class F>
HWY_INLINE void each(const ByteOperand& first, const ByteOperand& second, const ByteScale& scale, int64_t n,
                     uint8_t* out, F f) {
  if (n <= 0) return;
  const Quantizer to(scale);
  const Operand a(first), b(second);
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) to.store(f(a.at(k), b.at(k)), out + k);
  if (k == n) return;
  uint8_t rest[kLanes];
  to.store(f(a.some(k, n - k), b.some(k, n - k)), rest);
  for (int64_t j = 0; j < n - k; ++j) out[k + j] = rest[j];
}

void combine(ByteArithmetic op, const ByteOperand& a, const ByteOperand& b, const ByteScale& to, int64_t n,
             uint8_t* out) {
  if (op == ByteArithmetic::add) return each(a, b, to, n, out, [](V x, V y) HWY_ATTR { return hn::Add(x, y); });
  if (op == ByteArithmetic::subtract) return each(a, b, to, n, out, [](V x, V y) HWY_ATTR { return hn::Sub(x, y); });
  each(a, b, to, n, out, [](V x, V y) HWY_ATTR { return hn::Mul(x, y); });
}

void range(const float* x, int64_t n, float* least, float* most) {
  const D d;
  V low = hn::Set(d, *least), high = hn::Set(d, *most);
  int64_t k = 0;
  for (; k + kLanes <= n; k += kLanes) {
    const V v = hn::LoadU(d, x + k);
    low = hn::IfThenElse(hn::Lt(v, low), v, low);
    high = hn::IfThenElse(hn::Gt(v, high), v, high);
  }
  float l = hn::GetLane(hn::MinOfLanes(d, low)), h = hn::GetLane(hn::MaxOfLanes(d, high));
  for (; k < n; ++k) {
    l = x[k] < l ? x[k] : l;
    h = x[k] > h ? x[k] : h;
  }
  *least = l;
  *most = h;
}

void look_up(const uint8_t* table, const uint8_t* x, int64_t n, uint8_t* out) {
  for (int64_t k = 0; k < n; ++k) out[k] = table[x[k]];
}

constexpr QuantizeKernels kernels = {dequantize, quantize, combine, range, look_up};
#if HWY_TARGET == HWY_AVX3
// Two tables of 128 bytes, by the low seven bits, and the top bit to choose.
__attribute__((target(HWY_TARGET_STR ",avx512vbmi"))) void look_up_vbmi(const uint8_t* table, const uint8_t* x,
                                                                        int64_t n, uint8_t* out) {
  const __m512i t0 = _mm512_loadu_si512(table), t1 = _mm512_loadu_si512(table + 64),
                t2 = _mm512_loadu_si512(table + 128), t3 = _mm512_loadu_si512(table + 192);
  for (int64_t k = 0; k < n; k += 64) {
    const __mmask64 some = n - k >= 64 ? ~__mmask64{0} : (__mmask64{1} << (n - k)) - 1;
    const __m512i v = _mm512_maskz_loadu_epi8(some, x + k);
    const __m512i low = _mm512_permutex2var_epi8(t0, v, t1), high = _mm512_permutex2var_epi8(t2, v, t3);
    _mm512_mask_storeu_epi8(out + k, some, _mm512_mask_blend_epi8(_mm512_movepi8_mask(v), low, high));
  }
}
constexpr QuantizeKernels kernels_vbmi = {dequantize, quantize, combine, range, look_up_vbmi};
#endif

}  // namespace

#if HWY_TARGET == HWY_AVX3
const QuantizeKernels* vbmi_quantize_kernels() { return &kernels_vbmi; }
#endif

}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const QuantizeKernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                             HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                             HWY_CHOOSE_AVX3(kernels)};

const QuantizeKernels& choose(Target target) {
#if HWY_TARGETS & HWY_AVX3
  if (target == Target::avx3 && __builtin_cpu_supports("avx512vbmi")) return *N_AVX3::vbmi_quantize_kernels();
#endif
  return choose_kernels(kTable, target);
}

}  // namespace

void dequantize_bytes(Target target, const ByteScale& from, const void* x, int64_t n, float* out) {
  choose(target).dequantize(from, static_cast<const uint8_t*>(x), n, out);
}

void quantize_bytes(Target target, const ByteScale& to, const float* x, int64_t n, void* out) {
  choose(target).quantize(to, x, n, static_cast<uint8_t*>(out));
}

void combine_bytes(Target target, ByteArithmetic op, const ByteOperand& a, const ByteOperand& b, const ByteScale& to,
                   int64_t n, void* out) {
  choose(target).combine(op, a, b, to, n, static_cast<uint8_t*>(out));
}

void float_range(Target target, const float* x, int64_t n, float* low, float* high) {
  choose(target).range(x, n, low, high);
}

void look_up_bytes(Target target, const uint8_t* table, const uint8_t* x, int64_t n, uint8_t* out) {
  choose(target).look_up(table, x, n, out);
}

}  // namespace tessera
#endif
