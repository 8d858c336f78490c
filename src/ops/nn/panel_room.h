// What operators that multiply by packed panels share: the type of panels that were packed at load, and memory in which
// a kernel packs a matrix that is no constant: scratch of the plan while it is small, else fresh memory for the length
// of the call, so that plans do not reserve room for every large weight that is packed at load.
#pragma once
#include "kernels/gemm.h"
#include "ops/op.h"

namespace tessera {

// Panels of a weight of this type, which is f32, f16 or bf16.
constexpr PanelType panel_type(DType weight) {
  return weight == DType::f16 ? PanelType::f16 : weight == DType::bf16 ? PanelType::bf16 : PanelType::f32;
}

// The panels of input i, if it was packed at load.
inline std::optional<GemmPanels> packed_panels(const Call& call, int i) {
  const void* data = call.packed(i);
  return data ? std::optional(GemmPanels(data, panel_type(call.dtype(i)))) : std::nullopt;
}

inline constexpr int64_t kMostPanelScratch = 1 << 18;

// What Op::scratch returns for a panel of `bytes`.
inline int64_t panel_scratch(int64_t bytes) { return bytes <= kMostPanelScratch ? bytes : 0; }

class PanelRoom {
 public:
  // `bytes` is what panel_scratch was given; `at` the panel's offset in lane 0's scratch.
  Result<float*> get(const Call& call, int64_t bytes, int64_t at = 0) {
    if (bytes <= kMostPanelScratch) return reinterpret_cast<float*>(call.scratch<std::byte>(0) + at);
    TRY_ASSIGN(fresh, Tensor::allocate(DType::u8, Shape{bytes}));
    own_ = std::move(fresh);
    return static_cast<float*>(own_.mutable_data());
  }

 private:
  Tensor own_;
};

}  // namespace tessera
