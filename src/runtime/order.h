// The order in which the nodes of a graph run, chosen for the smallest peak of live bytes.
#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "runtime/offsets.h"

namespace tessera {

// Bits of OrderProblem::value_flags.
inline constexpr uint8_t kGraphOutput = 1;  // live until the last step
inline constexpr uint8_t kExternal = 2;     // lives outside the slab (weights, graph inputs): never counted
// Bit of OrderProblem::input_flags.
inline constexpr uint8_t kHeaderOnly = 1;  // reads the shape alone: a dependency, but the bytes may be gone by then

// A graph as the order sees it: nodes 0..nodes-1 in file order, values 0..values-1, each made by at most one node. An
// id of -1 among the inputs or outputs stands for one that is absent. The spans belong to the caller.
struct OrderProblem {
  int32_t nodes = 0;
  int32_t values = 0;
  std::span<const int32_t> in_begin, inputs;    // node i reads inputs[in_begin[i] .. in_begin[i + 1])
  std::span<const int32_t> out_begin, outputs;  // and makes outputs[out_begin[i] .. out_begin[i + 1])
  std::span<const int64_t> bytes;               // per value
  std::span<const uint8_t> value_flags;         // per value
  std::span<const uint8_t> input_flags;         // parallel to inputs
  // Per node: -1, or k: output 0 may take the buffer of input k if the node is the last to read it, reads it through no
  // other input, and the two have the same size.
  std::span<const int32_t> inplace;
  // Per node: -1, or k: output 0 is input k's buffer seen differently and adds no bytes.
  std::span<const int32_t> view;
  std::span<const uint64_t> node_hash;          // label of a node: operator and attributes
  std::span<const std::string_view> node_name;  // settles what structure cannot
};

enum class ExecutionOrder : uint8_t {
  planned,         // the smallest peak found; does not depend on how the file lists the nodes unless that listing wins
  priority_based,  // nodes that read shapes alone first, then the lowest index
  memory_efficient,  // for inference the same as planned
  file_order,        // as listed; by lowest index if a node is listed before one it depends on
};

struct Order {
  std::vector<int32_t> nodes;
  int64_t peak_bytes = 0;
  const char* chosen_by = "";  // the heuristic that won; a static string
  int64_t work = 0;            // elementary steps spent choosing: grows with the graph, the same on every machine
};

// Pure and deterministic. A cycle is refused with Code::invalid_graph and named whole: "a -> b -> a".
Result<Order> choose_order(const OrderProblem& problem, ExecutionOrder mode);

// The largest sum of live bytes while `order` runs. A value lives from the step that makes it to its last reader (a
// header-only reader does not count), a graph output to the end. Needs an acyclic problem and a topological order.
int64_t simulate_peak(const OrderProblem& problem, std::span<const int32_t> order);

// What assign_offsets needs: the buffers an order gives rise to, values that are views or run in place sharing one.
struct BufferPlan {
  std::vector<int32_t> buffer_of_value;  // -1: outside the slab, or never made
  std::vector<Lifetime> lifetimes;       // per buffer, in steps of the order
};
BufferPlan plan_buffers(const OrderProblem& problem, std::span<const int32_t> order);

}  // namespace tessera
