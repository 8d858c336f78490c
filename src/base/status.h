// Status and Result: errors are values. Nothing in Tessera throws on purpose.
#pragma once
#include <cassert>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace tessera {

// Numbers are those of OrtErrorCode, so the C ABI passes them through unchanged.
enum class Code : uint8_t {
  ok = 0,
  fail = 1,
  invalid_argument = 2,
  no_such_file = 3,
  no_model = 4,
  engine_error = 5,
  runtime_exception = 6,
  invalid_protobuf = 7,
  model_loaded = 8,
  not_implemented = 9,
  invalid_graph = 10,
  ep_fail = 11,
  canceled = 12,
};

// A null pointer when ok, so that returning success costs one register.
class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(Code code, std::string message) : rep_(new Rep{code, std::move(message)}) {}

  bool ok() const { return !rep_; }
  Code code() const { return rep_ ? rep_->code : Code::ok; }
  const std::string& message() const;
  // The same error, said of `where` ("node 'x' (Add)"). Leaves an ok status alone.
  Status in(std::string_view where) &&;

 private:
  struct Rep {
    Code code;
    std::string message;
  };
  std::unique_ptr<Rep> rep_;
};

template <class... A>
Status error(Code code, std::string_view pattern, const A&... args) {
  return {code, format(pattern, args...)};
}
template <class... A>
Status invalid(std::string_view pattern, const A&... args) {
  return error(Code::invalid_argument, pattern, args...);
}
template <class... A>
Status invalid_graph(std::string_view pattern, const A&... args) {
  return error(Code::invalid_graph, pattern, args...);
}
template <class... A>
Status not_implemented(std::string_view pattern, const A&... args) {
  return error(Code::not_implemented, pattern, args...);
}

// A T or the Status that says why there is none.
template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  Result(Status status) : status_(std::move(status)) { assert(!status_.ok()); }

  bool ok() const { return value_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Status& status() const { return status_; }
  Status take_status() { return std::move(status_); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

 private:
  Status status_;
  std::optional<T> value_;
};

}  // namespace tessera

// Returns from the enclosing function if `expr` is an error.
#define TRY(expr) \
  if (::tessera::Status try_status = (expr); !try_status.ok()) return try_status

// Declares `name` as the value of the Result `expr`, or returns its error.
#define TRY_ASSIGN(name, expr)                                 \
  auto name##_result = (expr);                                 \
  if (!name##_result.ok()) return name##_result.take_status(); \
  auto& name = *name##_result
