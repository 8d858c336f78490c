// SVMRegressor, SVMClassifier — support vector machines.
#include "ops/ml/scores.h"

namespace tessera {
namespace {

using ml::PostTransform;

struct Machine {
  enum Kernel { linear, poly, rbf, sigmoid };
  int kernel = linear;
  float gamma = 0, coef0 = 0, degree = 0;
  std::vector<float> vectors, coefficients, rho;
  int64_t columns = 0;
  PostTransform post_transform = PostTransform::none;

  double apply(const float* x, const float* y) const {
    double sum = 0;
    for (int64_t i = 0; i < columns; ++i) {
      const double a = x[i], b = y[i];
      sum += kernel == rbf ? (a - b) * (a - b) : a * b;
    }
    switch (kernel) {
      case poly: return std::pow(gamma * sum + coef0, static_cast<double>(degree));
      case sigmoid: return std::tanh(gamma * sum + coef0);
      case rbf: return std::exp(-gamma * sum);
      default: return sum;
    }
  }
};

Status parse_machine(Attrs& a, Machine& m) {
  static constexpr std::string_view kKernels[] = {"LINEAR", "POLY", "RBF", "SIGMOID"};
  a.get_choice("kernel_type", m.kernel, kKernels);
  std::vector<float> params;
  a.get("kernel_params", params);
  if (!params.empty() && params.size() < 3) return a.refuse("kernel_params", "gamma, coef0 and degree");
  if (!params.empty()) m.gamma = params[0], m.coef0 = params[1], m.degree = params[2];
  a.get("support_vectors", m.vectors);
  a.get("coefficients", m.coefficients);
  a.get("rho", m.rho);
  if (m.coefficients.empty()) return a.refuse("coefficients", "at least one");
  return ml::get_post_transform(a, m.post_transform);
}

// Columns, when `count` vectors make up a list of `size` numbers.
Status set_columns(Machine& m, size_t size, int64_t count) {
  if (count < 1 || static_cast<int64_t>(size) % count != 0)
    return invalid_graph("it has {} numbers for {} vectors", size, count);
  m.columns = static_cast<int64_t>(size) / count;
  return {};
}

// ------------------------------------------------------------------------------------------------------ SVMRegressor

struct Regressor : Machine {
  int64_t supports = 0;  // 0: coefficients weigh the features themselves
  bool one_class = false;
};

Status parse_regressor(Attrs& a, Regressor& p) {
  TRY(parse_machine(a, p));
  a.get("n_supports", p.supports);
  a.get("one_class", p.one_class);
  if (p.rho.empty()) return a.refuse("rho", "one number");
  if (p.supports < 0) return a.refuse("n_supports", "at least 0");
  if (p.supports == 0) {
    p.columns = static_cast<int64_t>(p.coefficients.size());
    p.kernel = Machine::linear;
    return {};
  }
  if (static_cast<int64_t>(p.coefficients.size()) < p.supports)
    return invalid_graph("it has {} coefficients for {} support vectors", p.coefficients.size(), p.supports);
  return set_columns(p, p.vectors.size(), p.supports);
}

template <class D>
Status regressor_shape(const Regressor& p, ShapeCall<D>& c) {
  D rows = 1;
  TRY(ml::rows_with(c, p.columns, rows));
  return c.set(0, DimVec<D>{rows, D(1)});
}

Status regress(const Regressor& p, Call& call) {
  const float* x = call.in<float>(0);
  float* y = call.out<float>(0);
  return ml::for_rows(call, p.columns * std::max<int64_t>(1, p.supports), [&](int64_t r) {
    const float* row = x + r * p.columns;
    double sum = p.rho[0];
    if (p.supports == 0) sum += p.apply(row, p.coefficients.data());
    for (int64_t k = 0; k < p.supports; ++k)
      sum += p.coefficients[static_cast<size_t>(k)] * p.apply(row, p.vectors.data() + k * p.columns);
    const auto s = static_cast<float>(sum);
    y[r] = p.one_class ? (s > 0 ? 1.0f : -1.0f) : s;
  });
}

// ------------------------------------------------------------------------------------------------------ SVMClassifier

struct Classifier : Machine {
  ml::Labels labels;
  std::vector<int64_t> per_class, first;  // support vectors of each class, and where they start
  std::vector<float> prob_a, prob_b;
  int64_t vectors_count = 0;  // 0: one linear function per class
  bool all_positive = false;

