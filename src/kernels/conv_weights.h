// Packed weights of a convolution as the kernels read them: floats, widened piece by piece if they are narrow.
#pragma once
#include <cstdint>

#include "kernels/convert.h"
#include "kernels/gemm.h"

namespace tessera::conv {

struct Weights {
  GemmPanels panels;
  Target target;

  // The same from element `offset` on.
  Weights from(int64_t offset) const {
    const int64_t size = panels.type == PanelType::f32 ? 4 : 2;
    return {{static_cast<const char*>(panels.data) + offset * size, panels.type}, target};
  }
  // Elements [offset, offset + count): where they are, or in `room`.
  const float* at(int64_t offset, int64_t count, float* room) const {
    if (panels.type == PanelType::f32) return static_cast<const float*>(panels.data) + offset;
    const auto* narrow = static_cast<const uint16_t*>(panels.data) + offset;
    (panels.type == PanelType::f16 ? f16_to_f32 : bf16_to_f32)(target, narrow, room, count);
    return room;
  }
  bool narrow() const { return panels.type != PanelType::f32; }
};

}  // namespace tessera::conv
