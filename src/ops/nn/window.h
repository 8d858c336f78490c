// Windows that slide over one to three spatial dimensions: attributes, output sizes and paddings of convolutions and
// pools. Tensors are [batch, channels, spatial...].
#pragma once
#include "ops/op.h"

namespace tessera {

inline constexpr int kMostSpatial = 3;

enum class AutoPad : int { notset, same_upper, same_lower, valid };

// What the attributes say. Empty lists stand for defaults; the lists that are given agree in length.
struct Window {
  std::vector<int64_t> kernel, strides, dilations, pads;  // pads: all begins, then all ends
  AutoPad auto_pad = AutoPad::notset;
  bool ceil_mode = false;

  int64_t stride(int i) const { return strides.empty() ? 1 : strides[static_cast<size_t>(i)]; }
  int64_t dilation(int i) const { return dilations.empty() ? 1 : dilations[static_cast<size_t>(i)]; }
  int64_t pad_begin(int i) const { return pads.empty() ? 0 : pads[static_cast<size_t>(i)]; }
  int64_t pad_end(int i) const { return pads.empty() ? 0 : pads[pads.size() / 2 + static_cast<size_t>(i)]; }
  // Elements from a window's first tap to its last.
  int64_t reach(int i, int64_t kernel_size) const { return (kernel_size - 1) * dilation(i) + 1; }
};

// Reads kernel_shape, strides, dilations, pads, auto_pad and ceil_mode, and refuses what no input could suit.
Status parse_window(Attrs& a, Window& w);

// Dimensions fit when they are small enough for all of the arithmetic here.
template <class D>
bool fits_window(const D& d) {
  return !known(d) || number(d) < int64_t{1} << 48;
}

// The number of window positions along spatial dimension i of `in` elements, and the padding before the first element.
// False if the window is larger than the padded input.
template <class D>
bool slide(const Window& w, int i, const D& in, int64_t kernel, D* out, D* pad) {
  const int64_t stride = w.stride(i), reach = w.reach(i, kernel);
  if (w.auto_pad == AutoPad::same_upper || w.auto_pad == AutoPad::same_lower) {
    *out = ceil_division(in, D(stride));
    const D total = dim_max((*out - D(1)) * D(stride) + D(reach) - in, D(0));
    *pad = floor_div(w.auto_pad == AutoPad::same_upper ? total : total + D(1), D(2));
    return true;
  }
  const bool padded = w.auto_pad == AutoPad::notset;
  *pad = D(padded ? w.pad_begin(i) : 0);
  const D room = in + *pad + D(padded ? w.pad_end(i) : 0) - D(reach);
  if (known(room) && number(room) < 0) return false;
  if (!w.ceil_mode) {
    *out = floor_div(room, D(stride)) + D(1);
    return true;
  }
  // The last window starts inside the input or the padding before it.
  *out = dim_min(ceil_division(room, D(stride)) + D(1), ceil_division(in + *pad, D(stride)));
  return true;
}

// Checks input 0 against the window and appends the output's spatial dimensions to `out`. kernel: a size for each of
// the spatial dimensions.
template <class D>
Status slide_all(const Window& w, ShapeCall<D>& c, std::span<const int64_t> kernel, DimVec<D>& out) {
  const int spatial = c.rank(0) - 2;
  for (int i = 0; i < spatial; ++i) {
    const D in = c.dim(0, i + 2);
    D size, pad;
    if (!fits_window(in)) return c.refuse(0, "smaller dimensions");
    if (!slide(w, i, in, kernel[static_cast<size_t>(i)], &size, &pad))
      return c.refuse(0, format("at least {} elements, padding included, in dimension {}",
                                w.reach(i, kernel[static_cast<size_t>(i)]), i + 2));
    out.push(size);
  }
  return {};
}

// Input 0 has as many spatial dimensions as the lists of the window have entries.
template <class D>
Status check_spatial(const Window& w, ShapeCall<D>& c) {
  const int spatial = c.rank(0) - 2;
  if (spatial < 1 || spatial > kMostSpatial)
    return c.refuse(0, "a batch, channels and one to three spatial dimensions");
  const auto n = static_cast<size_t>(spatial);
  for (const auto* list : {&w.kernel, &w.strides, &w.dilations})
    if (!list->empty() && list->size() != n) return c.refuse(0, format("{} spatial dimensions", list->size()));
  if (!w.pads.empty() && w.pads.size() != 2 * n) return c.refuse(0, format("{} spatial dimensions", w.pads.size() / 2));
  return {};
}

// Everything about one run, as (depth, height, width); missing leading dimensions have size 1.
struct Geometry {
  int64_t in[3] = {1, 1, 1}, out[3] = {1, 1, 1}, kernel[3] = {1, 1, 1};
  int64_t stride[3] = {1, 1, 1}, dilation[3] = {1, 1, 1}, pad[3] = {0, 0, 0}, pad_end[3] = {0, 0, 0};

  int64_t in_count() const { return in[0] * in[1] * in[2]; }
  int64_t out_count() const { return out[0] * out[1] * out[2]; }
};

// For shapes that the shape function accepted. x: [batch, channels, spatial...].
Geometry geometry_of(const Window& w, const Shape& x, std::span<const int64_t> kernel);

// The o in [*begin, *end), part of [0, out), with 0 <= o * stride + at < in.
inline void inside(int64_t at, int64_t stride, int64_t in, int64_t out, int64_t* begin, int64_t* end) {
  *begin = at >= 0 ? 0 : std::min(out, (-at + stride - 1) / stride);
  *end = at >= in ? *begin : std::clamp((in - at + stride - 1) / stride, *begin, out);
}

}  // namespace tessera
