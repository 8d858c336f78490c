// GridSample — the input at the places that a grid names, interpolated from the neighbours.
//
// Pixel centres lie at whole numbers. What the neighbours are and how they weigh is worked out once for a block of
// places and then used for every channel.
#include <cmath>
#include <limits>
#include <type_traits>

#include "ops/agree.h"
#include "ops/movement.h"

namespace tessera {
namespace {

enum class Mode : int { linear, nearest, cubic };
enum class Padding : int { zeros, border, reflection };

struct Params {
  Mode mode = Mode::linear;
  Padding padding = Padding::zeros;
  bool align_corners = false;
};

Status parse(Attrs& a, Params& p) {
  static constexpr std::string_view kFirstModes[] = {"bilinear", "nearest", "bicubic"};
  static constexpr std::string_view kModes[] = {"linear", "nearest", "cubic"};
  static constexpr std::string_view kPaddings[] = {"zeros", "border", "reflection"};
  int mode = 0, padding = 0;
  a.get_choice("mode", mode, a.version() < 20 ? std::span(kFirstModes) : std::span(kModes));
  a.get_choice("padding_mode", padding, kPaddings);
  p.mode = static_cast<Mode>(mode);
  p.padding = static_cast<Padding>(padding);
  a.get("align_corners", p.align_corners);
  return {};
}

constexpr int kMostDims = 6;
constexpr int64_t kRoom = 4096;  // neighbours of one place in six dimensions, or of a block of places in fewer

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  const int rank = c.rank(0), spatial = rank - 2;
  if (spatial < 1 || spatial > kMostDims) return c.refuse(0, "a batch, channels and one to six spatial dimensions");
  for (int i = 2; i < rank; ++i)
    if (known(c.dim(0, i)) && number(c.dim(0, i)) < 1) return c.refuse(0, "at least one pixel");
  if (c.rank(1) != rank || !agree(c.dim(1, 0), c.dim(0, 0)) || !agree(c.dim(1, rank - 1), D(spatial)))
    return c.refuse(1, format("a batch like that of input 0, {} dimensions, and {} coordinates", spatial, spatial));
  DimVec<D> out{c.dim(0, 0), c.dim(0, 1)};
  out.append(c.dims(1).subspan(1, static_cast<size_t>(spatial)));
  return c.set(0, out);
}

// ---------------------------------------------------------------------------------------------- places

// From [-1, 1] to pixels.
template <class F>
F to_pixels(F at, int64_t length, bool align_corners) {
  const auto n = static_cast<F>(length);
  return align_corners ? (at + 1) / 2 * (n - 1) : ((at + 1) * n - 1) / 2;
}

// Folds x into [low, high] at the borders.
double reflect(double x, double low, double high) {
  if (x >= low && x <= high) return x;
  const double range = high - low, over = x < low ? low - x : x - high, turns = std::floor(over / range);
  if (!(range > 0) || !std::isfinite(turns)) return low;
  const double rest = over - turns * range;
  const bool from_low = (x < low) == (std::fmod(turns, 2) == 0);
  return std::clamp(from_low ? low + rest : high - rest, low, high);
}

// The neighbours along one dimension; index -1 counts as zero.
struct Axis {
  int count = 0;
  int64_t index[4];
  double weight[4];
};

class Sampler {
 public:
  Sampler(const Params& p, const Shape& x) : p_(p), spatial_(x.rank() - 2) {
    for (int i = 0; i < spatial_; ++i) length_[i] = x[i + 2];
    strides_of({length_, static_cast<size_t>(spatial_)}, stride_);
    const int each = p.mode == Mode::nearest ? 1 : p.mode == Mode::linear ? 2 : 4;
    for (int i = 0; i < spatial_; ++i) taps_ *= each;
  }

  // The most neighbours that a place can have.
  int64_t taps() const { return taps_; }

