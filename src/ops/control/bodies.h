// What the operators with bodies share: finding a body, and joining what several runs may give.
#pragma once
#include "ops/op.h"

namespace tessera {

// A graph attribute: which of the node's bodies it is, and what the model says of it.
struct BodyRef {
  int index = 0;
  std::shared_ptr<ir::Graph> graph;

  const Fact& output(int o) const { return graph->value(graph->outputs()[static_cast<size_t>(o)]).fact; }
  const Fact& input(int i) const { return graph->value(graph->inputs()[static_cast<size_t>(i)]).fact; }
  int inputs() const { return static_cast<int>(graph->inputs().size()); }
  int outputs() const { return static_cast<int>(graph->outputs().size()); }
};

Status get_body(Attrs& attrs, std::string_view name, BodyRef& out);
// Refuses a body with another number of inputs, or fewer outputs than `least_outputs`.
Status check_body(const BodyRef& body, std::string_view name, int inputs, int least_outputs);

// What holds of a value that is either `a` or `b`: dimensions that differ become unknown.
Fact either(const Fact& a, const Fact& b, DimPool& dims);
TypeDesc either(const TypeDesc& a, const TypeDesc& b);
// The fact without what it says of the elements: of a value that may be another one in the next run.
Fact form_of(const Fact* f);

// The values that pass from one run of a body to the next. The memory of a tensor serves again two runs later, if
// nobody kept it.
class Carry {
 public:
  explicit Carry(size_t count) : values(count), spare_(count), previous_(count) {}
  // Hands the values to the body and says where it may write the next ones.
  void lend(std::span<Value> in, std::span<Value> out);
  void collect(std::span<Value> out);

  std::vector<Value> values;

 private:
  std::vector<Value> spare_, previous_;
};

// A list of `size` choices between 0 (forward) and 1 (reverse), or nothing for all forward.
Status check_directions(const Attrs& attrs, std::string_view name, std::vector<int64_t>& list, int size);

}  // namespace tessera
