#include "ops/nn/window.h"

namespace tessera {
namespace {

// Larger numbers mean nothing and would overflow sums of products.
constexpr int64_t kMost = INT32_MAX;

Status check(const Attrs& a, const char* name, const std::vector<int64_t>& list, int64_t least, const char* wanted) {
  for (const int64_t v : list)
    if (v < least || v > kMost) return a.refuse(name, wanted);
  return {};
}

}  // namespace

Status parse_window(Attrs& a, Window& w) {
  static constexpr std::string_view kAutoPads[] = {"NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"};
  a.get("kernel_shape", w.kernel);
  a.get("strides", w.strides);
  a.get("dilations", w.dilations);
  a.get("pads", w.pads);
  a.get("ceil_mode", w.ceil_mode);
  int choice = 0;
  std::string given;
  a.get("auto_pad", given);
  if (!given.empty()) a.get_choice("auto_pad", choice, kAutoPads);
  w.auto_pad = static_cast<AutoPad>(choice);
  TRY(check(a, "kernel_shape", w.kernel, 1, "sizes of at least 1"));
  TRY(check(a, "strides", w.strides, 1, "steps of at least 1"));
  TRY(check(a, "dilations", w.dilations, 1, "steps of at least 1"));
  TRY(check(a, "pads", w.pads, 0, "paddings of at least 0"));
  if (w.pads.size() % 2) return a.refuse("pads", "a begin and an end for each dimension");
  const size_t n = !w.kernel.empty() ? w.kernel.size() : !w.strides.empty() ? w.strides.size() : w.dilations.size();
  if (!w.strides.empty() && w.strides.size() != n) return a.refuse("strides", "one for each dimension of the kernel");
  if (!w.dilations.empty() && w.dilations.size() != n)
    return a.refuse("dilations", "one for each dimension of the kernel");
  if (n && !w.pads.empty() && w.pads.size() != 2 * n)
    return a.refuse("pads", "a begin and an end for each dimension of the kernel");
  return {};
}

Geometry geometry_of(const Window& w, const Shape& x, std::span<const int64_t> kernel) {
  Geometry g;
  const int spatial = x.rank() - 2;
  for (int i = 0; i < spatial; ++i) {
    const int at = kMostSpatial - spatial + i;
    g.in[at] = x[i + 2];
    g.kernel[at] = kernel[static_cast<size_t>(i)];
    g.stride[at] = w.stride(i);
    g.dilation[at] = w.dilation(i);
    slide(w, i, g.in[at], g.kernel[at], &g.out[at], &g.pad[at]);
    if (w.auto_pad == AutoPad::notset)
      g.pad_end[at] = w.pad_end(i);
    else if (w.auto_pad != AutoPad::valid)
      g.pad_end[at] =
          std::max<int64_t>(0, (g.out[at] - 1) * g.stride[at] + w.reach(i, g.kernel[at]) - g.in[at] - g.pad[at]);
  }
  return g;
}

}  // namespace tessera
