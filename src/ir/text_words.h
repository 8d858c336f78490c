// Words of ONNX's textual syntax that printer and parser share.
#pragma once
#include <string_view>

#include "core/dtype.h"
#include "ir/graph.h"

namespace tessera::text {

struct AttrWord {
  std::string_view word;
  ir::AttrType type;
};
inline constexpr AttrWord kAttrWords[] = {
    {"float", ir::AttrType::f},
    {"int", ir::AttrType::i},
    {"string", ir::AttrType::s},
    {"tensor", ir::AttrType::t},
    {"graph", ir::AttrType::g},
    {"floats", ir::AttrType::floats},
    {"ints", ir::AttrType::ints},
    {"strings", ir::AttrType::strings},
    {"tensors", ir::AttrType::tensors},
    {"graphs", ir::AttrType::graphs},
    {"sparse_tensor", ir::AttrType::sparse_tensor},
    {"sparse_tensors", ir::AttrType::sparse_tensors},
    {"type_proto", ir::AttrType::type_proto},
    {"type_protos", ir::AttrType::type_protos},
};

// Locale-independent character classes.
constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_alpha(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
constexpr bool is_name_start(char c) { return is_alpha(c) || c == '_'; }
constexpr bool is_name_char(char c) { return is_name_start(c) || is_digit(c); }
constexpr bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

// A name that can stand without quotes.
inline bool is_identifier(std::string_view s) {
  if (s.empty() || !is_name_start(s[0])) return false;
  for (const char c : s)
    if (!is_name_char(c)) return false;
  return true;
}

// "nan", "inf" or "infinity", in any case.
inline bool is_float_word(std::string_view s) {
  for (const std::string_view word : {"nan", "inf", "infinity"}) {
    bool same = s.size() == word.size();
    for (size_t i = 0; same && i < s.size(); ++i) same = (s[i] | 0x20) == word[i];
    if (same) return true;
  }
  return false;
}

// The first word of a type.
inline bool is_type_word(std::string_view s) {
  return s == "seq" || s == "map" || s == "optional" || s == "sparse_tensor" || s == "opaque" ||
         dtype_named(s) != DType::undefined;
}

// How many literals stand for one constant of a type: packed bytes below 8 bits, two numbers for complex ones.
inline int64_t literals_for(DType dtype, int64_t count) {
  if (is_sub_byte(dtype)) return bytes_for(dtype, count).value_or(0);
  return kComplex.has(dtype) ? 2 * count : count;
}

// Graphs in attributes and types in types may nest this deep.
inline constexpr int kDeepest = 64;

}  // namespace tessera::text
