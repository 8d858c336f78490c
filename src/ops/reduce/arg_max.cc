// ArgMax, ArgMin: where along an axis the largest (smallest) element is. NaN counts as the largest number; of equal
// ones the first, or the last on request.
#include <cmath>

#include "kernels/rows.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = 0;
  bool keepdims = true;
  bool select_last_index = false;
};
Status parse(Attrs& a, Params& p) {
  a.get("axis", p.axis);
  a.get("keepdims", p.keepdims);
  a.get("select_last_index", p.select_last_index);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const auto axis = normalize_axis(p.axis, c.rank(0));
  if (!axis) return c.refuse(0, format("a tensor that has axis {}", p.axis));
  DimVec<D> out(c.dims(0));
  out.erase(*axis);
  if (p.keepdims) out.insert(*axis, D(1));
  return c.set(0, out);
}

struct Largest {
  static constexpr RowReduce kRow = RowReduce::max;
  template <class T>
  static bool better(T a, T b) {
    return a > b || (a != a && b == b);
  }
};
struct Smallest {
  static constexpr RowReduce kRow = RowReduce::min;
  template <class T>
  static bool better(T a, T b) {
    return a < b || (b != b && a == a);
  }
};

// Columns side by side: element i of column j is x[i * step + j].
template <class O, class T>
void scan(const T* x, int64_t length, int64_t step, int64_t columns, bool last, T* best, int64_t* y) {
  std::copy_n(x, columns, best);
  std::fill_n(y, columns, 0);
  for (int64_t i = 1; i < length; ++i) {
    const T* row = x + i * step;
    for (int64_t j = 0; j < columns; ++j) {
      if (last ? O::better(best[j], row[j]) : !O::better(row[j], best[j])) continue;
      best[j] = row[j];
      y[j] = i;
    }
  }
}

// The value first, by vectors, then its place.
template <class O>
int64_t search(const Call& call, const float* x, int64_t length, bool last) {
  float best;
  reduce_rows(call.target(), call.threads(), O::kRow, x, &best, 1, length);
  int64_t found = 0;
  if (std::isnan(best)) {
    scan<O>(x, length, 1, 1, last, &best, &found);
  } else if (last) {
    for (found = length - 1; found > 0 && x[found] != best;) --found;
  } else {
    while (found < length - 1 && x[found] != best) ++found;
  }
  return found;
}

template <class O, class T>
Status compute(const Params& p, Call& call) {
  constexpr int64_t kColumns = 256;
  const Slices s = call.shape(0).around(*normalize_axis(p.axis, call.shape(0).rank()));
  const T* x = call.in<T>(0);
  int64_t* y = call.out<int64_t>(0);
  if (s.outer * s.inner == 0) return {};
  if (s.length == 0) return call.refuse(0, "at least one element along the axis");
  if constexpr (std::is_same_v<T, float>) {
    if (s.inner == 1 && s.length >= 64) {
      const int64_t each = std::max<int64_t>(1, (1 << 14) / s.length);
      call.parallel(ceil_div(s.outer, each), [&](int64_t chunk, int) {
        for (int64_t o = chunk * each; o < std::min(s.outer, (chunk + 1) * each); ++o)
          y[o] = search<O>(call, x + o * s.length, s.length, p.select_last_index);
      });
      return {};
    }
  }
  const int64_t blocks = ceil_div(s.inner, kColumns), tasks = s.outer * blocks;
  const int64_t each = std::max<int64_t>(1, (1 << 14) / (s.length * std::min(s.inner, kColumns)));
  call.parallel(ceil_div(tasks, each), [&](int64_t chunk, int) {
    T best[kColumns];
    for (int64_t t = chunk * each; t < std::min(tasks, (chunk + 1) * each) && !call.cancelled(); ++t) {
      const int64_t outer = t / blocks, column = t % blocks * kColumns;
      scan<O>(x + outer * s.length * s.inner + column, s.length, s.inner, std::min(kColumns, s.inner - column),
              p.select_last_index, best, y + outer * s.inner + column);
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0), set_of(dtype_of<T>), widened_to<T>}, {out_arg(0), set_of(DType::i64)}};
template <class O, class T>
constexpr Kernel kernel{kTypes<T>, compute_with<Params, compute<O, T>>};
template <class O>
constexpr Kernel kKernels[] = {kernel<O, float>,   kernel<O, double>,   kernel<O, int32_t>,
                               kernel<O, int64_t>, kernel<O, uint32_t>, kernel<O, uint64_t>};
constexpr int16_t kVersions[] = {1, 11, 12, 13};

template <class O>
constexpr Op arg(const char* name) {
  return {.domain = "",
          .name = name,
          .versions = kVersions,
          .parse = parse_params<Params, parse>,
          .types = type_always<DType::i64>,
          .shape = shape_with<Params, int64_t, shape<int64_t>>,
          .kernels = kKernels<O>};
}

}  // namespace

extern constexpr Op kArgMax = arg<Largest>("ArgMax");
extern constexpr Op kArgMin = arg<Smallest>("ArgMin");
extern constexpr OpInference kArgMaxInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kArgMinInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
