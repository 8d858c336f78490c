// MaxpoolWithMask — MaxPool where a mask ends the rows of a window: a row counts up to its first element whose mask is
// zero. A window without elements gives the lowest float.
//
// As in ONNX Runtime, element 0 of an image is never masked, that of a sequence may be.
#include <limits>

#include "ops/agree.h"
#include "ops/contrib/contrib.h"
#include "ops/nn/window.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kArity{in_arg(0) | in_arg(1), 2};

Status parse(Attrs& a, Window& w) {
  TRY(parse_window(a, w));
  if (w.kernel.empty()) return a.refuse("kernel_shape", "a size for each spatial dimension");
  return {};
}

template <class D>
Status shape(const Window& w, ShapeCall<D>& c) {
  TRY(check_spatial(w, c));
  if (c.rank(1) != c.rank(0)) return c.refuse(1, "as many dimensions as input 0");
  for (int i = 2; i < c.rank(0); ++i)
    if (!agree(c.dim(1, i), c.dim(0, i))) return c.refuse(1, "the spatial dimensions of input 0");
  for (const int i : {0, 1})
    if (known(c.dim(1, i)) && number(c.dim(1, i)) < 1) return c.refuse(1, "at least one mask");
  DimVec<D> out{c.dim(0, 0), c.dim(0, 1)};
  TRY(slide_all(w, c, std::span<const int64_t>(w.kernel), out));
  return c.set(0, out);
}

// One image or sequence. Dimensions that are missing count as 1.
struct Plane {
  int64_t size[kMostSpatial] = {1, 1, 1}, kernel[kMostSpatial] = {1, 1, 1}, stride[kMostSpatial] = {1, 1, 1};
  int64_t pad[kMostSpatial] = {}, out[kMostSpatial] = {1, 1, 1};
  bool sequence;

  // The part of window `at` that lies inside dimension d.
  std::pair<int64_t, int64_t> range(int d, int64_t at) const {
    const int64_t from = at * stride[d] - pad[d];
    return {std::max<int64_t>(0, from), std::min(size[d], from + kernel[d])};
  }

  float most(const float* x, const int32_t* mask, const int64_t* at) const {
    float best = std::numeric_limits<float>::lowest();
    const auto [d0, d1] = range(0, at[0]);
    const auto [h0, h1] = range(1, at[1]);
    const auto [w0, w1] = range(2, at[2]);
    for (int64_t d = d0; d < d1; ++d)
      for (int64_t h = h0; h < h1; ++h)
        for (int64_t w = w0; w < w1; ++w) {
          const int64_t i = (d * size[1] + h) * size[2] + w;
          if (mask[i] == 0 && (i > 0 || sequence)) break;
          best = std::max(best, x[i]);
        }
    return best;
  }
};

Status compute(const Window& w, Call& call) {
  const Shape &x = call.shape(0), &m = call.shape(1), &y = call.out_shape(0);
  const int spatial = x.rank() - 2, first = kMostSpatial - spatial;
  Plane plane;
  plane.sequence = spatial == 1;
  for (int i = 0; i < spatial; ++i) {
    plane.size[first + i] = x[i + 2];
    plane.kernel[first + i] = w.kernel[static_cast<size_t>(i)];
    plane.stride[first + i] = w.stride(i);
    slide<int64_t>(w, i, x[i + 2], w.kernel[static_cast<size_t>(i)], &plane.out[first + i], &plane.pad[first + i]);
  }
  const int64_t each = x.count(2, x.rank()), each_out = y.count(2, y.rank()), masks = m[0] * m[1];
  call.parallel(x[0] * x[1], [&](int64_t c, int) {
    const float* from = call.in<float>(0) + c * each;
    const int32_t* mask = call.in<int32_t>(1) + c % masks * each;
    float* to = call.out<float>(0) + c * each_out;
    int64_t at[kMostSpatial];
    for (at[0] = 0; at[0] < plane.out[0]; ++at[0])
      for (at[1] = 0; at[1] < plane.out[1]; ++at[1])
        for (at[2] = 0; at[2] < plane.out[2]; ++at[2]) *to++ = plane.most(from, mask, at);
  });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(DType::f32)}, {in_arg(1), set_of(DType::i32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Window, compute>}};

}  // namespace

extern constexpr Op kMicrosoftMaxpoolWithMask{.domain = kDomain,
                                              .name = "MaxpoolWithMask",
                                              .versions = kVersions,
                                              .parse = parse_checked<Window, kArity, parse>,
                                              .shape = shape_with<Window, int64_t, shape<int64_t>>,
                                              .kernels = kKernels};
extern constexpr OpInference kMicrosoftMaxpoolWithMaskInference{.shape = shape_with<Window, Dim, shape<Dim>>};

}  // namespace tessera
