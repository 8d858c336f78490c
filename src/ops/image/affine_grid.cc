// AffineGrid — where each pixel of an image (or voxel of a volume) comes from under an affine map, for GridSample.
#include "ops/agree.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

struct Params {
  bool align_corners = false;
};
Status parse(Attrs& a, Params& p) {
  a.get("align_corners", p.align_corners);
  return {};
}

// theta is [batch, spatial, spatial + 1]; size is batch, channels and the spatial dimensions.
template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  const auto matrix = [&](int64_t n) { return agree(c.dim(0, 1), D(n)) && agree(c.dim(0, 2), D(n + 1)); };
  if (c.rank(0) != 3 || (!matrix(2) && !matrix(3))) return c.refuse(0, "matrices of 2 by 3 or 3 by 4");
  const auto fits = [&](const D& n) { return (agree(n, D(4)) && matrix(2)) || (agree(n, D(5)) && matrix(3)); };
  if (c.rank(1) != 1 || !fits(c.dim(1, 0)))
    return c.refuse(1, "a batch, channels, and as many dimensions as the matrices have rows");
  const auto size = c.content(1);
  if (!size) {
    const D list = c.dim(1, 0);
    return c.unknown(0, known(list) ? static_cast<int>(number(list)) : -1);
  }
  for (const D& d : *size)
    if (known(d) && number(d) < 0) return c.refuse(1, format("dimensions of at least 0 (one is {})", number(d)));
  if (!agree((*size)[0], c.dim(0, 0))) return c.refuse(1, "as many images as there are matrices");
  DimVec<D> out{c.dim(0, 0)};
  out.append(size->subspan(2));
  out.push(D(static_cast<int64_t>(size->size()) - 2));
  return c.set(0, out);
}

// The centre of pixel i of n, where -1 and 1 are the centres of the first and last pixel or their outer edges.
double centre(bool align_corners, int64_t i, int64_t n) {
  const auto at = static_cast<double>(2 * i);
  if (align_corners) return i == 0 ? -1 : at / static_cast<double>(n - 1) - 1;
  return (at + 1) / static_cast<double>(n) - 1;
}

template <class T>
Status compute(const Params& p, Call& call) {
  const Shape& s = call.out_shape(0);
  const int spatial = s.rank() - 2;
  const int64_t pixels = s.count(1, spatial + 1);
  const T* theta = call.in<T>(0);
  T* y = call.out<T>(0);
  for_pieces(call, s[0] * pixels, [&](int64_t begin, int64_t count) {
    for (int64_t k = begin; k < begin + count; ++k) {
      double at[3];  // x first
      for (int64_t i = 0, rest = k % pixels; i < spatial; ++i) {
        const int64_t n = s[spatial - static_cast<int>(i)];
        at[i] = centre(p.align_corners, rest % n, n);
        rest /= n;
      }
      const T* row = theta + k / pixels * spatial * (spatial + 1);
      for (int64_t i = 0; i < spatial; ++i, row += spatial + 1) {
        double sum = row[spatial];
        for (int64_t j = 0; j < spatial; ++j) sum += row[j] * at[j];
        y[k * spatial + i] = static_cast<T>(sum);
      }
    }
  });
  return {};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(dtype_of<T>), widened_to<T>},
                               {in_arg(1), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Params, compute<float>>},
                               {kTypes<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {20};

}  // namespace

extern constexpr Op kAffineGrid{.domain = "",
                                .name = "AffineGrid",
                                .versions = kVersions,
                                .parse = parse_params<Params, parse>,
                                .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                .kernels = kKernels,
                                .shape_inputs = in_arg(1)};
extern constexpr OpInference kAffineGridInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
