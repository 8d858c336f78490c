// RoiAlign — regions of a feature map, pooled to a fixed size from points sampled evenly in each bin.
#include <cmath>
#include <limits>

#include "ops/agree.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  bool max = false;
  bool half_pixel = true;
  int64_t height = 1, width = 1, sampling_ratio = 0;
  float spatial_scale = 1;
};

Status parse(Attrs& a, Params& p) {
  static constexpr std::string_view kModes[] = {"avg", "max"};
  static constexpr std::string_view kCoordinates[] = {"output_half_pixel", "half_pixel"};
  int mode = 0, coordinates = a.version() < 16 ? 0 : 1;
  a.get_choice("mode", mode, kModes);
  a.get_choice("coordinate_transformation_mode", coordinates, kCoordinates);
  p.max = mode == 1;
  p.half_pixel = coordinates == 1;
  a.get("output_height", p.height);
  a.get("output_width", p.width);
  a.get("sampling_ratio", p.sampling_ratio);
  a.get("spatial_scale", p.spatial_scale);
  if (p.height < 1 || p.height > INT32_MAX) return a.refuse("output_height", "at least 1");
  if (p.width < 1 || p.width > INT32_MAX) return a.refuse("output_width", "at least 1");
  if (p.sampling_ratio < 0 || p.sampling_ratio > INT16_MAX) return a.refuse("sampling_ratio", "0 to 32767");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) != 4) return c.refuse(0, "a batch, channels, height and width");
  if (c.rank(1) != 2 || !agree(c.dim(1, 1), D(4))) return c.refuse(1, "four coordinates for each region");
  if (!is_list(c, 2, c.dim(1, 0))) return c.refuse(2, "an index for each region");
  return c.set(0, DimVec<D>{c.dim(1, 0), c.dim(0, 1), D(p.height), D(p.width)});
}

// A point between two neighbours of one dimension.
struct Point {
  int64_t low, high;
  double low_weight, high_weight;
};
using Points = std::vector<Point>;

// One dimension of a region, cut into bins in which points are sampled. Coordinates are of type T, as the number of
// points may follow from them.
template <class T>
struct Bins {
  T start, bin;       // where the region starts, and the size of a bin
  double points = 0;  // in a bin
  int64_t length;     // of the map
  bool adaptive;      // the number of points follows from the region

  Bins(const Params& p, T from, T to, int64_t bins, int64_t map) : length(map), adaptive(p.sampling_ratio == 0) {
    const T shift = p.half_pixel ? T(0.5) : T(0);
    start = from * static_cast<T>(p.spatial_scale) - shift;
    T size = to * static_cast<T>(p.spatial_scale) - shift - start;
    if (!p.half_pixel) size = std::max(size, T(1));
    bin = size / static_cast<T>(bins);
    points = adaptive ? static_cast<double>(std::ceil(bin)) : static_cast<double>(p.sampling_ratio);
    if (!(points > 0)) points = 0;
  }

  // The points of bin b that lie inside the map; the others count as zero.
  void sample(int64_t b, Points& out) const {
    out.clear();
    if (!(points < 0x1p40)) return;  // almost all of them are outside
    double first = 0, end = points;
    const T origin = start + static_cast<T>(b) * bin;
    if (adaptive) {
      // They are at least half a pixel apart: only those near the map are looked at.
      const double step = static_cast<double>(bin) / points, at = static_cast<double>(origin);
      first = std::clamp(std::floor((-1 - at) / step) - 2, 0.0, points);
      end = std::clamp(std::ceil((static_cast<double>(length) - at) / step) + 2, first, points);
    }
    for (double i = first; i < end; ++i) {
      const T x = origin + (static_cast<T>(i) + T(0.5)) * bin / static_cast<T>(points);
      if (x >= -1 && x <= static_cast<T>(length)) out.push_back(point(static_cast<double>(x)));
    }
  }

 private:
  Point point(double x) const {
    x = std::max(x, 0.0);
    const auto low = static_cast<int64_t>(x);
    if (low >= length - 1) return {length - 1, length - 1, 1, 0};
    const double part = x - static_cast<double>(low);
    return {low, low + 1, 1 - part, part};
  }
};

