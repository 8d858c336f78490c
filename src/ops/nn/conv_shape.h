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

// One tap of `count` output pixels from pixel `first` on, of the plane x of one channel. tap: (depth, height, width).
template <class T>
void gather_tap(const ConvShape& s, const T* x, const int64_t (&tap)[3], T outside, int64_t first, int64_t count,
                T* out) {
  int64_t shift[3];
  for (int d = 0; d < 3; ++d) shift[d] = tap[d] * s.dilation[d] - s.pad[d];
  int64_t w = first % s.out[2], h = first / s.out[2] % s.out[1], d = first / s.out[2] / s.out[1];
  const int64_t stride = s.stride[2];
  // Columns [begin, end) of the output meet the input.
  const int64_t begin = shift[2] >= 0 ? 0 : std::min(s.out[2], ceil_div(-shift[2], stride));
  const int64_t end =
      shift[2] >= s.in[2] ? begin : std::max(begin, std::min(s.out[2], (s.in[2] - 1 - shift[2]) / stride + 1));
  for (; count > 0; w = 0) {
    const int64_t n = std::min(s.out[2] - w, count), id = d * s.stride[0] + shift[0], ih = h * s.stride[1] + shift[1];
    const bool inside = id >= 0 && id < s.in[0] && ih >= 0 && ih < s.in[1];
    const int64_t from = inside ? std::clamp(begin, w, w + n) : w + n, to = std::clamp(end, from, w + n);
    std::fill(out, out + (from - w), outside);
    const T* row = x + (id * s.in[1] + ih) * s.in[2] + shift[2];
    if (from < to && stride == 1)
      std::copy(row + from, row + to, out + (from - w));
    else
      for (int64_t i = from; i < to; ++i) out[i - w] = row[i * stride];
    std::fill(out + (to - w), out + n, outside);
    out += n;
    count -= n;
    if (++h == s.out[1]) h = 0, ++d;
  }
}

// Patches of the output pixels [first, first + count) of one group of one sample, whose channels start at x, as a
// matrix [channels per group * taps, count]; what lies outside the input is `outside`.
template <class T>
void gather_patches(const ConvShape& s, const T* x, T outside, int64_t first, int64_t count, T* out) {
  const int64_t plane = s.in[0] * s.in[1] * s.in[2];
  int64_t tap[3];
  for (int64_t c = 0; c < s.channels / s.groups; ++c, x += plane)
    for (tap[0] = 0; tap[0] < s.kernel[0]; ++tap[0])
      for (tap[1] = 0; tap[1] < s.kernel[1]; ++tap[1])
        for (tap[2] = 0; tap[2] < s.kernel[2]; ++tap[2], out += count)
          gather_tap(s, x, tap, outside, first, count, out);
}

}  // namespace tessera
