// Add, Sub, Mul, Div: arithmetic of two tensors with broadcasting.
#include "ops/math/binary.h"

#include <type_traits>

#include "kernels/vmath.h"

namespace tessera {
namespace {

struct AddOp {
  static constexpr Binary kVector = Binary::add;
  template <class T>
  static T apply(T a, T b) {
    return a + b;
  }
};
struct SubOp {
  static constexpr Binary kVector = Binary::sub;
  template <class T>
  static T apply(T a, T b) {
    return a - b;
  }
};
struct MulOp {
  static constexpr Binary kVector = Binary::mul;
  template <class T>
  static T apply(T a, T b) {
    return a * b;
  }
};
struct DivOp {
  static constexpr Binary kVector = Binary::div;
  template <class T>
  static T apply(T a, T b) {
    return a / b;
  }
};

// Signed integers wrap: computed unsigned, except division, where only MIN / -1 overflows.
template <class O, class T>
T element(T a, T b) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    if constexpr (std::is_same_v<O, DivOp>)
      return b == -1 ? static_cast<T>(0 - static_cast<U>(a)) : a / b;
    else
      return static_cast<T>(O::template apply<U>(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return O::template apply<T>(a, b);
  }
}

template <class O, class T>
Status compute(const BinaryParams& p, Call& call) {
  if constexpr (std::is_same_v<T, float>) {
    const float *a = call.in<float>(0), *b = call.in<float>(1);
    float* y = call.out<float>(0);
    for_binary_rows(p, call, [&](const BroadcastRows::Row& r) {
      binary_f32(call.target(), O::kVector, a + r.in[0], r.step[0], b + r.in[1], r.step[1], y + r.out, r.n);
    });
    return {};
  }
  if constexpr (std::is_same_v<O, DivOp> && std::is_integral_v<T>) {
    int64_t zero;
    if (!divisors_ok(call, call.in<T>(1), &zero))
      return call.refuse(1, "divisors other than zero (element {} is zero)", zero);
  }
  map_binary<T, T>(p, call, element<O, T>);
  return {};
}

template <class O, class T>
constexpr Kernel kernel{kAllSame<T>, compute_with<BinaryParams, compute<O, T>>};
template <class O>
constexpr Kernel kKernels[] = {kernel<O, float>,   kernel<O, double>,   kernel<O, int32_t>,
                               kernel<O, int64_t>, kernel<O, uint32_t>, kernel<O, uint64_t>};
constexpr int16_t kVersions[] = {1, 6, 7, 13, 14};

template <class O>
constexpr Op arithmetic(const char* name) {
  return {.domain = "",
          .name = name,
          .versions = kVersions,
          .parse = parse_params<BinaryParams, parse_binary>,
          .shape = shape_with<BinaryParams, int64_t, binary_shape<int64_t>>,
          .kernels = kKernels<O>,
          .inplace = in_arg(0) | in_arg(1)};
}

// Sums and products of shapes stay readable: [batch, 2*seq].
template <class O>
Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  TRY(binary_shape(*static_cast<const BinaryParams*>(params), c));
  infer_binary_content(c, [](const Dim& x, const Dim& y) -> std::optional<Dim> {
    if constexpr (std::is_same_v<O, DivOp>) {
      if ((y.known() && y.value() <= 0) || (x.known() && x.value() < 0)) return {};
      return floor_div(x, y);
    } else {
      return O::template apply<Dim>(x, y);
    }
  });
  return {};
}

}  // namespace

extern constexpr Op kAdd = arithmetic<AddOp>("Add");
extern constexpr Op kSub = arithmetic<SubOp>("Sub");
extern constexpr Op kMul = arithmetic<MulOp>("Mul");
extern constexpr Op kDiv = arithmetic<DivOp>("Div");
extern constexpr OpInference kAddInference{.shape = infer_shape<AddOp>};
extern constexpr OpInference kSubInference{.shape = infer_shape<SubOp>};
extern constexpr OpInference kMulInference{.shape = infer_shape<MulOp>};
extern constexpr OpInference kDivInference{.shape = infer_shape<DivOp>};

}  // namespace tessera
