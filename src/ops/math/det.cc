// Det — the determinants of square matrices, by elimination with the largest element of each column as pivot.
#include <cmath>

#include "ops/agree.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

template <class D>
Status shape(ShapeCall<D>& c) {
  const int rank = c.rank(0);
  if (rank < 2 || !agree(c.dim(0, rank - 2), c.dim(0, rank - 1))) return c.refuse(0, "square matrices");
  return c.set(0, c.dims(0).first(static_cast<size_t>(rank - 2)));
}

// A product that leaves the range of double only at the end.
class Product {
 public:
  void multiply(double v) {
    int e = 0;
    mantissa_ = std::frexp(mantissa_ * v, &e);
    exponent_ += e;
  }
  double value() const {
    return std::ldexp(mantissa_, static_cast<int>(std::clamp<int64_t>(exponent_, -(1 << 20), 1 << 20)));
  }

 private:
  double mantissa_ = 1;
  int64_t exponent_ = 0;
};

// NaN counts as the largest, so that it reaches the result.
int64_t pivot_row(const double* a, int64_t n, int64_t k) {
  int64_t best = k;
  for (int64_t i = k + 1; i < n; ++i)
    if (const double v = std::abs(a[i * n + k]), b = std::abs(a[best * n + k]); v > b || (v != v && b == b)) best = i;
  return best;
}

// 0, or NaN if an element is not finite.
double zero_times(const double* a, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += 0 * a[i];
  return sum;
}

// Of the n x n matrix a, which is overwritten. Rows are cut over the pool when there is enough to do.
double determinant(const Call& call, double* a, int64_t n) {
  Product product;
  for (int64_t k = 0; k < n && !call.cancelled(); ++k) {
    const int64_t best = pivot_row(a, n, k);
    const double pivot = a[best * n + k];
    if (pivot == 0) return zero_times(a, n * n);
    if (best != k) std::swap_ranges(a + best * n + k, a + best * n + n, a + k * n + k);
    product.multiply(best == k ? pivot : -pivot);
    const int64_t rows = n - k - 1, each = std::max<int64_t>(1, (1 << 14) / (n - k));
    const auto eliminate = [&](int64_t chunk, int) {
      for (int64_t i = k + 1 + chunk * each; i < std::min(n, k + 1 + (chunk + 1) * each); ++i) {
        const double factor = a[i * n + k] / pivot;
        for (int64_t j = k + 1; j < n; ++j) a[i * n + j] -= factor * a[k * n + j];
      }
    };
    if (rows <= each)
      eliminate(0, 0);
    else
      call.parallel(ceil_div(rows, each), eliminate);
  }
  return product.value();
}

template <class T>
Status compute(Call& call) {
  const Shape& s = call.shape(0);
  const int64_t n = s[s.rank() - 1], size = n * n, count = call.out_count(0);
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  const auto one = [&](int64_t i, int lane) {
    auto* a = call.scratch<double>(lane);
    std::copy_n(x + i * size, size, a);
    y[i] = static_cast<T>(determinant(call, a, n));
  };
  if (size >= 1 << 14) {
    for (int64_t i = 0; i < count && !call.cancelled(); ++i) one(i, 0);
  } else {
    const int64_t each = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, size * n));
    call.parallel(ceil_div(count, each), [&](int64_t chunk, int lane) {
      for (int64_t i = chunk * each; i < std::min(count, (chunk + 1) * each) && !call.cancelled(); ++i) one(i, lane);
    });
  }
  return call.cancelled() ? call.stopped() : Status{};
}

int64_t scratch(const void*, const ScratchCall& in) {
  const Shape& s = *in[0];
  return s.count() == 0 ? 0 : s[s.rank() - 1] * s[s.rank() - 1] * static_cast<int64_t>(sizeof(double));
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_plain<compute<float>>},
                               {kAllSame<double>, compute_plain<compute<double>>}};
constexpr int16_t kVersions[] = {11, 22};

}  // namespace

extern constexpr Op kDet{.domain = "",
                         .name = "Det",
                         .versions = kVersions,
                         .shape = shape_plain<int64_t, shape<int64_t>>,
                         .kernels = kKernels,
                         .scratch = scratch};
extern constexpr OpInference kDetInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
