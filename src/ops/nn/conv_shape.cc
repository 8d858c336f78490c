#include "ops/nn/conv_shape.h"

namespace tessera {

ConvShape conv_shape(const ConvParams& p, const Shape& x, const Shape& w) {
  const Geometry g = geometry_of(p.window, x, w.dims().subspan(2));
  ConvShape s;
  s.batch = x[0];
  s.channels = x[1];
  s.out_channels = w[0];
  s.groups = p.group;
  std::copy_n(g.in, kMostSpatial, s.in);
  std::copy_n(g.out, kMostSpatial, s.out);
  std::copy_n(g.kernel, kMostSpatial, s.kernel);
  std::copy_n(g.stride, kMostSpatial, s.stride);
  std::copy_n(g.dilation, kMostSpatial, s.dilation);
  std::copy_n(g.pad, kMostSpatial, s.pad);
  return s;
}

namespace {

int64_t patch_depth(const ConvShape& s) { return s.channels / s.groups * s.kernel[0] * s.kernel[1] * s.kernel[2]; }

}  // namespace

int64_t patch_block(const ConvShape& s) {
  const int64_t pixels = s.out[0] * s.out[1] * s.out[2];
  return std::clamp<int64_t>((1 << 16) / std::max<int64_t>(1, patch_depth(s)), 16, std::max<int64_t>(16, pixels));
}

int64_t patch_block_bytes(const ConvShape& s, int64_t element_size) {
  const int64_t pixels = s.out[0] * s.out[1] * s.out[2];
  return patch_depth(s) * std::min(patch_block(s), pixels) * element_size;
}

}  // namespace tessera
