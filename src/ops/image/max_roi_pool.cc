// MaxRoiPool — the largest element of each bin of regions of a feature map.
#include <cmath>

#include "ops/agree.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  std::vector<int64_t> pooled;  // height and width
  float spatial_scale = 1;
};

Status parse(Attrs& a, Params& p) {
  a.get("pooled_shape", p.pooled);
  a.get("spatial_scale", p.spatial_scale);
  if (p.pooled.size() != 2) return a.refuse("pooled_shape", "a height and a width");
  for (const int64_t n : p.pooled)
    if (n < 1 || n > INT32_MAX) return a.refuse("pooled_shape", "sizes of at least 1");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) != 4) return c.refuse(0, "a batch, channels, height and width");
  if (c.rank(1) != 2 || !agree(c.dim(1, 1), D(5))) return c.refuse(1, "a batch index and four coordinates per region");
  return c.set(0, DimVec<D>{c.dim(1, 0), c.dim(0, 1), D(p.pooled[0]), D(p.pooled[1])});
}

// One dimension of a region, whose coordinates are rounded to pixels and both included.
template <class T>
struct Bins {
  T start, bin;
  T length;  // of the map

  Bins(const Params& p, T from, T to, int64_t bins, int64_t map) : length(static_cast<T>(map)) {
    start = std::round(from * static_cast<T>(p.spatial_scale));
    const T end = std::round(to * static_cast<T>(p.spatial_scale));
    bin = std::max(end - start + 1, T(1)) / static_cast<T>(bins);
  }

  // The pixels [*begin, *end) of bin b; none if the region is not a number.
  void range(int64_t b, int64_t* begin, int64_t* end) const {
    *begin = pixel(std::floor(static_cast<T>(b) * bin) + start);
    *end = pixel(std::ceil(static_cast<T>(b + 1) * bin) + start);
  }

 private:
  int64_t pixel(T at) const { return at >= 0 ? static_cast<int64_t>(std::min(at, length)) : 0; }
};

// NaN counts as the largest; zero if there is nothing.
template <class T>
T largest(const T* map, int64_t width, int64_t y0, int64_t y1, int64_t x0, int64_t x1) {
  if (y0 >= y1 || x0 >= x1) return T{0};
  T most = map[y0 * width + x0];
  for (int64_t y = y0; y < y1; ++y)
    for (int64_t x = x0; x < x1; ++x)
      if (const T v = map[y * width + x]; v > most || v != v) most = v;
  return most;
}

template <class T>
Status compute(const Params& p, Call& call) {
  const Shape& s = call.shape(0);
  const T* rois = call.in<T>(1);
  const int64_t regions = call.shape(1)[0], channels = s[1], plane = s[2] * s[3], bins = p.pooled[0] * p.pooled[1];
  for (int64_t r = 0; r < regions; ++r)
    if (const T b = rois[5 * r]; !(b >= 0 && b < static_cast<T>(s[0]) && b == std::floor(b)))
      return call.refuse(1, "batch indices from 0 to {} (region {} has {})", s[0] - 1, r, static_cast<double>(b));
  T* y = call.out<T>(0);
  if (call.out_count(0) == 0) return {};
  // A chunk is some channels of one region.
  const int64_t each = std::clamp<int64_t>((1 << 12) / bins, 1, channels), blocks = ceil_div(channels, each);
  call.parallel(regions * blocks, [&](int64_t chunk, int) {
    const int64_t r = chunk / blocks, first = chunk % blocks * each, end = std::min(channels, first + each);
    const T* roi = rois + 5 * r;
    const Bins<T> rows(p, roi[2], roi[4], p.pooled[0], s[2]), columns(p, roi[1], roi[3], p.pooled[1], s[3]);
    for (int64_t c = first; c < end; ++c) {
      const T* map = call.in<T>(0) + (static_cast<int64_t>(roi[0]) * channels + c) * plane;
      for (int64_t k = 0; k < bins && !call.cancelled(); ++k) {
        int64_t y0, y1, x0, x1;
        rows.range(k / p.pooled[1], &y0, &y1);
        columns.range(k % p.pooled[1], &x0, &x1);
        y[(r * channels + c) * bins + k] = largest(map, s[3], y0, y1, x0, x1);
      }
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute<float>>},
                               {kAllSame<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 22};

}  // namespace

extern constexpr Op kMaxRoiPool{.domain = "",
                                .name = "MaxRoiPool",
                                .versions = kVersions,
                                .parse = parse_params<Params, parse>,
                                .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                .kernels = kKernels};
extern constexpr OpInference kMaxRoiPoolInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
