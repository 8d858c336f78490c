#include "ops/ml/trees.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/checked.h"

namespace tessera::ml {
namespace {

constexpr int kSideBySide = 8;
constexpr int64_t kMostFeatures = int64_t{1} << 28;
constexpr uint16_t kCompactLeaf = 0xffff;
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

bool is_float(double v) { return std::isnan(v) || static_cast<double>(static_cast<float>(v)) == v; }

}  // namespace

// Lays out one tree after the other, breadth first.
struct Trees::Builder {
  const TreeSource& source;
  Trees& out;
  std::vector<uint8_t> reached;
  bool compact = true, wants_general = false;
  struct Placed {
    int64_t node;  // or the complement of a leaf
    uint32_t depth;
  };
  std::vector<Placed> order;          // nodes of all trees as they will lie
  std::vector<uint32_t> first_child;  // per placed node: distance to it, 0 for leaves

  Status run() {
    TRY(check());
    for (const int64_t root : source.roots) TRY(place_tree(root));
    out.columns_ = 1;
    for (const Placed& p : order)
      if (p.node >= 0) out.columns_ = std::max(out.columns_, at(p.node).feature + 1);
    choose_form();
    if (compact) fill_compact();
    if (!compact || wants_general) fill_general();
    fill_leaves();
    return {};
  }

  const TreeSource::Node& at(int64_t node) const { return source.nodes[static_cast<size_t>(node)]; }

  Status check() const {
    for (const TreeSource::Node& n : source.nodes)
      if (n.feature < 0 || n.feature >= kMostFeatures)
        return invalid_graph("a tree node has the feature {}, wanted 0 to {}", n.feature, kMostFeatures - 1);
    if (source.targets < 1 || source.targets > INT32_MAX)
      return invalid_graph("it has {} targets, wanted at least 1", source.targets);
    for (const auto& leaf : source.leaves)
      for (const TreeSource::Weight& w : leaf)
        if (w.target < 0 || w.target >= source.targets)
          return invalid_graph("a leaf names the target {}, wanted 0 to {}", w.target, source.targets - 1);
    return {};
  }

  Status check_child(int64_t child) {
    const auto nodes = static_cast<int64_t>(source.nodes.size()), leaves = static_cast<int64_t>(source.leaves.size());
    if (child >= nodes) return invalid_graph("a tree names the node {}, there are {}", child, nodes);
    if (child < 0 && ~child >= leaves) return invalid_graph("a tree names the leaf {}, there are {}", ~child, leaves);
    if (child >= 0 && reached[static_cast<size_t>(child)]++)
      return invalid_graph("tree node {} is reached in two ways: the trees are none", child);
    return {};
  }

  Status place_tree(int64_t root) {
    const size_t begin = order.size();
    if (begin > UINT32_MAX / 2) return invalid_graph("the trees have more nodes than are supported");
    TRY(check_child(root));
    order.push_back({root, 0});
    uint32_t depth = 0;
    for (size_t i = begin; i < order.size(); ++i) {
      const Placed p = order[i];
      depth = std::max(depth, p.depth);
      if (p.node < 0) {
        first_child.push_back(0);
        continue;
      }
      first_child.push_back(static_cast<uint32_t>(order.size() - i));
      for (const int64_t child : {at(p.node).if_true, at(p.node).if_false}) {
        TRY(check_child(child));
        order.push_back({child, p.depth + 1});
      }
    }
    out.trees_.push_back({static_cast<uint32_t>(begin), depth});
    return {};
  }

  static int view_of(const TreeSource::Node& n) {
    return (n.missing_is_true ? 1 : 0) + (n.mode == Branch::gte || n.mode == Branch::gt ? 2 : 0);
  }

