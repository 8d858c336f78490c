// Operators that a program adds at run time. To the rest of the library they are Ops like any other, outside the table:
// their functions forward to the node's own object, which a CustomOp makes for each node.
#pragma once
#include <climits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ops/op.h"

namespace tessera {

// Where a node stands: its graph, and the scope around that.
struct Scope {
  const ir::Graph& graph;
  const Scope* outer = nullptr;

  // The value if it is the same in every run; null else.
  const Weight* constant(ir::ValueId id) const;
};

// One node of a custom operator: what the functions of its Op get as parameters. Made while the graph is resolved; runs
// of many threads share it.
class CustomNode {
 public:
  virtual ~CustomNode() = default;

  virtual void types(TypeCall& c) const = 0;
  // Sharpens the facts of the outputs, which have the types already.
  virtual Status infer(const ir::Node& node, DimPool& dims, std::span<const Fact* const> in,
                       std::span<Fact> out) const = 0;
  // Called once, when all types that can be known are, and before anything runs.
  virtual Status start(const Scope& scope, const ir::Node& node) = 0;
  // Of operators with CustomOp::Traits::shaped.
  virtual Status shape(ShapeCall<int64_t>& c) const = 0;
  virtual Status compute(Call& call) const = 0;

  // Of operators that pack an input.
  virtual int64_t packed_bytes(const Shape&) const { return 0; }
  virtual void pack(const Shape&, const void*, void*) const {}
  virtual int64_t variant() const { return 0; }
};

class CustomOp {
 public:
  struct Traits {
    std::string domain, name;
    int since = 1, until = INT_MAX;  // the versions of the domain's operator set that it serves
    bool shaped = false;             // has a shape function; else it allocates its outputs
    bool random = false;             // two calls may differ
    uint32_t shape_inputs = 0;       // inputs whose content the shape function reads
    int packed_input = -1;
    DType packed_type = DType::f32;
    std::string layout;  // of the packed input; names its bytes in this process and in pack files
  };
  explicit CustomOp(Traits traits);
  virtual ~CustomOp() = default;
  CustomOp(const CustomOp&) = delete;
  CustomOp& operator=(const CustomOp&) = delete;

  const Op& op() const { return op_; }
  const Traits& traits() const { return traits_; }
  // The state of one node. Wrong attributes are refused.
  virtual Result<std::shared_ptr<CustomNode>> open(const ir::Node& node) const = 0;

 private:
  Traits traits_;
  int16_t version_;
  Packing packing_;
  Op op_;
};

using CustomOps = std::vector<std::shared_ptr<const CustomOp>>;

// The operator that serves the node, the newest if there are several. Null if there is none.
const CustomOp* find_custom(std::span<const std::shared_ptr<const CustomOp>> ops, const ir::Node& node);
// The state of a node; null if its operator is not a custom one.
CustomNode* custom_node(const ir::Node& node);
// Starts every custom node of a graph and of its subgraphs.
Status start_custom(const ir::Graph& graph);

}  // namespace tessera
