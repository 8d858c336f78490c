// Equal, Greater, Less, GreaterOrEqual, LessOrEqual: comparisons with broadcasting. NaN compares false.
#include "ops/math/binary.h"

namespace tessera {
namespace {

struct EqualOp {
  template <class T>
  static bool apply(const T& a, const T& b) {
    return a == b;
  }
};
struct GreaterOp {
  template <class T>
  static bool apply(const T& a, const T& b) {
    return a > b;
  }
};
struct LessOp {
  template <class T>
  static bool apply(const T& a, const T& b) {
    return a < b;
  }
};
struct GreaterOrEqualOp {
  template <class T>
  static bool apply(const T& a, const T& b) {
    return a >= b;
  }
};
struct LessOrEqualOp {
  template <class T>
  static bool apply(const T& a, const T& b) {
    return a <= b;
  }
};

template <class O, class T>
Status compute(const BinaryParams& p, Call& call) {
  map_binary<T, uint8_t>(p, call, O::template apply<T>);
  return {};
}
// A stored bool is true whatever its bits are, as long as one is set.
Status compute_bool(const BinaryParams& p, Call& call) {
  map_binary<uint8_t, uint8_t>(p, call, [](uint8_t a, uint8_t b) { return (a != 0) == (b != 0); });
  return {};
}

template <class O, class T>
constexpr Kernel kernel{kSameToBool<T>, compute_with<BinaryParams, compute<O, T>>};
template <class O>
constexpr Kernel kOrder[] = {kernel<O, float>,   kernel<O, double>,   kernel<O, int32_t>,
                             kernel<O, int64_t>, kernel<O, uint32_t>, kernel<O, uint64_t>};
constexpr Kernel kEquality[] = {
    kernel<EqualOp, float>,       kernel<EqualOp, double>,
    kernel<EqualOp, int32_t>,     kernel<EqualOp, int64_t>,
    kernel<EqualOp, uint32_t>,    kernel<EqualOp, uint64_t>,
    kernel<EqualOp, std::string>, {kSameToBool<bool>, compute_with<BinaryParams, compute_bool>}};

constexpr int16_t kEqualVersions[] = {1, 7, 11, 13, 19};
constexpr int16_t kOrderVersions[] = {1, 7, 9, 13};
constexpr int16_t kOrEqualVersions[] = {12, 16};

constexpr Op comparison(const char* name, std::span<const int16_t> versions, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = versions,
          .parse = parse_params<BinaryParams, parse_binary>,
          .types = type_always<DType::boolean>,
          .shape = shape_with<BinaryParams, int64_t, binary_shape<int64_t>>,
          .kernels = kernels};
}

// A sum of products of symbols is a size: never negative.
bool is_size(const Dim& d) {
  if (d.known()) return d.value() >= 0;
  for (const DimTerm& term : d.expr()->terms) {
    if (term.coefficient < 0) return false;
    for (const DimAtom* atom : term.atoms)
      if (atom->kind != DimAtom::Kind::symbol) return false;
  }
  return true;
}

Status infer_equal(const void* params, ShapeCall<Dim>& c) {
  TRY(binary_shape(*static_cast<const BinaryParams*>(params), c));
  infer_binary_content(c, [](const Dim& a, const Dim& b) -> std::optional<Dim> {
    if (a == b) return Dim(1);
    if (a.known() && b.known()) return Dim(0);
    const bool apart = (a.known() && a.value() < 0 && is_size(b)) || (b.known() && b.value() < 0 && is_size(a));
    return apart ? std::optional<Dim>(Dim(0)) : std::nullopt;
  });
  return {};
}

constexpr OpInference kShapeOnly{.shape = shape_with<BinaryParams, Dim, binary_shape<Dim>>};

}  // namespace

extern constexpr Op kEqual = comparison("Equal", kEqualVersions, kEquality);
extern constexpr Op kGreater = comparison("Greater", kOrderVersions, kOrder<GreaterOp>);
extern constexpr Op kLess = comparison("Less", kOrderVersions, kOrder<LessOp>);
extern constexpr Op kGreaterOrEqual = comparison("GreaterOrEqual", kOrEqualVersions, kOrder<GreaterOrEqualOp>);
extern constexpr Op kLessOrEqual = comparison("LessOrEqual", kOrEqualVersions, kOrder<LessOrEqualOp>);
extern constexpr OpInference kEqualInference{.shape = infer_equal};
extern constexpr OpInference kGreaterInference = kShapeOnly;
extern constexpr OpInference kLessInference = kShapeOnly;
extern constexpr OpInference kGreaterOrEqualInference = kShapeOnly;
extern constexpr OpInference kLessOrEqualInference = kShapeOnly;

}  // namespace tessera
