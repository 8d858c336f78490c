// Staging of conv_stage.h by whole vectors, compiled once per target.
#if defined(TESSERA_KERNELS_CONV_STAGE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_KERNELS_CONV_STAGE_INL_H_
#undef TESSERA_KERNELS_CONV_STAGE_INL_H_
#else
#define TESSERA_KERNELS_CONV_STAGE_INL_H_
#endif

#include <cstdint>

#include "hwy/highway.h"
#include "kernels/conv_stage.h"

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace staging {
namespace hn = hwy::HWY_NAMESPACE;

using Wide = hn::CappedTag<float, 16>;
using Small = hn::CappedTag<float, 4>;

template <class D>
HWY_INLINE void copy_row(D d, const float* HWY_RESTRICT row, int64_t n, float* HWY_RESTRICT to) {
  constexpr int64_t kLanes = hn::MaxLanes(D());
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::LoadU(d, row + i), d, to + i);
  if (i == n) return;
  if (n >= kLanes) return hn::StoreU(hn::LoadU(d, row + n - kLanes), d, to + n - kLanes);
  for (; i < n; ++i) to[i] = row[i];
}

// Whole vectors of pairs, the last one overlapping the one before it. Returns how many pairs are done: all, or none if
// there are fewer than a vector holds.
template <class D>
HWY_INLINE int64_t split_pairs(D d, const float* HWY_RESTRICT row, int64_t pairs, float* HWY_RESTRICT even,
                               float* HWY_RESTRICT odd) {
#if HWY_TARGET == HWY_SCALAR
  (void)d, (void)row, (void)pairs, (void)even, (void)odd;
  return 0;
#else
  constexpr int64_t kLanes = hn::MaxLanes(D());
  if (pairs < kLanes) return 0;
  for (int64_t i = 0; i < pairs; i += kLanes) {
    const int64_t at = HWY_MIN(i, pairs - kLanes);
    const auto low = hn::LoadU(d, row + 2 * at), high = hn::LoadU(d, row + 2 * at + kLanes);
    hn::StoreU(hn::ConcatEven(d, high, low), d, even + at);
    hn::StoreU(hn::ConcatOdd(d, high, low), d, odd + at);
  }
  return pairs;
#endif
}

// even[i] = row[2 * i] and odd[i] = row[2 * i + 1].
HWY_INLINE void split_row(const float* HWY_RESTRICT row, int64_t evens, int64_t odds, float* HWY_RESTRICT even,
                          float* HWY_RESTRICT odd) {
  const int64_t pairs = HWY_MIN(evens, odds);
  int64_t i = split_pairs(Wide(), row, pairs, even, odd);
  if (i == 0) i = split_pairs(Small(), row, pairs, even, odd);
  for (; i < pairs; ++i) even[i] = row[2 * i], odd[i] = row[2 * i + 1];
  for (int64_t k = pairs; k < evens; ++k) even[k] = row[2 * k];
  for (int64_t k = pairs; k < odds; ++k) odd[k] = row[2 * k + 1];
}

// Where the elements of a row of input go in the rows of one or two classes of columns that start at `to` and
// to + plane. Stages whole rows, and leaves the padding alone.
HWY_INLINE void stage_row(const ConvShape& s, const float* row, int64_t length, int64_t plane, float* to) {
  const int64_t pad = s.pad[2], width = s.in[2];
  if (s.stride[2] == 2) {
    // Even columns of the input fall into the class of the padding's parity.
    const int64_t even = pad / 2, odd = (pad + 1) / 2;
    split_row(row, HWY_MAX(0, HWY_MIN((width + 1) / 2, length - even)), HWY_MAX(0, HWY_MIN(width / 2, length - odd)),
              to + pad % 2 * plane + even, to + (1 - pad % 2) * plane + odd);
  } else if (width >= static_cast<int64_t>(hn::MaxLanes(Wide()))) {
    copy_row(Wide(), row, HWY_MIN(width, length - pad), to + pad);
  } else {
    copy_row(Small(), row, HWY_MIN(width, length - pad), to + pad);
  }
}

// Whether stage_rows can be used for a shape.
inline bool can_stage_rows(const ConvShape& s, const conv::Stage& g) {
  return s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 && s.pad[0] == 0 && g.columns >= s.out[2] &&
         g.height.by_phase && g.width.by_phase && s.pad[2] >= 0 && s.pad[2] <= g.length() && s.stride[2] <= 2;
}

// What conv::stage does for whole rows, from output row oy on. Asks for the same rows of the channel after the next
// one.
HWY_INLINE void stage_rows(const ConvShape& s, const conv::Stage& g, const float* x, int64_t oy, int64_t rows,
                           float* to) {
  const int64_t length = g.length(), plane = g.class_floats();
  conv::Range valid[2];
  for (int64_t w = 0; w < s.stride[2]; ++w) valid[w] = conv::inside(s.in[2], length, s.stride[2], w - s.pad[2]);
  for (int64_t c = 0; c < g.height.count; ++c, to += g.width.count * plane)
    for (int64_t r = 0; r < rows + g.height.reach; ++r) {
      const int64_t iy = (oy + r) * s.stride[1] + c - s.pad[1];
      float* at = to + r * length;
      if (iy >= 0 && iy < s.in[1]) {
        const float* ahead = x + (2 * s.in[1] + iy) * s.in[2];
        for (int64_t i = 0; i < s.in[2]; i += 16) __builtin_prefetch(ahead + i);
        for (int64_t w = 0; w < s.stride[2]; ++w) {
          for (int64_t i = 0; i < valid[w].begin; ++i) at[w * plane + i] = 0;
          for (int64_t i = valid[w].end; i < length; ++i) at[w * plane + i] = 0;
        }
        stage_row(s, x + iy * s.in[2], length, plane, at);
      } else {
        for (int64_t w = 0; w < g.width.count; ++w) conv::set_zero(at + w * plane, length);
      }
    }
}

}  // namespace staging
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#endif
