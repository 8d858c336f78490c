// Multinomial — class numbers drawn, per row, with probabilities whose logarithms (up to a constant) the input holds.
#include <algorithm>
#include <cmath>
#include <vector>

#include "ops/random/random.h"

namespace tessera {
namespace {

struct Params {
  DType dtype = DType::i32;
  int64_t sample_size = 1;
  std::optional<float> seed;
};
Status parse(Attrs& a, Params& p) {
  a.get("dtype", p.dtype);
  a.get("sample_size", p.sample_size);
  a.get("seed", p.seed);
  TRY(a.done());
  if (!kIndexTypes.has(p.dtype)) return a.refuse("dtype", "int32 or int64");
  if (p.sample_size < 1) return a.refuse("sample_size", "at least 1");
  return {};
}

void types(TypeCall& c) { c.out[0] = {Kind::tensor, static_cast<const Params*>(c.params)->dtype, Kind::tensor}; }

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) != 2) return c.refuse(0, "a batch of rows, one element per class");
  return c.set(0, DimVec<D>{c.dim(0, 0), D(p.sample_size)});
}

template <class Y>
Status compute(const Params& p, Call& call) {
  const RandomStream random(call, p.seed);
  const int64_t rows = call.shape(0)[0], classes = call.shape(0)[1];
  if (rows == 0) return {};
  if (classes == 0) return call.refuse(0, "at least one class");
  const double* x = call.in<double>(0);
  Y* y = call.out<Y>(0);
  call.parallel(rows, [&](int64_t r, int) {
    const double* row = x + r * classes;
    const double most = *std::max_element(row, row + classes);
    std::vector<double> upto(static_cast<size_t>(classes));  // running sums of the probabilities
    double sum = 0;
    for (size_t k = 0; k < upto.size(); ++k) upto[k] = sum += row[k] == most ? 1 : std::exp(row[k] - most);
    for (int64_t i = 0; i < p.sample_size && !call.cancelled(); ++i) {
      const double at = random.uniform(r * p.sample_size + i) * sum;
      const auto drawn = std::upper_bound(upto.begin(), upto.end(), at) - upto.begin();
      y[r * p.sample_size + i] = static_cast<Y>(std::min<int64_t>(drawn, classes - 1));
    }
  });
  return call.cancelled() ? call.stopped() : Status{};
}

template <class Y>
constexpr TypeRule kTypes[] = {{in_arg(0), set_of(DType::f64), kHalfFloats | set_of(DType::f32)},
                               {out_arg(0), set_of(dtype_of<Y>)}};
constexpr Kernel kKernels[] = {{kTypes<int32_t>, compute_with<Params, compute<int32_t>>},
                               {kTypes<int64_t>, compute_with<Params, compute<int64_t>>}};
constexpr int16_t kVersions[] = {7, 22};

}  // namespace

extern constexpr Op kMultinomial{.domain = "",
                                 .name = "Multinomial",
                                 .versions = kVersions,
                                 .parse = parse_params<Params, parse>,
                                 .types = types,
                                 .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                 .kernels = kKernels,
                                 .random = true};
extern constexpr OpInference kMultinomialInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
