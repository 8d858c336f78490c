// STFT — Fourier transforms of windowed frames that slide over each signal of a batch.
#include <algorithm>

#include "ops/signal/fft.h"
#include "ops/signal/lengths.h"

namespace tessera {
namespace {

// Inputs.
constexpr int kSignal = 0, kStep = 1, kWindow = 2, kFrameLength = 3;

struct Params {
  bool onesided = true;
};
Status parse(Attrs& a, Params& p) {
  a.get("onesided", p.onesided);
  return {};
}

template <class D>
Status check_signal(const Params& p, ShapeCall<D>& c) {
  if (c.rank(kSignal) != 3) return c.refuse(kSignal, "the shape [batch, signal, 1 or 2]");
  const D parts = c.dim(kSignal, 2);
  if (known(parts) && number(parts) != 1 && number(parts) != 2)
    return c.refuse(kSignal, "a last axis of size 1 (real) or 2 (complex)");
  if (p.onesided && known(parts) && number(parts) != 1) return c.refuse(kSignal, "real numbers when onesided is 1");
  if (c.has(kWindow) && c.rank(kWindow) != 1) return c.refuse(kWindow, "one dimension");
  return {};
}

// The length of a frame; an unknown one is nothing.
template <class D>
Result<std::optional<D>> frame_length(ShapeCall<D>& c) {
  const D signal = c.dim(kSignal, 1);
  std::optional<D> n = c.has(kWindow) ? c.dim(kWindow, 0) : signal;
  if (c.has(kFrameLength)) {
    TRY(check_scalar(c, kFrameLength));
    n = known_scalar(c, kFrameLength);
  }
  if (!n || !known(*n)) return n;
  if (number(*n) < 1 || (known(signal) && number(*n) > number(signal)))
    return c.refuse(kSignal, format("at least one frame of {} values, which must be positive", number(*n)));
  if (c.has(kWindow) && known(c.dim(kWindow, 0)) && number(c.dim(kWindow, 0)) != number(*n))
    return c.refuse(kWindow, format("as many values as frame_length, {}", number(*n)));
  return n;
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  TRY(check_signal(p, c));
  TRY(check_scalar(c, kStep));
  const std::optional<D> step = known_scalar(c, kStep);
  if (step && known(*step) && number(*step) < 1)
    return c.refuse(kStep, format("a positive frame_step (got {})", number(*step)));
  TRY_ASSIGN(n, frame_length(c));
  if (std::is_same_v<D, int64_t> && (!n || !step)) return c.unknown(0, 4);
  const bool counted = n && step && known(*step);
  const D frames = counted ? floor_div(c.dim(kSignal, 1) - *n, *step) + D(1) : c.fresh();
  const D bins = !n ? c.fresh() : p.onesided ? floor_div(*n, D(2)) + D(1) : *n;
  return c.set(0, DimVec<D>{c.dim(kSignal, 0), frames, bins, D(2)});
}

template <class T>
Status compute(const Params&, Call& call) {
  const Shape &signal = call.shape(kSignal), &out = call.out_shape(0);
  if (call.out_count(0) == 0) return {};
  const int64_t length = signal[1], parts = signal[2], step = call.integer(kStep, 0), frames = out[1], bins = out[2];
  const T* window = call.maybe<T>(kWindow);
  const int64_t n = call.has(kFrameLength) ? call.integer(kFrameLength, 0) : window ? call.shape(kWindow)[0] : length;
  TRY_ASSIGN(fft, Fft<double>::make(n, false));
  const int64_t room = n + fft.work();
  TRY_ASSIGN(memory, Tensor::allocate(DType::c128, Shape{call.threads(), room}));
  const int64_t total = signal[0] * frames, each = std::max<int64_t>(1, (1 << 12) / n);
  call.parallel(ceil_div(total, each), [&](int64_t chunk, int lane) {
    Fft<double>::Complex* z = static_cast<Fft<double>::Complex*>(memory.mutable_data()) + lane * room;
    for (int64_t i = chunk * each; i < std::min(total, (chunk + 1) * each) && !call.cancelled(); ++i) {
      const T* x = call.in<T>(kSignal) + (i / frames * length + i % frames * step) * parts;
      for (int64_t k = 0; k < n; ++k, x += parts) {
        const double w = window ? static_cast<double>(window[k]) : 1;
        z[k] = {static_cast<double>(x[0]) * w, parts == 2 ? static_cast<double>(x[1]) * w : 0};
      }
      fft.transform(z, z + n);
      T* y = call.out<T>(0) + i * bins * 2;
      for (int64_t k = 0; k < bins; ++k) {
        y[2 * k] = static_cast<T>(z[k].re);
        y[2 * k + 1] = static_cast<T>(z[k].im);
      }
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(kSignal) | in_arg(kWindow) | out_arg(0), set_of(dtype_of<T>),
                                std::is_same_v<T, float> ? kHalfFloats : TypeSet{}},
                               {in_arg(kStep), kIndexTypes},
                               {in_arg(kFrameLength), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Params, compute<float>>},
                               {kTypes<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {17};

}  // namespace

extern constexpr Op kSTFT{.domain = "",
                          .name = "STFT",
                          .versions = kVersions,
                          .parse = parse_params<Params, parse>,
                          .shape = shape_with<Params, int64_t, shape<int64_t>>,
                          .kernels = kKernels,
                          .shape_inputs = in_arg(kStep) | in_arg(kFrameLength)};
extern constexpr OpInference kSTFTInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
