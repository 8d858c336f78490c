// What LayerNormalization and RMSNormalization share: everything from an axis on is one row, normalised and then scaled
// (and shifted) by tensors that broadcast to the whole input.
#pragma once
#include <cmath>

#include "kernels/vmath.h"
#include "ops/elementwise.h"

namespace tessera {

struct RowNormParams {
  int64_t axis = -1;
  float epsilon = 1e-5f;
  DType stash_type = DType::f32;

  static Status parse(Attrs& a, RowNormParams& p) {
    a.get("axis", p.axis);
    a.get("epsilon", p.epsilon);
    a.get("stash_type", p.stash_type);
    return {};
  }
};

// Output 0 is like input 0, further ones hold one element per row.
template <class D>
Status row_norm_shape(const RowNormParams& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  const auto axis = normalize_axis(p.axis, rank);
  if (!axis) return c.refuse(0, format("a tensor that has axis {}", p.axis));
  for (int i = 1; i < c.inputs(); ++i) {
    if (!c.has(i)) continue;
    if (c.rank(i) > rank) return c.refuse(i, "a shape that broadcasts to that of input 0");
    for (int k = 0; k < c.rank(i); ++k) {
      const D a = c.dim(i, k), b = c.dim(0, rank - c.rank(i) + k);
      if (known(a) && number(a) != 1 && known(b) && number(a) != number(b))
        return c.refuse(i, "a shape that broadcasts to that of input 0");
    }
  }
  TRY(c.set(0, c.dims(0)));
  DimVec<D> row(c.dims(0));
  for (int k = *axis; k < rank; ++k) row[k] = D(1);
  for (int o = 1; o < c.outputs(); ++o) TRY(c.set(o, row));
  return {};
}

// True if the input (absent counts) is the same for all rows and gives each of their elements its own value.
inline bool is_row(const Call& call, int i, int axis) {
  if (!call.has(i)) return true;
  const auto strip = [](std::span<const int64_t> dims) {
    while (!dims.empty() && dims.front() == 1) dims = dims.subspan(1);
    return dims;
  };
  const auto own = strip(call.shape(i).dims()), row = strip(call.shape(0).dims().subspan(static_cast<size_t>(axis)));
  return std::equal(own.begin(), own.end(), row.begin(), row.end());
}

// y = y * scale + bias for the whole of output 0, any broadcasting; bias may be null.
template <class T>
void scale_and_shift(const Call& call, T* y, const T* scale, const T* bias) {
  const Shape& shape = call.shape(0);
  const std::span<const int64_t> inputs[] = {call.shape(1).dims(),
                                             bias ? call.shape(2).dims() : std::span<const int64_t>()};
  BroadcastRows(shape, inputs).run(call.threads(), [&](const BroadcastRows::Row& r) {
    for (int64_t i = 0; i < r.n; ++i) {
      T& v = y[r.out + i];
      v *= scale[r.in[0] + i * r.step[0]];
      if (bias) v += bias[r.in[1] + i * r.step[1]];
    }
  });
}

// fn(row) for all rows, several short ones to a chunk.
template <class F>
void each_row(const Call& call, int64_t rows, int64_t cols, F&& fn) {
  const int64_t each = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, cols));
  call.parallel(ceil_div(rows, each), [&](int64_t chunk, int) {
    for (int64_t r = chunk * each; r < std::min(rows, (chunk + 1) * each); ++r) fn(r);
  });
}

}  // namespace tessera
