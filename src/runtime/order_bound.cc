// How low the peak of any order can be.
#include <algorithm>
#include <bit>

#include "runtime/order_dag.h"

namespace tessera::order {
namespace {

constexpr int32_t kSharpNodes = 1024;  // up to which every pair of nodes is looked at

// For each node a set of nodes.
class NodeSets {
 public:
  explicit NodeSets(int32_t nodes) : words_((size_t(nodes) + 63) / 64), bits_(size_t(nodes) * words_, 0) {}
  std::span<uint64_t> operator[](int32_t v) { return {bits_.data() + size_t(v) * words_, words_}; }
  void add(int32_t v, int32_t member) { (*this)[v][size_t(member) / 64] |= uint64_t(1) << (member % 64); }
  bool has(int32_t v, int32_t member) { return (*this)[v][size_t(member) / 64] >> (member % 64) & 1; }
  void unite(std::span<uint64_t> into, int32_t v) {
    for (size_t w = 0; w < words_; ++w) into[w] |= (*this)[v][w];
  }
  size_t words() const { return words_; }

 private:
  size_t words_;
  std::vector<uint64_t> bits_;
};

// The nodes on each side of a node that every order puts there, and the node itself.
struct Reach {
  NodeSets below, above;

  explicit Reach(const Dag& dag) : below(dag.nodes), above(dag.nodes) {
    for (int32_t v = 0; v < dag.nodes; ++v) {
      above.add(v, v);
      for (int32_t p : dag.preds[v]) above.unite(above[v], p);
    }
    for (int32_t v = dag.nodes; v-- > 0;) {
      below.add(v, v);
      for (int32_t s : dag.succs[v]) below.unite(below[v], s);
    }
  }
};

// Bytes that every order holds when v starts: made by what must come before, read by v or what must come after.
std::vector<int64_t> always_live(const Dag& dag, Reach& reach) {
  std::vector<int64_t> live(size_t(dag.nodes), 0);
  std::vector<uint64_t> span(reach.below.words());
  for (int32_t b = 0; b < dag.buffers(); ++b) {
    if (dag.users.count(b) == 0 && !dag.kept[b]) continue;
    std::fill(span.begin(), span.end(), dag.kept[b] ? ~uint64_t(0) : 0);
    if (!dag.kept[b]) {
      for (int32_t u : dag.users[b]) reach.above.unite(span, u);
    }
    const int32_t maker = dag.maker[b];
    for (size_t w = 0; w < span.size(); ++w) {
      uint64_t bits = span[w] & (maker < 0 ? ~uint64_t(0) : reach.below[maker][w]);
      for (; bits; bits &= bits - 1) {
        const int32_t v = int32_t(w * 64) + std::countr_zero(bits);
        if (v != maker && v < dag.nodes) live[v] += dag.bytes[b];
      }
    }
  }
  return live;
}

}  // namespace

int64_t lower_bound(const Dag& dag) {
  int64_t bound = dag.base, end = 0;
  for (int32_t b = 0; b < dag.buffers(); ++b) end += dag.kept[b] ? dag.bytes[b] : 0;
  for (int32_t v = 0; v < dag.nodes; ++v) {
    int64_t need = dag.hill[v];
    for (int32_t b : dag.uses[v]) need += dag.bytes[b];
    if (dag.reuse[v] >= 0 && !dag.kept[dag.reuse[v]]) need -= dag.bytes[dag.reuse[v]];
    bound = std::max(bound, need);
  }
  bound = std::max(bound, end);
  if (dag.nodes > kSharpNodes) return bound;
  Reach reach(dag);
  const std::vector<int64_t> live = always_live(dag, reach);
  for (int32_t v = 0; v < dag.nodes; ++v) {
    const int32_t b = dag.reuse[v];
    const auto read_later = [&](int32_t u) { return u != v && reach.below.has(v, u); };
    const bool reused = b >= 0 && !dag.kept[b] && std::none_of(dag.users[b].begin(), dag.users[b].end(), read_later);
    bound = std::max(bound, live[v] + dag.hill[v] - (reused ? dag.bytes[b] : 0));
  }
  return bound;
}

}  // namespace tessera::order
