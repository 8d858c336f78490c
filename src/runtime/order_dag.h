// The form of an OrderProblem on which orders are searched: dependencies and the buffers each node reads and makes.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "runtime/order.h"

namespace tessera::order {

inline uint64_t mix(uint64_t a, uint64_t b) {
  uint64_t x = a * 0x9E3779B97F4A7C15u ^ (b + 0x632BE59BD9B4E019u);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

// Lists of ids, one per row.
struct Table {
  std::vector<int32_t> begin{0};
  std::vector<int32_t> items;
  int32_t rows() const { return int32_t(begin.size()) - 1; }
  int32_t count(int32_t row) const { return begin[row + 1] - begin[row]; }
  std::span<const int32_t> operator[](int32_t row) const {
    return {items.data() + begin[row], size_t(begin[row + 1] - begin[row])};
  }
  void end_row() { begin.push_back(int32_t(items.size())); }
  // The rows in which each of `columns` ids occurs, ascending.
  Table transposed(int32_t columns) const;
};

// A node is one or several nodes of the file run one after the other. What is live after a set of nodes has run does
// not depend on their order; running a node adds `hill` bytes for its duration and leaves `net` bytes, less what it
// frees.
struct Dag {
  int32_t nodes = 0;
  Table preds, succs;  // distinct
  Table uses, users;   // node -> distinct buffers whose bytes it reads, and back
  Table defs;          // node -> buffers it makes that outlive it
  Table members;       // node -> nodes of the file, in the order they run
  std::vector<int64_t> hill, net;
  std::vector<int32_t> reuse;  // node -> the buffer it may take over when it is the last to read it, or -1
  std::vector<int64_t> bytes;  // buffer -> bytes
  std::vector<uint8_t> kept;   // buffer -> live to the end
  std::vector<int32_t> maker;  // buffer -> node, or -1: live from the start
  int64_t base = 0;            // live before the first step

  int32_t buffers() const { return int32_t(bytes.size()); }
  // The one node that reads buffer b, if it dies there; else -1.
  int32_t only_user(int32_t b) const { return kept[b] || users.count(b) != 1 ? -1 : users[b][0]; }
  int64_t size() const { return nodes + int64_t(preds.items.size() + uses.items.size() + defs.items.size()); }
};

// Which buffer holds each value: the value at the root of its chain of views, or -1 if that is external.
std::vector<int32_t> buffer_roots(const OrderProblem& problem);

// Distinct nodes that each node depends on, in file numbering. Cheap: knows nothing of buffers.
Table dependencies(const OrderProblem& problem);

// Nodes in file numbering; buffers are numbered like the values at their roots. Needs an acyclic problem.
Dag build_dag(const OrderProblem& problem, Table preds);

// Merges nodes: row g of `groups` becomes node g and runs its members in that order, at the cost `hill[g]`, taking over
// `reuse[g]` at most. Buffers keep their numbers; those that live and die inside a group are no longer seen.
Dag contract(const Dag& dag, const Table& groups, std::vector<int64_t> hill, std::vector<int32_t> reuse);

// The nodes renumbered so that the numbering follows dependencies and does not depend on the file's listing: by depth,
// then a hash of the structure around the node, then name.
Dag canonical(const Dag& dag, const OrderProblem& problem);

// Merges nodes that some best order runs back to back. The optimum stays the same. Needs a canonical dag.
Dag reduced(Dag dag);

// What a run of the dag holds: the one definition of liveness.
class Liveness {
 public:
  explicit Liveness(const Dag& dag);
  int64_t live() const { return live_; }
  int64_t peak() const { return peak_; }
  int32_t remaining(int32_t buffer) const { return remaining_[buffer]; }
  // Bytes live while v runs, were it next.
  int64_t during(int32_t v) const;
  // True if v, were it next, would take over its reuse buffer.
  bool reuses(int32_t v) const { return dag_.reuse[v] >= 0 && remaining_[dag_.reuse[v]] == 1; }
  void run(int32_t v);

 private:
  const Dag& dag_;
  std::vector<int32_t> remaining_;  // readers yet to run, and one more for a buffer that is kept
  int64_t live_, peak_;
};

int64_t peak_of(const Dag& dag, std::span<const int32_t> order);

// No order of the dag can have a smaller peak. Sharper for dags of moderate size. Needs a canonical dag.
int64_t lower_bound(const Dag& dag);

// The file's nodes, in the order of the dag's.
std::vector<int32_t> expand(const Dag& dag, std::span<const int32_t> order);

}  // namespace tessera::order
