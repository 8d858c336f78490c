// Shape: the dimensions of a tensor. Up to 8 of them inline, up to 64 in all; every shape that exists has
// non-negative dimensions whose product fits in 63 bits.
#pragma once
#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/checked.h"
#include "base/status.h"
#include "core/dtype.h"

namespace tessera {

inline constexpr int kMaxRank = 64;

// A tensor seen as [outer, length, inner] around one axis.
struct Slices {
  int64_t outer, length, inner;
};

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<int64_t> dims) { assign({dims.begin(), dims.size()}); }
  explicit Shape(std::span<const int64_t> dims) { assign(dims); }
  Shape(const Shape& other) { assign(other.dims()); }
  Shape(Shape&& other) noexcept = default;
  Shape& operator=(const Shape& other) {
    if (this != &other) assign(other.dims());
    return *this;
  }
  Shape& operator=(Shape&& other) noexcept = default;

  // Takes over dimensions that were checked already.
  void assign(std::span<const int64_t> dims) {
    if (dims.size() > kInline && (!more_ || static_cast<int>(dims.size()) > rank_))
      more_.reset(new int64_t[dims.size()]);
    rank_ = static_cast<int>(dims.size());
    if (rank_ <= kInline) more_.reset();
    std::copy(dims.begin(), dims.end(), more_ ? more_.get() : dims_);
  }

  // The one way to make a Shape from numbers nobody has checked.
  static Result<Shape> checked(std::span<const int64_t> dims);

  int rank() const { return rank_; }
  int64_t operator[](int i) const { return data()[i]; }
  std::span<const int64_t> dims() const { return {data(), static_cast<size_t>(rank_)}; }
  int64_t count() const { return count(0, rank_); }
  int64_t count(int begin, int end) const {
    int64_t n = 1;
    for (int i = begin; i < end; ++i) n *= data()[i];
    return n;
  }
  Slices around(int axis) const { return {count(0, axis), (*this)[axis], count(axis + 1, rank_)}; }
  std::string str() const { return format("{}", dims()); }

  friend bool operator==(const Shape& a, const Shape& b) {
    return a.rank_ == b.rank_ && std::equal(a.data(), a.data() + a.rank_, b.data());
  }

 private:
  static constexpr int kInline = 8;
  const int64_t* data() const { return more_ ? more_.get() : dims_; }

  int64_t dims_[kInline] = {};
  int rank_ = 0;
  std::unique_ptr<int64_t[]> more_;  // all dimensions, when there are more than kInline
};

// Bytes that `count` elements take in memory, sub-byte types packed; nothing if that overflows.
std::optional<int64_t> bytes_for(DType dtype, int64_t count);

// Brings an axis into [0, rank); nothing if it lies outside [-rank, rank).
inline std::optional<int> normalize_axis(int64_t axis, int rank) {
  if (axis < -rank || axis >= rank) return {};
  return static_cast<int>(axis < 0 ? axis + rank : axis);
}

// Row-major strides in elements.
inline void strides_of(std::span<const int64_t> dims, int64_t* strides) {
  int64_t step = 1;
  for (size_t i = dims.size(); i-- > 0;) {
    strides[i] = step;
    step *= dims[i];
  }
}

}  // namespace tessera
