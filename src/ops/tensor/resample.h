// Resizing a tensor axis by axis: where each output element lies in the input, and how its neighbours are weighed.
#pragma once
#include "ops/movement.h"

namespace tessera {

enum class ResizeMode : uint8_t { nearest, linear, cubic };
enum class ResizeCoordinates : uint8_t {
  half_pixel,
  half_pixel_symmetric,
  pytorch_half_pixel,
  align_corners,
  asymmetric,
  tf_half_pixel_for_nn,
  tf_crop_and_resize,
};
// `simple` is what the first versions meant: down to the left neighbour when growing, to the right when shrinking.
enum class ResizeNearest : uint8_t { round_prefer_floor, round_prefer_ceil, floor, ceil, simple };

struct ResizeRule {
  ResizeMode mode = ResizeMode::nearest;
  ResizeCoordinates coordinates = ResizeCoordinates::half_pixel;
  ResizeNearest nearest = ResizeNearest::round_prefer_floor;
  float cubic_a = -0.75f;
  bool exclude_outside = false;
  bool antialias = false;
  float extrapolation = 0;
};

// One axis to be resized.
struct ResizeAxis {
  int64_t in = 1, out = 1;
  float scale = 1;
  float roi_start = 0, roi_end = 1;
};

// Fills output 0, which has the out sizes of `axes`, from input 0.
Status resample(Call& call, const ResizeRule& rule, std::span<const ResizeAxis> axes);

}  // namespace tessera
