// Which arguments of an operator share a type variable: the table that ONNX Runtime's builds without schemas find their
// kernels by. Tessera needs none; it writes the table for them, and refuses files whose table says what is not so.
#pragma once
#include <compare>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::ort {

struct ArgumentPlace {
  bool output = false;
  uint32_t index = 0;
  friend auto operator<=>(const ArgumentPlace&, const ArgumentPlace&) = default;
};

struct KernelTypes {
  int since = 0;  // the operator's version
  // False for ONNX Runtime's own operators: their versions stay as they are when arguments are added.
  bool of_standard = true;
  // By type variable, or by the argument's own name where its type is fixed; inputs first, each in order.
  std::map<std::string, std::vector<ArgumentPlace>, std::less<>> places;
};

// What the standard, or ONNX Runtime of its own operators, says of the operator in this operator set; nothing if
// neither knows it.
std::optional<KernelTypes> kernel_types(std::string_view domain, std::string_view op_type, int opset);

// Libraries without the standard's signatures read files without this function.
using KernelTypesOf = std::optional<KernelTypes>(std::string_view domain, std::string_view op_type, int opset);

}  // namespace tessera::ort
