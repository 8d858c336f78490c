#include "session/one_op.h"

#include "ops/resolve.h"

namespace tessera {
namespace {

TypeDesc type_of(const Value& v) {
  if (const Tensor* t = v.tensor()) return {Kind::tensor, t->dtype(), Kind::tensor};
  if (const Sequence* s = v.sequence()) return {Kind::sequence, s->element, Kind::tensor};
  return {v.map() ? Kind::map : Kind::unknown, DType::undefined, Kind::tensor};
}

bool same(std::span<const TypeDesc> a, std::span<const TypeDesc> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const TypeDesc& x, const TypeDesc& y) { return x.kind == y.kind && x.dtype == y.dtype; });
}

}  // namespace

// Types of kind unknown are absent inputs.
Result<std::shared_ptr<ir::Graph>> OneOp::graph_for(std::span<const TypeDesc> types) const {
  ir::GraphBuilder builder;
  std::vector<std::string> names;
  for (size_t i = 0; i < types.size(); ++i) {
    names.push_back(types[i].kind == Kind::unknown ? "" : format("input {}", i));
    if (names[i].empty()) continue;
    Fact fact;
    if (types[i].kind == Kind::tensor) fact = Fact::tensor(types[i].dtype);
    if (types[i].kind == Kind::sequence) fact = Fact::sequence(Fact::tensor(types[i].dtype));
    TRY(builder.input(names[i], std::move(fact)));
  }
  for (int o = 0; o < outputs_; ++o) names.push_back(format("output {}", o));
  const std::vector<std::string_view> all(names.begin(), names.end());
  TRY(builder.node(node_, std::span(all).first(types.size()), std::span(all).subspan(types.size())));
  for (int o = 0; o < outputs_; ++o) builder.output(names[types.size() + static_cast<size_t>(o)], Fact());
  std::shared_ptr<ir::Graph> graph = builder.finish();
  TRY(ir::GraphBuilder::bind_scopes(*graph));
  TRY(resolve(*graph, {.extra = custom_}));
  return graph;
}

Result<std::unique_ptr<OneOp>> OneOp::create(const ir::Node& node, int inputs, int outputs, const CustomOps& custom) {
  std::unique_ptr<OneOp> out(new OneOp);
  out->node_ = node;
  out->inputs_ = inputs;
  out->outputs_ = outputs;
  out->custom_ = custom;
  const std::vector<TypeDesc> any(static_cast<size_t>(inputs));
  TRY(out->graph_for(any).take_status());
  return out;
}

Result<OneOp::Variant*> OneOp::variant_for(std::span<const TypeDesc> types) {
  for (const auto& v : variants_)
    if (same(v->types, types)) return v.get();
  TRY_ASSIGN(graph, graph_for(types));
  TRY(start_custom(*graph));
  TRY_ASSIGN(order, ir::topological_order(*graph));
  PlanOptions options;
  options.order = order;
  Counters counters;
  TRY_ASSIGN(plan, Plan::build(graph, options, counters));
  auto made = std::make_unique<Variant>();
  made->types.assign(types.begin(), types.end());
  made->plan = std::move(plan);
  variants_.push_back(std::move(made));
  return variants_.back().get();
}

Status OneOp::run(std::span<const Value> inputs, std::span<Value> outputs, int threads, Target target) {
  if (static_cast<int>(inputs.size()) != inputs_ || static_cast<int>(outputs.size()) != outputs_)
    return invalid("{} inputs and {} outputs for an operator with {} and {}", inputs.size(), outputs.size(), inputs_,
                   outputs_);
  std::vector<TypeDesc> types;
  std::vector<Value> present;
  for (const Value& v : inputs) {
    types.push_back(type_of(v));
    if (types.back().kind != Kind::unknown) present.push_back(v);
  }
  Variant* variant = nullptr;
  std::unique_ptr<Context> context;
  {
    std::lock_guard lock(mutex_);
    TRY_ASSIGN(found, variant_for(types));
    variant = found;
    if (!variant->idle.empty()) {
      context = std::move(variant->idle.back());
      variant->idle.pop_back();
    }
  }
  if (!context) context = std::make_unique<Context>(variant->plan, slabs_);
  RunScope scope;
  scope.threads = threads;
  scope.target = target;
  Status status = context->run(present, outputs, scope);
  std::lock_guard lock(mutex_);
  variant->idle.push_back(std::move(context));
  return status;
}

}  // namespace tessera
