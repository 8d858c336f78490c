// Mod — the remainder with the divisor's sign (fmod 0) or the dividend's (fmod 1).
#include <cmath>
#include <type_traits>

#include "ops/math/binary.h"

namespace tessera {
namespace {

struct Params : BinaryParams {
  bool truncated = false;
};
Status parse(Attrs& a, Params& p) {
  int64_t fmod = 0;
  a.get("fmod", fmod);
  if (fmod != 0 && fmod != 1) return a.refuse("fmod", "0 or 1");
  p.truncated = fmod == 1;
  return {};
}

template <class T, bool truncated>
T remainder(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    const T r = std::fmod(a, b);
    if (truncated) return r;
    if (r == 0) return std::copysign(r, b);
    return (r < 0) != (b < 0) ? r + b : r;
  } else if constexpr (std::is_signed_v<T>) {
    if (b == -1) return 0;
    const T r = a % b;
    return !truncated && r != 0 && (r < 0) != (b < 0) ? r + b : r;
  } else {
    return a % b;
  }
}

template <class T>
Status compute(const Params& p, Call& call) {
  if constexpr (std::is_integral_v<T>) {
    int64_t zero;
    if (!divisors_ok(call, call.in<T>(1), &zero))
      return call.refuse(1, "divisors other than zero (element {} is zero)", zero);
  }
  if (p.truncated)
    map_binary<T, T>(p, call, remainder<T, true>);
  else
    map_binary<T, T>(p, call, remainder<T, false>);
  return {};
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  const Params& p = *static_cast<const Params*>(params);
  TRY(binary_shape(static_cast<const BinaryParams&>(p), c));
  infer_binary_content(c, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
    if (!a.known() || !b.known() || a.value() < 0 || b.value() <= 0) return {};
    return Dim(a.value() % b.value());
  });
  return {};
}

Status shape(const Params& p, ShapeCall<int64_t>& c) { return binary_shape(static_cast<const BinaryParams&>(p), c); }

template <class... T>
constexpr Kernel kKernels[] = {{kAllSame<T>, compute_with<Params, compute<T>>}...};
constexpr int16_t kVersions[] = {10, 13, 28};

}  // namespace

extern constexpr Op kMod{.domain = "",
                         .name = "Mod",
                         .versions = kVersions,
                         .parse = parse_params<Params, parse>,
                         .shape = shape_with<Params, int64_t, shape>,
                         .kernels = kKernels<float, double, int32_t, int64_t, uint32_t, uint64_t>,
                         .inplace = in_arg(0) | in_arg(1)};
extern constexpr OpInference kModInference{.shape = infer_shape};

}  // namespace tessera
