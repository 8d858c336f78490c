// Generated graphs for the tests of execution order and slab offsets.
#pragma once
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/order.h"

namespace tessera::corpus {

// How a node treats its inputs.
struct Traits {
  int32_t inplace = -1;
  int32_t view = -1;
  bool header_only = false;
};

// An OrderProblem that owns its arrays, built node by node.
class Graph {
 public:
  std::string family, name;

  int32_t value(int64_t bytes, uint8_t flags = 0);
  int32_t weight() { return value(0, kExternal); }
  // Adds a node with one output and returns that value.
  int32_t node(std::string_view op, std::vector<int32_t> inputs, int64_t bytes, Traits traits = {});
  // Adds a node with given outputs.
  void node_to(std::string_view op, std::vector<int32_t> inputs, std::vector<int32_t> outputs, Traits traits = {});
  void output(int32_t value) { flags_[size_t(value)] |= kGraphOutput; }

  int32_t nodes() const { return int32_t(hashes_.size()); }
  OrderProblem problem() const;
  // The same graph with its nodes listed in the given order and its values renumbered at random.
  Graph relisted(const std::vector<int32_t>& order, std::mt19937_64& random) const;
  // A random topological order of the nodes.
  std::vector<int32_t> random_listing(std::mt19937_64& random) const;

 private:
  void add(std::string name, uint64_t hash, const std::vector<int32_t>& inputs, const std::vector<uint8_t>& input_flags,
           const std::vector<int32_t>& outputs, int32_t inplace, int32_t view);

  std::vector<int32_t> in_begin_{0}, inputs_, out_begin_{0}, outputs_, inplace_, view_;
  std::vector<int64_t> bytes_;
  std::vector<uint8_t> flags_, input_flags_;
  std::vector<uint64_t> hashes_;
  std::vector<std::shared_ptr<const std::string>> names_;
  mutable std::vector<std::string_view> name_views_;
};

Graph qdq_chain(int32_t layers, int64_t bytes);
Graph masks_per_layer(int32_t layers, int64_t bytes);
Graph transformer(int32_t layers, int32_t heads, int64_t bytes);
Graph unet(int32_t depth, int64_t bytes);
Graph inception(int32_t blocks, int32_t branches, uint64_t seed);
Graph mixture_of_experts(int32_t layers, int32_t experts, int64_t bytes);
Graph rnn_unrolled(int32_t steps, int32_t layers, int64_t bytes);
Graph training(int32_t layers, int64_t bytes, bool recompute);
Graph random_dag(int32_t nodes, int32_t fan_in, uint64_t seed);
Graph random_tree(int32_t leaves, uint64_t seed);
Graph fan_out_tree(int32_t depth, int64_t bytes);
Graph wide(int32_t branches, int64_t bytes);
Graph chain(int32_t nodes, int64_t bytes);
Graph shapes_at_end(int32_t layers, int64_t bytes, bool with_shape);

// Over 200 graphs of all families, a few hundred nodes at most.
std::vector<Graph> all();
// Graphs of at most 14 nodes, with views, in-place nodes, header-only readers, kept values and several outputs.
std::vector<Graph> small(int32_t count);

}  // namespace tessera::corpus
