// What the ONNX specification says of every operator version: arguments, types and attributes. The data is generated
// from the onnx package by tools/signatures.py, is constant, holds no pointer and needs no start-up work; any thread
// may read it.
//
// Numbers of element types are those of TensorProto.DataType, numbers of attribute types those of
// AttributeProto.AttributeType. Names are views of zero-terminated text that lives as long as the program.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <string_view>

namespace tessera::spec {

// The forms a value can have in the specification. The element of a map is its value; the key is part of the form.
enum class TypeKind : uint8_t {
  tensor,
  sparse_tensor,
  sequence,
  optional,
  optional_sequence,
  map_int64,
  map_string,
  sequence_map_int64,
  sequence_map_string,
};
inline constexpr int kTypeKinds = 9;

// For each form the set of element types, bit n standing for DataType n.
struct TypeSet {
  uint64_t masks[kTypeKinds];

  constexpr uint64_t mask(TypeKind kind) const { return masks[static_cast<int>(kind)]; }
  constexpr bool contains(TypeKind kind, int data_type) const {
    return data_type >= 0 && data_type < 64 && (mask(kind) >> data_type & 1) != 0;
  }
};

// A type variable of one operator version: "T" and what it may stand for.
struct TypeConstraint {
  std::string_view name() const;
  const TypeSet& types() const;

  uint16_t name_at, types_at;  // places in the generated tables; use the functions
};

enum class ArgumentOption : uint8_t { single, optional, variadic };

// One formal input or output.
struct Argument {
  static constexpr uint8_t kFixedType = 255;

  std::string_view name() const;
  // As the specification writes it: the name of a constraint ("T") or one type ("tensor(int64)").
  std::string_view type_text() const;
  const TypeSet& types() const;

  uint16_t name_at, type_text_at, types_at;  // places in the generated tables; use the functions
  uint8_t constraint;                        // index in Signature::constraints(), or kFixedType
  ArgumentOption option;
  bool homogeneous;   // all values of a variadic argument have the same type
  uint8_t min_arity;  // the least count of values of a variadic argument
};

struct Attribute {
  std::string_view name() const;
  // The default, meaningful only if has_default and type is INT, FLOAT, STRING; INTS; STRINGS.
  int64_t default_int() const { return value; }
  float default_float() const;
  std::string_view default_string() const;
  std::span<const int64_t> default_ints() const;
  int default_strings() const { return count; }
  std::string_view default_string(int i) const;

  uint16_t name_at;  // place in the generated tables; use the functions
  uint8_t type;      // AttributeProto.AttributeType
  bool required;
  bool has_default;
  uint8_t count;  // elements of a list default
  int32_t value;  // the default: itself, the bits of a float, or a place in the tables
};

// One version of one operator. Obtained from the functions below, never built elsewhere.
struct Signature {
  static constexpr int kUnbounded = std::numeric_limits<int>::max();

  std::string_view domain() const;
  std::string_view name() const;
  std::span<const Argument> inputs() const;
  std::span<const Argument> outputs() const;
  std::span<const Attribute> attributes() const;
  std::span<const TypeConstraint> constraints() const;

  // How many inputs or outputs a node may list; kUnbounded with a variadic argument.
  int min_inputs() const;
  int max_inputs() const;
  int min_outputs() const;
  int max_outputs() const;
  // The formal argument that value `i` of a node belongs to; null if a node cannot have so many.
  const Argument* input(int i) const;
  const Argument* output(int i) const;
  // Null if the operator has no attribute of that name.
  const Attribute* attribute(std::string_view name) const;

  uint16_t domain_at, name_at;  // places in the generated tables; use the functions
  uint16_t since_version;
  uint16_t inputs_at, outputs_at, attributes_at, constraints_at;
  uint8_t input_count, output_count, attribute_count, constraint_count;
  bool deprecated;  // from since_version on a model must not use the operator
};

// The version in force at `opset`: the largest since_version not above it. Null if there is none. "ai.onnx" is "".
const Signature* find_signature(std::string_view domain, std::string_view name, int opset);
// All versions of one operator, oldest first; empty if the specification has no such operator.
std::span<const Signature> signature_versions(std::string_view domain, std::string_view name);
// Everything, ordered by domain, name and version.
std::span<const Signature> all_signatures();
// The newest operator set of a domain; 0 if the specification has no such domain.
int latest_opset(std::string_view domain);

}  // namespace tessera::spec
