// HannWindow, HammingWindow, BlackmanWindow — sums of cosines over one period.
#include <cmath>
#include <numbers>

#include "ops/elementwise.h"
#include "ops/signal/lengths.h"

namespace tessera {
namespace {

constexpr int64_t kMostSize = int64_t{1} << 28;

struct Params {
  bool periodic = true;
  DType output = DType::f32;
};
Status parse(Attrs& a, Params& p) {
  a.get("periodic", p.periodic);
  a.get("output_datatype", p.output);
  TRY(a.done());
  if (!kNumbers.has(p.output)) return a.refuse("output_datatype", "a type of numbers");
  return {};
}
void types(TypeCall& c) { c.out[0] = {Kind::tensor, static_cast<const Params*>(c.params)->output, Kind::tensor}; }

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  TRY(check_scalar(c, 0));
  const auto n = known_scalar(c, 0);
  if (!n) return c.unknown(0, 1);
  if (known(*n) && (number(*n) < 0 || number(*n) > kMostSize))
    return c.refuse(0, format("a size from 0 to {} (got {})", kMostSize, number(*n)));
  return c.set(0, DimVec<D>{*n});
}

// a0 - a1 cos(t) + a2 cos(2 t)
struct Hann {
  static constexpr double kA[] = {0.5, 0.5, 0};
};
struct Hamming {
  static constexpr double kA[] = {25.0 / 46, 21.0 / 46, 0};
};
struct Blackman {
  static constexpr double kA[] = {0.42, 0.5, 0.08};
};

template <class W, class T>
Status compute(const Params& p, Call& call) {
  const int64_t n = call.out_count(0);
  // A symmetric window of one point has no period: what comes out is not a number, as the standard's body has it.
  const double increment = 2 * std::numbers::pi / static_cast<double>(p.periodic ? n : n - 1);
  T* y = call.out<T>(0);
  for_pieces(call, n, [&](int64_t begin, int64_t count) {
    for (int64_t i = begin; i < begin + count; ++i) {
      const double t = static_cast<double>(i) * increment;
      const double third = W::kA[2] != 0 ? W::kA[2] * std::cos(2 * t) : 0;
      y[i] = static_cast<T>(W::kA[0] - W::kA[1] * std::cos(t) + third);
    }
  });
  return {};
}

// The peak of a window is 1 to the precision of float, from which whole numbers are cut.
constexpr TypeRule kDouble[] = {{in_arg(0), kIndexTypes}, {out_arg(0), set_of(DType::f64)}};
constexpr TypeRule kOthers[] = {{in_arg(0), kIndexTypes},
                                {out_arg(0), set_of(DType::f32), kNumbers - set_of(DType::f32, DType::f64)}};
template <class W>
constexpr Kernel kKernels[] = {{kDouble, compute_with<Params, compute<W, double>>},
                               {kOthers, compute_with<Params, compute<W, float>>}};
constexpr int16_t kVersions[] = {17};

template <class W>
constexpr Op window(const char* name) {
  return {.domain = "",
          .name = name,
          .versions = kVersions,
          .parse = parse_params<Params, parse>,
          .types = types,
          .shape = shape_with<Params, int64_t, shape<int64_t>>,
          .kernels = kKernels<W>,
          .shape_inputs = in_arg(0)};
}

}  // namespace

extern constexpr Op kHannWindow = window<Hann>("HannWindow");
extern constexpr Op kHammingWindow = window<Hamming>("HammingWindow");
extern constexpr Op kBlackmanWindow = window<Blackman>("BlackmanWindow");
extern constexpr OpInference kHannWindowInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kHammingWindowInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kBlackmanWindowInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