  // Compact nodes hold comparisons with a float, features and distances of 16 bits.
  void choose_form() {
    bool exact_for_double = true;
    int highest_view = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i].node < 0) continue;
      const TreeSource::Node& n = at(order[i].node);
      if (n.mode > Branch::gt || !is_float(n.threshold) || first_child[i] >= kCompactLeaf) compact = false;
      // NaN as the least value must not meet a threshold that nothing is below.
      if (n.missing_is_true && std::isnan(compact_threshold(n))) compact = false;
      exact_for_double = exact_for_double && (n.mode == Branch::leq || n.mode == Branch::gte);
      highest_view = std::max(highest_view, view_of(n));
    }
    out.views_ = highest_view + 1;
    if (out.columns_ * out.views_ > UINT16_MAX + int64_t{1}) compact = false;
    wants_general = source.double_rows && !exact_for_double;
    out.compact_for_double_ = exact_for_double;
  }

  // x < t is x <= the float before t; x >= t is -x <= -t. No float is before -inf.
  static float compact_threshold(const TreeSource::Node& n) {
    const bool negated = n.mode == Branch::gte || n.mode == Branch::gt;
    const bool strict = n.mode == Branch::lt || n.mode == Branch::gt;
    const float t = static_cast<float>(negated ? -n.threshold : n.threshold);
    constexpr float kLow = -std::numeric_limits<float>::infinity();
    if (!strict) return t;
    return t == kLow ? static_cast<float>(kNaN) : std::nextafter(t, kLow);
  }

  void fill_compact() {
    out.compact_.reserve(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      if (order[i].node < 0) {
        out.compact_.push_back({static_cast<float>(kNaN), 0, kCompactLeaf});
        continue;
      }
      const TreeSource::Node& n = at(order[i].node);
      out.compact_.push_back({compact_threshold(n), static_cast<uint16_t>(n.feature + view_of(n) * out.columns_),
                              static_cast<uint16_t>(first_child[i])});
    }
  }

  void fill_general() {
    out.general_.reserve(order.size());
    for (size_t i = 0; i < order.size(); ++i) {
      General g{};
      if (order[i].node >= 0) {
        const TreeSource::Node& n = at(order[i].node);
        g.threshold = n.mode == Branch::member ? static_cast<double>(n.set) : n.threshold;
        g.feature = static_cast<uint32_t>(n.feature) & ((1u << 28) - 1);
        g.mode = static_cast<uint32_t>(n.mode) & 7;
        g.missing_is_true = n.missing_is_true;
        g.child = first_child[i];
      }
      out.general_.push_back(g);
    }
    out.members_ = source.members;
    for (auto& set : out.members_) std::sort(set.begin(), set.end());
  }

  void fill_leaves() {
    out.targets_ = source.targets;
    bool single = source.targets == 1;
    for (const auto& leaf : source.leaves) {
      out.weight_begin_.push_back(static_cast<uint32_t>(out.weights_.size()));
      for (const TreeSource::Weight& w : leaf) out.weights_.push_back({static_cast<uint32_t>(w.target), w.weight});
      single = single && leaf.size() == 1 && is_float(leaf[0].weight);
    }
    out.weight_begin_.push_back(static_cast<uint32_t>(out.weights_.size()));
    for (const Placed& p : order) {
      const uint32_t leaf = p.node < 0 ? static_cast<uint32_t>(~p.node) : 0;
      if (single)
        out.single_.push_back(p.node < 0 ? static_cast<float>(source.leaves[leaf][0].weight) : 0);
      else
        out.leaf_.push_back(leaf);
    }
  }
};

Result<std::shared_ptr<const Trees>> Trees::build(const TreeSource& source) {
  auto out = std::make_shared<Trees>();
  Builder builder{source, *out, std::vector<uint8_t>(source.nodes.size(), 0), true, false, {}, {}};
  TRY(builder.run());
  return std::shared_ptr<const Trees>(std::move(out));
}

int64_t Trees::piece() const {
  // A tree is read once per piece; few enough rows to stay in cache.
  int64_t steps = 1;
  for (const Tree& t : trees_) steps += t.depth + 1;
  return std::clamp<int64_t>(round_up((int64_t{1} << 20) / steps, kSideBySide), 64, 512);
}

inline void Trees::add(uint32_t node, int64_t row, Aggregate aggregate, TreeScores& out) const {
  const auto put = [&](size_t at, double w) {
    double& s = out.score[at];
    switch (aggregate) {
      case Aggregate::min: s = out.seen[at] && s < w ? s : w; break;
      case Aggregate::max: s = out.seen[at] && s > w ? s : w; break;
      default: s += w;
    }
    out.seen[at] = 1;
  };
  if (!single_.empty()) return put(static_cast<size_t>(row), single_[node]);
  const uint32_t leaf = leaf_[node];
  for (uint32_t k = weight_begin_[leaf]; k < weight_begin_[leaf + 1]; ++k)
    put(static_cast<size_t>(row * targets_) + weights_[k].first, weights_[k].second);
}

// The rows with all views that the nodes use.
template <class X>
const X* Trees::viewed(const X* rows, int64_t count, int64_t columns, std::vector<X>& buffer) const {
  buffer.resize(static_cast<size_t>(count * columns_ * views_));
  constexpr X kLow = -std::numeric_limits<X>::infinity();
  for (int64_t r = 0; r < count; ++r)
    for (int v = 0; v < views_; ++v) {
      X* to = buffer.data() + (r * views_ + v) * columns_;
      for (int64_t c = 0; c < columns_; ++c) {
        const X x = rows[r * columns + c];
        to[c] = std::isnan(x) && (v & 1) ? kLow : v & 2 ? -x : x;
      }
    }
  return buffer.data();
}

