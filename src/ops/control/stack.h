// Stack: tensors of equal shape, laid side by side along a new axis as a body produces them one by one.
#pragma once
#include "core/value.h"
#include "ir/fact.h"

namespace tessera {

class Stack {
 public:
  enum class Room : uint8_t {
    growing,  // grows with what comes; along axis 0 only
    exact,    // all of `most` elements will come
    gaps,     // like exact, but some may not: they are zeros (empty strings)
  };
  // `axis` of the result, negative counts from its end.
  Stack(int64_t axis, int64_t most, Room room) : axis_(axis), most_(most), room_(room) {}

  // Where element `at` may be written in place; empty if it has to be handed to put().
  Value place(int64_t at) const;
  // Element `at`, copied unless it was written in place. Refuses what is no tensor, or of another type or shape.
  Status put(int64_t at, const Value& element);
  // All elements, of which there are `count`. Without any, type and shape are what `element` says, unknown
  // dimensions 0.
  Result<Tensor> finish(int64_t count, DType dtype, const Fact& element);

 private:
  Status start(const Tensor& first);
  Status reserve(int64_t capacity);
  Result<Shape> shape_for(int64_t length) const;
  Status settle_axis(int element_rank);

  int64_t axis_, most_;
  Room room_;
  DType dtype_ = DType::undefined;
  Shape element_;
  int64_t outer_ = 1, inner_ = 1;  // of an element, around the new axis
  int64_t capacity_ = 0;
  Tensor all_;
};

}  // namespace tessera
