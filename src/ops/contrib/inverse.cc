// Inverse — of every matrix in a stack, by elimination with the largest pivot of each column. A singular matrix gives
// infinities or NaNs.
#include <cmath>

#include "ops/agree.h"
#include "ops/contrib/contrib.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kArity{in_arg(0), 1};

template <class D>
Status shape(ShapeCall<D>& c) {
  const int rank = c.rank(0);
  if (rank < 2 || !agree(c.dim(0, rank - 1), c.dim(0, rank - 2))) return c.refuse(0, "square matrices");
  return c.set(0, c.dims(0));
}

// x becomes its inverse by way of `work`, n * n elements.
template <class T>
void invert(int64_t n, const T* x, T* work, T* y) {
  std::copy(x, x + n * n, work);
  std::fill(y, y + n * n, T{0});
  for (int64_t i = 0; i < n; ++i) y[i * n + i] = 1;
  for (int64_t k = 0; k < n; ++k) {
    int64_t pivot = k;
    for (int64_t r = k + 1; r < n; ++r)
      if (std::fabs(work[r * n + k]) > std::fabs(work[pivot * n + k])) pivot = r;
    if (pivot != k) {
      std::swap_ranges(work + k * n, work + (k + 1) * n, work + pivot * n);
      std::swap_ranges(y + k * n, y + (k + 1) * n, y + pivot * n);
    }
    const T factor = 1 / work[k * n + k];
    for (int64_t j = 0; j < n; ++j) {
      work[k * n + j] *= factor;
      y[k * n + j] *= factor;
    }
    for (int64_t r = 0; r < n; ++r) {
      const T times = work[r * n + k];
      if (r == k || times == 0) continue;
      for (int64_t j = 0; j < n; ++j) {
        work[r * n + j] -= times * work[k * n + j];
        y[r * n + j] -= times * y[k * n + j];
      }
    }
  }
}

template <class T>
Status compute(Call& call) {
  const Shape& s = call.shape(0);
  const int64_t n = s[s.rank() - 1], each = n * n;
  if (each == 0) return {};
  call.parallel(call.count(0) / each, [&](int64_t i, int lane) {
    if (!call.cancelled()) invert(n, call.in<T>(0) + i * each, call.scratch<T>(lane), call.out<T>(0) + i * each);
  });
  return call.cancelled() ? call.stopped() : Status{};
}

int64_t scratch(const void*, const ScratchCall& in) {
  const Shape& s = *in[0];
  const int64_t n = s[s.rank() - 1];
  return s.count() ? n * n * static_cast<int64_t>(sizeof(double)) : 0;
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_plain<compute<float>>},
                               {kAllSame<double>, compute_plain<compute<double>>}};

}  // namespace

extern constexpr Op kMicrosoftInverse{.domain = kDomain,
                                      .name = "Inverse",
                                      .versions = kVersions,
                                      .parse = parse_nothing<kArity>,
                                      .shape = shape_plain<int64_t, shape<int64_t>>,
                                      .kernels = kKernels,
                                      .scratch = scratch};
extern constexpr OpInference kMicrosoftInverseInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
