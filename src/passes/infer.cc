#include "passes/infer.h"

#include "core/convert.h"
#include "ir/patch.h"
#include "ops/custom.h"

namespace tessera {
namespace {

constexpr int64_t kMostContent = 64;

TypeDesc type_of(const Fact* f) {
  if (!f) return {Kind::unknown, DType::undefined, Kind::tensor};
  TypeDesc t{f->kind, f->dtype, Kind::tensor};
  for (const Fact* inner = f; inner->element; inner = inner->element.get()) {
    t.inner = f->element->kind;
    t.dtype = inner->element->dtype;
  }
  return t;
}

Fact fact_of(const TypeDesc& t) {
  if (t.kind == Kind::tensor) return Fact::tensor(t.dtype);
  Fact f;
  f.kind = t.kind;
  if (t.kind == Kind::sequence || t.kind == Kind::optional) {
    Fact inner = t.inner == Kind::sequence ? Fact::sequence(Fact::tensor(t.dtype)) : Fact::tensor(t.dtype);
    f.element = std::make_shared<const Fact>(std::move(inner));
  }
  return f;
}

class Inference {
 public:
  explicit Inference(ir::Graph& graph) : graph_(graph), annotate_(graph) {}

  Status run(std::span<const Fact> inputs = {}, const ir::Graph* parent = nullptr) {
    for (size_t i = 0; i < graph_.inputs().size() && i < inputs.size(); ++i) {
      const ir::ValueId id = graph_.inputs()[i];
      annotate_.set_fact(id, merge(graph_.value(id).fact, inputs[i]));
    }
    for (ir::ValueId id = 0; id < graph_.values().size(); ++id) {
      const ir::ValueInfo& v = graph_.value(id);
      if (v.source == ir::Source::captured && parent) annotate_.set_fact(id, parent->value(v.outer).fact);
      if (v.source == ir::Source::initializer && !v.is_input) add_content(id);
    }
    TRY_ASSIGN(order, ir::topological_order(graph_));
    for (const ir::NodeId id : order)
      if (Status s = infer_node(id); !s.ok()) return std::move(s).in(graph_.node(id).title());
    return {};
  }

  void add_content(ir::ValueId id) {
    const Weight* w = graph_.weight_of(id);
    if (!w || w->shape.count() > kMostContent || !(kIndexTypes | kFloats).has(w->dtype)) return;
    const Result<Tensor> t = w->tensor();
    if (!t.ok()) return;
    Fact f = graph_.value(id).fact;
    if (kFloats.has(w->dtype)) {
      std::vector<double> numbers(static_cast<size_t>(t->count()));
      decode(t->dtype(), t->data(), 0, t->count(), numbers.data());
      f.reals = std::make_shared<const std::vector<double>>(std::move(numbers));
    } else {
      std::vector<int64_t> numbers(static_cast<size_t>(t->count()));
      decode(t->dtype(), t->data(), 0, t->count(), numbers.data());
      f.content = std::vector<Dim>(numbers.begin(), numbers.end());
    }
    annotate_.set_fact(id, std::move(f));
  }

  Status infer_node(ir::NodeId id) {
    const ir::Node& n = graph_.node(id);
    std::vector<const Fact*> in;
    std::vector<TypeDesc> types_in;
    for (const ir::ValueId v : n.inputs) {
      in.push_back(v == ir::kNone ? nullptr : &graph_.value(v).fact);
      types_in.push_back(type_of(in.back()));
    }
    if (types_in.empty()) types_in.push_back(type_of(nullptr));
    std::vector<std::vector<TypeDesc>> bodies;
    infer_bodies(n, in, bodies);
    std::vector<TypeDesc> types_out(n.outputs.size());
    TypeCall types{n, n.params.get(), types_in, types_out, bodies};
    n.op->types(types);
    std::vector<Fact> out;
    for (const TypeDesc& t : types_out) out.push_back(fact_of(t));
    const int index = op_index(n.op);
    const OpInference* inference = index >= 0 && index < static_cast<int>(inference_table().size())
                                       ? inference_table()[static_cast<size_t>(index)]
                                       : nullptr;
    if (const CustomNode* custom = custom_node(n)) {
      TRY(custom->infer(n, graph_.dims(), in, out));
    } else if (inference && inference->infer) {
      TRY(inference->infer(n, n.params.get(), graph_.dims(), in, out));
    } else if (inference && inference->shape && all_ranks_known(in)) {
      ShapeCall<Dim> call(graph_.dims(), in, out);
      TRY(inference->shape(n.params.get(), call));
    }
    for (size_t o = 0; o < n.outputs.size(); ++o)
      if (n.outputs[o] != ir::kNone) TRY(record(n.outputs[o], std::move(out[o])));
    return {};
  }

 private:
  static bool all_ranks_known(std::span<const Fact* const> in) {
    for (const Fact* f : in)
      if (f && (f->kind != Kind::tensor || !f->shape)) return false;
    return true;
  }

  void infer_bodies(const ir::Node& n, std::span<const Fact* const> in, std::vector<std::vector<TypeDesc>>& bodies) {
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
      // Types flow in by position; shapes may change from one iteration to the next, so they do not.
      std::vector<Fact> inputs;
      for (const Fact* f : in) {
        if (f && n.op->maps_elements && f->kind == Kind::sequence) f = f->element.get();
        inputs.push_back(f && f->kind == Kind::tensor ? Fact::tensor(f->dtype) : f ? *f : Fact{});
      }
      // A body may never run: what is wrong with its shapes is said when it does.
      (void)Inference(*sub).run(sub->inputs().empty() ? std::span<const Fact>{} : inputs, &graph_);
      bodies.emplace_back();
      for (const ir::ValueId v : sub->outputs()) bodies.back().push_back(type_of(&sub->value(v).fact));
    });
  }

  Status record(ir::ValueId id, Fact found) {
    const ir::ValueInfo& v = graph_.value(id);
    if (found.dtype == DType::undefined && found.kind == Kind::tensor) found = Fact{};
    if (!compatible(found, v.fact) && found.kind == Kind::tensor && v.fact.kind == Kind::tensor &&
        found.dtype != v.fact.dtype)
      return invalid_graph("its output {} is {}, but is declared as {}", quote(v.name), found.str(), v.fact.str());
    // A declared shape that contradicts what follows from the inputs is stale: models in the wild have many.
    const bool stale = !compatible(found, v.fact);
    annotate_.set_fact(id, stale ? found : merge(found, v.fact));
    return {};
  }

  ir::Graph& graph_;
  ir::Annotator annotate_;
};

}  // namespace

Status infer(ir::Graph& graph) { return Inference(graph).run(); }

void infer_constant(ir::Graph& graph, ir::ValueId constant) { Inference(graph).add_content(constant); }

Status infer_node(ir::Graph& graph, ir::NodeId node) {
  Status s = Inference(graph).infer_node(node);
  return s.ok() ? std::move(s) : std::move(s).in(graph.node(node).title());
}

}  // namespace tessera
