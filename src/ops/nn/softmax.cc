// Softmax, LogSoftmax, Hardmax: along an axis, or (before version 13) along all axes from one on.
#include <cmath>
#include <cstring>
#include <limits>

#include "core/convert.h"
#include "kernels/convert.h"
#include "kernels/rows.h"
#include "kernels/vmath.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = -1;
  bool flatten = false;

  std::optional<Slices> slices(const Shape& shape) const {
    const int rank = shape.rank();
    if (flatten && axis == rank) return Slices{shape.count(), 1, 1};
    if (rank == 0 && (axis == 0 || axis == -1)) return Slices{1, 1, 1};
    const auto a = normalize_axis(axis, rank);
    if (!a) return {};
    return flatten ? Slices{shape.count(0, *a), shape.count(*a, rank), 1} : shape.around(*a);
  }
};
Status parse(Attrs& a, Params& p) {
  p.flatten = a.version() < 13;
  p.axis = p.flatten ? 1 : -1;
  a.get("axis", p.axis);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  const bool whole = (p.flatten && p.axis == rank) || (rank == 0 && (p.axis == 0 || p.axis == -1));
  if (!whole && !normalize_axis(p.axis, rank)) return c.refuse(0, format("a tensor that has axis {}", p.axis));
  return c.set(0, c.dims(0));
}

