// Products of quantized matrices: zero points and scales per tensor, per row of A or per column of B.
#pragma once
#include "core/convert.h"
#include "kernels/gemm_generic.h"
#include "kernels/gemm_i8.h"
#include "ops/nn/matmul_shape.h"
#include "ops/nn/panel_room.h"

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
  bool one() const { return values_.size() == 1; }
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

// Zero points per line of a matrix of bytes, as checked above.
class LineZeros {
 public:
  LineZeros(const Call& call, int i) {
    if (!call.has(i)) return;
    std::vector<int64_t> values(static_cast<size_t>(call.count(i)));
    decode(call.dtype(i), call.in(i), 0, call.count(i), values.data());
    values_.assign(values.begin(), values.end());
    per_matrix_ = call.shape(i).rank() > 1;
  }
  bool one() const { return values_.size() <= 1; }
  // Of matrix `index` of the input's batch; `lines`: how many a matrix has.
  ZeroPoints of(int64_t index, int64_t lines) const {
    if (values_.empty()) return {};
    if (one()) return {values_.data(), 0};
    return {values_.data() + (per_matrix_ ? index * lines : 0), 1};
  }

 private:
  std::vector<int32_t> values_;
  bool per_matrix_ = false;
};

// The inputs of a product of bytes.
struct ByteMatrices {
  int a, a_zero, b, b_zero;
};

// A part of a product: rows from `row` on and columns from `column` on, which begins a panel of the packed matrix.
inline GemmI8 part_of(GemmI8 g, int64_t row, int64_t rows, int64_t column, int64_t columns, int32_t* c, int64_t ldc) {
  g.m = rows;
  g.n = columns;
  g.a = static_cast<const uint8_t*>(g.a) + row * g.lda;
  g.packed_b = static_cast<const uint8_t*>(g.packed_b) + gemm_i8_packed_bytes(column, g.k);
  if (g.a_zero.values) g.a_zero.values += row * g.a_zero.step;
  if (g.b_zero.values) g.b_zero.values += column * g.b_zero.step;
  g.c = c;
  g.ldc = ldc;
  return g;
}

// Calls multiply(g, i, a_index, b_index) for all matrices of a batch: g is the product that makes matrix i of the
// output, modulo 2^32, but for the place where it goes.
template <class Multiply>
Status each_integer_product(Call& call, const MatMulBatch& p, const ByteMatrices& in, Multiply&& multiply) {
  const LineZeros a_zero(call, in.a_zero), b_zero(call, in.b_zero);
  const auto *a = call.in<uint8_t>(in.a), *b = call.in<uint8_t>(in.b);
  GemmI8 g;
  g.m = p.m;
  g.n = p.n;
  g.k = p.k;
  g.lda = p.k;
  g.ldc = p.n;
  g.a_signed = call.dtype(in.a) == DType::i8;
  g.b_signed = call.dtype(in.b) == DType::i8;
  g.packed_b = call.packed(in.b);
  PanelRoom room;
  void* panel = nullptr;
  if (!g.packed_b) {
    TRY_ASSIGN(fresh, room.get(call, static_cast<int64_t>(gemm_i8_packed_bytes(p.n, p.k))));
    panel = fresh;
  }
  int64_t packed_index = -1;
  p.each([&](int64_t i, int64_t ia, int64_t ib) {
    if (panel && ib != packed_index) {
      gemm_i8_pack_b(call.target(), call.threads(), b + ib * p.k * p.n, p.n, p.k, p.n, panel);
      g.packed_b = panel;
      packed_index = ib;
    }
    g.a = a + ia * p.m * p.k;
    g.a_zero = a_zero.of(ia, p.m);
    g.b_zero = b_zero.of(ib, p.n);
    multiply(static_cast<const GemmI8&>(g), i, ia, ib);
  });
  return {};
}

// Products of all matrices of a batch, modulo 2^32. Before each, place(i) tells where matrix i of the output goes;
// after it, done(i, a_index, b_index) is called.
template <class Place, class Done>
Status integer_products(Call& call, const MatMulBatch& p, const ByteMatrices& in, Place&& place, Done&& done) {
  return each_integer_product(call, p, in, [&](GemmI8 g, int64_t i, int64_t ia, int64_t ib) {
    g.c = place(i);
    gemm_i8(call.target(), call.threads(), g);
    done(i, ia, ib);
  });
}

// For an operator whose input B is the right matrix.
template <int B>
int64_t packed_byte_matrix(const PackCall& c) {
  const Shape& b = c.shape(B);
  return b.rank() == 2 ? static_cast<int64_t>(gemm_i8_packed_bytes(b[1], b[0])) : 0;
}
template <int B>
void pack_byte_matrix(const PackCall& c, void* out) {
  const Shape& b = c.shape(B);
  gemm_i8_pack_b(best_target(), c.threads, c.tensor(B).data(), b[1], b[0], b[1], out);
}
template <int B>
constexpr Packing byte_matrix() {
  return {B, "I8.P16x4", packed_byte_matrix<B>, pack_byte_matrix<B>, nullptr, set_of(DType::i8, DType::u8)};
}
template <int B>
int64_t byte_matrix_scratch(const void*, const ScratchCall& in) {
  const Shape& b = *in[B];
  if (b.rank() == 0 || in.is_packed(B)) return 0;
  const int r = b.rank();
  return panel_scratch(static_cast<int64_t>(gemm_i8_packed_bytes(r > 1 ? b[r - 1] : 1, b[r > 1 ? r - 2 : 0])));
}

}  // namespace tessera
