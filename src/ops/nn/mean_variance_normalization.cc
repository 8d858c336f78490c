// MeanVarianceNormalization — (x - mean) / (standard deviation + 1e-9) over some axes.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/reduce/reduction.h"

namespace tessera {
namespace {

struct Params {
  std::vector<int64_t> axes{0, 2, 3};
};
Status parse(Attrs& a, Params& p) {
  a.get("axes", p.axes);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  for (const int64_t axis : p.axes)
    if (!normalize_axis(axis, c.rank(0))) return c.refuse(0, format("a tensor that has axis {}", axis));
  return c.set(0, c.dims(0));
}

// fn(offset, n) for the runs of elements that belong to group o.
template <class F>
void each_run(const ReductionLayout& l, int64_t o, F&& fn) {
  if (l.inner_reduced()) {
    for (int64_t q = 0; q < l.length() / l.inner(); ++q) fn(l.kept_offset(o) + l.reduced_offset(q), l.inner());
    return;
  }
  const int64_t first = l.kept_offset(o / l.inner()) + o % l.inner();
  for (int64_t r = 0; r < l.length(); ++r) fn(first + l.reduced_offset(r), int64_t{1});
}

template <class T>
Status compute(const Params& p, Call& call) {
  bool reduced[kMaxRank] = {};
  for (const int64_t axis : p.axes) reduced[*normalize_axis(axis, call.shape(0).rank())] = true;
  if (call.count(0) == 0) return {};
  const ReductionLayout layout(call.shape(0).dims(), reduced);
  const auto length = static_cast<double>(layout.length());
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  const int64_t each = std::max<int64_t>(1, (1 << 14) / layout.length()), groups = layout.outputs();
  call.parallel(ceil_div(groups, each), [&](int64_t chunk, int) {
    for (int64_t o = chunk * each; o < std::min(groups, (chunk + 1) * each) && !call.cancelled(); ++o) {
      double sum = 0, squares = 0;
      each_run(layout, o, [&](int64_t at, int64_t n) {
        for (int64_t i = at; i < at + n; ++i) sum += static_cast<double>(x[i]);
      });
      const double mean = sum / length;
      each_run(layout, o, [&](int64_t at, int64_t n) {
        for (int64_t i = at; i < at + n; ++i)
          squares += (static_cast<double>(x[i]) - mean) * (static_cast<double>(x[i]) - mean);
      });
      const double factor = 1 / (std::sqrt(squares / length) + 1e-9);
      each_run(layout, o, [&](int64_t at, int64_t n) {
        for (int64_t i = at; i < at + n; ++i) y[i] = static_cast<T>((static_cast<double>(x[i]) - mean) * factor);
      });
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute<float>>},
                               {kAllSame<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {9, 13};

}  // namespace

extern constexpr Op kMeanVarianceNormalization{.domain = "",
                                               .name = "MeanVarianceNormalization",
                                               .versions = kVersions,
                                               .parse = parse_params<Params, parse>,
                                               .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                               .kernels = kKernels,
                                               .inplace = in_arg(0)};
extern constexpr OpInference kMeanVarianceNormalizationInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
