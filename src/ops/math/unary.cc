// Relu, Sigmoid: one float function applied to every element.
#include <cmath>

#include "kernels/vmath.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct ReluOp {
  static constexpr Unary kVector = Unary::relu;
  static double apply(double x) { return x > 0 || std::isnan(x) ? x : 0; }
};
struct SigmoidOp {
  static constexpr Unary kVector = Unary::sigmoid;
  static double apply(double x) { return 1 / (1 + std::exp(-x)); }
};

template <class O>
Status compute_float(Call& call) {
  const float* x = call.in<float>(0);
  float* y = call.out<float>(0);
  for_pieces(call, call.count(0),
             [&](int64_t begin, int64_t n) { unary_f32(call.target(), O::kVector, x + begin, y + begin, n); });
  return {};
}
template <class O>
Status compute_double(Call& call) {
  const double* x = call.in<double>(0);
  double* y = call.out<double>(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) y[i] = O::apply(x[i]);
  });
  return {};
}
template <class T>
Status compute_relu(Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) y[i] = x[i] > 0 ? x[i] : 0;
  });
  return {};
}

template <class O>
constexpr Kernel kFloatKernels[] = {{kAllSame<float>, compute_plain<compute_float<O>>},
                                    {kAllSame<double>, compute_plain<compute_double<O>>}};
constexpr Kernel kReluKernels[] = {kFloatKernels<ReluOp>[0],
                                   kFloatKernels<ReluOp>[1],
                                   { kAllSame<int32_t>, compute_plain<compute_relu<int32_t>> },
                                   { kAllSame<int64_t>, compute_plain<compute_relu<int64_t>> }};
constexpr int16_t kReluVersions[] = {1, 6, 13, 14};
constexpr int16_t kSigmoidVersions[] = {1, 6, 13};

constexpr Op unary(const char* name, std::span<const int16_t> versions, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = versions,
          .shape = shape_of_input<int64_t>,
          .kernels = kernels,
          .inplace = in_arg(0)};
}

}  // namespace

extern constexpr Op kRelu = unary("Relu", kReluVersions, kReluKernels);
extern constexpr Op kSigmoid = unary("Sigmoid", kSigmoidVersions, kFloatKernels<SigmoidOp>);
extern constexpr OpInference kReluInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kSigmoidInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
