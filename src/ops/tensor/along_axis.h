// GatherElements and ScatterElements: an index tensor that replaces one coordinate of its own positions.
#pragma once
#include "ops/movement.h"

namespace tessera {

// Indices of the rank of the data and, outside the axis, no larger than it. `i` is the input with the indices.
template <class D>
Status check_along_axis(ShapeCall<D>& c, int i, int64_t attribute) {
  const auto axis = normalize_axis(attribute, c.rank(0));
  if (!axis) return c.refuse(0, format("a tensor with an axis {}", attribute));
  if (c.rank(i) != c.rank(0)) return c.refuse(i, format("rank {}, as input 0 has", c.rank(0)));
  for (int k = 0; k < c.rank(0); ++k) {
    const D have = c.dim(0, k), want = c.dim(i, k);
    if (k != *axis && known(have) && known(want) && number(want) > number(have))
      return c.refuse(i, format("at most {} along axis {}, as input 0 has", number(have), k));
  }
  return {};
}

// Where the rows of an index tensor lie in the data: all of its dimensions but the last are odometer digits.
class AxisRows {
 public:
  AxisRows(const Shape& data, const Shape& index, int axis) : index_(index), last_(data.rank() - 1), axis_(axis) {
    strides_of(data.dims(), strides_);
  }
  int64_t rows() const { return index_.count(0, last_); }
  int64_t row_length() const { return index_[last_]; }
  // fn(k, at) for each index k of the rows [begin, end): `at` is the offset in the data with index 0 along the axis,
  // and step() is added once per index.
  template <class F>
  void each(int64_t begin, int64_t end, F&& fn) const {
    const int64_t n = row_length(), along = axis_ == last_ ? 0 : 1;
    for (int64_t row = begin; row < end; ++row) {
      int64_t at = 0;
      for (int64_t rest = row, d = last_ - 1; d >= 0; rest /= index_[static_cast<int>(d)], --d)
        if (d != axis_) at += rest % index_[static_cast<int>(d)] * strides_[d];
      for (int64_t j = 0; j < n; ++j) fn(row * n + j, at + j * along);
    }
  }
  int64_t step() const { return strides_[axis_]; }

 private:
  const Shape& index_;
  int last_, axis_;
  int64_t strides_[kMaxRank];
};

}  // namespace tessera
