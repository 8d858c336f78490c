// IsNaN, IsInf: which elements are no numbers, or infinite.
#include <cmath>

#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  bool negative = true, positive = true;
};
Status parse(Attrs& a, Params& p) {
  a.get("detect_negative", p.negative);
  a.get("detect_positive", p.positive);
  return {};
}

template <class T, class F>
Status test(Call& call, F&& fn) {
  const T* x = call.in<T>(0);
  uint8_t* y = call.out<uint8_t>(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) y[i] = fn(x[i]);
  });
  return {};
}
template <class T>
Status is_nan(Call& call) {
  return test<T>(call, [](T x) { return std::isnan(x); });
}
template <class T>
Status is_inf(const Params& p, Call& call) {
  return test<T>(call, [&](T x) { return std::isinf(x) && (x < 0 ? p.negative : p.positive); });
}

constexpr TypeRule kFloat[] = {{in_arg(0), set_of(DType::f32), kHalfFloats | kFloat8},
                               {out_arg(0), set_of(DType::boolean)}};
constexpr TypeRule kDouble[] = {{in_arg(0), set_of(DType::f64)}, {out_arg(0), set_of(DType::boolean)}};
constexpr Kernel kNanKernels[] = {{kFloat, compute_plain<is_nan<float>>}, {kDouble, compute_plain<is_nan<double>>}};
constexpr Kernel kInfKernels[] = {{kFloat, compute_with<Params, is_inf<float>>},
                                  {kDouble, compute_with<Params, is_inf<double>>}};
constexpr int16_t kNanVersions[] = {9, 13, 20};
constexpr int16_t kInfVersions[] = {10, 20};

}  // namespace

extern constexpr Op kIsNaN{.domain = "",
                           .name = "IsNaN",
                           .versions = kNanVersions,
                           .types = type_always<DType::boolean>,
                           .shape = shape_of_input<int64_t>,
                           .kernels = kNanKernels};
extern constexpr Op kIsInf{.domain = "",
                           .name = "IsInf",
                           .versions = kInfVersions,
                           .parse = parse_params<Params, parse>,
                           .types = type_always<DType::boolean>,
                           .shape = shape_of_input<int64_t>,
                           .kernels = kInfKernels};
extern constexpr OpInference kIsNaNInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kIsInfInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
