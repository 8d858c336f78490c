// CausalConvWithState — a convolution along the length, of every channel with its own kernel, whose left border is what
// the call before left over.
#include <cmath>

#include "ops/elementwise.h"

namespace tessera {
namespace {

enum Input { kInput, kWeight, kBias, kPastState };
enum Output { kOutput, kPresentState };

struct Params {
  bool silu = false;
};

Status parse(Attrs& a, Params& p) {
  constexpr std::string_view kNames[] = {"none", "silu", "swish"};
  int activation = 0;
  a.get_choice("activation", activation, kNames);
  p.silu = activation != 0;
  return {};
}

template <class D>
bool differ(const D& a, const D& b) {
  return known(a) && known(b) && number(a) != number(b);
}

template <class D>
Status shape(ShapeCall<D>& c) {
  if (c.rank(kInput) != 3) return c.refuse(kInput, "[batch, channels, length]");
  const D batch = c.dim(kInput, 0), channels = c.dim(kInput, 1);
  if (c.rank(kWeight) != 3 || differ(c.dim(kWeight, 0), channels) || differ(c.dim(kWeight, 1), D(1)) ||
      (known(c.dim(kWeight, 2)) && number(c.dim(kWeight, 2)) < 1))
    return c.refuse(kWeight, "[channels, 1, kernel size of at least 1]");
  if (c.has(kBias) && (c.rank(kBias) != 1 || differ(c.dim(kBias, 0), channels)))
    return c.refuse(kBias, "one number per channel");
  const D kept = c.dim(kWeight, 2) - D(1);
  if (c.has(kPastState) && (c.rank(kPastState) != 3 || differ(c.dim(kPastState, 0), batch) ||
                            differ(c.dim(kPastState, 1), channels) || differ(c.dim(kPastState, 2), kept)))
    return c.refuse(kPastState, "[batch, channels, kernel size - 1]");
  TRY(c.set(kOutput, c.dims(kInput)));
  return c.outputs() > kPresentState ? c.set(kPresentState, {batch, channels, kept}) : Status{};
}

// One channel. `past` holds the kept elements before x, or is null for zeros.
void convolve(const float* x, int64_t length, const float* w, int64_t taps, const float* past, float* y) {
  for (int64_t j = 0; j < taps; ++j) {
    const int64_t back = taps - 1 - j, border = std::min(back, length);
    for (int64_t t = 0; past && t < border; ++t) y[t] += w[j] * past[t + j];
    for (int64_t t = border; t < length; ++t) y[t] += w[j] * x[t - back];
  }
}

// The last `kept` elements of past and x together.
void keep(const float* x, int64_t length, const float* past, int64_t kept, float* out) {
  const int64_t fresh = std::min(kept, length), old = kept - fresh;
  if (past)
    std::copy_n(past + fresh, old, out);
  else
    std::fill_n(out, old, 0.0f);
  std::copy_n(x + length - fresh, fresh, out + old);
}

Status compute(const Params& p, Call& call) {
  const Shape& s = call.shape(kInput);
  const int64_t channels = s[1], length = s[2], taps = call.shape(kWeight)[2], kept = taps - 1;
  const float *x = call.in<float>(kInput), *w = call.in<float>(kWeight), *bias = call.maybe<float>(kBias),
              *past = call.maybe<float>(kPastState);
  float *y = call.out<float>(kOutput), *present = call.out<float>(kPresentState);
  const int64_t per_chunk = std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(1, length));
  call.parallel(ceil_div(s[0] * channels, per_chunk), [&](int64_t chunk, int) {
    if (call.cancelled()) return;
    for (int64_t i = chunk * per_chunk, end = std::min(s[0] * channels, i + per_chunk); i < end; ++i) {
      const float *in = x + i * length, *before = past ? past + i * kept : nullptr;
      if (present) keep(in, length, before, kept, present + i * kept);
      if (!y) continue;
      float* out = y + i * length;
      std::fill_n(out, length, bias ? bias[i % channels] : 0.0f);
      convolve(in, length, w + i % channels * taps, taps, before, out);
      for (int64_t t = 0; p.silu && t < length; ++t) out[t] /= 1 + std::exp(-out[t]);
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

constexpr TypeRule kTypes[] = {
    {in_arg(kInput) | in_arg(kWeight) | in_arg(kBias) | in_arg(kPastState) | out_arg(kOutput) | out_arg(kPresentState),
     set_of(DType::f32), kHalfFloats}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {27};

}  // namespace

extern constexpr Op kCausalConvWithState{.domain = "",
                                         .name = "CausalConvWithState",
                                         .versions = kVersions,
                                         .parse = parse_params<Params, parse>,
                                         .shape = shape_plain<int64_t, shape<int64_t>>,
                                         .kernels = kKernels};
extern constexpr OpInference kCausalConvWithStateInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
