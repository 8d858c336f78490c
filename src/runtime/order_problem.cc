#include "runtime/order_problem.h"

#include "ops/op.h"

namespace tessera {
namespace {

int64_t assumed_bytes(const Fact& f) {
  if (f.kind != Kind::tensor || !f.shape || f.dtype == DType::undefined || f.dtype == DType::string) return 0;
  int64_t count = 1;
  for (const Dim& d : *f.shape) {
    const int64_t n = d.evaluate([](std::string_view) { return kAssumedDim; });
    if (n < 0 || !checked_mul(count, n, &count)) return 0;
  }
  return bytes_for(f.dtype, count).value_or(0);
}

// FNV-1a: the same on every platform, unlike std::hash.
uint64_t label_of(const ir::Node& n) {
  uint64_t h = 14695981039346656037u;
  for (const std::string* s : {&n.domain, &n.op_type})
    for (const unsigned char c : *s) h = (h ^ c) * 1099511628211u;
  return h;
}

}  // namespace

Result<GraphOrder> choose_graph_order(const ir::Graph& graph, ExecutionOrder wanted) {
  std::vector<ir::NodeId> live;
  for (ir::NodeId i = 0; i < graph.nodes().size(); ++i)
    if (!graph.node(i).dead) live.push_back(i);
  std::vector<int32_t> in_begin{0}, inputs, out_begin{0}, outputs, inplace, view;
  std::vector<uint8_t> input_flags, value_flags(graph.values().size(), 0);
  std::vector<int64_t> bytes(graph.values().size(), 0);
  std::vector<uint64_t> hashes;
  std::vector<std::string_view> names;
  for (ir::ValueId v = 0; v < graph.values().size(); ++v) {
    const ir::ValueInfo& info = graph.value(v);
    if (info.source == ir::Source::node)
      bytes[v] = assumed_bytes(info.fact);
    else
      value_flags[v] |= kExternal;
    if (info.is_output) value_flags[v] |= kGraphOutput;
  }
  for (const ir::NodeId id : live) {
    const ir::Node& n = graph.node(id);
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      if (n.inputs[i] == ir::kNone) continue;
      inputs.push_back(static_cast<int32_t>(n.inputs[i]));
      input_flags.push_back(n.op && i < 32 && (n.op->header_only >> i & 1) ? kHeaderOnly : 0);
    }
    ir::for_each_capture(n, [&](ir::ValueId v) {
      inputs.push_back(static_cast<int32_t>(v));
      input_flags.push_back(0);
    });
    in_begin.push_back(static_cast<int32_t>(inputs.size()));
    for (const ir::ValueId v : n.outputs)
      if (v != ir::kNone) outputs.push_back(static_cast<int32_t>(v));
    out_begin.push_back(static_cast<int32_t>(outputs.size()));
    const bool aligned = !n.inputs.empty() && n.inputs[0] != ir::kNone;
    view.push_back(n.op && n.op->view == 0 && aligned ? 0 : -1);
    inplace.push_back(n.op && (n.op->inplace & 1) && aligned ? 0 : -1);
    hashes.push_back(label_of(n));
    names.push_back(n.name);
  }
  OrderProblem problem;
  problem.nodes = static_cast<int32_t>(live.size());
  problem.values = static_cast<int32_t>(graph.values().size());
  problem.in_begin = in_begin;
  problem.inputs = inputs;
  problem.out_begin = out_begin;
  problem.outputs = outputs;
  problem.bytes = bytes;
  problem.value_flags = value_flags;
  problem.input_flags = input_flags;
  problem.inplace = inplace;
  problem.view = view;
  problem.node_hash = hashes;
  problem.node_name = names;
  TRY_ASSIGN(order, choose_order(problem, wanted));
  GraphOrder out;
  out.peak_bytes = order.peak_bytes;
  out.chosen_by = order.chosen_by;
  for (const int32_t i : order.nodes) out.nodes.push_back(live[static_cast<size_t>(i)]);
  return out;
}

}  // namespace tessera