  // The neighbours of the place `at` (innermost coordinate first), as offsets into a channel; their number.
  template <class F>
  int neighbours(const F* at, int64_t* offset, double* weight) const {
    Axis axis[kMostDims];
    for (int i = 0; i < spatial_; ++i) {
      F x = to_pixels(at[spatial_ - 1 - i], length_[i], p_.align_corners);
      if (p_.mode == Mode::nearest) x = std::nearbyint(x);
      axis[i] = along(static_cast<double>(x), length_[i]);
    }
    int found = 0;
    for (int64_t k = 0; k < taps_; ++k) {
      int64_t to = 0, rest = k;
      double w = 1;
      bool inside = true;
      for (int i = spatial_; i-- > 0;) {
        const int64_t j = rest % axis[i].count;
        rest /= axis[i].count;
        inside = inside && axis[i].index[j] >= 0;
        to += axis[i].index[j] * stride_[i];
        w *= axis[i].weight[j];
      }
      if (!inside) continue;
      offset[found] = to;
      weight[found++] = w;
    }
    return found;
  }

 private:
  double low() const { return p_.align_corners ? 0 : -0.5; }
  double high(int64_t n) const { return static_cast<double>(n) - (p_.align_corners ? 1 : 0.5); }

  // A place that is not a number lies before the first pixel. The result fits in an integer.
  double pad(double x, int64_t n) const {
    const auto length = static_cast<double>(n);
    if (std::isnan(x)) x = -std::numeric_limits<double>::infinity();
    if (x >= low() && x <= high(n)) return x;
    switch (p_.padding) {
      case Padding::zeros: return std::clamp(x, -4.0, length + 4);
      case Padding::border: return std::clamp(x, 0.0, length - 1);
      default: return reflect(x, low(), high(n));
    }
  }

  int64_t pixel(int64_t i, int64_t n) const {
    if (i >= 0 && i < n) return i;
    if (p_.padding == Padding::zeros) return -1;
    if (p_.padding == Padding::reflection) i = static_cast<int64_t>(reflect(static_cast<double>(i), low(), high(n)));
    return std::clamp<int64_t>(i, 0, n - 1);
  }

  Axis along(double x, int64_t n) const {
    x = pad(x, n);
    Axis out;
    const auto add = [&](int64_t i, double w) {
      out.index[out.count] = pixel(i, n);
      out.weight[out.count++] = w;
    };
    const double floor = std::floor(x), f = x - floor;
    const auto i = static_cast<int64_t>(floor);
    if (p_.mode == Mode::nearest) {
      add(i, 1);
    } else if (p_.mode == Mode::linear) {
      add(i, 1 - f);
      add(i + 1, f);
    } else {
      add(i - 1, cubic(1 + f));
      add(i, cubic(f));
      add(i + 1, cubic(1 - f));
      add(i + 2, cubic(2 - f));
    }
    return out;
  }

  static double cubic(double x) {
    constexpr double a = -0.75;
    return x <= 1 ? ((a + 2) * x - (a + 3)) * x * x + 1 : ((a * x - 5 * a) * x + 8 * a) * x - 4 * a;
  }

  const Params& p_;
  int spatial_;
  int64_t taps_ = 1, length_[kMostDims], stride_[kMostDims];
};

// The neighbours of a block of places: those of place i are [begin[i], begin[i + 1]).
struct Neighbours {
  int64_t offset[kRoom];
  double weight[kRoom];
  int32_t begin[kRoom + 1];

