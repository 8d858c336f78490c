// DepthToSpace, SpaceToDepth: channels to blocks of pixels and back, as a transpose of six dimensions.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  int64_t block = 1;
  int mode = 0;  // 0: depth-column-row, 1: column-row-depth
};
Status parse(Attrs& a, Params& p) {
  static constexpr std::string_view kModes[] = {"DCR", "CRD"};
  a.get("blocksize", p.block);
  a.get_choice("mode", p.mode, kModes);
  if (p.block < 1 || p.block > 1 << 20) return a.refuse("blocksize", "a size from 1 to 2^20");
  return {};
}

// Divides a dimension; false if that leaves a rest.
template <class D>
bool divide(const D& d, int64_t by, D* out) {
  *out = floor_div(d, D(by));
  return !known(d) || number(d) % by == 0;
}

template <class D>
Status depth_to_space(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) != 4) return c.refuse(0, "rank 4");
  D channels, height, width;
  if (!divide(c.dim(0, 1), p.block * p.block, &channels))
    return c.refuse(0, format("channels that divide by {}", p.block * p.block));
  if (!dim_product(c.dim(0, 2), D(p.block), &height) || !dim_product(c.dim(0, 3), D(p.block), &width))
    return c.refuse(0, "a smaller image");
  return c.set(0, DimVec<D>{c.dim(0, 0), channels, height, width});
}
template <class D>
Status space_to_depth(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) != 4) return c.refuse(0, "rank 4");
  D channels, height, width;
  if (!dim_product(c.dim(0, 1), D(p.block * p.block), &channels)) return c.refuse(0, "fewer channels");
  if (!divide(c.dim(0, 2), p.block, &height) || !divide(c.dim(0, 3), p.block, &width))
    return c.refuse(0, format("height and width that divide by {}", p.block));
  return c.set(0, DimVec<D>{c.dim(0, 0), channels, height, width});
}

Status compute_depth_to_space(const Params& p, Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y) return {};
  const Shape &s = call.shape(0), &out = call.out_shape(0);
  const int64_t b = p.block;
  const int64_t dcr[] = {s[0], b, b, out[1], s[2], s[3]}, crd[] = {s[0], out[1], b, b, s[2], s[3]};
  constexpr int kDcr[] = {0, 3, 4, 1, 5, 2}, kCrd[] = {0, 1, 4, 2, 5, 3};
  transpose_elements(call, call.dtype(0), p.mode ? crd : dcr, p.mode ? kCrd : kDcr, call.in(0), y);
  return {};
}
Status compute_space_to_depth(const Params& p, Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y) return {};
  const Shape &s = call.shape(0), &out = call.out_shape(0);
  const int64_t dims[] = {s[0], s[1], out[2], p.block, out[3], p.block};
  constexpr int kDcr[] = {0, 3, 5, 1, 2, 4}, kCrd[] = {0, 1, 3, 5, 2, 4};
  transpose_elements(call, call.dtype(0), dims, p.mode ? kCrd : kDcr, call.in(0), y);
  return {};
}

constexpr Kernel kToSpace[] = {{kAnyType, compute_with<Params, compute_depth_to_space>}};
constexpr Kernel kToDepth[] = {{kAnyType, compute_with<Params, compute_space_to_depth>}};
constexpr int16_t kToSpaceVersions[] = {1, 11, 13, 28}, kToDepthVersions[] = {1, 13, 28};

}  // namespace

extern constexpr Op kDepthToSpace{.domain = "",
                                  .name = "DepthToSpace",
                                  .versions = kToSpaceVersions,
                                  .parse = parse_params<Params, parse>,
                                  .shape = shape_with<Params, int64_t, depth_to_space<int64_t>>,
                                  .kernels = kToSpace};
extern constexpr Op kSpaceToDepth{.domain = "",
                                  .name = "SpaceToDepth",
                                  .versions = kToDepthVersions,
                                  .parse = parse_params<Params, parse>,
                                  .shape = shape_with<Params, int64_t, space_to_depth<int64_t>>,
                                  .kernels = kToDepth};
extern constexpr OpInference kDepthToSpaceInference{.shape = shape_with<Params, Dim, depth_to_space<Dim>>};
extern constexpr OpInference kSpaceToDepthInference{.shape = shape_with<Params, Dim, space_to_depth<Dim>>};

}  // namespace tessera
