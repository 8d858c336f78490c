// Operators that are compositions of others: Op::compose builds the nodes that take the place of a call at load.
#pragma once
#include "ir/patch.h"
#include "ops/op.h"

namespace tessera {

class Composer {
 public:
  Composer(ir::Graph& graph, ir::NodeId node, int since)
      : node_(graph.node(node)), attrs_(node_, since), patch_(graph) {
    patch_.remove(node);
  }

  Attrs& attrs() { return attrs_; }
  bool has(int i) const {
    return i < static_cast<int>(node_.inputs.size()) && node_.inputs[static_cast<size_t>(i)] != ir::kNone;
  }
  ir::ValueId in(int i) const { return has(i) ? node_.inputs[static_cast<size_t>(i)] : ir::kNone; }
  int outputs() const { return static_cast<int>(node_.outputs.size()); }
  ir::ValueId constant(Tensor t) { return patch_.constant(std::move(t), node_.name + "/constant"); }
  // A scalar of the type of `like`.
  ir::ValueId scalar(float v, ir::ValueId like);
  // The first output of a new node; the others are numbered on from it. In the call's own operator set, or
  // "com.microsoft.Name" in version 1 of another.
  ir::ValueId op(const char* type, std::vector<ir::ValueId> inputs, std::vector<ir::Attribute> attributes = {},
                 size_t outputs = 1);
  // Output o of the call is this value.
  void out(int o, ir::ValueId value);
  Status apply() { return patch_.apply(); }

 private:
  const ir::Node node_;
  Attrs attrs_;
  ir::Patch patch_;
};

}  // namespace tessera
