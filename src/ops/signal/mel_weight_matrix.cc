// MelWeightMatrix — triangular filters, evenly spaced on the mel scale, over the bins of a one-sided spectrum.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/signal/fft.h"
#include "ops/signal/lengths.h"

namespace tessera {
namespace {

// Inputs.
constexpr int kBands = 0, kDftLength = 1, kSampleRate = 2, kLower = 3, kUpper = 4;
constexpr int64_t kMostBands = int64_t{1} << 20;

struct Params {
  DType output = DType::f32;
};
Status parse(Attrs& a, Params& p) {
  a.get("output_datatype", p.output);
  TRY(a.done());
  if (!kNumbers.has(p.output)) return a.refuse("output_datatype", "a type of numbers");
  return {};
}
void types(TypeCall& c) { c.out[0] = {Kind::tensor, static_cast<const Params*>(c.params)->output, Kind::tensor}; }

// The number in input i, between `least` and `most`; nothing if it is not known.
template <class D>
Result<std::optional<D>> size_of(ShapeCall<D>& c, int i, int64_t least, int64_t most) {
  const std::optional<D> n = known_scalar(c, i);
  if (n && known(*n) && (number(*n) < least || number(*n) > most))
    return c.refuse(i, format("a number from {} to {} (got {})", least, most, number(*n)));
  return n;
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  for (int i = 0; i < 5; ++i) TRY(check_scalar(c, i));
  TRY_ASSIGN(bands, size_of(c, kBands, 0, kMostBands));
  TRY_ASSIGN(length, size_of(c, kDftLength, 1, kMostPaddedLength));
  if (!bands || !length) return c.unknown(0, 2);
  return c.set(0, DimVec<D>{floor_div(*length, D(2)) + D(1), *bands});
}

double mel_of(double hertz) { return 2595 * std::log1p(hertz / 700) / std::log(10.0); }
double hertz_of(double mel) { return 700 * std::expm1(mel / 2595 * std::log(10.0)); }

// The bins at which the triangles begin, peak and end: band b has edges b, b + 1 and b + 2.
Result<std::vector<int64_t>> edges_of(const Call& call, int64_t bins, int64_t bands) {
  const int64_t rate = call.integer(kSampleRate, 0), length = call.integer(kDftLength, 0);
  const double lower = *call.in<double>(kLower), upper = *call.in<double>(kUpper);
  if (rate < 1) return call.refuse(kSampleRate, "a positive number");
  if (!(lower >= 0)) return call.refuse(kLower, "a frequency that is not negative");
  if (!(upper >= lower)) return call.refuse(kUpper, "a frequency not below lower_edge_hertz, {}", lower);
  const double low = mel_of(lower), step = (mel_of(upper) - low) / static_cast<double>(bands + 2);
  std::vector<int64_t> out(static_cast<size_t>(bands) + 2);
  for (size_t i = 0; i < out.size(); ++i) {
    const double hertz = hertz_of(static_cast<double>(i) * step + low);
    const double bin = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
    // Only the last edge may be the end of the spectrum: it is where a triangle has come down to zero.
    if (!(bin < static_cast<double>(i == static_cast<size_t>(bands) + 1 ? bins + 1 : bins)))
      return call.refuse(kUpper, "a frequency inside the spectrum of {} bins", bins);
    out[i] = static_cast<int64_t>(bin);
  }
  return out;
}

Status compute(const Params&, Call& call) {
  const int64_t bins = call.out_shape(0)[0], bands = call.out_shape(0)[1];
  TRY_ASSIGN(edges, edges_of(call, bins, bands));
  auto* y = call.out<double>(0);
  std::fill(y, y + call.out_count(0), 0.0);
  for (int64_t b = 0; b < bands; ++b) {
    const int64_t* edge = edges.data() + b;
    const auto rise = static_cast<double>(edge[1] - edge[0]), fall = static_cast<double>(edge[2] - edge[1]);
    for (int64_t j = edge[0]; j < edge[1]; ++j) y[j * bands + b] = static_cast<double>(j - edge[0]) / rise;
    y[edge[1] * bands + b] = 1;
    for (int64_t j = edge[1]; j < edge[2]; ++j) y[j * bands + b] = static_cast<double>(edge[2] - j) / fall;
    if (call.cancelled()) return call.stopped();
  }
  return {};
}

constexpr TypeSet kOtherFloats = kFloats - set_of(DType::f64);
constexpr TypeRule kTypes[] = {{in_arg(kBands) | in_arg(kDftLength) | in_arg(kSampleRate), kIndexTypes},
                               {in_arg(kLower) | in_arg(kUpper), set_of(DType::f64), kOtherFloats},
                               {out_arg(0), set_of(DType::f64), kNumbers - set_of(DType::f64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {17};

}  // namespace

extern constexpr Op kMelWeightMatrix{.domain = "",
                                     .name = "MelWeightMatrix",
                                     .versions = kVersions,
                                     .parse = parse_params<Params, parse>,
                                     .types = types,
                                     .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                     .kernels = kKernels,
                                     .shape_inputs = in_arg(kBands) | in_arg(kDftLength)};
extern constexpr OpInference kMelWeightMatrixInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
