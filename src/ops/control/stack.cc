#include "ops/control/stack.h"

#include "ops/movement.h"

namespace tessera {

Status Stack::settle_axis(int element_rank) {
  const auto axis = normalize_axis(axis_, element_rank + 1);
  if (!axis) return invalid("axis {} is outside a result of rank {}", axis_, element_rank + 1);
  axis_ = *axis;
  return {};
}

Result<Shape> Stack::shape_for(int64_t length) const {
  std::vector<int64_t> dims(element_.dims().begin(), element_.dims().end());
  dims.insert(dims.begin() + static_cast<std::ptrdiff_t>(axis_), length);
  return Shape::checked(dims);
}

Status Stack::start(const Tensor& first) {
  dtype_ = first.dtype();
  element_ = first.shape();
  TRY(settle_axis(element_.rank()));
  const int axis = static_cast<int>(axis_);
  outer_ = element_.count(0, axis);
  inner_ = element_.count(axis, element_.rank());
  constexpr int64_t kFirst = 8;
  return reserve(room_ == Room::growing ? std::min(most_, kFirst) : most_);
}

Status Stack::reserve(int64_t capacity) {
  TRY_ASSIGN(shape, shape_for(capacity));
  TRY_ASSIGN(more, Tensor::allocate(dtype_, shape));
  if (all_.empty()) {
    if (room_ == Room::gaps && dtype_ != DType::string && more.bytes() > 0)
      std::memset(more.mutable_data(), 0, static_cast<size_t>(more.bytes()));
    clear_sub_byte(dtype_, more.mutable_data(), more.count());
  } else if (dtype_ == DType::string) {
    auto* from = static_cast<std::string*>(all_.mutable_data());
    std::move(from, from + capacity_ * inner_, static_cast<std::string*>(more.mutable_data()));
  } else {
    clear_sub_byte(dtype_, more.mutable_data(), more.count());
    copy_elements(dtype_, all_.data(), 0, more.mutable_data(), 0, capacity_ * inner_);
  }
  all_ = std::move(more);
  capacity_ = capacity;
  return {};
}

Value Stack::place(int64_t at) const {
  if (all_.empty() || at >= capacity_ || outer_ != 1 || dtype_ == DType::string) return {};
  const int64_t bits = at * inner_ * bits_of(dtype_);
  if (bits % 8 != 0 || (is_sub_byte(dtype_) && inner_ * bits_of(dtype_) % 8 != 0)) return {};
  return Tensor(dtype_, element_, all_.storage(), static_cast<uint64_t>(bits / 8));
}

Status Stack::put(int64_t at, const Value& element) {
  const Tensor* t = element.tensor();
  if (!t) return invalid("an element of a scan output is {}, wanted a tensor", element.describe());
  if (all_.empty()) TRY(start(*t));
  if (t->dtype() != dtype_ || !(t->shape() == element_))
    return invalid("element {} of a scan output is {}, wanted tensor({}){} like the first", at, element.describe(),
                   name_of(dtype_), element_.dims());
  if (at >= capacity_) TRY(reserve(capacity_ < most_ / 2 ? capacity_ * 2 : most_));
  const Value in_place = place(at);
  if (in_place.tensor() && in_place.tensor()->data() == t->data()) return {};
  for (int64_t o = 0; o < outer_; ++o)
    copy_elements(dtype_, t->data(), o * inner_, all_.mutable_data(), (o * capacity_ + at) * inner_, inner_);
  return {};
}

Result<Tensor> Stack::finish(int64_t count, DType dtype, const Fact& element) {
  if (!all_.empty()) {
    TRY_ASSIGN(shape, shape_for(count));
    return all_.reshaped(std::move(shape));
  }
  std::vector<int64_t> dims;
  if (element.shape)
    for (const Dim& d : *element.shape) dims.push_back(d.known() && d.value() > 0 ? d.value() : 0);
  element_ = Shape(dims);
  TRY(settle_axis(element_.rank()));
  TRY_ASSIGN(shape, shape_for(count));
  TRY_ASSIGN(none, Tensor::allocate(dtype, shape));
  if (room_ == Room::gaps && dtype != DType::string && none.bytes() > 0)
    std::memset(none.mutable_data(), 0, static_cast<size_t>(none.bytes()));
  return std::move(none);
}

}  // namespace tessera
