// Add, Sub, Mul, Div: arithmetic of two tensors with broadcasting.
#include <type_traits>

#include "kernels/vmath.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  std::optional<int64_t> axis;  // versions 1 and 6: where B's dimensions stand in A's
};

Status parse(Attrs& a, Params& p) {
  if (a.version() < 7) a.get("axis", p.axis);
  return {};
}

// B's dimensions as they meet A's: shifted left by trailing ones when an axis was given.
template <class D>
DimVec<D> aligned(const Params& p, std::span<const D> b, int rank_a) {
  DimVec<D> out(b);
  if (!p.axis) return out;
  const int64_t axis = *p.axis < 0 ? *p.axis + rank_a : *p.axis;
  while (axis + out.size() < rank_a && !out.full()) out.push(D(1));
  return out;
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  DimVec<D> out(c.dims(0));
  if (!broadcast_into(out, aligned(p, c.dims(1), c.rank(0)).span(), c))
    return c.refuse(1, "a shape that broadcasts with input 0");
  return c.set(0, out);
}

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
    if constexpr (std::is_same_v<O, DivOp>)
      return b == -1 ? static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a)) : a / b;
    using U = std::make_unsigned_t<T>;
    return static_cast<T>(O::template apply<U>(static_cast<U>(a), static_cast<U>(b)));
  } else {
    return O::template apply<T>(a, b);
  }
}

template <class O, class T>
Status compute(const Params& p, Call& call) {
  const T *a = call.in<T>(0), *b = call.in<T>(1);
  T* y = call.out<T>(0);
  if constexpr (std::is_same_v<O, DivOp> && std::is_integral_v<T>) {
    for (int64_t i = 0, n = call.out_count(0) ? call.count(1) : 0; i < n; ++i)
      if (b[i] == 0) return call.refuse(1, "divisors other than zero (element {} is zero)", i);
  }
  const auto row = [&](const BroadcastRows::Row& r) {
    const T *pa = a + r.in[0], *pb = b + r.in[1];
    T* py = y + r.out;
    if constexpr (std::is_same_v<T, float>) {
      binary_f32(call.target(), O::kVector, pa, r.step[0], pb, r.step[1], py, r.n);
    } else {
      for (int64_t i = 0; i < r.n; ++i) py[i] = element<O>(pa[i * r.step[0]], pb[i * r.step[1]]);
    }
  };
  const Shape &sa = call.shape(0), &sb = call.shape(1);
  const int64_t n = call.out_count(0);
  if (sa == sb && n <= 4096) return row({0, n, {0, 0}, {1, 1}}), Status{};
  const DimVec<int64_t> dims = aligned(p, sb.dims(), sa.rank());
  const std::span<const int64_t> inputs[] = {sa.dims(), dims.span()};
  BroadcastRows(call.out_shape(0), inputs).run(call.threads(), row);
  return {};
}

template <class O, class T>
constexpr Kernel kernel{kAllSame<T>, compute_with<Params, compute<O, T>>};
template <class O>
constexpr Kernel kKernels[] = {kernel<O, float>,   kernel<O, double>,   kernel<O, int32_t>,
                               kernel<O, int64_t>, kernel<O, uint32_t>, kernel<O, uint64_t>};
constexpr int16_t kVersions[] = {1, 6, 7, 13, 14};

template <class O>
constexpr Op arithmetic(const char* name) {
  return {.domain = "",
          .name = name,
          .versions = kVersions,
          .parse = parse_params<Params, parse>,
          .shape = shape_with<Params, int64_t, shape<int64_t>>,
          .kernels = kKernels<O>,
          .inplace = in_arg(0) | in_arg(1)};
}

// Sums and products of shapes stay readable: [batch, 2*seq].
template <class O>
Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  TRY(shape(*static_cast<const Params*>(params), c));
  const auto a = c.content(0), b = c.content(1);
  if (!a || !b || (a->size() != b->size() && a->size() != 1 && b->size() != 1)) return {};
  std::vector<Dim> out;
  for (size_t i = 0; i < std::max(a->size(), b->size()); ++i) {
    const Dim &x = (*a)[a->size() == 1 ? 0 : i], &y = (*b)[b->size() == 1 ? 0 : i];
    if constexpr (std::is_same_v<O, DivOp>) {
      if (y.known() && y.value() <= 0) return {};
      out.push_back(floor_div(x, y));
    } else {
      out.push_back(O::template apply<Dim>(x, y));
    }
  }
  c.set_content(0, out);
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
