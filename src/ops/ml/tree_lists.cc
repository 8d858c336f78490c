#include "ops/ml/tree_lists.h"

#include <map>

#include "core/convert.h"

namespace tessera::ml {

Status get_floats_or_tensor(Attrs& attrs, const std::string& name, std::vector<double>& out) {
  std::vector<float> floats;
  Tensor t;
  attrs.get(name, floats);
  attrs.get(name + "_as_tensor", t);
  if (!floats.empty() && !t.empty())
    return invalid_graph("it has both {} and {}", quote(name), quote(name + "_as_tensor"));
  out.assign(floats.begin(), floats.end());
  if (t.empty()) return {};
  if (!kFloats.has(t.dtype())) return attrs.refuse(name + "_as_tensor", "a float tensor");
  out.resize(static_cast<size_t>(t.count()));
  decode(t.dtype(), t.data(), 0, t.count(), out.data());
  return {};
}

namespace {

constexpr std::string_view kModes[] = {"BRANCH_LEQ", "BRANCH_LT",  "BRANCH_GTE", "BRANCH_GT",
                                       "BRANCH_EQ",  "BRANCH_NEQ", "LEAF"};
constexpr size_t kLeaf = 6;

struct Lists {
  std::vector<int64_t> trees, numbers, features, if_true, if_false, missing;
  std::vector<std::string> modes;
  std::vector<double> values;

  Status read(Attrs& a) {
    a.get("nodes_treeids", trees);
    a.get("nodes_nodeids", numbers);
    a.get("nodes_featureids", features);
    a.get("nodes_truenodeids", if_true);
    a.get("nodes_falsenodeids", if_false);
    a.get("nodes_missing_value_tracks_true", missing);
    a.get("nodes_modes", modes);
    TRY(get_floats_or_tensor(a, "nodes_values", values));
    const size_t n = trees.size();
    for (const size_t size : {numbers.size(), features.size(), if_true.size(), if_false.size(), modes.size(),
                              values.size(), missing.empty() ? n : missing.size()})
      if (size != n) return invalid_graph("it has {} tree ids, but {} of another attribute of the nodes", n, size);
    return {};
  }
};

class Reader {
 public:
  Reader(const Lists& lists, TreeSource& out) : lists_(lists), out_(out) {}

  Status nodes() {
    const size_t n = lists_.trees.size();
    for (size_t i = 0; i < n; ++i) {
      const auto mode = std::find(std::begin(kModes), std::end(kModes), lists_.modes[i]);
      if (mode == std::end(kModes)) return invalid_graph("node {} has the mode {}", i, quote(lists_.modes[i]));
      modes_.push_back(static_cast<size_t>(mode - std::begin(kModes)));
      const bool leaf = modes_.back() == kLeaf;
      const int64_t id = static_cast<int64_t>(leaf ? leaves_++ : branches_++);
      if (!index_.try_emplace({lists_.trees[i], lists_.numbers[i]}, leaf ? ~id : id).second)
        return invalid_graph("tree {} has two nodes {}", lists_.trees[i], lists_.numbers[i]);
    }
    out_.leaves.resize(leaves_);
    std::vector<bool> is_child_node(branches_, false), is_child_leaf(leaves_, false);
    for (size_t i = 0; i < n; ++i) {
      if (modes_[i] == kLeaf) continue;
      TreeSource::Node node;
      node.mode = static_cast<Branch>(modes_[i]);
      node.missing_is_true = !lists_.missing.empty() && lists_.missing[i] != 0;
      node.threshold = lists_.values[i];
      node.feature = lists_.features[i];
      TRY(find(lists_.trees[i], lists_.if_true[i], node.if_true));
      TRY(find(lists_.trees[i], lists_.if_false[i], node.if_false));
      for (const int64_t child : {node.if_true, node.if_false})
        if (child < 0)
          is_child_leaf[static_cast<size_t>(~child)] = true;
        else
          is_child_node[static_cast<size_t>(child)] = true;
      out_.nodes.push_back(node);
    }
    return roots(is_child_node, is_child_leaf);
  }

  // What a leaf adds to a target. Weights of branches are never reached.
  Status weight(int64_t tree, int64_t number, int64_t target, double weight) {
    int64_t id = 0;
    TRY(find(tree, number, id));
    if (id < 0) out_.leaves[static_cast<size_t>(~id)].push_back({target, weight});
    return {};
  }

 private:
  Status find(int64_t tree, int64_t number, int64_t& out) const {
    const auto it = index_.find({tree, number});
    if (it == index_.end()) return invalid_graph("tree {} has no node {}", tree, number);
    out = it->second;
    return {};
  }

  // The root of a tree is its node that is nobody's child.
  Status roots(const std::vector<bool>& is_child_node, const std::vector<bool>& is_child_leaf) {
    std::map<int64_t, bool> has_root;
    for (size_t i = 0; i < lists_.trees.size(); ++i) {
      const int64_t tree = lists_.trees[i], id = index_.at({tree, lists_.numbers[i]});
      bool& found = has_root[tree];
      if (id < 0 ? is_child_leaf[static_cast<size_t>(~id)] : is_child_node[static_cast<size_t>(id)]) continue;
      if (found) return invalid_graph("tree {} has more than one root", tree);
      found = true;
      out_.roots.push_back(id);
    }
    for (const auto& [tree, found] : has_root)
      if (!found) return invalid_graph("tree {} has no root: its nodes form a cycle", tree);
    return {};
  }

  const Lists& lists_;
  TreeSource& out_;
  std::vector<size_t> modes_;
  std::map<std::pair<int64_t, int64_t>, int64_t> index_;  // tree and number to node, or complement of leaf
  size_t branches_ = 0, leaves_ = 0;
};

}  // namespace

Status read_tree_lists(Attrs& attrs, const std::string& prefix, TreeSource& out) {
  Lists lists;
  TRY(lists.read(attrs));
  std::vector<int64_t> trees, numbers, targets;
  std::vector<double> weights;
  attrs.get(prefix + "_treeids", trees);
  attrs.get(prefix + "_nodeids", numbers);
  attrs.get(prefix + "_ids", targets);
  TRY(get_floats_or_tensor(attrs, prefix + "_weights", weights));
  if (trees.size() != numbers.size() || trees.size() != targets.size() || trees.size() != weights.size())
    return invalid_graph("it has {} {}, but another number of tree, node or target ids", weights.size(),
                         quote(prefix + "_weights"));
  Reader reader(lists, out);
  TRY(reader.nodes());
  for (size_t i = 0; i < trees.size(); ++i) TRY(reader.weight(trees[i], numbers[i], targets[i], weights[i]));
  return {};
}

}  // namespace tessera::ml
