// Shape, Size: the dimensions of the input (or a slice of them), and their product. Neither reads an element.
#include "ops/op.h"

namespace tessera {
namespace {

struct Params {
  int64_t start = 0;
  std::optional<int64_t> end;
  // [first, last) for a tensor of this rank.
  std::pair<int, int> range(int rank) const {
    const auto clamp = [&](int64_t v) { return static_cast<int>(std::clamp<int64_t>(v < 0 ? v + rank : v, 0, rank)); };
    const int first = clamp(start), last = clamp(end.value_or(rank));
    return {first, std::max(first, last)};
  }
};
Status parse(Attrs& a, Params& p) {
  a.get("start", p.start);
  a.get("end", p.end);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const auto [first, last] = p.range(c.rank(0));
  return c.set(0, DimVec<D>{D(last - first)});
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  const Params& p = *static_cast<const Params*>(params);
  TRY(shape(p, c));
  const auto [first, last] = p.range(c.rank(0));
  c.set_content(0, c.dims(0).subspan(static_cast<size_t>(first), static_cast<size_t>(last - first)));
  return {};
}

Status compute(const Params& p, Call& call) {
  const auto [first, last] = p.range(call.shape(0).rank());
  const auto dims = call.shape(0).dims();
  std::copy(dims.begin() + first, dims.begin() + last, call.out<int64_t>(0));
  return {};
}

Status infer_size(const void*, ShapeCall<Dim>& c) {
  TRY(c.set(0, DimVec<Dim>{}));
  c.set_content(0, DimVec<Dim>{c.count(0)}.span());
  return {};
}
Status size_shape(const void*, ShapeCall<int64_t>& c) { return c.set(0, DimVec<int64_t>{}); }
Status compute_size(Call& call) {
  *call.out<int64_t>(0) = call.count(0);
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0), kEveryType}, {out_arg(0), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr Kernel kSizeKernels[] = {{kTypes, compute_plain<compute_size>}};
constexpr int16_t kVersions[] = {1, 13, 15, 19, 21, 23, 24, 25};
constexpr int16_t kSizeVersions[] = {1, 13, 19, 21, 23, 24, 25};

}  // namespace

extern constexpr Op kShape{.domain = "",
                           .name = "Shape",
                           .versions = kVersions,
                           .parse = parse_params<Params, parse>,
                           .types = type_always<DType::i64>,
                           .shape = shape_with<Params, int64_t, shape<int64_t>>,
                           .kernels = kKernels,
                           .header_only = in_arg(0)};
extern constexpr OpInference kShapeInference{.shape = infer_shape};
extern constexpr Op kSize{.domain = "",
                          .name = "Size",
                          .versions = kSizeVersions,
                          .types = type_always<DType::i64>,
                          .shape = size_shape,
                          .kernels = kSizeKernels,
                          .header_only = in_arg(0)};
extern constexpr OpInference kSizeInference{.shape = infer_size};

}  // namespace tessera
