// TreeEnsemble — decision trees given as arrays of nodes and leaves.
#include "core/convert.h"
#include "ops/ml/tree_rows.h"

namespace tessera {
namespace {

using ml::Aggregate;
using ml::Branch;
using ml::Trees;
using ml::TreeSource;

struct Params {
  int64_t targets = 1;
  Aggregate aggregate = Aggregate::sum;
  ml::PostTransform post_transform = ml::PostTransform::none;
  bool of_double = false;
  std::shared_ptr<const Trees> trees;
};

Status get_numbers(Attrs& a, std::string_view name, std::vector<double>& out, DType* dtype = nullptr) {
  Tensor t;
  a.get(name, t);
  if (dtype) *dtype = t.dtype();
  if (t.empty()) return {};
  if (!kFloats.has(t.dtype())) return a.refuse(name, "a float tensor");
  out.resize(static_cast<size_t>(t.count()));
  decode(t.dtype(), t.data(), 0, t.count(), out.data());
  return {};
}

// The attributes that describe the nodes, as they are written.
struct Lists {
  std::vector<int64_t> features, if_true, if_false, true_leafs, false_leafs, missing, targets, roots;
  std::vector<double> splits, weights, members;
  std::vector<int64_t> modes;
  bool of_double = false;

  Status read(Attrs& a) {
    a.get("nodes_featureids", features);
    a.get("nodes_truenodeids", if_true);
    a.get("nodes_falsenodeids", if_false);
    a.get("nodes_trueleafs", true_leafs);
    a.get("nodes_falseleafs", false_leafs);
    a.get("nodes_missing_value_tracks_true", missing);
    a.get("leaf_targetids", targets);
    a.get("tree_roots", roots);
    DType dtype;
    TRY(get_numbers(a, "nodes_splits", splits, &dtype));
    of_double = dtype == DType::f64;
    TRY(get_numbers(a, "leaf_weights", weights));
    TRY(get_numbers(a, "membership_values", members));
    Tensor t;
    a.get("nodes_modes", t);
    if (t.dtype() != DType::u8) return a.refuse("nodes_modes", "a uint8 tensor");
    for (const uint8_t mode : t.values<uint8_t>()) modes.push_back(mode);
    const size_t n = features.size();
    for (const size_t size : {if_true.size(), if_false.size(), true_leafs.size(), false_leafs.size(), splits.size(),
                              modes.size(), missing.empty() ? n : missing.size()})
      if (size != n) return invalid_graph("it has {} feature ids, but {} of another attribute of the nodes", n, size);
    if (targets.size() != weights.size())
      return invalid_graph("it has {} leaf targets and {} leaf weights", targets.size(), weights.size());
    return {};
  }
};

// Sets end with a NaN and belong to the member nodes in their order.
std::vector<std::vector<double>> split_sets(std::span<const double> values) {
  std::vector<std::vector<double>> sets(1);
  for (const double v : values) {
    if (std::isnan(v))
      sets.emplace_back();
    else
      sets.back().push_back(v);
  }
  if (sets.back().empty()) sets.pop_back();
  return sets;
}

Status describe(const Lists& lists, TreeSource& out) {
  out.members = split_sets(lists.members);
  uint32_t sets = 0;
  const auto child = [](int64_t id, bool leaf, int64_t* to) {
    *to = leaf ? ~id : id;
    return id >= 0;
  };
  for (size_t i = 0; i < lists.features.size(); ++i) {
    TreeSource::Node n;
    if (lists.modes[i] > static_cast<int64_t>(Branch::member))
      return invalid_graph("node {} has the mode {}, wanted 0 to 6", i, lists.modes[i]);
    n.mode = static_cast<Branch>(lists.modes[i]);
    n.missing_is_true = !lists.missing.empty() && lists.missing[i] != 0;
    n.threshold = lists.splits[i];
    n.feature = lists.features[i];
    if (n.mode == Branch::member) n.set = sets++;
    if (!child(lists.if_true[i], lists.true_leafs[i] != 0, &n.if_true) ||
        !child(lists.if_false[i], lists.false_leafs[i] != 0, &n.if_false))
      return invalid_graph("node {} has the children {} and {}", i, lists.if_true[i], lists.if_false[i]);
    out.nodes.push_back(n);
  }
  if (sets > out.members.size())
    return invalid_graph("it has {} nodes of mode 6 and {} sets of members", sets, out.members.size());
  for (size_t i = 0; i < lists.weights.size(); ++i) out.leaves.push_back({{lists.targets[i], lists.weights[i]}});
  for (const int64_t root : lists.roots) {
    if (root < 0) return invalid_graph("it has the root {}", root);
    out.roots.push_back(root);
  }
  return {};
}

Status parse(Attrs& a, Params& p) {
  int64_t aggregate = static_cast<int64_t>(p.aggregate), transform = 0;
  a.get("n_targets", p.targets);
  a.get("aggregate_function", aggregate);
  a.get("post_transform", transform);
  if (aggregate < 0 || aggregate > 3) return a.refuse("aggregate_function", "0 to 3");
  if (transform < 0 || transform > 4) return a.refuse("post_transform", "0 to 4");
  p.aggregate = static_cast<Aggregate>(aggregate);
  p.post_transform = static_cast<ml::PostTransform>(transform);
  Lists lists;
  TRY(lists.read(a));
  TRY(a.done());
  TreeSource source;
  source.targets = p.targets;
  source.double_rows = p.of_double = lists.of_double;
  TRY(describe(lists, source));
  TRY_ASSIGN(trees, Trees::build(source));
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
  if (std::is_same_v<X, double> != p.of_double) return call.refuse(0, "the type of the attribute 'nodes_splits'");
  X* y = call.out<X>(0);
  return ml::for_scores<X>(call, *p.trees, p.aggregate, [&](int64_t row, const double* score, const uint8_t*) {
    X* to = y + row * p.targets;
    std::transform(score, score + p.targets, to, [](double v) { return static_cast<X>(v); });
    ml::apply(p.post_transform, std::span(to, static_cast<size_t>(p.targets)));
  });
}

constexpr TypeRule kFloatTypes[] = {{in_arg(0) | out_arg(0), set_of(DType::f32), set_of(DType::f16)}};
constexpr TypeRule kDoubleTypes[] = {{in_arg(0) | out_arg(0), set_of(DType::f64)}};
constexpr Kernel kKernels[] = {{kFloatTypes, compute_with<Params, compute<float>>},
                               {kDoubleTypes, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {5};

}  // namespace

extern constexpr Op kMlTreeEnsemble{.domain = "ai.onnx.ml",
                                    .name = "TreeEnsemble",
                                    .versions = kVersions,
                                    .parse = parse_params<Params, parse>,
                                    .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                    .kernels = kKernels};
extern constexpr OpInference kMlTreeEnsembleInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
