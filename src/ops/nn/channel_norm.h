// What normalisations of [batch, channels, ...] share.
#pragma once
#include <cmath>

#include "kernels/rows.h"
#include "kernels/vmath.h"
#include "ops/elementwise.h"

namespace tessera {

// y = x * a + b for n elements; a and b advance by `step` (0 or 1). y may be x.
template <class T>
void multiply_add(Target target, const T* x, const T* a, const T* b, int64_t step, T* y, int64_t n) {
  if constexpr (std::is_same_v<T, float>) {
    if (n >= 16) {
      binary_f32(target, Binary::mul, x, 1, a, step, y, n);
      binary_f32(target, Binary::add, y, 1, b, step, y, n);
      return;
    }
  }
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] * a[i * step] + b[i * step];
}

// Mean 0 and variance 1 for n elements.
template <class T>
void standardise(Target target, const T* x, T* y, int64_t n, float epsilon) {
  if constexpr (std::is_same_v<T, float>) {
    NormRows norm;
    norm.epsilon = epsilon;
    layer_norm_rows(target, 1, x, y, 1, n, norm);
  } else {
    T sum = 0, squares = 0;
    for (int64_t i = 0; i < n; ++i) sum += x[i];
    const T mean = sum / static_cast<T>(n);
    for (int64_t i = 0; i < n; ++i) squares += (x[i] - mean) * (x[i] - mean);
    const T factor = 1 / std::sqrt(squares / static_cast<T>(n) + static_cast<T>(epsilon));
    for (int64_t i = 0; i < n; ++i) y[i] = (x[i] - mean) * factor;
  }
}

// Input 0 [batch, channels, ...] standardised by groups of channels, then scaled and shifted by inputs 1 and 2, which
// hold one element per channel or, if `per_group`, one per group.
template <class T>
Status normalise_groups(Call& call, int64_t groups, bool per_group, float epsilon) {
  const Shape& shape = call.shape(0);
  const int64_t batch = shape[0], channels = shape[1], inner = shape.count(2, shape.rank());
  if (batch * channels * inner == 0) return {};
  const int64_t group = channels / groups, size = group * inner, tasks = batch * groups;
  const int64_t each = std::max<int64_t>(1, (1 << 14) / size);
  const T *x = call.in<T>(0), *scale = call.in<T>(1), *bias = call.in<T>(2);
  T* y = call.out<T>(0);
  call.parallel(ceil_div(tasks, each), [&](int64_t chunk, int) {
    for (int64_t t = chunk * each; t < std::min(tasks, (chunk + 1) * each) && !call.cancelled(); ++t) {
      T* out = y + t * size;
      standardise(call.target(), x + t * size, out, size, epsilon);
      for (int64_t c = 0; c < group; ++c) {
        const int64_t of = per_group ? t % groups : t % groups * group + c;
        multiply_add(call.target(), out + c * inner, scale + of, bias + of, 0, out + c * inner, inner);
      }
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

// Refuses an input that is not a list of n elements.
template <class D>
Status want_list(ShapeCall<D>& c, int i, const D& n, std::string_view wanted) {
  if (c.rank(i) != 1 || (known(n) && known(c.dim(i, 0)) && number(n) != number(c.dim(i, 0))))
    return c.refuse(i, wanted);
  return {};
}

}  // namespace tessera
