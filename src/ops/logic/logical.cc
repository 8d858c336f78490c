// And, Or, Xor, Not: on bools, stored one byte each.
#include "ops/math/binary.h"

namespace tessera {
namespace {

struct AndOp {
  static bool apply(bool a, bool b) { return a && b; }
};
struct OrOp {
  static bool apply(bool a, bool b) { return a || b; }
};
struct XorOp {
  static bool apply(bool a, bool b) { return a != b; }
};

template <class O>
Status compute(const BinaryParams& p, Call& call) {
  map_binary<uint8_t, uint8_t>(p, call, [](uint8_t a, uint8_t b) { return O::apply(a != 0, b != 0); });
  return {};
}
Status compute_not(Call& call) {
  const uint8_t* x = call.in<uint8_t>(0);
  uint8_t* y = call.out<uint8_t>(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) y[i] = x[i] == 0;
  });
  return {};
}

template <class O>
constexpr Kernel kKernels[] = {{kAllSame<bool>, compute_with<BinaryParams, compute<O>>}};
constexpr Kernel kNotKernels[] = {{kAllSame<bool>, compute_plain<compute_not>}};
constexpr int16_t kVersions[] = {1, 7};
constexpr int16_t kNotVersions[] = {1};

constexpr Op logical(const char* name, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = kVersions,
          .parse = parse_params<BinaryParams, parse_binary>,
          .shape = shape_with<BinaryParams, int64_t, binary_shape<int64_t>>,
          .kernels = kernels,
          .inplace = in_arg(0) | in_arg(1)};
}
constexpr OpInference kShapeOnly{.shape = shape_with<BinaryParams, Dim, binary_shape<Dim>>};

}  // namespace

extern constexpr Op kAnd = logical("And", kKernels<AndOp>);
extern constexpr Op kOr = logical("Or", kKernels<OrOp>);
extern constexpr Op kXor = logical("Xor", kKernels<XorOp>);
extern constexpr Op kNot{.domain = "",
                         .name = "Not",
                         .versions = kNotVersions,
                         .shape = shape_of_input<int64_t>,
                         .kernels = kNotKernels,
                         .inplace = in_arg(0)};
extern constexpr OpInference kAndInference = kShapeOnly;
extern constexpr OpInference kOrInference = kShapeOnly;
extern constexpr OpInference kXorInference = kShapeOnly;
extern constexpr OpInference kNotInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
