// Resize (and Upsample, its first form): images and volumes at another size, by scales or to given sizes.
#include <cmath>

#include "ir/patch.h"
#include "ops/tensor/resample.h"

namespace tessera {
namespace {

enum class Aspect : uint8_t { stretch, not_larger, not_smaller };

// Every version comes down to these inputs: x, roi, scales, sizes.
constexpr int kRoi = 1, kScales = 2, kSizes = 3;

struct Params {
  ResizeRule rule;
  Aspect aspect = Aspect::stretch;
  std::optional<std::vector<int64_t>> axes;
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
  return {};
}

// Scales were the second input.
Status upgrade(ir::Annotator& graph, ir::NodeId id, int since) {
  std::vector<ir::ValueId>& inputs = graph.node(id).inputs;
  if (since < 11 && inputs.size() > 1) inputs.insert(inputs.begin() + kRoi, ir::kNone);
  return {};
}

// Scales were attributes.
Status upgrade_upsample(ir::Annotator& graph, ir::NodeId id, int since) {
  if (since >= 9) return upgrade(graph, id, since);
  Attrs attrs(graph.node(id), since);
  std::vector<float> scales;
  if (since >= 7) {
    attrs.get("scales", scales);
  } else {
    scales = {1, 1, 1, 1};
    attrs.get("height_scale", scales[2]);
    attrs.get("width_scale", scales[3]);
  }
  TRY(attrs.done());
  TRY_ASSIGN(t, Tensor::of<float>(Shape{static_cast<int64_t>(scales.size())}, scales));
  const ir::ValueId value = graph.add_constant(std::move(t), graph.node(id).name + "/scales");
  graph.node(id).inputs.resize(2, ir::kNone);
  graph.node(id).inputs.push_back(value);
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

Status by_scales(std::span<const double> scales, const DimVec<int64_t>& axes, std::span<ResizeAxis> out) {
  if (static_cast<int>(scales.size()) != axes.size())
    return invalid("it has {} scales, wanted {}, one per axis", scales.size(), axes.size());
  for (int i = 0; i < axes.size(); ++i) {
    ResizeAxis& a = out[static_cast<size_t>(axes[i])];
    a.scale = static_cast<float>(scales[static_cast<size_t>(i)]);
    if (!scaled(a.in, a.scale, &a.out))
      return invalid("axis {} is {} long and has the scale {}, wanted scales above zero that memory can hold", axes[i],
                     a.in, a.scale);
  }
  return {};
}

Status by_sizes(Aspect aspect, std::span<const int64_t> sizes, const DimVec<int64_t>& axes, std::span<ResizeAxis> out) {
  if (static_cast<int>(sizes.size()) != axes.size())
    return invalid("it has {} sizes, wanted {}, one per axis", sizes.size(), axes.size());
  float least = INFINITY, most = 0;
  for (int i = 0; i < axes.size(); ++i) {
    ResizeAxis& a = out[static_cast<size_t>(axes[i])];
    a.out = sizes[static_cast<size_t>(i)];
    if (a.out < 0) return invalid("axis {} has the size {}, wanted at least 0", axes[i], a.out);
    a.scale = a.in == a.out ? 1 : static_cast<float>(a.out) / static_cast<float>(a.in);
    least = std::min(least, a.scale);
    most = std::max(most, a.scale);
  }
  for (int i = 0; aspect != Aspect::stretch && i < axes.size(); ++i) {
    ResizeAxis& a = out[static_cast<size_t>(axes[i])];
    a.scale = aspect == Aspect::not_larger ? least : most;
    const float length = a.scale * static_cast<float>(a.in) + 0.5f;
    if (!(length < 0x1p48f)) return invalid("axis {} would be {} long, wanted what memory can hold", axes[i], length);
    a.out = static_cast<int64_t>(length);
  }
  return {};
}

// What scales or sizes (whichever is not empty) make of a tensor of these dimensions.
Status resize_axes(const Params& p, std::span<const int64_t> dims, std::span<const double> scales,
                   std::span<const int64_t> sizes, std::span<ResizeAxis> out) {
  const auto axes = listed_axes(p, static_cast<int>(dims.size()));
  if (!axes) return invalid("its axes are not distinct axes of a tensor of rank {}", dims.size());
  for (size_t i = 0; i < dims.size(); ++i) out[i].in = out[i].out = dims[i];
  return sizes.empty() ? by_scales(scales, *axes, out) : by_sizes(p.aspect, sizes, *axes, out);
}

Status shape(const Params& p, ShapeCall<int64_t>& c) {
  const bool by_size = c.has(kSizes) && c.count(kSizes) > 0;
  const auto sizes = by_size ? c.content(kSizes) : std::nullopt;
  const auto scales = !by_size && c.has(kScales) ? c.reals(kScales) : std::nullopt;
  if (by_size ? !sizes : c.has(kScales) && !scales) return c.unknown(0, c.rank(0));
  ResizeAxis all[kMaxRank];
  TRY(resize_axes(p, c.dims(0), scales ? std::span<const double>(*scales) : std::span<const double>(),
                  sizes.value_or(std::span<const int64_t>()), all));
  DimVec<int64_t> out;
  for (int i = 0; i < c.rank(0); ++i) out.push(all[i].out);
  return c.set(0, out);
}

// One axis of a tensor that is resized by `scale`.
Dim scaled(ShapeCall<Dim>& c, const Dim& in, float scale) {
  int64_t n = 0;
  if (in.known() && scaled(in.value(), scale, &n)) return Dim(n);
  return scale >= 1 && scale < 0x1p20f && scale == std::floor(scale) ? in * Dim(static_cast<int64_t>(scale))
                                                                     : c.fresh();
}

Status infer_shape(const Params& p, ShapeCall<Dim>& c) {
  const auto axes = listed_axes(p, c.rank(0));
  if (!axes) return c.refuse(0, "the distinct axes that the attribute names");
  DimVec<Dim> out(c.dims(0));
  const auto sizes = c.has(kSizes) ? c.content(kSizes) : std::nullopt;
  const auto scales = c.has(kScales) && !c.has(kSizes) ? c.reals(kScales) : std::nullopt;
  const auto n = static_cast<size_t>(axes->size());
  const bool exact = sizes && p.aspect == Aspect::stretch && sizes->size() == n;
  for (size_t i = 0; exact && i < n; ++i)
    if ((*sizes)[i].known() && (*sizes)[i].value() < 0) return c.refuse(kSizes, "sizes of at least 0");
  for (size_t i = 0; i < n; ++i) {
    Dim& d = out[static_cast<int>((*axes)[static_cast<int>(i)])];
    if (exact)
      d = (*sizes)[i];
    else
      d = scales && scales->size() == n ? scaled(c, d, static_cast<float>((*scales)[i])) : c.fresh();
  }
  return c.set(0, out);
}

Status read_roi(Call& call, const Params& p, std::span<ResizeAxis> out) {
  if (p.rule.coordinates != ResizeCoordinates::tf_crop_and_resize) return {};
  const DimVec<int64_t> axes = *listed_axes(p, static_cast<int>(out.size()));
  if (!call.has(kRoi) || call.count(kRoi) != 2 * axes.size())
    return invalid("tf_crop_and_resize wants a roi of {} numbers", 2 * axes.size());
  for (int i = 0; i < axes.size(); ++i) {
    ResizeAxis& a = out[static_cast<size_t>(axes[i])];
    decode(call.dtype(kRoi), call.in(kRoi), i, 1, &a.roi_start);
    decode(call.dtype(kRoi), call.in(kRoi), axes.size() + i, 1, &a.roi_end);
  }
  return {};
}

Status compute(const Params& p, Call& call) {
  const auto dims = call.shape(0).dims();
  std::span<const int64_t> sizes;
  std::vector<double> scales;
  if (call.has(kSizes) && call.count(kSizes) > 0) {
    sizes = {call.in<int64_t>(kSizes), static_cast<size_t>(call.count(kSizes))};
  } else if (call.has(kScales)) {
    scales.assign(call.in<float>(kScales), call.in<float>(kScales) + call.count(kScales));
  }
  ResizeAxis all[kMaxRank];
  TRY(resize_axes(p, dims, scales, sizes, all));
  const std::span<ResizeAxis> each(all, dims.size());
  TRY(read_roi(call, p, each));
  return resample(call, p.rule, each);
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kAllTypes},
                               {in_arg(kRoi), kFloats},
                               {in_arg(kScales), set_of(DType::f32)},
                               {in_arg(kSizes), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {10, 11, 13, 18, 19}, kUpsampleVersions[] = {1, 7, 9, 10};

}  // namespace

extern constexpr Op kResize{.domain = "",
                            .name = "Resize",
                            .versions = kVersions,
                            .parse = parse_params<Params, parse>,
                            .shape = shape_with<Params, int64_t, shape>,
                            .kernels = kKernels,
                            .shape_inputs = in_arg(kScales) | in_arg(kSizes),
                            .upgrade = upgrade};
extern constexpr Op kUpsample{.domain = "",
                              .name = "Upsample",
                              .versions = kUpsampleVersions,
                              .parse = parse_params<Params, parse_upsample>,
                              .shape = shape_with<Params, int64_t, shape>,
                              .kernels = kKernels,
                              .shape_inputs = in_arg(kScales) | in_arg(kSizes),
                              .upgrade = upgrade_upsample};
extern constexpr OpInference kResizeInference{.shape = shape_with<Params, Dim, infer_shape>};
extern constexpr OpInference kUpsampleInference{.shape = shape_with<Params, Dim, infer_shape>};

}  // namespace tessera
