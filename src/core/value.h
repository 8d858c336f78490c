// Value: anything that flows along an edge of an ONNX graph. Sequences and the like share their elements by reference
// count, and are copied only when somebody writes to one that is shared.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "core/tensor.h"

namespace tessera {

class Value;

// COO: `indices` is [nnz, rank] or [nnz] int64, `values` is [nnz].
struct SparseTensor {
  Shape shape;
  Tensor values, indices;
};

struct Sequence {
  DType element = DType::undefined;  // of the tensors inside, where known
  std::vector<Value> items;
};

// Keys are int64 or string; kept in key order.
struct Map {
  std::variant<std::map<int64_t, Value>, std::map<std::string, Value>> entries;
};

// An optional that holds nothing. An optional that holds something is that something.
struct None {};

class Value {
 public:
  Value() = default;
  Value(const Value&) = default;
  Value& operator=(const Value&) = default;
  // What was moved from is empty.
  Value(Value&& o) noexcept : v_(std::move(o.v_)) { o.v_.emplace<std::monostate>(); }
  Value& operator=(Value&& o) noexcept {
    if (this != &o) {
      v_ = std::move(o.v_);
      o.v_.emplace<std::monostate>();
    }
    return *this;
  }
  Value(Tensor t) : v_(std::move(t)) {}
  Value(std::shared_ptr<SparseTensor> s) : v_(std::move(s)) {}
  Value(std::shared_ptr<Sequence> s) : v_(std::move(s)) {}
  Value(std::shared_ptr<Map> m) : v_(std::move(m)) {}
  Value(None n) : v_(n) {}

  bool empty() const { return std::holds_alternative<std::monostate>(v_); }
  bool is_none() const { return std::holds_alternative<None>(v_); }
  const Tensor* tensor() const { return std::get_if<Tensor>(&v_); }
  Tensor* tensor() { return std::get_if<Tensor>(&v_); }
  const SparseTensor* sparse() const { return pointer<SparseTensor>(); }
  const Sequence* sequence() const { return pointer<Sequence>(); }
  const Map* map() const { return pointer<Map>(); }
  // The sequence, unshared: a copy of the list (not of the tensors) is made if anybody else holds it.
  Sequence* own_sequence();
  // "tensor(float)[2,3]", "sequence of 4": for messages.
  std::string describe() const;

 private:
  template <class T>
  const T* pointer() const {
    const auto* p = std::get_if<std::shared_ptr<T>>(&v_);
    return p ? p->get() : nullptr;
  }
  std::variant<std::monostate, Tensor, std::shared_ptr<SparseTensor>, std::shared_ptr<Sequence>, std::shared_ptr<Map>,
               None>
      v_;
};

}  // namespace tessera
