// CDist — the distance of each row of A to each row of B.
#include <cmath>

#include "ops/agree.h"
#include "ops/contrib/contrib.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kArity{in_arg(0) | in_arg(1), 2};

struct Params {
  int metric = 0;  // 0: the square of the Euclidean distance, 1: that
};

Status parse(Attrs& a, Params& p) {
  static constexpr std::string_view kMetrics[] = {"sqeuclidean", "euclidean"};
  a.get_choice("metric", p.metric, kMetrics);
  return {};
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  for (const int i : {0, 1})
    if (c.rank(i) != 2) return c.refuse(i, "a matrix");
  if (!agree(c.dim(0, 1), c.dim(1, 1))) return c.refuse(1, "rows as long as those of input 0");
  return c.set(0, DimVec<D>{c.dim(0, 0), c.dim(1, 0)});
}

template <class T>
Status compute(const Params& p, Call& call) {
  const int64_t m = call.shape(0)[0], n = call.shape(1)[0], k = call.shape(0)[1];
  const T *a = call.in<T>(0), *b = call.in<T>(1);
  T* y = call.out<T>(0);
  const int64_t rows = std::max<int64_t>(1, (1 << 15) / std::max<int64_t>(1, n * k));
  call.parallel(ceil_div(m, rows), [&](int64_t chunk, int) {
    for (int64_t i = chunk * rows; i < std::min(m, (chunk + 1) * rows) && !call.cancelled(); ++i)
      for (int64_t j = 0; j < n; ++j) {
        T sum = 0;
        for (int64_t d = 0; d < k; ++d) sum += (a[i * k + d] - b[j * k + d]) * (a[i * k + d] - b[j * k + d]);
        y[i * n + j] = p.metric ? std::sqrt(sum) : sum;
      }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute<float>>},
                               {kAllSame<double>, compute_with<Params, compute<double>>}};

}  // namespace

extern constexpr Op kMicrosoftCDist{.domain = kDomain,
                                    .name = "CDist",
                                    .versions = kVersions,
                                    .parse = parse_checked<Params, kArity, parse>,
                                    .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                    .kernels = kKernels};
extern constexpr OpInference kMicrosoftCDistInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
