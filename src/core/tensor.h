// Tensor: element type, shape and shared storage. Copying a Tensor shares its bytes.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "base/bytes.h"
#include "core/shape.h"

namespace tessera {

class Tensor {
 public:
  Tensor() = default;
  // A view of `storage` starting at `offset`. The caller has checked that shape fits, and alignment.
  Tensor(DType dtype, Shape shape, BytesPtr storage, uint64_t offset = 0)
      : dtype_(dtype), shape_(std::move(shape)), storage_(std::move(storage)), offset_(offset) {}

  // Fresh storage, uninitialised (strings: empty) with room for `capacity` elements if that is more than the shape has.
  static Result<Tensor> allocate(DType dtype, Shape shape, int64_t capacity = 0);
  template <class T>
  static Result<Tensor> of(Shape shape, std::span<const T> values);
  template <class T>
  static Result<Tensor> scalar(T value) {
    return of<T>(Shape{}, std::span<const T>(&value, 1));
  }

  bool empty() const { return dtype_ == DType::undefined; }
  DType dtype() const { return dtype_; }
  const Shape& shape() const { return shape_; }
  int64_t count() const { return shape_.count(); }
  int64_t bytes() const { return bytes_for(dtype_, shape_.count()).value_or(0); }
  // Bytes of storage from the first element on: what the tensor may grow into in place.
  int64_t capacity_bytes() const { return storage_ ? static_cast<int64_t>(storage_->size() - offset_) : 0; }
  const void* data() const { return storage_ ? storage_->data() + offset_ : nullptr; }
  // Writing is for whoever just allocated it, or owns the only reference.
  void* mutable_data() { return storage_ ? const_cast<Bytes&>(*storage_).data() + offset_ : nullptr; }
  template <class T>
  std::span<const T> values() const {
    return {static_cast<const T*>(data()), static_cast<size_t>(count())};
  }
  bool unique() const { return storage_.use_count() == 1; }
  const BytesPtr& storage() const { return storage_; }
  uint64_t offset() const { return offset_; }
  // The same elements under another shape of equal count.
  Tensor reshaped(Shape shape) const { return {dtype_, std::move(shape), storage_, offset_}; }

 private:
  DType dtype_ = DType::undefined;
  Shape shape_;
  BytesPtr storage_;
  uint64_t offset_ = 0;
};

// Storage for `count` strings, constructed empty.
Result<std::shared_ptr<Bytes>> allocate_strings(int64_t count);

template <class T>
Result<Tensor> Tensor::of(Shape shape, std::span<const T> values) {
  if (shape.count() != static_cast<int64_t>(values.size()))
    return invalid("shape {} wants {} values, got {}", shape.dims(), shape.count(), values.size());
  TRY_ASSIGN(t, allocate(dtype_of<T>, std::move(shape)));
  std::copy(values.begin(), values.end(), static_cast<T*>(t.mutable_data()));
  return std::move(t);
}

}  // namespace tessera
