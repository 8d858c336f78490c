// Resize (and Upsample, its first form): images and volumes at another size, by scales or to given sizes.
#include <cmath>

#include "ops/tensor/resample.h"

namespace tessera {
namespace {

enum class Aspect : uint8_t { stretch, not_larger, not_smaller };

struct Params {
  ResizeRule rule;
  Aspect aspect = Aspect::stretch;
  std::optional<std::vector<int64_t>> axes;
  std::vector<float> scales;  // the first versions of Upsample
  // Which inputs hold what; -1: there is none such.
  int roi = 1, scales_at = 2, sizes_at = 3;
};

constexpr std::string_view kModes[] = {"nearest", "linear", "cubic"};
constexpr std::string_view kCoordinates[] = {"half_pixel",        "half_pixel_symmetric", "pytorch_half_pixel",
                                             "align_corners",     "asymmetric",           "tf_half_pixel_for_nn",
                                             "tf_crop_and_resize"};
constexpr std::string_view kNearest[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
constexpr std::string_view kAspects[] = {"stretch", "not_larger", "not_smaller"};

template <class E>
void get_enum(Attrs& a, std::string_view name, E& out, std::span<const std::string_view> names) {
  int v = static_cast<int>(out);
  a.get_choice(name, v, names);
  out = static_cast<E>(v);
}

Status parse(Attrs& a, Params& p) {
  get_enum(a, "mode", p.rule.mode, kModes);
  if (a.version() < 11) {
    p.rule.coordinates = ResizeCoordinates::asymmetric;
    p.rule.nearest = ResizeNearest::simple;
    p.roi = p.sizes_at = -1;
    p.scales_at = 1;
    return {};
  }
  get_enum(a, "coordinate_transformation_mode", p.rule.coordinates, kCoordinates);
  get_enum(a, "nearest_mode", p.rule.nearest, kNearest);
  get_enum(a, "keep_aspect_ratio_policy", p.aspect, kAspects);
  a.get("cubic_coeff_a", p.rule.cubic_a);
  a.get("exclude_outside", p.rule.exclude_outside);
  a.get("antialias", p.rule.antialias);
  a.get("extrapolation_value", p.rule.extrapolation);
  a.get("axes", p.axes);
  return {};
}

Status parse_upsample(Attrs& a, Params& p) {
  static constexpr std::string_view kUpsampleModes[] = {"nearest", "linear"}, kFirstModes[] = {"nearest", "bilinear"};
  get_enum(a, "mode", p.rule.mode, a.version() < 7 ? std::span(kFirstModes) : std::span(kUpsampleModes));
  p.rule.coordinates = ResizeCoordinates::asymmetric;
  p.rule.nearest = ResizeNearest::floor;
  p.roi = p.sizes_at = p.scales_at = -1;
  if (a.version() >= 9) {
    p.scales_at = 1;
  } else if (a.version() >= 7) {
    a.get("scales", p.scales);
  } else {
    p.scales = {1, 1, 1, 1};
    a.get("height_scale", p.scales[2]);
    a.get("width_scale", p.scales[3]);
  }
  return {};
}

// The axes that scales, sizes and roi speak of, in their order.
std::optional<DimVec<int64_t>> listed_axes(const Params& p, int rank) {
  DimVec<int64_t> out;
  for (int i = 0; !p.axes && i < rank; ++i) out.push(i);
  bool mask[kMaxRank];
  if (p.axes && !mark_axes(*p.axes, rank, mask)) return {};
  for (size_t i = 0; p.axes && i < p.axes->size(); ++i) out.push(*normalize_axis((*p.axes)[i], rank));
  return out;
}

// floor(in * scale), if that is a size.
bool scaled(int64_t in, float scale, int64_t* out) {
  if (!(scale > 0)) return false;
  const float length = static_cast<float>(in) * scale;
  if (!(length < 0x1p48f)) return false;
  *out = static_cast<int64_t>(length);
  return true;
}

Status by_scales(Call& call, std::span<const float> scales, const DimVec<int64_t>& axes, std::span<ResizeAxis> out) {
  if (static_cast<int>(scales.size()) != axes.size())
    return invalid("it has {} scales, wanted {}, one per axis", scales.size(), axes.size());
  for (int i = 0; i < axes.size(); ++i) {
    ResizeAxis& a = out[static_cast<size_t>(axes[i])];
    a.scale = scales[static_cast<size_t>(i)];
    if (!scaled(a.in, a.scale, &a.out))
      return call.refuse(0, "scales above zero that memory can hold (axis {} has {})", axes[i], a.scale);
  }
  return {};
}

Status by_sizes(Call& call, const Params& p, std::span<const int64_t> sizes, const DimVec<int64_t>& axes,
                std::span<ResizeAxis> out) {
  if (static_cast<int>(sizes.size()) != axes.size())
    return call.refuse(p.sizes_at, "{} sizes, one per axis", axes.size());
  float least = INFINITY, most = 0;
  for (int i = 0; i < axes.size(); ++i) {
    ResizeAxis& a = out[static_cast<size_t>(axes[i])];
    a.out = sizes[static_cast<size_t>(i)];
    if (a.out < 0) return call.refuse(p.sizes_at, "sizes of at least 0 (axis {} has {})", axes[i], a.out);
    a.scale = a.in == a.out ? 1 : static_cast<float>(a.out) / static_cast<float>(a.in);
    least = std::min(least, a.scale);
    most = std::max(most, a.scale);
  }
  for (int i = 0; p.aspect != Aspect::stretch && i < axes.size(); ++i) {
    ResizeAxis& a = out[static_cast<size_t>(axes[i])];
    a.scale = p.aspect == Aspect::not_larger ? least : most;
    const float length = a.scale * static_cast<float>(a.in) + 0.5f;
    if (!(length < 0x1p48f)) return call.refuse(p.sizes_at, "sizes that memory can hold");
    a.out = static_cast<int64_t>(length);
  }
  return {};
}

Status read_roi(Call& call, const Params& p, const DimVec<int64_t>& axes, std::span<ResizeAxis> out) {
  if (p.rule.coordinates != ResizeCoordinates::tf_crop_and_resize) return {};
  if (!call.has(p.roi) || call.count(p.roi) != 2 * axes.size())
    return invalid("tf_crop_and_resize wants a roi of {} numbers", 2 * axes.size());
  for (int i = 0; i < axes.size(); ++i) {
    ResizeAxis& a = out[static_cast<size_t>(axes[i])];
    decode(call.dtype(p.roi), call.in(p.roi), i, 1, &a.roi_start);
    decode(call.dtype(p.roi), call.in(p.roi), axes.size() + i, 1, &a.roi_end);
  }
  return {};
}

Status compute(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  const auto axes = listed_axes(p, shape.rank());
  if (!axes) return call.refuse(0, "the distinct axes that the attribute names");
  ResizeAxis all[kMaxRank];
  for (int i = 0; i < shape.rank(); ++i) all[i].in = all[i].out = shape[i];
  const std::span<ResizeAxis> each(all, static_cast<size_t>(shape.rank()));
  const auto filled = [&](int i) { return i >= 0 && call.has(i) && call.count(i) > 0; };
  if (filled(p.sizes_at)) {
    TRY(by_sizes(call, p, {call.in<int64_t>(p.sizes_at), static_cast<size_t>(call.count(p.sizes_at))}, *axes, each));
  } else if (filled(p.scales_at)) {
    TRY(by_scales(call, {call.in<float>(p.scales_at), static_cast<size_t>(call.count(p.scales_at))}, *axes, each));
  } else {
    TRY(by_scales(call, p.scales, *axes, each));
  }
  TRY(read_roi(call, p, *axes, each));
  DimVec<int64_t> dims;
  for (const ResizeAxis& a : each) dims.push(a.out);
  TRY_ASSIGN(out, Shape::checked(dims.span()));
  TRY(call.allocate(0, call.dtype(0), std::move(out)));
  return resample(call, p.rule, each);
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  const Params& p = *static_cast<const Params*>(params);
  const auto axes = listed_axes(p, c.rank(0));
  if (!axes) return c.refuse(0, "the distinct axes that the attribute names");
  DimVec<Dim> out(c.dims(0));
  const auto sizes = p.sizes_at >= 0 && c.has(p.sizes_at) ? c.content(p.sizes_at) : std::nullopt;
  const bool exact = sizes && p.aspect == Aspect::stretch && static_cast<int>(sizes->size()) == axes->size();
  for (int i = 0; exact && i < axes->size(); ++i)
    if (const Dim& n = (*sizes)[static_cast<size_t>(i)]; n.known() && n.value() < 0)
      return c.refuse(p.sizes_at, format("sizes of at least 0 (axis {} has {})", (*axes)[i], n.value()));
  for (int i = 0; i < axes->size(); ++i) {
    Dim& d = out[static_cast<int>((*axes)[i])];
    int64_t n = 0;
    if (exact)
      d = (*sizes)[static_cast<size_t>(i)];
    else if (static_cast<int>(p.scales.size()) == axes->size() && d.known() &&
             scaled(d.value(), p.scales[static_cast<size_t>(i)], &n))
      d = Dim(n);
    else
      d = c.fresh();
  }
  return c.set(0, out);
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kAllTypes},
                               {in_arg(1), kFloats},
                               {in_arg(2), set_of(DType::f32)},
                               {in_arg(3), set_of(DType::i64)}};
constexpr TypeRule kUpsampleTypes[] = {{in_arg(0) | out_arg(0), kAllTypes}, {in_arg(1), set_of(DType::f32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr Kernel kUpsampleKernels[] = {{kUpsampleTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {10, 11, 13, 18, 19}, kUpsampleVersions[] = {1, 7, 9, 10};

}  // namespace

extern constexpr Op kResize{
    .domain = "", .name = "Resize", .versions = kVersions, .parse = parse_params<Params, parse>, .kernels = kKernels};
extern constexpr Op kUpsample{.domain = "",
                              .name = "Upsample",
                              .versions = kUpsampleVersions,
                              .parse = parse_params<Params, parse_upsample>,
                              .kernels = kUpsampleKernels};
extern constexpr OpInference kResizeInference{.shape = infer_shape};
extern constexpr OpInference kUpsampleInference{.shape = infer_shape};

}  // namespace tessera
