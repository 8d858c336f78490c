// PRelu — negative elements times a slope that broadcasts to the input.
#include <type_traits>

#include "ops/math/binary.h"

namespace tessera {
namespace {

struct Params {
  bool per_channel = false;  // before version 7: a slope of C elements stands at dimension 1
  BinaryParams binary(int slope_rank) const {
    BinaryParams b;
    if (per_channel && slope_rank == 1) b.axis = 1;
    return b;
  }
};
Status parse(Attrs& a, Params& p) {
  p.per_channel = a.version() < 7;
  return {};
}

template <class D>
bool is_one(const D& d) {
  return known(d) && number(d) == 1;
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  // A slope of one element goes anywhere.
  const bool shared = c.rank(1) == 1 && is_one(c.dim(1, 0));
  const DimVec<D> slope = aligned(shared ? BinaryParams{} : p.binary(c.rank(1)), c.dims(1), rank);
  bool fits = slope.size() <= rank;
  for (int i = 0; fits && i < slope.size(); ++i) {
    const D d = slope[i], x = c.dim(0, rank - slope.size() + i);
    fits = is_one(d) || d == x || !known(d) || !known(x);
  }
  if (!fits) return c.refuse(1, "a shape that broadcasts to input 0");
  return c.set(0, c.dims(0));
}

template <class T>
T element(T x, T slope) {
  if constexpr (std::is_unsigned_v<T>) return x;
  if constexpr (std::is_integral_v<T>) {
    using U = std::make_unsigned_t<T>;
    return x < 0 ? static_cast<T>(static_cast<U>(x) * static_cast<U>(slope)) : x;
  } else {
    return x < 0 ? x * slope : x;
  }
}

template <class T>
Status compute(const Params& p, Call& call) {
  const bool shared = call.count(1) == 1;
  map_binary<T, T>(shared ? BinaryParams{} : p.binary(call.shape(1).rank()), call, element<T>);
  return {};
}

template <class... T>
constexpr Kernel kKernels[] = {{kAllSame<T>, compute_with<Params, compute<T>>}...};
constexpr int16_t kVersions[] = {1, 6, 7, 9, 16};

}  // namespace

extern constexpr Op kPRelu{.domain = "",
                           .name = "PRelu",
                           .versions = kVersions,
                           .parse = parse_params<Params, parse>,
                           .shape = shape_with<Params, int64_t, shape<int64_t>>,
                           .kernels = kKernels<float, double, int32_t, int64_t, uint32_t, uint64_t>,
                           .inplace = in_arg(0)};
extern constexpr OpInference kPReluInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
