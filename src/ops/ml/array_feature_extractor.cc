// ArrayFeatureExtractor — chosen elements of the last axis.
#include "ops/ml/scores.h"
#include "ops/movement.h"

namespace tessera {
namespace {

template <class D>
Status shape(ShapeCall<D>& c) {
  if (c.rank(0) < 1) return c.refuse(0, "at least one dimension");
  DimVec<D> out(c.dims(0));
  if (out.size() == 1) out.insert(0, D(1));
  out[out.size() - 1] = c.count(1);
  return c.set(0, out);
}

Status compute(Call& call) {
  const int64_t columns = ml::columns_of(call), rows = columns ? call.count(0) / columns : 0, chosen = call.count(1);
  const int64_t* index = call.in<int64_t>(1);
  for (int64_t k = 0; k < chosen; ++k)
    if (index[k] < 0 || index[k] >= columns)
      return call.refuse(1, "indices from 0 to {} (element {} is {})", columns - 1, k, index[k]);
  void* y = call.out(0);
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t k = 0; k < chosen; ++k)
      copy_elements(call.dtype(0), call.in(0), r * columns + index[k], y, r * chosen + k, 1);
  return {};
}

constexpr TypeRule kTypes[] = {
    {in_arg(0) | out_arg(0), set_of(DType::f32, DType::f64, DType::i64, DType::i32, DType::string)},
    {in_arg(1), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};
constexpr int16_t kVersions[] = {1};

}  // namespace

extern constexpr Op kMlArrayFeatureExtractor{.domain = "ai.onnx.ml",
                                             .name = "ArrayFeatureExtractor",
                                             .versions = kVersions,
                                             .shape = shape_plain<int64_t, shape<int64_t>>,
                                             .kernels = kKernels};
extern constexpr OpInference kMlArrayFeatureExtractorInference{.shape = shape_plain<Dim, shape<Dim>>};

}  // namespace tessera
