// TreeEnsembleClassifier — the most likely class of each row, and the scores of all of them.
#include "ops/ml/tree_lists.h"
#include "ops/ml/tree_rows.h"

namespace tessera {
namespace {

using ml::PostTransform;

struct Params {
  ml::Labels labels;
  PostTransform post_transform = PostTransform::none;
  std::vector<double> base;
  bool one_sided = false;     // two classes, but all weights speak of the same one
  bool all_positive = false;  // all weights are at least 0
  std::shared_ptr<const ml::Trees> trees;

  int64_t classes() const { return labels.size(); }
};

Status parse(Attrs& a, Params& p) {
  TRY(ml::get_labels(a, "classlabels_int64s", "classlabels_strings", p.labels));
  TRY(ml::get_post_transform(a, p.post_transform));
  TRY(ml::get_floats_or_tensor(a, "base_values", p.base));
  ml::TreeSource source;
  source.targets = p.classes();
  source.double_rows = true;
  TRY(ml::read_tree_lists(a, "class", source));
  TRY(a.done());
  if (p.base.size() > 1 && static_cast<int64_t>(p.base.size()) != p.classes())
    return invalid_graph("it has {} base values for {} classes", p.base.size(), p.classes());
  TRY_ASSIGN(trees, ml::Trees::build(source));
  p.trees = std::move(trees);
  std::vector<int64_t> ids;
  a.get("class_ids", ids);
  p.one_sided = p.classes() == 2 && std::adjacent_find(ids.begin(), ids.end(), std::not_equal_to<>()) == ids.end();
  p.all_positive = true;
  for (const auto& leaf : source.leaves)
    for (const auto& w : leaf) p.all_positive = p.all_positive && w.weight >= 0;
  return {};
}

void types(TypeCall& c) {
  c.out[0] = {Kind::tensor, static_cast<const Params*>(c.params)->labels.dtype(), Kind::tensor};
  if (c.out.size() > 1) c.out[1] = {Kind::tensor, DType::f32, Kind::tensor};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  D rows = 1;
  TRY(ml::tree_rows(*p.trees, c, rows));
  TRY(c.set(0, DimVec<D>{rows}));
  return c.outputs() > 1 ? c.set(1, DimVec<D>{rows, D(p.classes())}) : Status{};
}

// The first of the highest scores wins.
int64_t decide_many(const Params& p, double* score, const uint8_t* seen, float* out) {
  int64_t best = 0;
  bool any = false;
  for (int64_t k = 0; k < p.classes(); ++k) {
    const bool based = static_cast<int64_t>(p.base.size()) == p.classes();
    if (based) score[k] += p.base[static_cast<size_t>(k)];
    if (!based && !seen[k]) continue;
    if (!any || score[k] > score[best]) best = k;
    any = true;
  }
  std::copy_n(score, p.classes(), out);
  ml::apply(p.post_transform, std::span(out, static_cast<size_t>(p.classes())));
  return best;
}

// One score speaks for both classes.
void spread(const Params& p, float score, float* out) {
  if (p.post_transform == PostTransform::probit) {
    out[0] = ml::probit(score);
    out[1] = 0;
  } else if (p.post_transform == PostTransform::logistic) {
    out[0] = ml::logistic(-score);
    out[1] = ml::logistic(score);
  } else {
    out[0] = p.one_sided && p.all_positive ? 1 - score : -score;
    out[1] = score;
  }
}

// Two classes. The second wins by its own score, or by the only one there is. A class that no leaf speaks of has the
// score 0, whatever its base.
int64_t decide_two(const Params& p, double* score, const uint8_t* seen, float* out) {
  bool first = seen[0];
  const bool second = seen[1];
  if (p.base.size() == 2) {
    if (second) {
      score[1] = p.base[1] + score[0];
      score[0] = -score[1];
    } else {
      score[0] += p.base[0];
      first = true;
    }
  } else if (p.base.size() == 1) {
    score[0] += p.base[0];
  }
  const double positive = second ? score[1] : score[0];
  const int64_t winner = positive > (p.one_sided && p.all_positive ? 0.5 : 0.0);
  if (!second && p.base.size() != 2) return spread(p, static_cast<float>(score[0]), out), winner;
  out[0] = first ? static_cast<float>(score[0]) : 0;
  out[1] = second ? static_cast<float>(score[1]) : 0;
  ml::apply(p.post_transform, std::span(out, 2));
  return winner;
}

template <class X>
Status compute(const Params& p, Call& call) {
  const int64_t classes = p.classes();
  void* labels = call.out(0);
  float* z = call.out<float>(1);
  return ml::for_scores<X>(call, *p.trees, ml::Aggregate::sum, [&](int64_t row, double* score, const uint8_t* seen) {
    std::vector<float> unwanted(z ? 0 : static_cast<size_t>(classes));
    float* to = z ? z + row * classes : unwanted.data();
    const int64_t winner = classes == 2 ? decide_two(p, score, seen, to) : decide_many(p, score, seen, to);
    if (labels) p.labels.store(winner, labels, row);
  });
}

constexpr TypeRule kFloatTypes[] = {{in_arg(0), set_of(DType::f32), kIndexTypes},
                                    {out_arg(0), set_of(DType::i64, DType::string)},
                                    {out_arg(1), set_of(DType::f32)}};
constexpr TypeRule kDoubleTypes[] = {
    {in_arg(0), set_of(DType::f64)}, {out_arg(0), set_of(DType::i64, DType::string)}, {out_arg(1), set_of(DType::f32)}};
constexpr Kernel kKernels[] = {{kFloatTypes, compute_with<Params, compute<float>>},
                               {kDoubleTypes, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 3, 5};

}  // namespace

extern constexpr Op kMlTreeEnsembleClassifier{.domain = "ai.onnx.ml",
                                              .name = "TreeEnsembleClassifier",
                                              .versions = kVersions,
                                              .parse = parse_params<Params, parse>,
                                              .types = types,
                                              .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                              .kernels = kKernels};
extern constexpr OpInference kMlTreeEnsembleClassifierInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
