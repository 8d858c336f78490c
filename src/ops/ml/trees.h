// Trees: decision trees made ready for walking. Operators describe their trees in a TreeSource, whatever form their
// attributes have; Trees checks it and lays it out.
//
// Siblings are adjacent, a node knows the distance to its first child, and a leaf is a node whose step is zero whatever
// the row holds, so that several rows (or trees) walk side by side without a branch.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "base/thread_pool.h"

namespace tessera::ml {

enum class Branch : uint8_t { leq, lt, gte, gt, eq, neq, member };
enum class Aggregate : uint8_t { average, sum, min, max };

struct TreeSource {
  // A child is a node if it is not negative, else the complement of a leaf.
  struct Node {
    Branch mode = Branch::leq;
    bool missing_is_true = false;  // NaN takes the true branch
    double threshold = 0;
    int64_t feature = 0;
    int64_t if_true = 0, if_false = 0;
    uint32_t set = 0;  // of mode member
  };
  struct Weight {
    int64_t target;
    double weight;
  };
  std::vector<Node> nodes;
  std::vector<int64_t> roots;                // nodes, or complements of leaves
  std::vector<std::vector<Weight>> leaves;   // what reaching a leaf adds to which target
  std::vector<std::vector<double>> members;  // sets, in any order
  int64_t targets = 1;
  bool double_rows = false;  // rows may be double although the thresholds are floats
};

// What the trees say of some rows: per row and target the aggregate, and whether any leaf spoke of the target.
struct TreeScores {
  std::vector<double> score;
  std::vector<uint8_t> seen;
};

class Trees {
 public:
  // Refuses children and features that do not exist, and nodes reached twice.
  static Result<std::shared_ptr<const Trees>> build(const TreeSource& source);

  int64_t targets() const { return targets_; }
  int64_t size() const { return static_cast<int64_t>(trees_.size()); }
  // Rows must have at least so many columns.
  int64_t columns() const { return columns_; }
  // Rows are best handled so many at a time; the same for any number of threads.
  int64_t piece() const;
  // The aggregate of `count` rows, `columns` apart.
  template <class X>
  void score(const X* rows, int64_t count, int64_t columns, Aggregate aggregate, TreeScores& out) const;

 private:
  struct Builder;
  struct Tree {
    uint32_t begin;  // of its nodes
    uint32_t depth;  // steps to its deepest leaf
  };
  // Step: child + !(row[feature] <= threshold), in 16 bits. Leaf: threshold NaN, child 0xffff.
  struct Compact {
    float threshold;
    uint16_t feature;
    uint16_t child;
  };
  // Any mode. Leaf: child 0.
  struct General {
    double threshold;  // or the number of a set
    uint32_t feature : 28;
    uint32_t mode : 3;
    uint32_t missing_is_true : 1;
    uint32_t child;
  };
  // Columns as the compact nodes see them, side by side: as they are, with NaN as the least value, negated, and both.
  // A mode other than <= is <= on another view.
  static constexpr int kViews = 4;

  template <class X>
  const X* viewed(const X* rows, int64_t count, int64_t columns, std::vector<X>& buffer) const;
  template <class X>
  void walk_compact(const X* rows, int64_t count, int64_t stride, Aggregate aggregate, TreeScores& out) const;
  template <class X>
  void walk_general(const X* rows, int64_t count, int64_t stride, Aggregate aggregate, TreeScores& out) const;
  template <class X>
  bool takes_true(const General& n, X x) const;
  void add(uint32_t node, int64_t row, Aggregate aggregate, TreeScores& out) const;

  std::vector<Tree> trees_;
  std::vector<Compact> compact_;
  std::vector<General> general_;
  bool compact_for_double_ = false;  // the compact nodes are exact for double rows too
  int views_ = 1;                    // used of kViews
  std::vector<uint32_t> leaf_;       // per node: its leaf, if it is one
  std::vector<uint32_t> weight_begin_;
  std::vector<std::pair<uint32_t, double>> weights_;  // target and weight
  std::vector<float> single_;  // per node: the weight, where there is one target and every leaf has one weight
  std::vector<std::vector<double>> members_;
  int64_t targets_ = 1, columns_ = 1;
};

}  // namespace tessera::ml
