// Memory in which a kernel packs a matrix that is no constant: scratch of the plan while it is small, else fresh memory
// for the length of the call, so that plans do not reserve room for every large weight that is packed at load.
#pragma once
#include "ops/op.h"

namespace tessera {

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
