// What the scoring operators of ai.onnx.ml share: post transforms, and class labels of either type.
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

}  // namespace tessera::ml
