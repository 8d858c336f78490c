// Gelu — x times the normal distribution's share below x, exact or by the tanh approximation.
#include <cmath>

#include "kernels/vmath.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  int approximate = 0;  // 0: erf, 1: tanh
};
Status parse(Attrs& a, Params& p) {
  constexpr std::string_view kChoices[] = {"none", "tanh"};
  a.get_choice("approximate", p.approximate, kChoices);
  return {};
}

double gelu(double x, bool approximate) {
  constexpr double kRootHalf = 0.70710678118654752440, kRootTwoOverPi = 0.79788456080286535588;
  if (!approximate) return 0.5 * x * std::erfc(-x * kRootHalf);
  return 0.5 * x * (1 + std::tanh(kRootTwoOverPi * (x + 0.044715 * x * x * x)));
}

Status compute_float(const Params& p, Call& call) {
  const float* x = call.in<float>(0);
  float* y = call.out<float>(0);
  const Unary op = p.approximate ? Unary::gelu_tanh : Unary::gelu_erf;
  for_pieces(call, call.count(0),
             [&](int64_t begin, int64_t n) { unary_f32(call.target(), op, x + begin, y + begin, n); });
  return {};
}
Status compute_double(const Params& p, Call& call) {
  const double* x = call.in<double>(0);
  double* y = call.out<double>(0);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) y[i] = gelu(x[i], p.approximate);
  });
  return {};
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute_float>},
                               {kAllSame<double>, compute_with<Params, compute_double>}};
constexpr int16_t kVersions[] = {20};

}  // namespace

extern constexpr Op kGelu{.domain = "",
                          .name = "Gelu",
                          .versions = kVersions,
                          .parse = parse_params<Params, parse>,
                          .shape = shape_of_input<int64_t>,
                          .kernels = kKernels,
                          .inplace = in_arg(0)};
extern constexpr OpInference kGeluInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
