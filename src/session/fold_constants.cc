#include "session/fold_constants.h"

#include <algorithm>

#include "ir/patch.h"
#include "passes/infer.h"
#include "runtime/context.h"

namespace tessera {
namespace {

constexpr int64_t kMostBytes = 1 << 20;   // read by one node
constexpr int64_t kSmallBytes = 1 << 12;  // results up to this are worth it even if they grow

class Folding {
 public:
  Folding(ir::Graph& graph, const Scope* outer, const SessionOptions& options)
      : graph_(graph), scope_{graph, outer}, options_(options) {}

  Result<int64_t> run() {
    TRY_ASSIGN(order, ir::topological_order(graph_));
    int64_t folded = 0;
    for (const ir::NodeId id : order) {
      Status status;
      ir::for_each_subgraph(graph_.node(id), [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
        if (!status.ok()) return;
        Result<int64_t> inner = Folding(*sub, &scope_, options_).run();
        if (inner.ok())
          folded += *inner;
        else
          status = inner.take_status();
      });
      TRY(std::move(status));
      if (!is_foldable(graph_.node(id))) continue;
      std::vector<Value> results(graph_.node(id).outputs.size());
      if (!compute(graph_.node(id), results).ok()) continue;  // the run will say what is wrong
      TRY(replace(id, results));
      ++folded;
    }
    return folded;
  }

 private:
  bool is_foldable(const ir::Node& n) const {
    if (!n.op || op_index(n.op) < 0 || n.op->random || n.outputs.empty()) return false;
    if (n.op_type == "DequantizeLinear") return false;  // what is quantised is best used so
    bool bodies = false;
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>&) { bodies = true; });
    if (bodies || n.inputs.empty()) return false;
    int64_t in = 0, out = 0;
    for (const ir::ValueId v : n.inputs) {
      if (v == ir::kNone) continue;
      const Weight* w = scope_.constant(v);
      if (!w || w->dtype == DType::string) return false;
      in += w->bytes();
    }
    for (const ir::ValueId v : n.outputs) {
      if (v == ir::kNone) continue;
      const int64_t bytes = static_bytes(graph_.value(v));
      if (bytes < 0) return false;
      out += std::min(bytes, kMostBytes + 1);
    }
    return in <= kMostBytes && out <= kMostBytes && (out <= in || out <= kSmallBytes);
  }

  // -1: not known, or no tensor of numbers that could be a constant.
  static int64_t static_bytes(const ir::ValueInfo& v) {
    if (v.is_output || v.fact.kind != Kind::tensor || v.fact.dtype == DType::string || !v.fact.shape) return -1;
    DimVec<int64_t> dims;
    for (const Dim& d : *v.fact.shape) {
      if (!d.known() || dims.full()) return -1;
      dims.push(d.value());
    }
    const Result<Shape> shape = Shape::checked(dims.span());
    return shape.ok() ? bytes_for(v.fact.dtype, shape->count()).value_or(-1) : -1;
  }

  // The node alone, its inputs as constants.
  Status compute(const ir::Node& n, std::span<Value> results) const {
    ir::GraphBuilder builder;
    std::vector<std::string> names;
    for (size_t i = 0; i < n.inputs.size(); ++i) {
      names.push_back(n.inputs[i] == ir::kNone ? "" : format("i{}", i));
      if (!names[i].empty()) TRY(builder.initializer(names[i], *scope_.constant(n.inputs[i])));
    }
    for (size_t o = 0; o < n.outputs.size(); ++o) names.push_back(n.outputs[o] == ir::kNone ? "" : format("o{}", o));
    const std::vector<std::string_view> all(names.begin(), names.end());
    ir::Node alone = n;
    alone.inputs.clear();
    alone.outputs.clear();
    TRY(builder.node(std::move(alone), std::span(all).first(n.inputs.size()), std::span(all).subspan(n.inputs.size())));
    for (size_t o = 0; o < n.outputs.size(); ++o)
      if (n.outputs[o] != ir::kNone) builder.output(all[n.inputs.size() + o], graph_.value(n.outputs[o]).fact);
    const std::shared_ptr<ir::Graph> graph = builder.finish();
    TRY_ASSIGN(order, ir::topological_order(*graph));
    PlanOptions plan_options;
    plan_options.order = order;
    Counters counters;
    TRY_ASSIGN(plan, Plan::build(graph, plan_options, counters));
    SlabPool slabs;
    Context context(plan, slabs);
    RunScope scope;
    scope.target = options_.target;
    scope.max_tensor_bytes = scope.max_run_bytes = 16 * kMostBytes;
    std::vector<Value> out(graph->outputs().size());
    TRY(context.run({}, out, scope));
    for (size_t o = 0, k = 0; o < n.outputs.size(); ++o)
      if (n.outputs[o] != ir::kNone) results[o] = std::move(out[k++]);
    return {};
  }

  Status replace(ir::NodeId id, std::span<Value> results) {
    const std::vector<ir::ValueId> outputs = graph_.node(id).outputs;
    const auto first = static_cast<ir::ValueId>(graph_.values().size());
    ir::Patch patch(graph_);
    patch.remove(id);
    for (size_t o = 0; o < outputs.size(); ++o) {
      if (outputs[o] == ir::kNone) continue;
      const Tensor* t = results[o].tensor();
      if (!t) return invalid("the output {} is no tensor", o);
      patch.replace(outputs[o], patch.constant(*t, graph_.value(outputs[o]).name + "/folded"));
    }
    TRY(patch.apply());
    for (ir::ValueId v = first; v < graph_.values().size(); ++v) infer_constant(graph_, v);
    return {};
  }

  ir::Graph& graph_;
  const Scope scope_;
  const SessionOptions& options_;
};

}  // namespace

Result<int64_t> fold_constants(ir::Graph& graph, const SessionOptions& options) {
  return Folding(graph, nullptr, options).run();
}

}  // namespace tessera
