// Vectors of the two 16-bit floats as F32, and back, compiled once per target. Narrowing rounds to nearest even and
// makes NaNs quiet, widening F16 likewise; denormals are exact. Every target gives the same bits.
#if defined(TESSERA_KERNELS_HALF_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_HALF_INL_H_
#undef TESSERA_KERNELS_HALF_INL_H_
#else
#define TESSERA_KERNELS_HALF_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

// Whether the target's own instructions do what is promised above.
#undef TESSERA_HAVE_F16
#if HWY_TARGET == HWY_AVX2 || HWY_TARGET == HWY_AVX3
#define TESSERA_HAVE_F16 1
#else
#define TESSERA_HAVE_F16 0
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace half {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using Narrow = hn::Vec<hn::Rebind<uint16_t, D>>;  // the bits of as many lanes as D has

template <class D>
HWY_INLINE hn::Vec<D> widen_f16(D d, Narrow<D> x) {
#if TESSERA_HAVE_F16
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), x));
#else
  const hn::RebindToSigned<D> di;
  const auto set = [&](int32_t value) HWY_ATTR { return hn::Set(di, value); };
  const auto bits16 = hn::PromoteTo(di, x);
  const auto magnitude = hn::And(bits16, set(0x7fff));
  const auto sign = hn::ShiftLeft<16>(hn::Sub(bits16, magnitude));
  // Rebias the exponent; once more for infinities and NaNs, whose exponent stays all ones.
  const auto shifted = hn::ShiftLeft<13>(magnitude);
  auto bits = hn::Add(shifted, set(112 << 23));
  const auto special = hn::Gt(magnitude, set(0x7bff));
  bits = hn::IfThenElse(special, hn::Or(shifted, set(0x7f800000)), bits);
  bits = hn::IfThenElse(hn::Gt(magnitude, set(0x7c00)), hn::Or(bits, set(0x400000)), bits);
  const auto denormal = hn::Mul(hn::ConvertTo(d, magnitude), hn::Set(d, 0x1p-24f));
  bits = hn::IfThenElse(hn::Lt(magnitude, set(0x400)), hn::BitCast(di, denormal), bits);
  return hn::BitCast(d, hn::Or(bits, sign));
#endif
}

template <class D>
HWY_INLINE Narrow<D> narrow_f16(D d, hn::Vec<D> x) {
#if TESSERA_HAVE_F16
  return hn::BitCast(hn::Rebind<uint16_t, D>(), hn::DemoteTo(hn::Rebind<hwy::float16_t, D>(), x));
#else
  const hn::RebindToSigned<D> di;
  const auto set = [&](int32_t value) HWY_ATTR { return hn::Set(di, value); };
  const auto bits = hn::BitCast(di, x);
  const auto magnitude = hn::And(bits, set(0x7fffffff));
  const auto sign = hn::And(hn::ShiftRight<16>(bits), set(0x8000));
  const auto odd = hn::And(hn::ShiftRight<13>(magnitude), set(1));
  auto half = hn::ShiftRight<13>(hn::Add(magnitude, hn::Add(odd, set(0xfff - (112 << 23)))));
  half = hn::IfThenElse(hn::Gt(magnitude, set(0x477fffff)), set(0x7c00), half);
  // Adding 1/2 leaves a denormal result's bits, rounded, at the bottom of the mantissa.
  const auto moved = hn::Add(hn::BitCast(d, magnitude), hn::Set(d, 0.5f));
  half = hn::IfThenElse(hn::Lt(magnitude, set(0x38800000)), hn::Sub(hn::BitCast(di, moved), set(0x3f000000)), half);
  const auto payload = hn::And(hn::ShiftRight<13>(magnitude), set(0x3ff));
  half = hn::IfThenElse(hn::Gt(magnitude, set(0x7f800000)), hn::Or(payload, set(0x7e00)), half);
  return hn::DemoteTo(hn::Rebind<uint16_t, D>(), hn::Or(half, sign));
#endif
}

// Keeps a NaN's bits as they are.
template <class D>
HWY_INLINE hn::Vec<D> widen_bf16(D d, Narrow<D> x) {
  return hn::BitCast(d, hn::ShiftLeft<16>(hn::PromoteTo(hn::RebindToUnsigned<D>(), x)));
}

template <class D>
HWY_INLINE Narrow<D> narrow_bf16(D, hn::Vec<D> x) {
  const hn::RebindToSigned<D> di;
  const auto set = [&](int32_t value) HWY_ATTR { return hn::Set(di, value); };
  const auto bits = hn::BitCast(di, x), high = hn::And(hn::ShiftRight<16>(bits), set(0xffff));
  const auto carry =
      hn::ShiftRight<16>(hn::Add(hn::And(bits, set(0xffff)), hn::Add(hn::And(high, set(1)), set(0x7fff))));
  const auto is_nan = hn::Gt(hn::And(bits, set(0x7fffffff)), set(0x7f800000));
  return hn::DemoteTo(hn::Rebind<uint16_t, D>(), hn::IfThenElse(is_nan, hn::Or(high, set(0x40)), hn::Add(high, carry)));
}

}  // namespace half
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif
