// BitwiseAnd, BitwiseOr, BitwiseXor, BitwiseNot, BitShift: on the bits of integers.
#include <type_traits>

#include "ops/math/binary.h"

namespace tessera {
namespace {

struct AndOp {
  template <class U>
  static U apply(U a, U b) {
    return a & b;
  }
};
struct OrOp {
  template <class U>
  static U apply(U a, U b) {
    return a | b;
  }
};
struct XorOp {
  template <class U>
  static U apply(U a, U b) {
    return a ^ b;
  }
};

template <class O, class U>
Status compute(const BinaryParams& p, Call& call) {
  map_binary<U, U>(p, call, O::template apply<U>);
  return {};
}
template <class U>
Status compute_not(Call& call) {
  const U* x = call.in<U>(0);
  U* y = call.out<U>(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) y[i] = static_cast<U>(~x[i]);
  });
  return {};
}

// Signed and unsigned types of one size have the same bits.
template <class U>
constexpr TypeRule kBits[] = {{in_arg(0) | kRestIn | out_arg(0), set_of(dtype_of<U>, dtype_of<std::make_signed_t<U>>)}};
template <class O, class... U>
constexpr Kernel kWidths[] = {{kBits<U>, compute_with<BinaryParams, compute<O, U>>}...};
template <class O>
constexpr std::span<const Kernel> kKernels = kWidths<O, uint8_t, uint16_t, uint32_t, uint64_t>;
template <class... U>
constexpr Kernel kNotWidths[] = {{kBits<U>, compute_plain<compute_not<U>>}...};
constexpr int16_t kVersions[] = {18};

constexpr Op bitwise(const char* name, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = kVersions,
          .parse = parse_params<BinaryParams, parse_binary>,
          .shape = shape_with<BinaryParams, int64_t, binary_shape<int64_t>>,
          .kernels = kernels,
          .inplace = in_arg(0) | in_arg(1)};
}

struct ShiftParams : BinaryParams {
  int right = 0;
};
Status parse_shift(Attrs& a, ShiftParams& p) {
  constexpr std::string_view kDirections[] = {"LEFT", "RIGHT"};
  if (!a.has("direction")) return a.refuse("direction", "LEFT or RIGHT");
  a.get_choice("direction", p.right, kDirections);
  return {};
}
template <class D>
Status shift_shape(const ShiftParams& p, ShapeCall<D>& c) {
  return binary_shape(static_cast<const BinaryParams&>(p), c);
}

// Shifts by less than zero or by all bits leave what the sign alone would.
template <class T>
T shift_left(T x, T by) {
  using U = std::make_unsigned_t<T>;
  return static_cast<U>(by) < sizeof(T) * 8 ? static_cast<T>(static_cast<U>(x) << by) : T{0};
}
template <class T>
T shift_right(T x, T by) {
  if (static_cast<std::make_unsigned_t<T>>(by) < sizeof(T) * 8) return static_cast<T>(x >> by);
  return x < T{0} ? static_cast<T>(-1) : T{0};
}
template <class T>
Status compute_shift(const ShiftParams& p, Call& call) {
  map_binary<T, T>(p, call, p.right ? shift_right<T> : shift_left<T>);
  return {};
}
// Small integers work as int32: what is shifted beyond their width is cut off when they are narrowed.
template <class... T>
constexpr Kernel kShifts[] = {{kAllSame<T>, compute_with<ShiftParams, compute_shift<T>>}...};
constexpr int16_t kShiftVersions[] = {11, 28};

constexpr OpInference kShapeOnly{.shape = shape_with<BinaryParams, Dim, binary_shape<Dim>>};

}  // namespace

extern constexpr Op kBitwiseAnd = bitwise("BitwiseAnd", kKernels<AndOp>);
extern constexpr Op kBitwiseOr = bitwise("BitwiseOr", kKernels<OrOp>);
extern constexpr Op kBitwiseXor = bitwise("BitwiseXor", kKernels<XorOp>);
extern constexpr Op kBitwiseNot{.domain = "",
                                .name = "BitwiseNot",
                                .versions = kVersions,
                                .shape = shape_of_input<int64_t>,
                                .kernels = kNotWidths<uint8_t, uint16_t, uint32_t, uint64_t>,
                                .inplace = in_arg(0)};
extern constexpr Op kBitShift{.domain = "",
                              .name = "BitShift",
                              .versions = kShiftVersions,
                              .parse = parse_params<ShiftParams, parse_shift>,
                              .shape = shape_with<ShiftParams, int64_t, shift_shape<int64_t>>,
                              .kernels = kShifts<int32_t, int64_t, uint32_t, uint64_t>,
                              .inplace = in_arg(0) | in_arg(1)};
extern constexpr OpInference kBitwiseAndInference = kShapeOnly;
extern constexpr OpInference kBitwiseOrInference = kShapeOnly;
extern constexpr OpInference kBitwiseXorInference = kShapeOnly;
extern constexpr OpInference kBitwiseNotInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kBitShiftInference{.shape = shape_with<ShiftParams, Dim, shift_shape<Dim>>};

}  // namespace tessera
