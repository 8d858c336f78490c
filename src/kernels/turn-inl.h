// Four vectors turned block by block: pixels of some channels to channels of some pixels and back.
#if defined(TESSERA_KERNELS_TURN_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_TURN_INL_H_
#undef TESSERA_KERNELS_TURN_INL_H_
#else
#define TESSERA_KERNELS_TURN_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace turn {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET != HWY_SCALAR
using D = hn::CappedTag<float, 16>;
using D4 = hn::CappedTag<float, 4>;
using V = hn::Vec<D>;
constexpr int kLanes = static_cast<int>(hn::MaxLanes(D()));

// Each block of four lanes of the four vectors is a 4 x 4 matrix; they change places with their transposes.
HWY_INLINE void turn(V (&v)[4]) {
  const D d;
  const hn::RepartitionToWide<D> pairs;
  const auto low01 = hn::BitCast(pairs, hn::InterleaveLower(d, v[0], v[1])),
             high01 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[0], v[1])),
             low23 = hn::BitCast(pairs, hn::InterleaveLower(d, v[2], v[3])),
             high23 = hn::BitCast(pairs, hn::InterleaveUpper(d, v[2], v[3]));
  v[0] = hn::BitCast(d, hn::InterleaveLower(pairs, low01, low23));
  v[1] = hn::BitCast(d, hn::InterleaveUpper(pairs, low01, low23));
  v[2] = hn::BitCast(d, hn::InterleaveLower(pairs, high01, high23));
  v[3] = hn::BitCast(d, hn::InterleaveUpper(pairs, high01, high23));
}

// The kLanes x kLanes matrix whose rows are the vectors changes places with its transpose.
HWY_INLINE void turn_square(V (&v)[kLanes]) {
  constexpr int kBlocks = kLanes / 4;
#pragma GCC unroll 4
  for (int g = 0; g < kBlocks; ++g) {
    V four[4] = {v[4 * g], v[4 * g + 1], v[4 * g + 2], v[4 * g + 3]};
    turn(four);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) v[4 * g + i] = four[i];
  }
#if HWY_TARGET == HWY_AVX3
  const D d;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const V low02 = hn::ConcatLowerLower(d, v[8 + i], v[i]), low13 = hn::ConcatLowerLower(d, v[12 + i], v[4 + i]);
    const V high02 = hn::ConcatUpperUpper(d, v[8 + i], v[i]), high13 = hn::ConcatUpperUpper(d, v[12 + i], v[4 + i]);
    v[i] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(low13), low02);
    v[4 + i] = hn::OddEvenBlocks(low13, hn::SwapAdjacentBlocks(low02));
    v[8 + i] = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(high13), high02);
    v[12 + i] = hn::OddEvenBlocks(high13, hn::SwapAdjacentBlocks(high02));
  }
#elif HWY_TARGET == HWY_AVX2
  const D d;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const V low = hn::ConcatLowerLower(d, v[4 + i], v[i]), high = hn::ConcatUpperUpper(d, v[4 + i], v[i]);
    v[i] = low;
    v[4 + i] = high;
  }
#endif
}

// v[x] = element x of kLanes rows, for x < 4; from(lane) tells where each starts.
template <class From>
HWY_INLINE void load_four(From&& from, V (&v)[4]) {
  const D4 d4;
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const auto block = [&](int b) HWY_ATTR { return hn::LoadU(d4, from(4 * b + i)); };
#if HWY_TARGET == HWY_AVX3
    const hn::Half<D> half;
    v[i] = hn::Combine(D(), hn::Combine(half, block(3), block(2)), hn::Combine(half, block(1), block(0)));
#elif HWY_TARGET == HWY_AVX2
    v[i] = hn::Combine(D(), block(1), block(0));
#else
    v[i] = block(0);
#endif
  }
  turn(v);
}

// Block b of v to to + b * step.
HWY_INLINE void store_blocks(V v, float* to, int64_t step) {
  const D4 d4;
#if HWY_TARGET == HWY_AVX3
  const hn::Half<D> half;
  const auto low = hn::LowerHalf(half, v), high = hn::UpperHalf(half, v);
  hn::StoreU(hn::LowerHalf(d4, low), d4, to);
  hn::StoreU(hn::UpperHalf(d4, low), d4, to + step);
  hn::StoreU(hn::LowerHalf(d4, high), d4, to + 2 * step);
  hn::StoreU(hn::UpperHalf(d4, high), d4, to + 3 * step);
#elif HWY_TARGET == HWY_AVX2
  hn::StoreU(hn::LowerHalf(d4, v), d4, to);
  hn::StoreU(hn::UpperHalf(d4, v), d4, to + step);
#else
  hn::StoreU(v, d4, to);
#endif
}

// Element x of row `lane`, which starts at to + lane * step, = lane `lane` of v[x], for x < count <= 4, lane < rows.
HWY_INLINE void store_four(V (&v)[4], float* to, int64_t step, int64_t rows, int64_t count) {
  if (rows == kLanes && count == 4) {
    turn(v);
#pragma GCC unroll 4
    for (int i = 0; i < 4; ++i) store_blocks(v[i], to + i * step, 4 * step);
    return;
  }
  HWY_ALIGN float block[4 * kLanes];
#pragma GCC unroll 4
  for (int x = 0; x < 4; ++x) hn::Store(v[x], D(), block + x * kLanes);
  for (int64_t i = 0; i < rows; ++i)
    for (int64_t x = 0; x < count; ++x) to[i * step + x] = block[x * kLanes + i];
}
#endif

}  // namespace turn
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif
