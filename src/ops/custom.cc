#include "ops/custom.h"

#include <cstdlib>

namespace tessera {
namespace {

const CustomNode& node_in(const void* params) { return *static_cast<const CustomNode*>(params); }

Status compute(const void* params, Call& call) { return node_in(params).compute(call); }
Status shape(const void* params, ShapeCall<int64_t>& c) { return node_in(params).shape(c); }
void types(TypeCall& c) { node_in(c.params).types(c); }
// The one input that is packed.
const Tensor& weight_in(const PackCall& c) {
  for (const Tensor* t : c.inputs)
    if (t) return *t;
  std::abort();
}
int64_t packed_bytes(const PackCall& c) { return node_in(c.params).packed_bytes(weight_in(c).shape()); }
void pack(const PackCall& c, void* out) {
  const Tensor& weight = weight_in(c);
  node_in(c.params).pack(weight.shape(), weight.data(), out);
}
int64_t variant(const void* params) { return node_in(params).variant(); }

constexpr Kernel kKernels[] = {{{}, compute}};

Status start(const ir::Graph& graph, const Scope* outer) {
  const Scope scope{graph, outer};
  for (const ir::Node& n : graph.nodes()) {
    if (n.dead) continue;
    Status status;
    if (CustomNode* custom = custom_node(n)) status = custom->start(scope, n);
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
      if (status.ok()) status = start(*sub, &scope);
    });
    if (!status.ok()) return std::move(status).in(n.title());
  }
  return {};
}

}  // namespace

const Weight* Scope::constant(ir::ValueId id) const {
  if (id == ir::kNone) return nullptr;
  const ir::ValueInfo& v = graph.value(id);
  if (v.source == ir::Source::captured) return outer ? outer->constant(v.outer) : nullptr;
  if (v.source == ir::Source::initializer) return v.is_input ? nullptr : graph.weight_of(id);
  if (v.source != ir::Source::node || v.producer == ir::kNone) return nullptr;
  const ir::Node& n = graph.node(v.producer);
  const ir::Attribute* a = n.domain.empty() && n.op_type == "Constant" ? n.find("value") : nullptr;
  const auto* weights = a ? std::get_if<std::vector<Weight>>(&a->value) : nullptr;
  return weights && weights->size() == 1 ? weights->data() : nullptr;
}

CustomOp::CustomOp(Traits traits)
    : traits_(std::move(traits)),
      version_(static_cast<int16_t>(std::clamp<int>(traits_.since, 1, INT16_MAX))),
      packing_{.input = traits_.packed_input,
               .layout = traits_.layout.c_str(),
               .bytes = tessera::packed_bytes,
               .pack = tessera::pack,
               .variant = tessera::variant,
               .types = set_of(traits_.packed_type)},
      op_{.domain = traits_.domain.c_str(),
          .name = traits_.name.c_str(),
          .versions = {&version_, 1},
          .types = tessera::types,
          .shape = traits_.shaped ? tessera::shape : nullptr,
          .kernels = kKernels,
          .shape_inputs = traits_.shape_inputs,
          .random = traits_.random} {
  if (traits_.packed_input >= 0) op_.packs = {&packing_, 1};
}

const CustomOp* find_custom(std::span<const std::shared_ptr<const CustomOp>> ops, const ir::Node& node) {
  const CustomOp* best = nullptr;
  for (const auto& op : ops) {
    const CustomOp::Traits& t = op->traits();
    const bool serves =
        node.domain == t.domain && node.op_type == t.name && node.version >= t.since && node.version <= t.until;
    if (serves && (!best || t.since > best->traits().since)) best = op.get();
  }
  return best;
}

CustomNode* custom_node(const ir::Node& node) {
  if (!node.op || op_index(node.op) >= 0 || node.op->types != types) return nullptr;
  return static_cast<CustomNode*>(const_cast<void*>(node.params.get()));
}

Status start_custom(const ir::Graph& graph) { return start(graph, nullptr); }

}  // namespace tessera
