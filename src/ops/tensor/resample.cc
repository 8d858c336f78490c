#include "ops/tensor/resample.h"

#include <cmath>
#include <limits>

namespace tessera {
namespace {

// Where element i of the output lies in the input.
float position(const ResizeRule& rule, const ResizeAxis& a, int64_t i) {
  const auto x = static_cast<float>(i), in = static_cast<float>(a.in), out = static_cast<float>(a.out);
  const float ideal = a.scale * in;  // the output's length before rounding
  switch (rule.coordinates) {
    case ResizeCoordinates::half_pixel: return (x + 0.5f) / a.scale - 0.5f;
    case ResizeCoordinates::half_pixel_symmetric: return in / 2 * (1 - out / ideal) + (x + 0.5f) / a.scale - 0.5f;
    case ResizeCoordinates::pytorch_half_pixel: return a.out > 1 ? (x + 0.5f) / a.scale - 0.5f : 0;
    case ResizeCoordinates::align_corners: return a.out > 1 ? x * (in - 1) / (ideal - 1) : 0;
    case ResizeCoordinates::asymmetric: return x / a.scale;
    case ResizeCoordinates::tf_half_pixel_for_nn: return (x + 0.5f) / a.scale;
    default: break;
  }
  const float width = a.roi_end - a.roi_start;
  return a.roi_start * (in - 1) + (a.out > 1 ? x * width * (in - 1) / (out - 1) : width * (in - 1) / 2);
}

// NaN and what lies far outside come to the nearest edge, so that they fit in an integer.
float inside(const ResizeAxis& a, float x) {
  if (std::isnan(x)) return 0;
  const auto in = static_cast<float>(a.in);
  return std::clamp(x, -in, 2 * in);
}

bool is_outside(const ResizeRule& rule, const ResizeAxis& a, int64_t i) {
  if (rule.coordinates != ResizeCoordinates::tf_crop_and_resize) return false;
  const float x = position(rule, a, i);
  return !(x >= 0 && x <= static_cast<float>(a.in - 1));
}

int64_t nearest_index(const ResizeRule& rule, const ResizeAxis& a, int64_t i) {
  const float x = inside(a, position(rule, a, i));
  float to = 0;
  switch (rule.nearest) {
    case ResizeNearest::round_prefer_floor: to = std::ceil(x - 0.5f); break;
    case ResizeNearest::round_prefer_ceil: to = std::floor(x + 0.5f); break;
    case ResizeNearest::floor: to = std::floor(x); break;
    case ResizeNearest::ceil: to = std::ceil(x); break;
    default: to = a.scale < 1 ? std::ceil(x) : std::floor(x);
  }
  return std::clamp<int64_t>(static_cast<int64_t>(to), 0, a.in - 1);
}

float cubic(float a, float x) {
  x = std::abs(x);
  if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
  return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

template <class T>
Result<T*> buffer(int64_t count, std::shared_ptr<Bytes>& keep) {
  int64_t bytes;
  if (!checked_mul(count, sizeof(T), &bytes)) return invalid("an intermediate of {} elements is too large", count);
  TRY_ASSIGN(memory, allocate_bytes(static_cast<size_t>(bytes)));
  keep = std::move(memory);
  return reinterpret_cast<T*>(keep->data());
}

// The neighbours of every output element along one axis.
struct Taps {
  int64_t count = 0;
  int64_t* index = nullptr;  // [out][count]
  float* weight = nullptr;
  std::shared_ptr<Bytes> index_memory, weight_memory;

  static Result<Taps> of(const ResizeRule& rule, const ResizeAxis& a) {
    const float shrink = rule.antialias ? std::min(a.scale, 1.0f) : 1.0f;
    const float reach = rule.mode == ResizeMode::cubic ? 2 : 1;
    if (!(reach / shrink < 0x1p31f)) return invalid("the scale {} is too small to smooth", a.scale);
    Taps t;
    const auto start = static_cast<int64_t>(std::floor(-reach / shrink)) + 1;
    t.count = 2 - 2 * start;
    int64_t all;
    if (!checked_mul(a.out, t.count, &all)) return invalid("an axis of {} elements is too long", a.out);
    TRY_ASSIGN(index, buffer<int64_t>(all, t.index_memory));
    TRY_ASSIGN(weight, buffer<float>(all, t.weight_memory));
    t.index = index;
    t.weight = weight;
    for (int64_t i = 0; i < a.out; ++i) t.fill(rule, a, i, start, shrink);
    return t;
  }

 private:
  void fill(const ResizeRule& rule, const ResizeAxis& a, int64_t i, int64_t start, float shrink) {
    const float x = inside(a, position(rule, a, i)), base = std::ceil(x) - 1;
    int64_t* to = index + i * count;
    float* w = weight + i * count;
    float sum = 0;
    for (int64_t k = 0; k < count; ++k) {
      const int64_t from = static_cast<int64_t>(base) + start + k;
      const float distance = (static_cast<float>(start + k) - (x - base)) * shrink;
      w[k] = rule.mode == ResizeMode::cubic ? cubic(rule.cubic_a, distance) : std::max(0.0f, 1 - std::abs(distance));
      if (rule.exclude_outside && (from < 0 || from >= a.in)) w[k] = 0;
      to[k] = std::clamp<int64_t>(from, 0, a.in - 1);
      sum += w[k];
    }
    if ((rule.antialias || rule.exclude_outside) && sum != 0)
      for (int64_t k = 0; k < count; ++k) w[k] /= sum;
  }
};

// y[outer, out, inner] from x[outer, in, inner].
template <class T>
void resample_axis(const Call& call, const Taps& taps, const ResizeAxis& a, int64_t outer, int64_t inner, const T* x,
                   T* y) {
  for_blocks(call, dtype_of<T>, outer * a.out, inner * taps.count, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t at = k % a.out * taps.count;
      const T* from = x + k / a.out * a.in * inner;
      T* to = y + k * inner;
      std::fill_n(to, inner, T{0});
      for (int64_t j = at; j < at + taps.count; ++j) {
        const T w = taps.weight[j];
        const T* row = from + taps.index[j] * inner;
        for (int64_t i = 0; i < inner; ++i) to[i] += w * row[i];
      }
    }
  });
}

template <class I>
void clamp_to(double& v) {
  v = std::clamp(v, static_cast<double>(std::numeric_limits<I>::lowest()),
                 static_cast<double>(std::numeric_limits<I>::max()));
}
// Integers keep their range when a cubic overshoots.
void clamp_to(DType t, double& v) {
  switch (t) {
    case DType::u8: return clamp_to<uint8_t>(v);
    case DType::i8: return clamp_to<int8_t>(v);
    case DType::u16: return clamp_to<uint16_t>(v);
    case DType::i16: return clamp_to<int16_t>(v);
    case DType::u32: return clamp_to<uint32_t>(v);
    case DType::i32: return clamp_to<int32_t>(v);
    default: return;
  }
}

template <class T>
void store(const Call& call, DType t, const T* values, void* y, int64_t count) {
  for_blocks(call, t, count, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      auto v = static_cast<double>(values[i]);
      clamp_to(t, v);
      encode(t, y, i, 1, &v);
    }
  });
}

