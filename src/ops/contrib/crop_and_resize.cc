// CropAndResize — rectangles of images, each brought to one size; corners meet corners.
#include <cmath>

#include "ops/agree.h"
#include "ops/contrib/contrib.h"
#include "ops/movement.h"

namespace tessera {
namespace {
using namespace contrib;

enum Input { kX, kRois, kBatch, kSize };
constexpr Arity kArity{in_arg(kX) | in_arg(kRois) | in_arg(kBatch) | in_arg(kSize), 4};

struct Params {
  int mode = 0;  // 0 bilinear, 1 nearest
  float outside = 0;
};

Status parse(Attrs& a, Params& p) {
  static constexpr std::string_view kModes[] = {"bilinear", "nearest"};
  a.get_choice("mode", p.mode, kModes);
  a.get("extrapolation_value", p.outside);
  return {};
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  if (c.rank(kX) != 4) return c.refuse(kX, "[batch, channels, height, width]");
  if (c.rank(kRois) != 2 || !agree(c.dim(kRois, 1), D(4))) return c.refuse(kRois, "four numbers for each rectangle");
  if (!is_list(c, kBatch, c.dim(kRois, 0))) return c.refuse(kBatch, "an image for each rectangle");
  if (!is_list(c, kSize, D(2))) return c.refuse(kSize, "a height and a width");
  const auto size = known_list(c, kSize);
  if (!size) return c.unknown(0, 4);
  for (int i = 0; i < 2; ++i)
    if (known((*size)[i]) && number((*size)[i]) < 1) return c.refuse(kSize, "a height and a width of at least 1");
  return c.set(0, DimVec<D>{c.dim(kRois, 0), c.dim(kX, 1), (*size)[0], (*size)[1]});
}

// Places along one axis of the image that a crop takes its rows (or columns) from.
struct Sample {
  int64_t low = 0, high = 0;
  float part = 0;
  bool inside = false;
};
std::vector<Sample> samples(const Params& p, float from, float to, int64_t count, int64_t size) {
  std::vector<Sample> out(static_cast<size_t>(count));
  const auto last = static_cast<float>(size - 1);
  const float step = count > 1 ? (to - from) * last / static_cast<float>(count - 1) : 0;
  for (int64_t i = 0; i < count; ++i) {
    const float at = count > 1 ? from * last + static_cast<float>(i) * step : 0.5f * (from + to) * last;
    Sample& s = out[static_cast<size_t>(i)];
    s.inside = at >= 0 && at <= last;  // false for NaN
    if (!s.inside) continue;
    const float base = p.mode ? std::round(at) : std::floor(at);
    s.low = static_cast<int64_t>(base);
    s.high = p.mode ? s.low : static_cast<int64_t>(std::ceil(at));
    s.part = p.mode ? 0 : at - base;
  }
  return out;
}

void crop(const Params& p, const float* x, int64_t width, std::span<const Sample> rows, std::span<const Sample> columns,
          float* y) {
  for (const Sample& r : rows)
    for (const Sample& c : columns) {
      if (!r.inside || !c.inside) {
        *y++ = p.outside;
        continue;
      }
      const float *above = x + r.low * width, *below = x + r.high * width;
      const float top = above[c.low] + (above[c.high] - above[c.low]) * c.part;
      const float bottom = below[c.low] + (below[c.high] - below[c.low]) * c.part;
      *y++ = top + (bottom - top) * r.part;
    }
}

Status compute(const Params& p, Call& call) {
  const Shape &x = call.shape(kX), &y = call.out_shape(0);
  const int32_t* image = call.in<int32_t>(kBatch);
  for (int64_t i = 0; i < call.count(kBatch); ++i)
    if (image[i] < 0 || image[i] >= x[0])
      return call.refuse(kBatch, "images from 0 to {} (element {} is {})", x[0] - 1, i, image[i]);
  call.parallel(y[0], [&](int64_t i, int) {
    const float* roi = call.in<float>(kRois) + i * 4;
    const auto rows = samples(p, roi[0], roi[2], y[2], x[2]), columns = samples(p, roi[1], roi[3], y[3], x[3]);
    for (int64_t c = 0; c < x[1]; ++c)
      crop(p, call.in<float>(kX) + (image[i] * x[1] + c) * x[2] * x[3], x[3], rows, columns,
           call.out<float>(0) + (i * x[1] + c) * y[2] * y[3]);
  });
  return {};
}

constexpr TypeRule kTypes[] = {
    {in_arg(kX) | in_arg(kRois) | out_arg(0), set_of(DType::f32), kHalfFloats | set_of(DType::f64)},
    {in_arg(kBatch) | in_arg(kSize), set_of(DType::i32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};

}  // namespace

extern constexpr Op kMicrosoftCropAndResize{.domain = kDomain,
                                            .name = "CropAndResize",
                                            .versions = kVersions,
                                            .parse = parse_checked<Params, kArity, parse>,
                                            .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                            .kernels = kKernels,
                                            .shape_inputs = in_arg(kSize)};
extern constexpr OpInference kMicrosoftCropAndResizeInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