template <class X>
void Trees::walk_compact(const X* rows, int64_t count, int64_t stride, Aggregate aggregate, TreeScores& out) const {
  // Kept as arithmetic: a branch here would be mispredicted half the time.
  const auto step = [](const Compact* nodes, uint32_t p, const X* row) -> uint32_t {
    const Compact n = nodes[p];
    return static_cast<uint16_t>(n.child + !(row[n.feature] <= static_cast<X>(n.threshold)));
  };
  // kSideBySide walks until all have reached their leaves.
  const auto walk = [&](auto&& nodes_of, auto&& row_of, uint32_t depth, uint32_t* p) {
    for (uint32_t d = 0; d < depth; d += 4) {
      uint32_t moved = 0;
      for (int level = 0; level < 4; ++level) {
        moved = 0;
#pragma GCC unroll 8
        for (int k = 0; k < kSideBySide; ++k) {
          const uint32_t s = step(nodes_of(k), p[k], row_of(k));
          p[k] += s;
          moved |= s;
        }
      }
      if (!moved) break;
    }
  };
  const int64_t grouped = count / kSideBySide * kSideBySide;
  if (grouped)
    for (const Tree& t : trees_) {
      const Compact* nodes = compact_.data() + t.begin;
      for (int64_t r = 0; r < grouped; r += kSideBySide) {
        uint32_t p[kSideBySide] = {};
        walk([&](int) { return nodes; }, [&](int k) { return rows + (r + k) * stride; }, t.depth, p);
        for (int k = 0; k < kSideBySide; ++k) add(t.begin + p[k], r + k, aggregate, out);
      }
    }
  // Rows that make no group walk several trees at once.
  for (int64_t r = grouped; r < count; ++r)
    for (size_t t = 0; t < trees_.size(); t += kSideBySide) {
      const auto some = static_cast<int>(std::min<size_t>(kSideBySide, trees_.size() - t));
      uint32_t p[kSideBySide] = {}, depth = 0, begin[kSideBySide];
      for (int k = 0; k < kSideBySide; ++k) {
        const Tree& tree = trees_[t + static_cast<size_t>(std::min(k, some - 1))];
        begin[k] = tree.begin;
        depth = std::max(depth, tree.depth);
      }
      walk([&](int k) { return compact_.data() + begin[k]; }, [&](int) { return rows + r * stride; }, depth, p);
      for (int k = 0; k < some; ++k) add(begin[k] + p[k], r, aggregate, out);
    }
}

template <class X>
bool Trees::takes_true(const General& n, X value) const {
  const auto x = static_cast<double>(value);
  if (n.missing_is_true && std::isnan(x)) return true;
  switch (static_cast<Branch>(n.mode)) {
    case Branch::leq: return x <= n.threshold;
    case Branch::lt: return x < n.threshold;
    case Branch::gte: return x >= n.threshold;
    case Branch::gt: return x > n.threshold;
    case Branch::eq: return x == n.threshold;
    case Branch::neq: return x != n.threshold;
    case Branch::member: break;
  }
  const auto& set = members_[static_cast<size_t>(n.threshold)];
  return !std::isnan(x) && std::binary_search(set.begin(), set.end(), x);
}

template <class X>
void Trees::walk_general(const X* rows, int64_t count, int64_t stride, Aggregate aggregate, TreeScores& out) const {
  for (const Tree& t : trees_)
    for (int64_t r = 0; r < count; ++r) {
      uint32_t p = t.begin;
      while (general_[p].child)
        p += general_[p].child + !takes_true(general_[p], rows[r * stride + general_[p].feature]);
      add(p, r, aggregate, out);
    }
}

template <class X>
void Trees::score(const X* rows, int64_t count, int64_t columns, Aggregate aggregate, TreeScores& out) const {
  out.score.assign(static_cast<size_t>(count * targets_), 0);
  out.seen.assign(static_cast<size_t>(count * targets_), 0);
  if (compact_.empty() || (std::is_same_v<X, double> && !compact_for_double_)) {
    walk_general(rows, count, columns, aggregate, out);
  } else {
    std::vector<X> buffer;
    if (views_ > 1) {
      rows = viewed(rows, count, columns, buffer);
      columns = columns_ * views_;
    }
    walk_compact(rows, count, columns, aggregate, out);
  }
  if (aggregate == Aggregate::average && !trees_.empty())
    for (double& s : out.score) s /= static_cast<double>(trees_.size());
}

template void Trees::score(const float*, int64_t, int64_t, Aggregate, TreeScores&) const;
template void Trees::score(const double*, int64_t, int64_t, Aggregate, TreeScores&) const;

}  // namespace tessera::ml
