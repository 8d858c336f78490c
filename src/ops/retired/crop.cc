// Crop and DynamicSlice — retired ways to cut a piece out of a tensor.
#include <algorithm>

#include "ops/compose.h"
#include "ops/movement.h"
#include "ops/retired/retired.h"

namespace tessera {
namespace {

struct Params {
  std::vector<int64_t> border;  // left, top, right, bottom
  std::vector<int64_t> scale;   // height, width; then right and bottom do not count
};
Status parse(Attrs& a, Params& p) {
  a.get("border", p.border);
  a.get("scale", p.scale);
  const auto bad = [](int64_t v) { return v < 0 || v > int64_t{1} << 48; };
  if (p.border.size() != 4 || std::any_of(p.border.begin(), p.border.end(), bad))
    return a.refuse("border", "left, top, right and bottom, none negative");
  if ((p.scale.size() != 2 && !p.scale.empty()) || std::any_of(p.scale.begin(), p.scale.end(), bad))
    return a.refuse("scale", "height and width, none negative");
  return check_retired(a, 1, 1);
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) != 4) return c.refuse(0, "the shape [N, C, H, W]");
  DimVec<D> out(c.dims(0));
  for (int k = 0; k < 2; ++k) {
    const int64_t before = p.border[k == 0 ? 1 : 0], after = p.border[k == 0 ? 3 : 2];
    D& d = out[2 + k];
    const int64_t least = before + (p.scale.empty() ? after : p.scale[static_cast<size_t>(k)]);
    if (known(d) && number(d) < least) return c.refuse(0, format("at least {} {}", least, k == 0 ? "rows" : "columns"));
    d = p.scale.empty() ? d - D(before + after) : D(p.scale[static_cast<size_t>(k)]);
  }
  return c.set(0, out);
}

Status compute(const Params& p, Call& call) {
  int64_t from[4], to[4];
  strides_of(call.shape(0).dims(), from);
  strides_of(call.out_shape(0).dims(), to);
  copy_strided(call, call.dtype(0), call.out_shape(0).dims(), call.in(0), {p.border[1] * from[2] + p.border[0], from},
               call.out(0), {0, to});
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kFloats}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};

Status compose_slice(Composer& c) {
  TRY(check_retired(c.attrs(), 3, 4));
  std::vector<ir::ValueId> inputs{c.in(0), c.in(1), c.in(2)};
  if (c.has(3)) inputs.push_back(c.in(3));
  c.out(0, c.op("Slice", std::move(inputs)));
  return {};
}

}  // namespace

extern constexpr Op kCrop{.domain = "",
                          .name = "Crop",
                          .versions = kRetiredVersions,
                          .parse = parse_params<Params, parse>,
                          .shape = shape_with<Params, int64_t, shape<int64_t>>,
                          .kernels = kKernels};
extern constexpr Op kDynamicSlice{
    .domain = "", .name = "DynamicSlice", .versions = kRetiredVersions, .kernels = {}, .compose = compose_slice};
extern constexpr OpInference kCropInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kDynamicSliceInference{};

}  // namespace tessera
