// CenterCropPad — the middle of the input, or the input in the middle of zeros, axis by axis.
#include "ops/tensor/padding.h"

namespace tessera {
namespace {

struct Params {
  std::optional<std::vector<int64_t>> axes;
};
Status parse(Attrs& a, Params& p) {
  a.get("axes", p.axes);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  bool mask[kMaxRank];
  if (p.axes && !mark_axes(*p.axes, rank, mask)) return c.refuse(0, "the distinct axes that the attribute names");
  if (c.rank(1) != 1) return c.refuse(1, "a list of dimensions");
  const auto wanted = c.content(1);
  if (!wanted) return c.unknown(0, rank);
  const size_t count = p.axes ? p.axes->size() : static_cast<size_t>(rank);
  if (wanted->size() != count) return c.refuse(1, format("{} dimensions, one per axis", count));
  DimVec<D> out(c.dims(0));
  for (size_t i = 0; i < count; ++i) {
    const D d = (*wanted)[i];
    if (known(d) && number(d) < 0) return c.refuse(1, format("dimensions of at least 0 (one is {})", number(d)));
    out[p.axes ? *normalize_axis((*p.axes)[i], rank) : static_cast<int>(i)] = d;
  }
  return c.set(0, out);
}

// Odd differences: a crop starts on the left of the middle, a border is one wider on the right.
Status compute(Call& call) {
  const Shape &in = call.shape(0), &out = call.out_shape(0);
  Padding p;
  for (int i = 0; i < in.rank(); ++i) {
    const int64_t grow = out[i] - in[i], before = grow < 0 ? -(-grow / 2) : grow / 2;
    p.add(in[i], before, grow - before);
  }
  return pad_input(call, p, PadMode::constant, nullptr);
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};
constexpr int16_t kVersions[] = {18};

}  // namespace

extern constexpr Op kCenterCropPad{.domain = "",
                                   .name = "CenterCropPad",
                                   .versions = kVersions,
                                   .parse = parse_params<Params, parse>,
                                   .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                   .kernels = kKernels,
                                   .shape_inputs = in_arg(1)};
extern constexpr OpInference kCenterCropPadInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
