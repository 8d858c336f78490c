#include "session/edit_model.h"

#include <algorithm>

#include "ops/resolve.h"
#include "session/load_steps.h"

namespace tessera {
namespace {

using Names = std::vector<std::string_view>;

Names names_in(const ir::Graph& graph, const std::vector<ir::ValueId>& ids) {
  Names names;
  for (const ir::ValueId id : ids) names.push_back(id == ir::kNone ? std::string_view() : graph.value(id).name);
  return names;
}

// Everything but inputs and outputs. Values keep their ids, by which subgraphs know them.
Status copy_body(const ir::Graph& from, ir::GraphBuilder& to) {
  for (ir::ValueId id = 0; id < from.values().size(); ++id) {
    const ir::ValueInfo& v = from.value(id);
    if (to.use(v.name) != id) return invalid_graph("value {} is there twice", quote(v.name));
  }
  for (ir::ValueId id = 0; id < from.values().size(); ++id)
    if (const Weight* w = from.weight_of(id)) TRY(to.initializer(from.value(id).name, *w));
  for (const ir::Node& n : from.nodes()) {
    if (n.dead) continue;
    ir::Node copy = n;
    copy.inputs.clear();
    copy.outputs.clear();
    TRY(to.node(std::move(copy), names_in(from, n.inputs), names_in(from, n.outputs)));
  }
  return {};
}

Status copy_inputs(const ir::Graph& from, ir::GraphBuilder& to) {
  for (const ir::ValueId id : from.inputs()) {
    const ir::ValueInfo& v = from.value(id);
    TRY(to.input(v.name, v.fact, v.unknown));
  }
  return {};
}

void copy_outputs(const ir::Graph& from, ir::GraphBuilder& to) {
  for (const ir::ValueId id : from.outputs()) to.output(from.value(id).name, from.value(id).fact);
}

Status add_parts(const ModelAddition& a, ir::GraphBuilder& to) {
  for (const auto& [name, tensor] : a.initializers) TRY(to.initializer(name, Weight::from(tensor)));
  for (const auto& n : a.nodes) {
    const Names inputs(n.inputs.begin(), n.inputs.end()), outputs(n.outputs.begin(), n.outputs.end());
    TRY(to.node(n.node, inputs, outputs));
  }
  return {};
}

Status add_opsets(const ModelAddition& a, Model& model) {
  for (const auto& [domain, version] : a.opsets) {
    const int64_t there = model.opset(domain);
    if (there && there != version)
      return invalid("operator set {} of version {} is added to a model that uses version {}", quote(domain), version,
                     there);
    if (!there) model.opsets.emplace_back(domain, version);
  }
  return {};
}

}  // namespace

EditableModel::EditableModel() {
  model_.ir_version = kMadeIrVersion;
  model_.graph = std::make_shared<ir::Graph>();
}

Result<EditableModel> EditableModel::read(BytesPtr bytes, const std::string& folder, const SessionOptions& options) {
  std::shared_ptr<Folder> opened;
  if (!folder.empty()) {
    TRY_ASSIGN(there, Folder::open(folder));
    opened = std::move(there);
  }
  TRY_ASSIGN(external, Session::external_data(options, std::move(opened)));
  EditableModel out;
  TRY_ASSIGN(model, read_either(std::move(bytes), external, options, nullptr, std::make_shared<DimPool>()));
  out.model_ = std::move(model);
  out.list_values();
  return out;
}

Status EditableModel::add(const ModelAddition& a) {
  const ir::Graph& old = *model_.graph;
  Model next = model_;
  TRY(add_opsets(a, next));
  ir::GraphBuilder builder(old.dims_ptr());
  TRY(copy_body(old, builder));
  TRY(add_parts(a, builder));
  if (a.inputs) {
    for (const ValueSpec& v : *a.inputs) TRY(builder.input(v.name, v.fact));
  } else {
    TRY(copy_inputs(old, builder));
  }
  if (a.outputs) {
    for (const ValueSpec& v : *a.outputs) builder.output(v.name, v.fact);
  } else {
    copy_outputs(old, builder);
  }
  for (const ir::ValueInfo& v : old.values())
    if (v.source == ir::Source::node) builder.value_info(v.name, v.fact, v.unknown);
  builder.describe(a.graph_name.empty() ? old.name() : a.graph_name, old.doc(), old.unknown());
  next.graph = builder.finish();
  TRY(ir::GraphBuilder::bind_scopes(*next.graph));
  TRY(ir::verify(*next.graph));
  model_ = std::move(next);
  list_values();
  return {};
}

Result<std::shared_ptr<Session>> EditableModel::open(SessionOptions options) const {
  TRY_ASSIGN(bytes, write_edited(model_, options.external_files));
  return Session::from_bytes(std::move(bytes), options);
}

int since_version(std::string_view domain, std::string_view op, int64_t opset) {
  const Op* found = find_op(domain, op);
  if (!found) return 0;
  const auto newer = std::upper_bound(found->versions.begin(), found->versions.end(), opset);
  return newer == found->versions.begin() ? 0 : *(newer - 1);
}

void EditableModel::list_values() {
  const ir::Graph& graph = *model_.graph;
  inputs_.clear();
  overridable_.clear();
  outputs_.clear();
  for (const ir::ValueId id : graph.inputs()) {
    const ir::ValueInfo& v = graph.value(id);
    (v.source == ir::Source::initializer ? overridable_ : inputs_).push_back({v.name, v.fact});
  }
  for (const ir::ValueId id : graph.outputs()) outputs_.push_back({graph.value(id).name, graph.value(id).fact});
}

}  // namespace tessera
