// What scattering operators do with an element that is already there.
#pragma once
#include <cmath>

#include "ops/movement.h"

namespace tessera {

enum class Reduction : uint8_t { none, add, mul, min, max };

inline Status parse_reduction(Attrs& a, Reduction& out) {
  static constexpr std::string_view kNames[] = {"none", "add", "mul", "min", "max"};
  int choice = 0;
  a.get_choice("reduction", choice, kNames);
  out = static_cast<Reduction>(choice);
  return {};
}

// True if elements of this type can be reduced so: strings cannot, complex numbers have no order.
inline bool reducible(DType t, Reduction r) {
  if (r == Reduction::none) return true;
  if (kComplex.has(t)) return r == Reduction::add || r == Reduction::mul;
  return (kNumbers | set_of(DType::boolean)).has(t);
}

// Integers wrap; min and max hand NaN on.
template <class T>
T reduce_one(Reduction r, T a, T b) {
  if constexpr (std::is_same_v<T, bool>) {
    return r == Reduction::add || r == Reduction::max ? a || b : a && b;
  } else if constexpr (std::is_integral_v<T>) {
    switch (r) {
      case Reduction::add: return static_cast<T>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
      case Reduction::mul: return static_cast<T>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
      case Reduction::min: return std::min(a, b);
      default: return std::max(a, b);
    }
  } else {
    switch (r) {
      case Reduction::add: return a + b;
      case Reduction::mul: return a * b;
      default: break;
    }
    if constexpr (std::is_floating_point_v<T>) {
      if (std::isnan(a)) return a;
      if (std::isnan(b)) return b;
      return r == Reduction::min ? std::min(a, b) : std::max(a, b);
    }
    return b;
  }
}

// Calls fn(put), where put(from, to) brings element `from` of x into element `to` of y. The type is reducible.
template <class F>
void with_reduction(DType t, Reduction r, const void* x, void* y, F&& fn) {
  if (r == Reduction::none) return with_mover(t, x, y, fn);
  const auto as = [&]<class T>(std::type_identity<T>) {
    fn([r, x = static_cast<const T*>(x), y = static_cast<T*>(y)](int64_t from, int64_t to) {
      y[to] = reduce_one<T>(r, y[to], x[from]);
    });
  };
  switch (t) {
    case DType::f32: return as(std::type_identity<float>{});
    case DType::f64: return as(std::type_identity<double>{});
    case DType::i32: return as(std::type_identity<int32_t>{});
    case DType::i64: return as(std::type_identity<int64_t>{});
    case DType::u64: return as(std::type_identity<uint64_t>{});
    case DType::c64: return as(std::type_identity<std::complex<float>>{});
    case DType::c128: return as(std::type_identity<std::complex<double>>{});
    case DType::boolean: return as(std::type_identity<bool>{});
    case DType::f16:
    case DType::bf16:
      return fn([=](int64_t from, int64_t to) {
        float a, b;
        decode(t, y, to, 1, &a);
        decode(t, x, from, 1, &b);
        a = reduce_one<float>(r, a, b);
        encode(t, y, to, 1, &a);
      });
    default:
      return fn([=](int64_t from, int64_t to) {
        int64_t a, b;
        decode(t, y, to, 1, &a);
        decode(t, x, from, 1, &b);
        a = reduce_one<int64_t>(r, a, b);
        encode(t, y, to, 1, &a);
      });
  }
}

}  // namespace tessera
