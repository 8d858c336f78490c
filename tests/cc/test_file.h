// The text form of operator tests (tests/ops/*.test): an operator, the types to multiply over, and cases.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/dtype.h"
#include "ir/graph.h"

namespace tessera::testing {

// One argument of a case: values as written, turned into a tensor once the type is chosen.
struct Literal {
  std::string name;
  std::optional<DType> dtype;  // explicit
  std::vector<int64_t> dims;
  std::vector<std::string> values;
  bool absent = false;
};

struct TestCase {
  std::string name;
  int line = 0;
  std::vector<ir::Attribute> attributes;
  std::vector<Literal> arguments;
  std::string error;  // not empty: load or run must fail with a message that contains it
  std::optional<std::pair<int, int>> opsets;
};

// A type variable: the arguments that share it, and the types it takes.
struct TypeAxis {
  std::vector<std::string> arguments;
  std::vector<DType> types;
};

struct TestFile {
  std::string path, op, domain;
  std::pair<int, int> opsets{1, 1 << 20};
  std::vector<TypeAxis> types;
  double rtol = 1e-5, atol = 1e-6;
  std::vector<TestCase> cases;
};

Result<std::vector<TestFile>> parse_test_file(const std::string& path);
// The type names of test files: f32 f64 i32 ... bool string.
std::optional<DType> short_dtype(std::string_view name);

}  // namespace tessera::testing
