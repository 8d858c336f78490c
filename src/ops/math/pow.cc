// Pow — x to the power y; the result has x's type, y may have another.
#include <cmath>
#include <type_traits>

#include "core/convert.h"
#include "kernels/vmath.h"
#include "ops/math/binary.h"

namespace tessera {
namespace {

// By squaring, wrapping like products do.
template <class T>
T integer_power(T base, uint64_t exponent) {
  using U = std::make_unsigned_t<T>;
  U result = 1;
  for (U b = static_cast<U>(base); exponent; exponent >>= 1, b *= b)
    if (exponent & 1) result *= b;
  return static_cast<T>(result);
}
// What the exact 1 / base^n truncates to; 1/0 is out of range.
template <class T>
T inverse_power(T base, uint64_t n) {
  if (base == 0) return to_integer<T>(INFINITY);
  return base == 1 ? 1 : base == -1 ? static_cast<T>(n & 1 ? -1 : 1) : 0;
}

constexpr int64_t kBlock = 256;

// Exponents of any type, decoded block by block.
template <class E, class F>
void for_exponents(const BinaryParams& p, const Call& call, F&& fn) {
  const DType type = call.dtype(1);
  for_binary_rows(p, call, [&](const BroadcastRows::Row& r) {
    E exponents[kBlock];
    for (int64_t at = 0; at < r.n; at += kBlock) {
      const int64_t n = std::min(kBlock, r.n - at);
      if (r.step[1] || at == 0) decode(type, call.in(1), r.in[1] + at * r.step[1], r.step[1] ? n : 1, exponents);
      for (int64_t i = 0; i < n; ++i) fn(r.out + at + i, r.in[0] + (at + i) * r.step[0], exponents[i * r.step[1]]);
    }
  });
}

template <class T>
Status compute_float(const BinaryParams& p, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  for_exponents<double>(p, call, [&](int64_t o, int64_t i, double e) { y[o] = static_cast<T>(std::pow(x[i], e)); });
  return {};
}

Status compute_vector(const BinaryParams& p, Call& call) {
  const float *x = call.in<float>(0), *e = call.in<float>(1);
  float* y = call.out<float>(0);
  for_binary_rows(p, call, [&](const BroadcastRows::Row& r) {
    binary_f32(call.target(), Binary::pow, x + r.in[0], r.step[0], e + r.in[1], r.step[1], y + r.out, r.n);
  });
  return {};
}

// One exponent that a float holds exactly has the fast forms of the vector kernel.
Status compute_mixed(const BinaryParams& p, Call& call) {
  double exponent;
  if (call.count(1) != 1 || call.out_count(0) != call.count(0)) return compute_float<float>(p, call);
  decode(call.dtype(1), call.in(1), 0, 1, &exponent);
  const float e = static_cast<float>(exponent);
  if (static_cast<double>(e) != exponent) return compute_float<float>(p, call);
  const float* x = call.in<float>(0);
  float* y = call.out<float>(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    binary_f32(call.target(), Binary::pow, x + begin, 1, &e, 0, y + begin, n);
  });
  return {};
}

template <class T>
Status compute_int(const BinaryParams& p, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  if (!kInts.has(call.dtype(1))) {
    for_exponents<double>(
        p, call, [&](int64_t o, int64_t i, double e) { y[o] = to_integer<T>(std::pow(static_cast<double>(x[i]), e)); });
    return {};
  }
  const bool natural = kUnsignedInts.has(call.dtype(1));
  for_exponents<int64_t>(p, call, [&](int64_t o, int64_t i, int64_t e) {
    const auto n = static_cast<uint64_t>(e);
    y[o] = natural || e >= 0 ? integer_power(x[i], n) : inverse_power(x[i], 0 - n);
  });
  return {};
}

constexpr uint32_t kBase = in_arg(0) | out_arg(0);
constexpr TypeRule kFloatFloat[] = {{kBase, set_of(DType::f32), kHalfFloats},
                                    {in_arg(1), set_of(DType::f32), kHalfFloats}};
template <class T>
constexpr TypeRule kMixed[] = {{kBase, set_of(dtype_of<T>), std::is_same_v<T, float> ? kHalfFloats : TypeSet{}},
                               {in_arg(1), kNumbers}};
constexpr Kernel kKernels[] = {{kFloatFloat, compute_with<BinaryParams, compute_vector>},
                               {kMixed<float>, compute_with<BinaryParams, compute_mixed>},
                               {kMixed<double>, compute_with<BinaryParams, compute_float<double>>},
                               {kMixed<int32_t>, compute_with<BinaryParams, compute_int<int32_t>>},
                               {kMixed<int64_t>, compute_with<BinaryParams, compute_int<int64_t>>}};
constexpr int16_t kVersions[] = {1, 7, 12, 13, 15};

}  // namespace

extern constexpr Op kPow{.domain = "",
                         .name = "Pow",
                         .versions = kVersions,
                         .parse = parse_params<BinaryParams, parse_binary>,
                         .shape = shape_with<BinaryParams, int64_t, binary_shape<int64_t>>,
                         .kernels = kKernels,
                         .inplace = in_arg(0)};
extern constexpr OpInference kPowInference{.shape = shape_with<BinaryParams, Dim, binary_shape<Dim>>};

}  // namespace tessera