// fn(x, y, columns) for blocks of columns, of which element i is i * inner further.
template <class T, class F>
Status each_block(const Params& p, Call& call, int64_t width, F&& fn) {
  const Slices s = *p.slices(call.shape(0));
  if (s.outer * s.length * s.inner == 0) return {};
  const int64_t blocks = ceil_div(s.inner, width), tasks = s.outer * blocks;
  const int64_t each = std::max<int64_t>(1, (1 << 13) / (s.length * std::min(s.inner, width)));
  call.parallel(ceil_div(tasks, each), [&](int64_t chunk, int) {
    for (int64_t t = chunk * each; t < std::min(tasks, (chunk + 1) * each) && !call.cancelled(); ++t) {
      const int64_t column = t % blocks * width, at = t / blocks * s.length * s.inner + column;
      fn(call.in<T>(0) + at, call.out<T>(0) + at, std::min(width, s.inner - column), s);
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

constexpr int64_t kColumns = 512;

template <bool Log>
Status compute_float(const Params& p, Call& call) {
  const Slices s = *p.slices(call.shape(0));
  const Target target = call.target();
  if (s.inner == 1) {
    (Log ? log_softmax_rows : softmax_rows)(target, call.threads(), call.in<float>(0), call.out<float>(0), s.outer,
                                            s.length);
    return {};
  }
  return each_block<float>(p, call, kColumns, [&](const float* x, float* y, int64_t n, const Slices& sl) {
    float most[kColumns], sum[kColumns], exps[kColumns];
    std::copy_n(x, n, most);
    for (int64_t i = 1; i < sl.length; ++i) binary_f32(target, Binary::max, most, 1, x + i * sl.inner, 1, most, n);
    std::fill_n(sum, n, 0.0f);
    for (int64_t i = 0; i < sl.length; ++i) {
      float* row = y + i * sl.inner;
      binary_f32(target, Binary::sub, x + i * sl.inner, 1, most, 1, row, n);
      unary_f32(target, Unary::exp, row, Log ? exps : row, n);
      binary_f32(target, Binary::add, sum, 1, Log ? exps : row, 1, sum, n);
    }
    if (Log) unary_f32(target, Unary::log, sum, sum, n);
    for (int64_t i = 0; i < sl.length; ++i)
      binary_f32(target, Log ? Binary::sub : Binary::div, y + i * sl.inner, 1, sum, 1, y + i * sl.inner, n);
  });
}

template <bool Log>
Status compute_double(const Params& p, Call& call) {
  return each_block<double>(p, call, 1, [](const double* x, double* y, int64_t, const Slices& s) {
    double most = x[0], sum = 0;
    for (int64_t i = 1; i < s.length; ++i)
      if (const double v = x[i * s.inner]; v > most || v != v) most = v;
    for (int64_t i = 0; i < s.length; ++i) {
      const double d = x[i * s.inner] - most, e = std::exp(d);
      sum += e;
      y[i * s.inner] = Log ? d : e;
    }
    const double log_sum = std::log(sum);
    for (int64_t i = 0; i < s.length; ++i) y[i * s.inner] = Log ? y[i * s.inner] - log_sum : y[i * s.inner] / sum;
  });
}

// A line of float16 values as floats, some at a time.
class HalfPiece {
 public:
  static constexpr int64_t kMost = 512;

  HalfPiece(Target target, int64_t step) : target_(target), step_(step) {}
  float* values() { return values_; }
  void load(const Float16* from, int64_t n) {
    if (step_ == 1)
      std::memcpy(bits_, from, static_cast<size_t>(n) * sizeof *bits_);
    else
      for (int64_t i = 0; i < n; ++i) bits_[i] = from[i * step_].bits;
    f16_to_f32(target_, bits_, values_, n);
  }
  void round(int64_t n) {
    f32_to_f16(target_, values_, bits_, n);
    f16_to_f32(target_, bits_, values_, n);
  }
  void store(Float16* to, int64_t n) {
    f32_to_f16(target_, values_, bits_, n);
    if (step_ == 1)
      std::memcpy(to, bits_, static_cast<size_t>(n) * sizeof *bits_);
    else
      for (int64_t i = 0; i < n; ++i) to[i * step_].bits = bits_[i];
  }
  void apply(Binary op, float right, int64_t n) { binary_f32(target_, op, values_, 1, &right, 0, values_, n); }
  void apply(Unary op, int64_t n) { unary_f32(target_, op, values_, values_, n); }
  float reduce(RowReduce op, int64_t n) {
    float result = 0;
    reduce_rows(target_, 1, op, values_, &result, 1, n);
    return result;
  }

 private:
  Target target_;
  int64_t step_;
  float values_[kMost];
  uint16_t bits_[kMost];
};

// float16 rounds where the standard's function body does: its difference, exponential and sum are float16 values.
Status compute_half(const Params& p, Call& call) {
  return each_block<Float16>(p, call, 1, [&](const Float16* x, Float16* y, int64_t, const Slices& s) {
    HalfPiece piece(call.target(), s.inner);
    const auto each_piece = [&](const Float16* from, auto fn) {
      for (int64_t i = 0; i < s.length; i += HalfPiece::kMost) {
        const int64_t n = std::min(HalfPiece::kMost, s.length - i);
        piece.load(from + i * s.inner, n);
        fn(y + i * s.inner, n);
      }
    };
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
    each_piece(x, [&](Float16*, int64_t n) {
      const float here = piece.reduce(RowReduce::max, n);
      if (here > most || here != here) most = here;
    });
    each_piece(x, [&](Float16* to, int64_t n) {
      piece.apply(Binary::sub, most, n);
      piece.round(n);
      piece.apply(Unary::exp, n);
      piece.round(n);
      sum += piece.reduce(RowReduce::sum, n);
      piece.store(to, n);
    });
    sum = f16_to_float(float_to_f16(sum));
    each_piece(y, [&](Float16* to, int64_t n) {
      piece.apply(Binary::div, sum, n);
      piece.store(to, n);
    });
  });
}

// One at the first of the largest elements (NaN counts as the largest), zero elsewhere.
template <class T>
Status compute_hard(const Params& p, Call& call) {
  return each_block<T>(p, call, 1, [](const T* x, T* y, int64_t, const Slices& s) {
    int64_t best = 0;
    for (int64_t i = 1; i < s.length; ++i) {
      const T v = x[i * s.inner], b = x[best * s.inner];
      if (v > b || (v != v && b == b)) best = i;
    }
    for (int64_t i = 0; i < s.length; ++i) y[i * s.inner] = i == best ? T(1) : T(0);
  });
}

constexpr Kernel kSoft[] = {{kAllSame<Float16>, compute_with<Params, compute_half>},
                            {kAllSame<float>, compute_with<Params, compute_float<false>>},
                            {kAllSame<double>, compute_with<Params, compute_double<false>>}};
constexpr Kernel kLogSoft[] = {{kAllSame<float>, compute_with<Params, compute_float<true>>},
                               {kAllSame<double>, compute_with<Params, compute_double<true>>}};
constexpr Kernel kHard[] = {{kAllSame<float>, compute_with<Params, compute_hard<float>>},
                            {kAllSame<double>, compute_with<Params, compute_hard<double>>}};
constexpr int16_t kVersions[] = {1, 11, 13};

constexpr Op along_axis(const char* name, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = kVersions,
          .parse = parse_params<Params, parse>,
          .shape = shape_with<Params, int64_t, shape<int64_t>>,
          .kernels = kernels,
          .inplace = in_arg(0)};
}

}  // namespace

extern constexpr Op kSoftmax = along_axis("Softmax", kSoft);
extern constexpr Op kLogSoftmax = along_axis("LogSoftmax", kLogSoft);
extern constexpr Op kHardmax = along_axis("Hardmax", kHard);
extern constexpr OpInference kSoftmaxInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kLogSoftmaxInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kHardmaxInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
