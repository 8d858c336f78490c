// What the convolutions share: attributes, output shape, and patches of the input as columns of a matrix.
#pragma once
#include "kernels/conv.h"
#include "ops/nn/window.h"

namespace tessera {

struct ConvParams {
  Window window;
  int64_t group = 1;
};

inline Status parse_conv(Attrs& a, ConvParams& p) {
  TRY(parse_window(a, p.window));
  p.window.ceil_mode = false;
  a.get("group", p.group);
  if (p.group < 1 || p.group > INT32_MAX) return a.refuse("group", "at least 1");
  return {};
}

// The kernel's sizes from input W, into kernel; -1 where not known. Refuses those that disagree with the attribute.
template <class D>
Status kernel_sizes(const Window& w, ShapeCall<D>& c, int W, int64_t (&kernel)[kMostSpatial]) {
  for (int i = 0; i + 2 < c.rank(W); ++i) {
    const D d = c.dim(W, i + 2);
    const int64_t given = w.kernel.empty() ? -1 : w.kernel[static_cast<size_t>(i)];
    kernel[i] = known(d) ? number(d) : given;
    if (kernel[i] == 0 || kernel[i] > INT32_MAX) return c.refuse(W, "a kernel of at least 1 in every dimension");
    if (given >= 0 && kernel[i] != given) return c.refuse(W, format("the kernel sizes {}", std::span(w.kernel)));
  }
  return {};
}

// Output 0 of a convolution of input X with weights W and an optional bias B; X must be 0.
template <class D, int X, int W, int B>
Status conv_output(const ConvParams& p, ShapeCall<D>& c) {
  static_assert(X == 0);
  TRY(check_spatial(p.window, c));
  if (c.rank(W) != c.rank(X)) return c.refuse(W, format("{} dimensions, as input 0 has", c.rank(X)));
  const D channels = c.dim(X, 1), out_channels = c.dim(W, 0), depth = c.dim(W, 1);
  if (known(out_channels) && number(out_channels) % p.group)
    return c.refuse(W, format("output channels in {} equal groups", p.group));
  if (known(depth) && number(depth) < 1) return c.refuse(W, "at least one input channel");
  if (known(channels) && known(depth) && (number(channels) % p.group || number(channels) / p.group != number(depth)))
    return c.refuse(W, format("the channels of input 0 divided by {} groups", p.group));
  if (c.has(B)) {
    if (c.rank(B) != 1 || (known(c.dim(B, 0)) && known(out_channels) && number(c.dim(B, 0)) != number(out_channels)))
      return c.refuse(B, "one element for each output channel");
  }
  int64_t kernel[kMostSpatial];
  TRY(kernel_sizes(p.window, c, W, kernel));
  DimVec<D> out{c.dim(X, 0), out_channels};
  for (int i = 0; i + 2 < c.rank(X); ++i)
    if (kernel[i] < 0) return c.unknown(0, c.rank(X));
  TRY(slide_all(p.window, c, kernel, out));
  return c.set(0, out);
}

// For shapes that conv_output accepted.
ConvShape conv_shape(const ConvParams& p, const Shape& x, const Shape& w);

// Cuts the output pixels into blocks whose patches take a bounded amount of memory; fn(first pixel, count).
int64_t patch_block(const ConvShape& s);
template <class F>
void each_patch_block(const ConvShape& s, F&& fn) {
  const int64_t pixels = s.out[0] * s.out[1] * s.out[2], block = patch_block(s);
  for (int64_t first = 0; first < pixels; first += block) fn(first, std::min(block, pixels - first));
}
int64_t patch_block_bytes(const ConvShape& s, int64_t element_size);

// Patches of the output pixels [first, first + count) of one group of one sample, whose channels start at x, as a
// matrix [channels per group * taps, count]; what lies outside the input is `outside`.
template <class T, class U>
void gather_patches(const ConvShape& s, const T* x, U outside, int64_t first, int64_t count, U* out) {
  const int64_t plane = s.in[0] * s.in[1] * s.in[2], area = s.out[1] * s.out[2];
  for (int64_t c = 0; c < s.channels / s.groups; ++c, x += plane)
    for (int64_t kd = 0; kd < s.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < s.kernel[1]; ++kh)
        for (int64_t kw = 0; kw < s.kernel[2]; ++kw)
          for (int64_t i = first; i < first + count; ++i) {
            const int64_t d = i / area * s.stride[0] + kd * s.dilation[0] - s.pad[0];
            const int64_t h = i / s.out[2] % s.out[1] * s.stride[1] + kh * s.dilation[1] - s.pad[1];
            const int64_t w = i % s.out[2] * s.stride[2] + kw * s.dilation[2] - s.pad[2];
            const bool inside = d >= 0 && d < s.in[0] && h >= 0 && h < s.in[1] && w >= 0 && w < s.in[2];
            *out++ = inside ? static_cast<U>(x[(d * s.in[1] + h) * s.in[2] + w]) : outside;
          }
}

}  // namespace tessera
