// Random models that are valid by construction: every node was run on its own, on the values the model's inputs lead
// to, before it became part of the model. The same seed gives the same model.
#pragma once
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "core/value.h"
#include "ir/graph.h"
#include "ops/signatures.h"

namespace tessera::testing {

struct RandomGraph;

struct RandomNode {
  std::string op, domain;
  std::vector<std::string> inputs, outputs;  // "" where absent
  std::vector<ir::Attribute> attributes = {};
  std::vector<std::pair<std::string, std::shared_ptr<RandomGraph>>> bodies = {};  // by attribute name

  const RandomGraph* body(std::string_view attribute) const;
};

struct RandomInput {
  std::string name;
  Value value;                            // empty in bodies
  std::vector<std::string> symbols = {};  // per dimension, "" where it is fixed
  bool ranked = true;
};

struct RandomGraph {
  std::vector<RandomInput> inputs;
  std::map<std::string, Tensor> constants;
  std::vector<RandomNode> nodes;  // producers first
  std::vector<std::string> outputs;

  int node_count() const;  // with bodies
};

struct RandomModel {
  uint64_t seed = 0;
  int opset = 0, ml_opset = 5;
  RandomGraph graph;
};

using Scope = std::map<std::string, Value>;

// The names that a node reads, its bodies' captures among them.
std::set<std::string> reads_of(const RandomNode& node);
// `facts` gives types to the outputs where it has them.
Result<Model> to_model(const RandomModel& model, const Scope& facts = {});
Fact fact_of(const Value& value);
bool same_bits(const Value& a, const Value& b);

// Values node by node: every node is a model of its own, fed with what was computed before; If, Loop, Scan and
// SequenceMap are carried out here. No plan spans two nodes.
class Interpreter {
 public:
  explicit Interpreter(const RandomModel& model) : opset_(model.opset), ml_opset_(model.ml_opset) {}
  // Adds the outputs of a node to the scope.
  Status run(const RandomNode& node, const std::set<std::string>& constants, Scope& scope) const;
  // Every value of a graph. `outer` is what a body may capture.
  Result<Scope> run(const RandomGraph& graph, const std::vector<Value>& inputs, const Scope& outer = {}) const;

 private:
  Result<std::vector<Value>> run_body(const RandomGraph& body, const std::vector<Value>& inputs,
                                      const Scope& outer) const;
  Result<std::vector<Value>> run_alone(const RandomNode& node, const std::set<std::string>& constants,
                                       const Scope& scope) const;
  Result<std::vector<Value>> run_if(const RandomNode& node, const Scope& scope) const;
  Result<std::vector<Value>> run_loop(const RandomNode& node, const Scope& scope) const;
  Result<std::vector<Value>> run_scan(const RandomNode& node, const Scope& scope) const;
  Result<std::vector<Value>> run_sequence_map(const RandomNode& node, const Scope& scope) const;
  int opset_, ml_opset_;
};

// How often an operator became a node, and why it did not.
struct OpTally {
  int made = 0, refused = 0;
  std::string reason;
};
using Tallies = std::map<std::string, OpTally>;

// A graph under construction; bodies have makers of their own that may capture from their parent's graph.
class Maker {
 public:
  Maker(RandomModel& model, std::mt19937_64& random, Tallies& tallies, Maker* parent = nullptr);

  // Adds one operator with what it needs. False if it was not possible here.
  bool add_any();
  bool add(const spec::Signature& signature);
  // Adds a node as it is; its outputs get names. False if it was refused, is too large, or has no valid result.
  bool add(RandomNode& node);
  // Ends the graph: outputs are all values nobody reads and some that are read too.
  void finish(RandomGraph& out);

  // Draws.
  int below(int n) { return static_cast<int>(random_() % static_cast<uint64_t>(n)); }
  bool chance(double p) { return static_cast<double>(random_() >> 11) * 0x1p-53 < p; }
  int64_t between(int64_t low, int64_t high) { return low + below(static_cast<int>(high - low + 1)); }
  template <class T>
  const T& one_of(const std::vector<T>& list) {
    return list[static_cast<size_t>(below(static_cast<int>(list.size())))];
  }
  int64_t dim(int64_t least = 0);
  std::vector<int64_t> dims(int rank, int64_t least = 0);
  // A type that the argument may have, mostly one that exists already.
  DType type(const spec::Argument& argument, TypeSet within = kEveryType);

  // Values of the graph. All return "" if there is nothing fitting.
  std::string existing(const std::function<bool(const Value&)>& fits);
  std::string any(DType dtype, int least_rank = 0, int most_rank = 5);
  std::string fit(DType dtype, const std::vector<int64_t>& shape);
  std::string fresh(DType dtype, const std::vector<int64_t>& shape);
  // A value with these very elements: a constant, an input, or computed from the shapes of others.
  std::string numbers(const std::vector<int64_t>& values, DType dtype = DType::i64, bool scalar = false);
  std::string constant(Tensor tensor);
  std::string input(Value value);
  Tensor tensor(DType dtype, const std::vector<int64_t>& shape);
  Tensor integers(DType dtype, const std::vector<int64_t>& shape, const std::vector<int64_t>& values);
  Tensor reals(DType dtype, const std::vector<int64_t>& shape, double low, double high);

  const Value& value(const std::string& name) const;
  const Tensor& tensor_of(const std::string& name) const { return *value(name).tensor(); }
  std::vector<int64_t> shape(const std::string& name) const;
  int rank(const std::string& name) const { return tensor_of(name).shape().rank(); }
  int opset() const { return model_.opset; }

  // A graph within: `make` fills it, given a maker whose inputs have the given values.
  std::shared_ptr<RandomGraph> body(const std::vector<Value>& inputs,
                                    const std::function<bool(Maker&, const std::vector<std::string>&)>& make);
  // Later nodes do not take the value of themselves.
  void hide(const std::string& name) { std::erase(order_, name); }
  void output(const std::string& name) { graph_.outputs.push_back(name); }
  int depth() const { return parent_ ? parent_->depth() + 1 : 0; }
  std::string new_name(std::string_view stem);
  int nodes() const { return graph_.node_count(); }
  bool large = false;  // now and then tensors of many elements
  double dynamic = 0;  // share of the inputs' dimensions that are symbols

 private:
  std::string shape_computed(const std::vector<int64_t>& values);
  std::string adapted(DType dtype, const std::vector<int64_t>& shape);
  std::vector<std::string> symbols_for(const Shape& shape);
  RandomModel& model_;
  std::mt19937_64& random_;
  Tallies& tallies_;
  Maker* parent_;
  RandomGraph graph_;
  Scope scope_;
  std::set<std::string> constants_;
  std::vector<std::string> order_;  // names of values, oldest first
  std::shared_ptr<int> next_;       // shared with bodies, as are the sizes of symbols
  std::shared_ptr<std::map<std::string, int64_t>> sizes_;
};

// Operators with a recipe, and the recipe: fills in a node, or returns false.
using Recipe = bool (*)(Maker&, const spec::Signature&, RandomNode&);
Recipe recipe_of(const spec::Signature& signature);

RandomModel random_model(uint64_t seed, int nodes, Tallies& tallies);

}  // namespace tessera::testing
