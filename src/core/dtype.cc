#include "core/dtype.h"

namespace tessera {
namespace {

struct Info {
  std::string_view name;
  int bits;
};
constexpr Info kInfo[kDTypeCount] = {
    {"undefined", 0},      {"float", 32},     {"uint8", 8},
    {"int8", 8},           {"uint16", 16},    {"int16", 16},
    {"int32", 32},         {"int64", 64},     {"string", 8 * static_cast<int>(sizeof(std::string))},
    {"bool", 8},           {"float16", 16},   {"double", 64},
    {"uint32", 32},        {"uint64", 64},    {"complex64", 64},
    {"complex128", 128},   {"bfloat16", 16},  {"float8e4m3fn", 8},
    {"float8e4m3fnuz", 8}, {"float8e5m2", 8}, {"float8e5m2fnuz", 8},
    {"uint4", 4},          {"int4", 4},       {"float4e2m1", 4},
    {"float8e8m0", 8},     {"uint2", 2},      {"int2", 2},
    {"float6e2m3", 6},     {"float6e3m2", 6},
};

}  // namespace

int bits_of(DType t) { return kInfo[static_cast<int>(t)].bits; }
std::string_view name_of(DType t) { return kInfo[static_cast<int>(t)].name; }

DType dtype_named(std::string_view name) {
  for (int i = 1; i < kDTypeCount; ++i)
    if (kInfo[i].name == name) return static_cast<DType>(i);
  return DType::undefined;
}

std::string names_of(TypeSet set) {
  std::string out;
  for (int i = 1; i < kDTypeCount; ++i)
    if (set.has(static_cast<DType>(i))) {
      if (!out.empty()) out += '|';
      out += kInfo[i].name;
    }
  return out;
}

}  // namespace tessera
