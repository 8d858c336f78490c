// Element types: the numbers of ONNX's TensorProto.DataType, their C++ storage types, and sets of them.
#pragma once
#include <complex>
#include <cstdint>
#include <string>
#include <string_view>

namespace tessera {

enum class DType : uint8_t {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  c64 = 14,
  c128 = 15,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  f8e8m0 = 24,
  u2 = 25,
  i2 = 26,
  f6e2m3 = 27,
  f6e3m2 = 28,
};
inline constexpr int kDTypeCount = 29;

inline constexpr bool is_known(int number) { return number > 0 && number < kDTypeCount; }

// Storage of types without a C++ type: the bits, and nothing that could be mistaken for arithmetic.
template <DType D, class Bits>
struct Stored {
  Bits bits;
  friend bool operator==(Stored, Stored) = default;
};
using Float16 = Stored<DType::f16, uint16_t>;
using BFloat16 = Stored<DType::bf16, uint16_t>;

using Float8E4M3FN = Stored<DType::f8e4m3fn, uint8_t>;
using Float8E4M3FNUZ = Stored<DType::f8e4m3fnuz, uint8_t>;
using Float8E5M2 = Stored<DType::f8e5m2, uint8_t>;
using Float8E5M2FNUZ = Stored<DType::f8e5m2fnuz, uint8_t>;
using Float8E8M0 = Stored<DType::f8e8m0, uint8_t>;

template <class T>
inline constexpr DType dtype_of = DType::undefined;
template <DType D, class B>
inline constexpr DType dtype_of<Stored<D, B>> = D;
template <>
inline constexpr DType dtype_of<float> = DType::f32;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<int8_t> = DType::i8;
template <>
inline constexpr DType dtype_of<int16_t> = DType::i16;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<uint16_t> = DType::u16;
template <>
inline constexpr DType dtype_of<uint32_t> = DType::u32;
template <>
inline constexpr DType dtype_of<uint64_t> = DType::u64;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;
template <>
inline constexpr DType dtype_of<std::string> = DType::string;
template <>
inline constexpr DType dtype_of<std::complex<float>> = DType::c64;
template <>
inline constexpr DType dtype_of<std::complex<double>> = DType::c128;

// Bits per element as stored, packed LSB first; for string the bits of a std::string object.
int bits_of(DType t);
// The spelling of ONNX's textual syntax: "float", "int64", "float8e4m3fn", "uint4" ...
std::string_view name_of(DType t);
// DType::undefined if the name is not one of ONNX's.
DType dtype_named(std::string_view name);

inline bool is_sub_byte(DType t) { return bits_of(t) < 8; }

// A set of element types.
struct TypeSet {
  uint64_t bits = 0;
  constexpr bool has(DType t) const { return bits >> static_cast<int>(t) & 1; }
  constexpr bool empty() const { return bits == 0; }
  friend constexpr TypeSet operator|(TypeSet a, TypeSet b) { return {a.bits | b.bits}; }
  friend constexpr TypeSet operator&(TypeSet a, TypeSet b) { return {a.bits & b.bits}; }
  friend constexpr TypeSet operator-(TypeSet a, TypeSet b) { return {a.bits & ~b.bits}; }
  friend constexpr bool operator==(TypeSet, TypeSet) = default;
};
template <class... D>
constexpr TypeSet set_of(D... types) {
  return {((uint64_t{1} << static_cast<int>(types)) | ...)};
}
// "float|double": for messages.
std::string names_of(TypeSet set);

inline constexpr TypeSet kFloat8 = set_of(DType::f8e4m3fn, DType::f8e4m3fnuz, DType::f8e5m2, DType::f8e5m2fnuz);
inline constexpr TypeSet kHalfFloats = set_of(DType::f16, DType::bf16);
inline constexpr TypeSet kFloats = kHalfFloats | set_of(DType::f32, DType::f64);
inline constexpr TypeSet kSignedInts = set_of(DType::i8, DType::i16, DType::i32, DType::i64);
inline constexpr TypeSet kUnsignedInts = set_of(DType::u8, DType::u16, DType::u32, DType::u64);
inline constexpr TypeSet kInts = kSignedInts | kUnsignedInts;
inline constexpr TypeSet kComplex = set_of(DType::c64, DType::c128);
inline constexpr TypeSet kSubByteInts = set_of(DType::u4, DType::i4, DType::u2, DType::i2);
inline constexpr TypeSet kNumbers = kFloats | kInts;
// Every type of ONNX's "all tensor types" lists but float6, which only a few operators take.
inline constexpr TypeSet kAllTypes =
    kNumbers | kFloat8 | kComplex | kSubByteInts | set_of(DType::boolean, DType::string, DType::f4e2m1, DType::f8e8m0);
inline constexpr TypeSet kFloat6 = set_of(DType::f6e2m3, DType::f6e3m2);
inline constexpr TypeSet kEveryType = kAllTypes | kFloat6;
inline constexpr TypeSet kIndexTypes = set_of(DType::i32, DType::i64);

}  // namespace tessera