// Linear and cubic: one axis after another, the last first, through intermediates of type T.
template <class T>
Status interpolate(Call& call, const ResizeRule& rule, std::span<const ResizeAxis> axes, void* y) {
  const DType t = call.dtype(0);
  std::shared_ptr<Bytes> now, next;
  const T* x = call.in<T>(0);
  if (t != dtype_of<T>) {
    TRY_ASSIGN(wide, buffer<T>(call.count(0), now));
    decode(t, call.in(0), 0, call.count(0), wide);
    x = wide;
  }
  DimVec<int64_t> dims(call.shape(0).dims());
  for (int d = dims.size(); d-- > 0;) {
    const ResizeAxis& a = axes[static_cast<size_t>(d)];
    if (a.in == a.out && a.scale == 1 && rule.coordinates != ResizeCoordinates::tf_crop_and_resize) continue;
    if (call.cancelled()) return call.stopped();
    dims[d] = a.out;
    TRY_ASSIGN(shape, Shape::checked(dims.span()));
    TRY_ASSIGN(to, buffer<T>(shape.count(), next));
    TRY_ASSIGN(taps, Taps::of(rule, a));
    resample_axis(call, taps, a, shape.count(0, d), shape.count(d + 1, shape.rank()), x, to);
    std::swap(now, next);
    x = to;
  }
  if (t == dtype_of<T>)
    copy_elements(t, x, 0, y, 0, call.out_count(0));
  else
    store(call, t, x, y, call.out_count(0));
  return {};
}

