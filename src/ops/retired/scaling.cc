// Affine, Scale, ScaledTanh, ParametricSoftplus, ImageScaler — retired functions of each element and two numbers.
#include <cmath>

#include "ops/elementwise.h"
#include "ops/retired/retired.h"

namespace tessera {
namespace {

struct Params {
  float alpha = 1, beta = 0;
  std::vector<float> bias;  // per channel
};

struct AffineOp {
  static Status parse(Attrs& a, Params& p) {
    a.get("alpha", p.alpha);
    a.get("beta", p.beta);
    return check_retired(a, 1, 1);
  }
  static double apply(double x, double alpha, double beta) { return alpha * x + beta; }
};
struct ScaleOp {
  static Status parse(Attrs& a, Params& p) {
    a.get("scale", p.alpha);
    return check_retired(a, 1, 1);
  }
  static double apply(double x, double scale, double) { return scale * x; }
};
Status parse_factors(Attrs& a, Params& p) {
  p.beta = 1;
  a.get("alpha", p.alpha);
  a.get("beta", p.beta);
  return check_retired(a, 1, 1);
}
struct ScaledTanhOp {
  static Status parse(Attrs& a, Params& p) { return parse_factors(a, p); }
  static double apply(double x, double alpha, double beta) { return alpha * std::tanh(beta * x); }
};
struct ParametricSoftplusOp {
  static Status parse(Attrs& a, Params& p) { return parse_factors(a, p); }
  static double apply(double x, double alpha, double beta) {
    const double t = beta * x;
    return alpha * ((t < 0 ? 0 : t) + std::log1p(std::exp(-std::fabs(t))));
  }
};

template <class O, class T>
Status compute(const Params& p, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  const auto alpha = static_cast<double>(p.alpha), beta = static_cast<double>(p.beta);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) y[i] = static_cast<T>(O::apply(static_cast<double>(x[i]), alpha, beta));
  });
  return {};
}

Status parse_image_scaler(Attrs& a, Params& p) {
  a.get("scale", p.alpha);
  a.get("bias", p.bias);
  return check_retired(a, 1, 1);
}
template <class D>
Status image_shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) != 4) return c.refuse(0, "the shape [N, C, H, W]");
  const D channels = c.dim(0, 1);
  if (!p.bias.empty() && known(channels) && number(channels) != static_cast<int64_t>(p.bias.size()))
    return c.refuse(0, format("{} channels, one for each bias", p.bias.size()));
  return c.set(0, c.dims(0));
}
template <class T>
Status compute_image(const Params& p, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  const Shape& in = call.shape(0);
  const int64_t pixels = in[2] * in[3];
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) {
      const float bias = p.bias.empty() ? 0 : p.bias[static_cast<size_t>(i / pixels % in[1])];
      y[i] = static_cast<T>(
          AffineOp::apply(static_cast<double>(x[i]), static_cast<double>(p.alpha), static_cast<double>(bias)));
    }
  });
  return {};
}

template <class O>
constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute<O, float>>},
                               {kAllSame<double>, compute_with<Params, compute<O, double>>}};
constexpr Kernel kImageKernels[] = {{kAllSame<float>, compute_with<Params, compute_image<float>>},
                                    {kAllSame<double>, compute_with<Params, compute_image<double>>}};

template <class O>
constexpr Op scaling(const char* name) {
  return {.domain = "",
          .name = name,
          .versions = kRetiredVersions,
          .parse = parse_params<Params, O::parse>,
          .shape = shape_of_input<int64_t>,
          .kernels = kKernels<O>,
          .inplace = in_arg(0)};
}

}  // namespace

extern constexpr Op kAffine = scaling<AffineOp>("Affine");
extern constexpr Op kScale = scaling<ScaleOp>("Scale");
extern constexpr Op kScaledTanh = scaling<ScaledTanhOp>("ScaledTanh");
extern constexpr Op kParametricSoftplus = scaling<ParametricSoftplusOp>("ParametricSoftplus");
extern constexpr Op kImageScaler{.domain = "",
                                 .name = "ImageScaler",
                                 .versions = kRetiredVersions,
                                 .parse = parse_params<Params, parse_image_scaler>,
                                 .shape = shape_with<Params, int64_t, image_shape<int64_t>>,
                                 .kernels = kImageKernels,
                                 .inplace = in_arg(0)};
extern constexpr OpInference kAffineInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kScaleInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kScaledTanhInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kParametricSoftplusInference{.shape = shape_of_input<Dim>};
extern constexpr OpInference kImageScalerInference{.shape = shape_with<Params, Dim, image_shape<Dim>>};

}  // namespace tessera
