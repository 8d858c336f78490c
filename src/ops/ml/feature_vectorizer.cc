// FeatureVectorizer — tables side by side, each cut or filled up with zeros to its declared width.
#include "core/convert.h"
#include "ops/ml/scores.h"

namespace tessera {
namespace {

struct Params {
  std::vector<int64_t> widths;
  int64_t total = 0;
};
Status parse(Attrs& a, Params& p) {
  a.get("inputdimensions", p.widths);
  if (p.widths.size() != a.node().inputs.size())
    return a.refuse("inputdimensions", format("one width for each of {} inputs", a.node().inputs.size()));
  for (const int64_t w : p.widths)
    if (w < 0 || !checked_add(p.total, w, &p.total)) return a.refuse("inputdimensions", "widths of at least 0");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  D rows = 1, columns = 1;
  TRY(ml::rows_of(c, rows, columns));
  for (int i = 0; i < c.inputs(); ++i) {
    if (c.rank(i) != 1 && c.rank(i) != 2) return c.refuse(i, "a tensor of shape [N,C] or [C]");
    const D own = c.rank(i) == 1 ? D(1) : c.dim(i, 0);
    if (known(own) && known(rows) && number(own) != number(rows)) return c.refuse(i, "as many rows as input 0 has");
  }
  return c.set(0, DimVec<D>{rows, D(p.total)});
}

Status compute(const Params& p, Call& call) {
  float* y = call.out<float>(0);
  const int64_t rows = call.out_shape(0)[0];
  std::fill_n(y, call.out_count(0), 0.0f);
  int64_t at = 0;
  for (int i = 0; i < call.inputs(); ++i) {
    const Shape& s = call.shape(i);
    const int64_t columns = s[s.rank() - 1], width = p.widths[static_cast<size_t>(i)];
    for (int64_t r = 0; r < rows; ++r)
      decode(call.dtype(i), call.in(i), r * columns, std::min(columns, width), y + r * p.total + at);
    at += width;
  }
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | kRestIn, set_of(DType::f32, DType::f64, DType::i32, DType::i64)},
                               {out_arg(0), set_of(DType::f32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1};

}  // namespace

extern constexpr Op kMlFeatureVectorizer{.domain = "ai.onnx.ml",
                                         .name = "FeatureVectorizer",
                                         .versions = kVersions,
                                         .parse = parse_params<Params, parse>,
                                         .types = type_always<DType::f32>,
                                         .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                         .kernels = kKernels};
extern constexpr OpInference kMlFeatureVectorizerInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
