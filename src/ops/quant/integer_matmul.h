// Products of quantized matrices: zero points and scales per tensor, per row of A or per column of B.
#pragma once
#include "core/convert.h"
#include "kernels/gemm_generic.h"
#include "ops/nn/matmul_shape.h"

namespace tessera {

// Input `i` holds one number, or one for each row of matrix input A (rows: true) or each column of matrix input B.
template <class D>
Status check_per_line(ShapeCall<D>& c, int i, int matrix, bool rows) {
  if (!c.has(i)) return {};
  const D n = c.count(i);
  if (c.rank(i) == 0 || (known(n) && number(n) == 1)) return {};
  const int rank = c.rank(matrix), own = c.rank(i), line = rows ? rank - 2 : rank - 1;
  const char* wanted = rows ? "one number, or one for each row" : "one number, or one for each column";
  if (line < 0 || (rank < 2 && !rows)) return c.refuse(i, wanted);
  const auto same = [](const D& a, const D& b) { return !known(a) || !known(b) || number(a) == number(b); };
  if (own == 1) return same(c.dim(i, 0), c.dim(matrix, line)) ? Status{} : c.refuse(i, wanted);
  if (own != rank) return c.refuse(i, wanted);
  for (int k = 0; k < rank; ++k) {
    const bool across = k == (rows ? rank - 1 : rank - 2);
    if (!same(c.dim(i, k), across ? D(1) : c.dim(matrix, k))) return c.refuse(i, wanted);
  }
  return {};
}

// Numbers per line of a matrix input, as checked above.
template <class T>
class PerLine {
 public:
  PerLine(const Call& call, int i, T absent) {
    if (!call.has(i)) {
      values_ = {absent};
      return;
    }
    values_.resize(static_cast<size_t>(call.count(i)));
    decode(call.dtype(i), call.in(i), 0, call.count(i), values_.data());
    per_matrix_ = call.shape(i).rank() > 1;
  }
  // Of a line in matrix `index` of the input's batch; `lines`: how many a matrix has.
  T at(int64_t index, int64_t line, int64_t lines) const {
    if (values_.size() == 1) return values_[0];
    return values_[static_cast<size_t>(per_matrix_ ? index * lines + line : line)];
  }
  void round_each(DType type) {
    std::vector<uint16_t> bits(values_.size());
    encode(type, bits.data(), 0, static_cast<int64_t>(values_.size()), values_.data());
    decode(type, bits.data(), 0, static_cast<int64_t>(values_.size()), values_.data());
  }

 private:
  std::vector<T> values_;
  bool per_matrix_ = false;
};

// The matrices of input `i` with their zero points taken off, as E.
template <class E>
std::vector<E> centred(const Call& call, int i, int zero_point, bool rows) {
  const Shape& s = call.shape(i);
  const int64_t width = s[s.rank() - 1], height = s.rank() > 1 ? s[s.rank() - 2] : 1;
  const bool tall = !rows && s.rank() == 1;  // a vector on the right is a column
  using Wide = std::conditional_t<std::is_integral_v<E>, int64_t, float>;
  const PerLine<Wide> zero(call, zero_point, 0);
  std::vector<E> out(static_cast<size_t>(s.count()));
  std::vector<Wide> row(static_cast<size_t>(width));
  for (int64_t r = 0; r < (width ? s.count() / width : 0); ++r) {
    decode(call.dtype(i), call.in(i), r * width, width, row.data());
    for (int64_t j = 0; j < width; ++j) {
      const Wide z = rows ? zero.at(r / height, r % height, height) : zero.at(r / height, tall ? 0 : j, width);
      out[static_cast<size_t>(r * width + j)] = static_cast<E>(row[static_cast<size_t>(j)] - z);
    }
  }
  return out;
}

}  // namespace tessera