// Over the points of one bin in one map; `count` of them, those outside included.
template <class T>
double average(const Points& rows, const Points& columns, double count, const T* map, int64_t width) {
  double sum = 0;
  for (const Point& y : rows) {
    const T *low = map + y.low * width, *high = map + y.high * width;
    double a = 0, b = 0;
    for (const Point& x : columns) {
      a += x.low_weight * low[x.low] + x.high_weight * low[x.high];
      b += x.low_weight * high[x.low] + x.high_weight * high[x.high];
    }
    sum += y.low_weight * a + y.high_weight * b;
  }
  return sum / std::max(1.0, count);
}

// The largest of the weighted neighbours, as the standard's cases have it, not of their sums.
template <class T>
double largest(const Points& rows, const Points& columns, double count, const T* map, int64_t width) {
  const bool outside = static_cast<double>(rows.size() * columns.size()) < count;
  double most = outside || count == 0 ? 0 : -std::numeric_limits<double>::infinity();
  const auto take = [&](double v) {
    if (v > most || v != v) most = v;
  };
  for (const Point& y : rows) {
    const T *low = map + y.low * width, *high = map + y.high * width;
    for (const Point& x : columns) {
      take(y.low_weight * x.low_weight * low[x.low]);
      take(y.low_weight * x.high_weight * low[x.high]);
      take(y.high_weight * x.low_weight * high[x.low]);
      take(y.high_weight * x.high_weight * high[x.high]);
    }
  }
  return most;
}

// Channels [first, end) of region r.
template <class T>
void pool(const Params& p, Call& call, int64_t r, int64_t first, int64_t end) {
  const Shape& s = call.shape(0);
  const T* roi = call.in<T>(1) + 4 * r;
  const Bins<T> rows(p, roi[1], roi[3], p.height, s[2]), columns(p, roi[0], roi[2], p.width, s[3]);
  const int64_t plane = s[2] * s[3], bins = p.height * p.width;
  const T* map = call.in<T>(0) + call.in<int64_t>(2)[r] * s[1] * plane;
  T* to = call.out<T>(0) + r * s[1] * bins;
  const double count = rows.points * columns.points;
  Points ys, xs;
  for (int64_t k = 0; k < bins && !call.cancelled(); ++k) {
    if (k % p.width == 0) rows.sample(k / p.width, ys);
    columns.sample(k % p.width, xs);
    for (int64_t c = first; c < end; ++c)
      to[c * bins + k] = static_cast<T>((p.max ? largest<T> : average<T>)(ys, xs, count, map + c * plane, s[3]));
  }
}

template <class T>
Status compute(const Params& p, Call& call) {
  const Shape& s = call.shape(0);
  const int64_t regions = call.shape(1)[0], channels = s[1], plane = s[2] * s[3], bins = p.height * p.width;
  for (int64_t r = 0; r < regions; ++r)
    if (const int64_t b = call.in<int64_t>(2)[r]; b < 0 || b >= s[0])
      return call.refuse(2, "indices from 0 to {} (element {} is {})", s[0] - 1, r, b);
  T* y = call.out<T>(0);
  if (plane == 0) std::fill_n(y, call.out_count(0), T{0});
  if (plane == 0 || call.out_count(0) == 0) return {};
  // A chunk is some channels of one region.
  const int64_t each = std::clamp<int64_t>((1 << 13) / bins, 1, channels), blocks = ceil_div(channels, each);
  call.parallel(regions * blocks, [&](int64_t chunk, int) {
    const int64_t first = chunk % blocks * each;
    pool<T>(p, call, chunk / blocks, first, std::min(channels, first + each));
  });
  return call.cancelled() ? call.stopped() : Status{};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0) | in_arg(1) | out_arg(0), set_of(dtype_of<T>), widened_to<T>},
                               {in_arg(2), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Params, compute<float>>},
                               {kTypes<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {10, 16, 22};

}  // namespace

extern constexpr Op kRoiAlign{.domain = "",
                              .name = "RoiAlign",
                              .versions = kVersions,
                              .parse = parse_params<Params, parse>,
                              .shape = shape_with<Params, int64_t, shape<int64_t>>,
                              .kernels = kKernels};
extern constexpr OpInference kRoiAlignInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
