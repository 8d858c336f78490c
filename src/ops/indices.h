// Indexes read from a tensor: refused once, before anything is written, then used without further checks.
#pragma once
#include "ops/op.h"

namespace tessera {

// The int32 or int64 elements of an input, all inside [-n, n); negative ones count from the end.
class Indices {
 public:
  static Result<Indices> checked(const Call& call, int i, int64_t n) {
    const Indices all(call, i, n);
    for (int64_t k = 0, count = call.count(i); k < count; ++k)
      if (const int64_t v = all.raw(k); v < -n || v >= n)
        return call.refuse(i, "indices from -{} to {} (element {} is {})", n, n - 1, k, v);
    return all;
  }
  int64_t operator[](int64_t k) const {
    const int64_t v = raw(k);
    return v < 0 ? v + n_ : v;
  }

 private:
  Indices(const Call& call, int i, int64_t n) : data_(call.in(i)), wide_(call.dtype(i) == DType::i64), n_(n) {}
  int64_t raw(int64_t k) const {
    return wide_ ? static_cast<const int64_t*>(data_)[k] : static_cast<const int32_t*>(data_)[k];
  }
  const void* data_;
  bool wide_;
  int64_t n_;
};

// The rows of an input [..., width]: each is a position in the first `width` of `dims`.
class IndexTuples {
 public:
  // `dims` must outlive the object; the input's last dimension is at most their number.
  static Result<IndexTuples> checked(const Call& call, int i, std::span<const int64_t> dims) {
    const Shape& shape = call.shape(i);
    const int64_t width = shape[shape.rank() - 1];
    IndexTuples all(call, i, dims.first(static_cast<size_t>(width)));
    for (int64_t k = 0, count = call.count(i); k < count; ++k)
      if (const int64_t n = dims[static_cast<size_t>(k % width)], v = call.integer(i, k); v < -n || v >= n)
        return call.refuse(i, "indices from -{} to {} (element {} is {})", n, n - 1, k, v);
    return all;
  }
  // The row-major number of the position in row k.
  int64_t offset(int64_t k) const {
    int64_t at = 0;
    for (size_t d = 0; d < dims_.size(); ++d) {
      const int64_t e = k * static_cast<int64_t>(dims_.size()) + static_cast<int64_t>(d);
      const int64_t v = wide_ ? static_cast<const int64_t*>(data_)[e] : static_cast<const int32_t*>(data_)[e];
      at = at * dims_[d] + (v < 0 ? v + dims_[d] : v);
    }
    return at;
  }

 private:
  IndexTuples(const Call& call, int i, std::span<const int64_t> dims)
      : data_(call.in(i)), wide_(call.dtype(i) == DType::i64), dims_(dims) {}
  const void* data_;
  bool wide_;
  std::span<const int64_t> dims_;
};

}  // namespace tessera