// Rows of the output: fn(row, outer index per axis) for all but the last axis.
template <class F>
void each_row(const Call& call, DType t, std::span<const ResizeAxis> axes, F&& fn) {
  const int64_t length = axes.back().out;
  for_blocks(call, t, call.out_count(0) / length, length, [&](int64_t begin, int64_t end) {
    int64_t digits[kMaxRank];
    for (int64_t row = begin; row < end; ++row) {
      int64_t rest = row;
      for (size_t d = axes.size() - 1; d-- > 0; rest /= axes[d].out) digits[d] = rest % axes[d].out;
      fn(row, digits);
    }
  });
}

Status pick_nearest(Call& call, const ResizeRule& rule, std::span<const ResizeAxis> axes, void* y) {
  const DType t = call.dtype(0);
  std::shared_ptr<Bytes> memory;
  int64_t total = 0;
  for (const ResizeAxis& a : axes)
    if (!checked_add(total, a.out, &total)) return invalid("an axis of {} elements is too long", a.out);
  TRY_ASSIGN(table, buffer<int64_t>(total, memory));
  const int64_t* from[kMaxRank];
  for (size_t d = 0; d < axes.size(); ++d) {
    from[d] = table;
    for (int64_t i = 0; i < axes[d].out; ++i) *table++ = nearest_index(rule, axes[d], i);
  }
  const int64_t *columns = from[axes.size() - 1], n = axes.back().out;
  with_mover(t, call.in(0), y, [&](auto move) {
    each_row(call, t, axes, [&](int64_t row, const int64_t* digits) {
      int64_t base = 0;
      for (size_t d = 0; d + 1 < axes.size(); ++d) base = base * axes[d].in + from[d][digits[d]];
      base *= axes.back().in;
      for (int64_t i = 0; i < n; ++i) move(base + columns[i], row * n + i);
    });
  });
  return {};
}

// What lies outside the input takes the extrapolation value.
void extrapolate(Call& call, const ResizeRule& rule, std::span<const ResizeAxis> axes, void* y) {
  const DType t = call.dtype(0);
  each_row(call, t, axes, [&](int64_t row, const int64_t* digits) {
    bool all = false;
    for (size_t d = 0; d + 1 < axes.size(); ++d) all = all || is_outside(rule, axes[d], digits[d]);
    const int64_t n = axes.back().out;
    for (int64_t i = 0; i < n; ++i)
      if (all || is_outside(rule, axes.back(), i)) encode(t, y, row * n + i, 1, &rule.extrapolation);
  });
}

}  // namespace

Status resample(Call& call, const ResizeRule& rule, std::span<const ResizeAxis> axes) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const DType t = call.dtype(0);
  if (axes.empty()) return copy_input(call);
  if (call.count(0) == 0) return call.refuse(0, "elements to make the output from");
  const bool numeric = kNumbers.has(t);
  if (rule.mode == ResizeMode::nearest) {
    TRY(pick_nearest(call, rule, axes, y));
  } else if (!numeric) {
    return call.refuse(0, "a type that can be interpolated");
  } else if (t == DType::f64 || bits_of(t) == 64 || t == DType::i32 || t == DType::u32) {
    TRY(interpolate<double>(call, rule, axes, y));
  } else {
    TRY(interpolate<float>(call, rule, axes, y));
  }
  if (rule.coordinates == ResizeCoordinates::tf_crop_and_resize && numeric) extrapolate(call, rule, axes, y);
  return {};
}

}  // namespace tessera
