// TreeEnsembleRegressor — the aggregate of what the trees say of each row.
#include "ops/ml/tree_lists.h"
#include "ops/ml/tree_rows.h"

namespace tessera {
namespace {

struct Params {
  int64_t targets = 1;
  ml::Aggregate aggregate = ml::Aggregate::sum;
  ml::PostTransform post_transform = ml::PostTransform::none;
  std::vector<double> base;  // per target, or empty
  std::shared_ptr<const ml::Trees> trees;
};

Status parse(Attrs& a, Params& p) {
  static constexpr std::string_view kAggregates[] = {"AVERAGE", "SUM", "MIN", "MAX"};
  int aggregate = static_cast<int>(p.aggregate);
  a.get_choice("aggregate_function", aggregate, kAggregates);
  p.aggregate = static_cast<ml::Aggregate>(aggregate);
  a.get("n_targets", p.targets);
  TRY(ml::get_post_transform(a, p.post_transform));
  TRY(ml::get_floats_or_tensor(a, "base_values", p.base));
  ml::TreeSource source;
  source.targets = p.targets;
  source.double_rows = true;
  TRY(ml::read_tree_lists(a, "target", source));
  TRY(a.done());
  if (!p.base.empty() && static_cast<int64_t>(p.base.size()) != p.targets)
    return invalid_graph("it has {} base values for {} targets", p.base.size(), p.targets);
  TRY_ASSIGN(trees, ml::Trees::build(source));
  p.trees = std::move(trees);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  D rows = 1;
  TRY(ml::tree_rows(*p.trees, c, rows));
  return c.set(0, DimVec<D>{rows, D(p.targets)});
}

template <class X>
Status compute(const Params& p, Call& call) {
  float* y = call.out<float>(0);
  return ml::for_scores<X>(call, *p.trees, p.aggregate, [&](int64_t row, const double* score, const uint8_t* seen) {
    float* to = y + row * p.targets;
    for (int64_t t = 0; t < p.targets; ++t) {
      // A target that no leaf speaks of is 0, whatever its base; a single one is not compared with others.
      const bool based = !p.base.empty() && (seen[t] || p.targets == 1);
      to[t] = static_cast<float>(score[t] + (based ? p.base[static_cast<size_t>(t)] : 0));
    }
    if (p.targets > 1 || p.post_transform == ml::PostTransform::probit)
      ml::apply(p.post_transform, std::span(to, static_cast<size_t>(p.targets)));
  });
}

constexpr TypeRule kFloatTypes[] = {{in_arg(0), set_of(DType::f32), kIndexTypes}, {out_arg(0), set_of(DType::f32)}};
constexpr TypeRule kDoubleTypes[] = {{in_arg(0), set_of(DType::f64)}, {out_arg(0), set_of(DType::f32)}};
constexpr Kernel kKernels[] = {{kFloatTypes, compute_with<Params, compute<float>>},
                               {kDoubleTypes, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {1, 3, 5};

}  // namespace

extern constexpr Op kMlTreeEnsembleRegressor{.domain = "ai.onnx.ml",
                                             .name = "TreeEnsembleRegressor",
                                             .versions = kVersions,
                                             .parse = parse_params<Params, parse>,
                                             .types = type_always<DType::f32>,
                                             .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                             .kernels = kKernels};
extern constexpr OpInference kMlTreeEnsembleRegressorInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