  template <class F>
  void fill(const Sampler& sampler, const Call& call, int64_t first, int64_t n) {
    const int coordinates = call.shape(0).rank() - 2;
    begin[0] = 0;
    for (int64_t i = 0; i < n; ++i) {
      F at[kMostDims];
      decode(call.dtype(1), call.in(1), (first + i) * coordinates, coordinates, at);
      begin[i + 1] = begin[i] + sampler.neighbours(at, offset + begin[i], weight + begin[i]);
    }
  }
};

// ---------------------------------------------------------------------------------------------- values

template <class T>
double load(T v) {
  return static_cast<double>(v);
}
double load(Float16 v) { return f16_to_float(v.bits); }
double load(BFloat16 v) { return bf16_to_float(v.bits); }
std::complex<double> load(std::complex<float> v) { return v; }
std::complex<double> load(std::complex<double> v) { return v; }

// Integers are cut towards zero and keep their range when a cubic overshoots.
template <class T, class V>
T store(V v) {
  if constexpr (std::is_same_v<T, bool>) {
    return v != 0;
  } else if constexpr (std::is_same_v<T, Float16>) {
    return {float_to_f16(float_to_odd(v))};
  } else if constexpr (std::is_same_v<T, BFloat16>) {
    return {float_to_bf16(float_to_odd(v))};
  } else if constexpr (std::is_integral_v<T>) {
    constexpr auto least = std::numeric_limits<T>::lowest(), most = std::numeric_limits<T>::max();
    if (v >= static_cast<double>(most)) return most;
    return v <= static_cast<double>(least) ? least : static_cast<T>(v);
  } else {
    return static_cast<T>(v);
  }
}

template <class T>
void interpolate(const Neighbours& nb, const void* x, int64_t from, void* y, int64_t to, int64_t n) {
  const T* in = static_cast<const T*>(x) + from;
  T* out = static_cast<T*>(y) + to;
  for (int64_t i = 0; i < n; ++i) {
    decltype(load(T{})) sum{};
    for (int32_t k = nb.begin[i]; k < nb.begin[i + 1]; ++k) sum += nb.weight[k] * load(in[nb.offset[k]]);
    out[i] = store<T>(sum);
  }
}

using InterpolateFn = void(const Neighbours&, const void*, int64_t, void*, int64_t, int64_t);

// Null for what cannot be added.
InterpolateFn* interpolation(DType t) {
  switch (t) {
    case DType::f32: return interpolate<float>;
    case DType::f64: return interpolate<double>;
    case DType::f16: return interpolate<Float16>;
    case DType::bf16: return interpolate<BFloat16>;
    case DType::i8: return interpolate<int8_t>;
    case DType::i16: return interpolate<int16_t>;
    case DType::i32: return interpolate<int32_t>;
    case DType::i64: return interpolate<int64_t>;
    case DType::u8: return interpolate<uint8_t>;
    case DType::u16: return interpolate<uint16_t>;
    case DType::u32: return interpolate<uint32_t>;
    case DType::u64: return interpolate<uint64_t>;
    case DType::boolean: return interpolate<bool>;
    case DType::c64: return interpolate<std::complex<float>>;
    case DType::c128: return interpolate<std::complex<double>>;
    default: return nullptr;
  }
}

// One neighbour or none, moved as it is.
void pick(DType t, const Neighbours& nb, const void* x, int64_t from, void* y, int64_t to, int64_t n) {
  with_mover(t, x, y, [&](auto move) {
    for (int64_t i = 0; i < n; ++i)
      if (nb.begin[i] < nb.begin[i + 1])
        move(from + nb.offset[nb.begin[i]], to + i);
      else
        fill_elements(t, y, to + i, 1, nullptr);
  });
}

Status compute(const Params& p, Call& call) {
  const DType t = call.dtype(0);
  InterpolateFn* const mix = interpolation(t);
  if (!mix && p.mode != Mode::nearest) return call.refuse(0, "a type that can be interpolated");
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const Shape &in = call.shape(0), &out = call.out_shape(0);
  const Sampler sampler(p, in);
  const int64_t channels = in[1], plane = in.count(2, in.rank()), places = out.count(2, out.rank());
  const int64_t block = std::min(places, kRoom / sampler.taps()), blocks = ceil_div(places, block);
  call.parallel(in[0] * blocks, [&](int64_t chunk, int lane) {
    auto& nb = *call.scratch<Neighbours>(lane);
    const int64_t image = chunk / blocks, first = chunk % blocks * block, n = std::min(block, places - first);
    if (call.cancelled()) return;
    if (call.dtype(1) == DType::f64)
      nb.fill<double>(sampler, call, image * places + first, n);
    else
      nb.fill<float>(sampler, call, image * places + first, n);
    for (int64_t c = image * channels; c < (image + 1) * channels && !call.cancelled(); ++c)
      if (p.mode == Mode::nearest)
        pick(t, nb, call.in(0), c * plane, y, c * places + first, n);
      else
        mix(nb, call.in(0), c * plane, y, c * places + first, n);
  });
  return call.cancelled() ? call.stopped() : Status{};
}

int64_t scratch(const void*, const ScratchCall&) { return sizeof(Neighbours); }

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kNumbers | kComplex | set_of(DType::boolean, DType::string)},
                               {in_arg(1), kFloats}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {16, 20, 22};

}  // namespace

extern constexpr Op kGridSample{.domain = "",
                                .name = "GridSample",
                                .versions = kVersions,
                                .parse = parse_params<Params, parse>,
                                .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                .kernels = kKernels,
                                .scratch = scratch};
extern constexpr OpInference kGridSampleInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
