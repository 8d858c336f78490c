// F32 activations with constants of their own, over arrays.
//
// Each element's result depends on its value alone; NaN gives NaN. Single-threaded: the caller cuts.
#pragma once
#include <cstdint>

#include "base/cpu.h"

namespace tessera {

struct Activation {
  enum class Kind : unsigned char {
    leaky_relu,        // x < 0 ? alpha * x : x
    thresholded_relu,  // x <= alpha ? 0 : x
    hard_sigmoid,      // alpha * x + beta, kept between 0 and 1
    hard_swish,        // x * hard_sigmoid(x)
    swish,             // x / (1 + exp(-alpha * x))
  };
  Kind kind;
  float alpha = 0, beta = 0;
};
inline constexpr int kActivationCount = static_cast<int>(Activation::Kind::swish) + 1;

// y[i] = f(x[i]) for i < n; y may be x.
void activate_f32(Target target, const Activation& f, const float* x, float* y, int64_t n);

}  // namespace tessera
