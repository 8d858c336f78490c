// LinearRegressor, LinearClassifier — weighted sums of features.
#include "ops/ml/scores.h"

namespace tessera {
namespace {

using ml::PostTransform;

struct Params {
  std::vector<float> coefficients, intercepts;
  int64_t targets = 1;  // sums per row
  PostTransform post_transform = PostTransform::none;
  ml::Labels labels;  // of a classifier

  // Two classes that share one sum.
  bool shared() const { return targets == 1 && labels.size() == 2; }
  int64_t columns() const { return static_cast<int64_t>(coefficients.size()) / targets; }
};

Status parse_sums(Attrs& a, Params& p) {
  a.get("coefficients", p.coefficients);
  a.get("intercepts", p.intercepts);
  TRY(ml::get_post_transform(a, p.post_transform));
  if (p.targets < 1) return invalid_graph("it has {} targets, wanted at least 1", p.targets);
  const auto n = static_cast<int64_t>(p.coefficients.size());
  if (n % p.targets != 0) return invalid_graph("it has {} coefficients for {} targets", n, p.targets);
  if (!p.intercepts.empty() && static_cast<int64_t>(p.intercepts.size()) != p.targets)
    return invalid_graph("it has {} intercepts for {} targets", p.intercepts.size(), p.targets);
  return {};
}
Status parse_regressor(Attrs& a, Params& p) {
  a.get("targets", p.targets);
  return parse_sums(a, p);
}
// A classifier has a sum for each intercept.
Status parse_classifier(Attrs& a, Params& p) {
  TRY(ml::get_labels(a, "classlabels_ints", "classlabels_strings", p.labels));
  std::vector<float> intercepts;
  a.get("intercepts", intercepts);
  p.targets = intercepts.empty() ? p.labels.size() : static_cast<int64_t>(intercepts.size());
  TRY(parse_sums(a, p));
  if (p.targets != p.labels.size() && !p.shared())
    return invalid_graph("it has {} class labels for {} sums", p.labels.size(), p.targets);
  return {};
}

template <class D>
Status regressor_shape(const Params& p, ShapeCall<D>& c) {
  D rows = 1;
  TRY(ml::rows_with(c, p.columns(), rows));
  return c.set(0, DimVec<D>{rows, D(p.targets)});
}
template <class D>
Status classifier_shape(const Params& p, ShapeCall<D>& c) {
  D rows = 1;
  TRY(ml::rows_with(c, p.columns(), rows));
  return ml::set_classified(c, rows, p.labels.size());
}

void sums(const Params& p, const float* x, float* out) {
  const int64_t columns = p.columns();
  for (int64_t t = 0; t < p.targets; ++t) {
    double sum = p.intercepts.empty() ? 0 : p.intercepts[static_cast<size_t>(t)];
    const float* w = p.coefficients.data() + t * columns;
    for (int64_t c = 0; c < columns; ++c) sum += static_cast<double>(x[c]) * w[c];
    out[t] = static_cast<float>(sum);
  }
}

Status regress(const Params& p, Call& call) {
  const float* x = call.in<float>(0);
  float* y = call.out<float>(0);
  return ml::for_rows(call, static_cast<int64_t>(p.coefficients.size()), [&](int64_t r) {
    sums(p, x + r * p.columns(), y + r * p.targets);
    // A single target is not compared with others.
    if (p.targets > 1 || p.post_transform == PostTransform::probit)
      ml::apply(p.post_transform, std::span(y + r * p.targets, static_cast<size_t>(p.targets)));
  });
}

Status classify(const Params& p, Call& call) {
  const float* x = call.in<float>(0);
  void* labels = call.out(0);
  float* z = call.out<float>(1);
  const int64_t classes = p.labels.size();
  return ml::for_rows(call, static_cast<int64_t>(p.coefficients.size()), [&](int64_t r) {
    std::vector<float> score(static_cast<size_t>(classes));
    sums(p, x + r * p.columns(), score.data());
    int64_t winner = std::max_element(score.begin(), score.end()) - score.begin();
    if (p.shared()) {
      const float s = score[0];
      winner = s > 0;
      const bool logistic = p.post_transform == PostTransform::logistic;
      score[0] = logistic ? ml::logistic(-s) : 1 - s;
      score[1] = logistic ? ml::logistic(s) : s;
      if (p.post_transform == PostTransform::probit) score = {ml::probit(s), 0};
    } else {
      ml::apply(p.post_transform, std::span(score));
    }
    if (labels) p.labels.store(winner, labels, r);
    if (z) std::copy(score.begin(), score.end(), z + r * classes);
  });
}

constexpr Kernel kRegress[] = {{ml::kRegressorTypes, compute_with<Params, regress>}};
constexpr Kernel kClassify[] = {{ml::kClassifierTypes, compute_with<Params, classify>}};
constexpr int16_t kVersions[] = {1};

}  // namespace

extern constexpr Op kMlLinearRegressor{.domain = "ai.onnx.ml",
                                       .name = "LinearRegressor",
                                       .versions = kVersions,
                                       .parse = parse_params<Params, parse_regressor>,
                                       .types = type_always<DType::f32>,
                                       .shape = shape_with<Params, int64_t, regressor_shape<int64_t>>,
                                       .kernels = kRegress};
extern constexpr OpInference kMlLinearRegressorInference{.shape = shape_with<Params, Dim, regressor_shape<Dim>>};
extern constexpr Op kMlLinearClassifier{.domain = "ai.onnx.ml",
                                        .name = "LinearClassifier",
                                        .versions = kVersions,
                                        .parse = parse_params<Params, parse_classifier>,
                                        .types = ml::classifier_types<Params>,
                                        .shape = shape_with<Params, int64_t, classifier_shape<int64_t>>,
                                        .kernels = kClassify};
extern constexpr OpInference kMlLinearClassifierInference{.shape = shape_with<Params, Dim, classifier_shape<Dim>>};

}  // namespace tessera
