// Clip — elements kept between two limits; what is not given does not limit. The upper limit wins.
#include <limits>
#include <type_traits>

#include "kernels/vmath.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

// Versions 1 and 6 have the limits as attributes.
struct Params {
  std::optional<float> min, max;
};
Status parse(Attrs& a, Params& p) {
  if (a.version() >= 11) return {};
  if (a.version() == 6) {
    p.min = std::numeric_limits<float>::lowest();
    p.max = std::numeric_limits<float>::max();
  }
  a.get("min", p.min);
  a.get("max", p.max);
  return {};
}

template <class D>
Status shape(ShapeCall<D>& c) {
  for (int i = 1; i <= 2; ++i) {
    if (!c.has(i)) continue;
    for (const D& d : c.dims(i))
      if (known(d) && number(d) != 1) return c.refuse(i, "one element");
  }
  return c.set(0, c.dims(0));
}

// NaN on either side gives NaN.
template <class T>
T clipped(T x, const T* low, const T* high) {
  if (low) x = *low != *low || x < *low ? *low : x;
  if (high) x = *high != *high || x > *high ? *high : x;
  return x;
}

// Blocks small enough to meet the second limit while they are near.
void clip(Target target, const float* x, const float* low, const float* high, float* y, int64_t n) {
  constexpr int64_t kBlock = 4096;
  for (int64_t at = 0; at < n; at += kBlock) {
    const int64_t count = std::min(kBlock, n - at);
    const float* from = x + at;
    if (low) {
      binary_f32(target, Binary::max, from, 1, low, 0, y + at, count);
      from = y + at;
    }
    if (high)
      binary_f32(target, Binary::min, from, 1, high, 0, y + at, count);
    else if (!low && from != y + at)
      std::copy_n(from, count, y + at);
  }
}

template <class T>
Status compute(const Params& p, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  T limits[2];
  const T* used[2] = {};
  for (int k = 0; k < 2; ++k) {
    const std::optional<float>& attribute = k ? p.max : p.min;
    if (const T* input = call.maybe<T>(k + 1))
      limits[k] = *input;
    else if (attribute && std::is_floating_point_v<T>)
      limits[k] = static_cast<T>(*attribute);
    else
      continue;
    used[k] = &limits[k];
  }
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    if constexpr (std::is_same_v<T, float>)
      clip(call.target(), x + begin, used[0], used[1], y + begin, n);
    else
      for (int64_t i = begin; i < begin + n; ++i) y[i] = clipped(x[i], used[0], used[1]);
  });
  return {};
}

template <class... T>
constexpr Kernel kKernels[] = {{kAllSame<T>, compute_with<Params, compute<T>>}...};
constexpr int16_t kVersions[] = {1, 6, 11, 12, 13};

Status infer_shape(const void*, ShapeCall<Dim>& c) {
  TRY(shape(c));
  const auto content = c.content(0);
  if (!content) return {};
  std::vector<Dim> out(content->begin(), content->end());
  for (int i = 1; i <= 2; ++i) {
    if (!c.has(i)) continue;
    const auto limit = c.content(i);
    if (!limit || limit->size() != 1) return {};
    for (Dim& d : out) d = i == 1 ? dim_max(d, (*limit)[0]) : dim_min(d, (*limit)[0]);
  }
  c.set_content(0, out);
  return {};
}

}  // namespace

extern constexpr Op kClip{.domain = "",
                          .name = "Clip",
                          .versions = kVersions,
                          .parse = parse_params<Params, parse>,
                          .shape = shape_plain<int64_t, shape<int64_t>>,
                          .kernels = kKernels<float, double, int32_t, int64_t, uint32_t, uint64_t>,
                          .inplace = in_arg(0)};
extern constexpr OpInference kClipInference{.shape = infer_shape};

}  // namespace tessera