  int64_t classes() const { return vectors_count ? static_cast<int64_t>(per_class.size()) : labels.size(); }
  int64_t pairs() const { return classes() * (classes() - 1) / 2; }
  bool probabilities() const { return vectors_count && !prob_a.empty(); }
  // Scores per row in the result.
  int64_t scores() const {
    return probabilities() || !vectors_count || classes() <= 2 ? std::max<int64_t>(classes(), 2) : pairs();
  }
};

Status parse_classifier(Attrs& a, Classifier& p) {
  TRY(parse_machine(a, p));
  TRY(ml::get_labels(a, "classlabels_ints", "classlabels_strings", p.labels));
  a.get("vectors_per_class", p.per_class);
  a.get("prob_a", p.prob_a);
  a.get("prob_b", p.prob_b);
  for (const int64_t n : p.per_class) {
    p.first.push_back(p.vectors_count);
    if (n < 0 || !checked_add(p.vectors_count, n, &p.vectors_count))
      return a.refuse("vectors_per_class", "counts of at least 0");
  }
  p.all_positive = std::all_of(p.coefficients.begin(), p.coefficients.end(), [](float c) { return c >= 0; });
  if (p.rho.empty()) return a.refuse("rho", "at least one number");
  if (!p.vectors_count) {
    p.kernel = Machine::linear;
    return set_columns(p, p.coefficients.size(), p.labels.size());
  }
  if (p.classes() < 2 || p.labels.size() < p.classes())
    return invalid_graph("it has {} class labels for {} classes, wanted at least 2", p.labels.size(), p.classes());
  int64_t needed;
  if (!checked_mul(p.vectors_count, p.classes() - 1, &needed) || static_cast<int64_t>(p.coefficients.size()) < needed)
    return invalid_graph("it has {} coefficients for {} support vectors of {} classes", p.coefficients.size(),
                         p.vectors_count, p.classes());
  const auto per_pair = [&](const std::vector<float>& list) { return static_cast<int64_t>(list.size()) >= p.pairs(); };
  if (!per_pair(p.rho) || (!p.prob_a.empty() && (!per_pair(p.prob_a) || !per_pair(p.prob_b))))
    return invalid_graph("it wants one rho, prob_a and prob_b for each of {} pairs of classes", p.pairs());
  return set_columns(p, p.vectors.size(), p.vectors_count);
}

template <class D>
Status classifier_shape(const Classifier& p, ShapeCall<D>& c) {
  D rows = 1;
  TRY(ml::rows_with(c, p.columns, rows));
  return ml::set_classified(c, rows, p.scores());
}

// The decision of each pair of classes, and a vote for the one it prefers.
void decide_pairs(const Classifier& p, const float* x, std::vector<float>& scores, std::vector<int64_t>& votes) {
  std::vector<double> kernels(static_cast<size_t>(p.vectors_count));
  for (int64_t k = 0; k < p.vectors_count; ++k)
    kernels[static_cast<size_t>(k)] = p.apply(x, p.vectors.data() + k * p.columns);
  const auto part = [&](int64_t row, int64_t of) {
    double sum = 0;
    const int64_t begin = p.first[static_cast<size_t>(of)], end = begin + p.per_class[static_cast<size_t>(of)];
    for (int64_t k = begin; k < end; ++k)
      sum += p.coefficients[static_cast<size_t>(row * p.vectors_count + k)] * kernels[static_cast<size_t>(k)];
    return sum;
  };
  for (int64_t i = 0; i < p.classes(); ++i)
    for (int64_t j = i + 1; j < p.classes(); ++j) {
      const double sum = part(j - 1, i) + part(i, j) + p.rho[scores.size()];
      scores.push_back(static_cast<float>(sum));
      ++votes[static_cast<size_t>(sum > 0 ? i : j)];
    }
}

// Probabilities of classes from those of pairs, after Wu, Lin and Weng: the fixed point of p = argmin p' Q p.
std::vector<float> couple(int64_t classes, const std::vector<double>& r) {
  const auto n = static_cast<size_t>(classes);
  std::vector<double> q(n * n, 0), qp(n), p(n, 1.0 / static_cast<double>(n));
  for (size_t t = 0; t < n; ++t)
    for (size_t j = 0; j < n; ++j) {
      if (j == t) continue;
      q[t * n + t] += r[j * n + t] * r[j * n + t];
      q[t * n + j] = -r[j * n + t] * r[t * n + j];
    }
  const double enough = 0.005 / static_cast<double>(n);
  for (size_t round = 0; round < std::max<size_t>(100, n); ++round) {
    double pqp = 0, error = 0;
    for (size_t t = 0; t < n; ++t) {
      qp[t] = 0;
      for (size_t j = 0; j < n; ++j) qp[t] += q[t * n + j] * p[j];
      pqp += p[t] * qp[t];
    }
    for (size_t t = 0; t < n; ++t) error = std::max(error, std::abs(qp[t] - pqp));
    if (error < enough) break;
    for (size_t t = 0; t < n; ++t) {
      const double d = (pqp - qp[t]) / q[t * n + t];
      p[t] += d;
      pqp = (pqp + d * (d * q[t * n + t] + 2 * qp[t])) / (1 + d) / (1 + d);
      for (size_t j = 0; j < n; ++j) {
        qp[j] = (qp[j] + d * q[t * n + j]) / (1 + d);
        p[j] /= 1 + d;
      }
    }
  }
  return std::vector<float>(p.begin(), p.end());
}

std::vector<float> probabilities(const Classifier& p, const std::vector<float>& decisions) {
  const auto n = static_cast<size_t>(p.classes());
  std::vector<double> pair(n * n, 0);
  size_t k = 0;
  for (size_t i = 0; i < n; ++i)
    for (size_t j = i + 1; j < n; ++j, ++k) {
      const float v = 1 - ml::logistic(decisions[k] * p.prob_a[k] + p.prob_b[k]);
      pair[i * n + j] = std::clamp<double>(v, 1e-7, 1 - 1e-7);
      pair[j * n + i] = 1 - pair[i * n + j];
    }
  return couple(p.classes(), pair);
}

// The class of a row; `scores` become what is written for it.
int64_t classify_row(const Classifier& p, const float* x, std::vector<float>& scores) {
  std::vector<int64_t> votes(static_cast<size_t>(p.classes()), 0);
  if (p.vectors_count)
    decide_pairs(p, x, scores, votes);
  else
    for (int64_t k = 0; k < p.classes(); ++k)
      scores.push_back(static_cast<float>(p.apply(x, p.coefficients.data() + k * p.columns) + p.rho[0]));
  if (p.probabilities()) scores = probabilities(p, scores);
  const auto first_of_most = [](const auto& list) { return std::max_element(list.begin(), list.end()) - list.begin(); };
  int64_t winner = p.vectors_count ? first_of_most(votes) : first_of_most(scores);
  // Two linear functions: the second class wins as soon as either is positive enough.
  if (!p.vectors_count && p.classes() == 2) {
    const float most = scores[static_cast<size_t>(winner)];
    if (p.all_positive ? most >= 0.5f : most > 0) winner = 1;
  }
  if (scores.size() >= 2) {
    ml::apply(p.post_transform, std::span(scores));
    return winner;
  }
  const float s = scores[0];
  const bool logistic = p.post_transform == PostTransform::logistic;
  if (p.post_transform == PostTransform::probit)
    scores = {ml::probit(s), 0};
  else if (logistic)
    scores = {ml::logistic(-s), ml::logistic(s)};
  else
    scores = {p.post_transform == PostTransform::none ? -s : 1 - s, s};
  return winner;
}

Status classify(const Classifier& p, Call& call) {
  const float* x = call.in<float>(0);
  void* labels = call.out(0);
  float* z = call.out<float>(1);
  const int64_t work = p.columns * std::max<int64_t>(p.classes(), p.vectors_count);
  return ml::for_rows(call, work, [&](int64_t r) {
    std::vector<float> scores;
    const int64_t winner = classify_row(p, x + r * p.columns, scores);
    scores.resize(static_cast<size_t>(p.scores()));
    if (labels) p.labels.store(winner, labels, r);
    if (z) std::copy(scores.begin(), scores.end(), z + r * p.scores());
  });
}

constexpr Kernel kRegress[] = {{ml::kRegressorTypes, compute_with<Regressor, regress>}};
constexpr Kernel kClassify[] = {{ml::kClassifierTypes, compute_with<Classifier, classify>}};
constexpr int16_t kVersions[] = {1};

}  // namespace

extern constexpr Op kMlSVMRegressor{.domain = "ai.onnx.ml",
                                    .name = "SVMRegressor",
                                    .versions = kVersions,
                                    .parse = parse_params<Regressor, parse_regressor>,
                                    .types = type_always<DType::f32>,
                                    .shape = shape_with<Regressor, int64_t, regressor_shape<int64_t>>,
                                    .kernels = kRegress};
extern constexpr OpInference kMlSVMRegressorInference{.shape = shape_with<Regressor, Dim, regressor_shape<Dim>>};
extern constexpr Op kMlSVMClassifier{.domain = "ai.onnx.ml",
                                     .name = "SVMClassifier",
                                     .versions = kVersions,
                                     .parse = parse_params<Classifier, parse_classifier>,
                                     .types = ml::classifier_types<Classifier>,
                                     .shape = shape_with<Classifier, int64_t, classifier_shape<int64_t>>,
                                     .kernels = kClassify};
extern constexpr OpInference kMlSVMClassifierInference{.shape = shape_with<Classifier, Dim, classifier_shape<Dim>>};

}  // namespace tessera
