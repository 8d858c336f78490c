// What the scoring operators of ai.onnx.ml share: post transforms, class labels of either type, types and rows.
#pragma once
#include <cmath>

#include "ops/op.h"

namespace tessera::ml {

enum class PostTransform : uint8_t { none, softmax, logistic, softmax_zero, probit };

// The attribute of that name, "NONE" where it is absent.
Status get_post_transform(Attrs& attrs, PostTransform& out);
// In place, over the scores of one row.
template <class T>
void apply(PostTransform t, std::span<T> scores);
template <class T>
T logistic(T x);
template <class T>
T probit(T p);

// The names of classes: integers or strings, never both.
struct Labels {
  std::vector<int64_t> numbers;
  std::vector<std::string> names;

  bool are_strings() const { return !names.empty(); }
  int64_t size() const { return static_cast<int64_t>(are_strings() ? names.size() : numbers.size()); }
  DType dtype() const { return are_strings() ? DType::string : DType::i64; }
  // Label k into element i of an output of dtype().
  void store(int64_t k, void* out, int64_t i) const {
    if (are_strings())
      static_cast<std::string*>(out)[i] = names[static_cast<size_t>(k)];
    else
      static_cast<int64_t*>(out)[i] = numbers[static_cast<size_t>(k)];
  }
};
Status get_labels(Attrs& attrs, std::string_view numbers, std::string_view names, Labels& out);

// Rows and columns of an input of shape [N, C], or [C] for a single row.
template <class D>
Status rows_of(ShapeCall<D>& c, D& rows, D& columns) {
  if (c.rank(0) != 1 && c.rank(0) != 2) return c.refuse(0, "a tensor of shape [N,C] or [C]");
  rows = c.rank(0) == 1 ? D(1) : c.dim(0, 0);
  columns = c.dim(0, c.rank(0) - 1);
  return {};
}
inline int64_t columns_of(const Call& call) { return call.shape(0)[call.shape(0).rank() - 1]; }
inline int64_t rows_of(const Call& call) { return call.shape(0).rank() == 1 ? 1 : call.shape(0)[0]; }
// The rows of an input that must have so many columns.
template <class D>
Status rows_with(ShapeCall<D>& c, int64_t wanted, D& rows) {
  D columns = 1;
  TRY(rows_of(c, rows, columns));
  if (known(columns) && number(columns) != wanted) return c.refuse(0, format("{} features", wanted));
  return {};
}

// Calls f(row) for all rows, in pieces of fixed size.
template <class F>
Status for_rows(Call& call, int64_t work_per_row, F&& f) {
  const int64_t rows = rows_of(call), piece = std::max<int64_t>(1, (1 << 16) / std::max<int64_t>(1, work_per_row));
  call.parallel(ceil_div(rows, piece), [&](int64_t chunk, int) {
    if (call.cancelled()) return;
    for (int64_t r = chunk * piece; r < std::min(rows, (chunk + 1) * piece); ++r) f(r);
  });
  return call.cancelled() ? call.stopped() : Status{};
}

// Output 0: labels, which the parameters P hold; output 1: scores.
template <class P>
void classifier_types(TypeCall& c) {
  c.out[0] = {Kind::tensor, static_cast<const P*>(c.params)->labels.dtype(), Kind::tensor};
  if (c.out.size() > 1) c.out[1] = {Kind::tensor, DType::f32, Kind::tensor};
}
template <class D>
Status set_classified(ShapeCall<D>& c, const D& rows, int64_t scores) {
  TRY(c.set(0, DimVec<D>{rows}));
  return c.outputs() > 1 ? c.set(1, DimVec<D>{rows, D(scores)}) : Status{};
}

inline constexpr TypeRule kRegressorTypes[] = {
    {in_arg(0), set_of(DType::f32), set_of(DType::f64, DType::i32, DType::i64)}, {out_arg(0), set_of(DType::f32)}};
inline constexpr TypeRule kClassifierTypes[] = {
    {in_arg(0), set_of(DType::f32), set_of(DType::f64, DType::i32, DType::i64)},
    {out_arg(0), set_of(DType::i64, DType::string)},
    {out_arg(1), set_of(DType::f32)}};

}  // namespace tessera::ml
