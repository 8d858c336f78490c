#include "formats/onnx/writer.h"

#include <optional>
#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>
#include <unordered_set>
#include <utility>

#include "base/file.h"
#include "formats/onnx/fields.h"

namespace tessera::onnx {
namespace {

using protozero::pbf_writer;

class ModelWriter {
 public:
  ModelWriter(const Model& model, const WriteOptions& options) : model_(model), options_(options) {}

  Result<std::string> write() {
    std::string out;
    pbf_writer w(out);
    w.add_int64(model::ir_version, model_.ir_version);
    add_text(w, model::producer_name, model_.producer_name);
    add_text(w, model::producer_version, model_.producer_version);
    add_text(w, model::domain, model_.domain);
    if (model_.model_version) w.add_int64(model::model_version, model_.model_version);
    add_text(w, model::doc_string, model_.doc);
    {
      pbf_writer g(w, model::graph);
      TRY(write_graph(g, *model_.graph));
    }
    add_opsets(w, model::opset_import, model_.opsets);
    for (const auto& [key, value] : model_.metadata) {
      pbf_writer e(w, model::metadata_props);
      e.add_string(entry::key, key);
      e.add_string(entry::value, value);
    }
    for (const Function& f : model_.functions) {
      pbf_writer sub(w, model::functions);
      TRY(write_function(sub, f));
    }
    add_kept(w, model_.unknown);
    return out;
  }

  Status write_weight(pbf_writer& w, const Weight& weight, const std::string& name) {
    for (const int64_t d : weight.shape.dims()) w.add_int64(tensor::dims, d);
    w.add_int32(tensor::data_type, static_cast<int32_t>(weight.dtype));
    add_text(w, tensor::name, name);
    if (const std::optional<ExternalPlace> place = place_of(weight)) {
      const auto add = [&](const char* key, const std::string& value) {
        pbf_writer e(w, tensor::external_data);
        e.add_string(entry::key, key);
        e.add_string(entry::value, value);
      };
      add("location", place->location);
      add("offset", format("{}", place->offset));
      add("length", format("{}", weight.bytes()));
      if (!place->checksum.empty()) add("checksum", place->checksum);
      w.add_int32(tensor::data_location, 1);
      return {};
    }
    TRY_ASSIGN(t, weight.tensor());
    if (weight.dtype == DType::string)
      for (const std::string& s : t.values<std::string>()) w.add_bytes(tensor::string_data, s);
    else
      w.add_bytes(tensor::raw_data, static_cast<const char*>(t.data()), static_cast<size_t>(t.bytes()));
    return {};
  }

 private:
  // Where a weight stays, or goes; nothing if it is in the model.
  std::optional<ExternalPlace> place_of(const Weight& weight) const {
    if (const auto it = options_.places.find(&weight); it != options_.places.end()) return it->second;
    if (weight.location.empty() || !options_.keep_references) return std::nullopt;
    return ExternalPlace{weight.location, weight.location_offset, weight.checksum};
  }

  static void add_text(pbf_writer& w, uint32_t field, const std::string& text) {
    if (!text.empty()) w.add_string(field, text);
  }
  static void add_opsets(pbf_writer& w, uint32_t field, const std::vector<std::pair<std::string, int64_t>>& opsets) {
    for (const auto& [domain, version] : opsets) {
      pbf_writer o(w, field);
      add_text(o, opset::domain, domain);
      o.add_int64(opset::version, version);
    }
  }
  static void write_dims(pbf_writer& w, const std::vector<Dim>& dims) {
    if (dims.empty()) return w.add_message(tensor_type::shape, std::string());  // rank 0 is not rank unknown
    pbf_writer s(w, tensor_type::shape);
    for (const Dim& d : dims) {
      pbf_writer one(s, shape::dim);
      if (d.known())
        one.add_int64(dimension::dim_value, d.value());
      else
        one.add_string(dimension::dim_param, d.str());
    }
  }

  static void write_type(pbf_writer& w, const Fact& f) {
    switch (f.kind) {
      case Kind::tensor:
      case Kind::sparse_tensor: {
        pbf_writer t(w, f.kind == Kind::tensor ? type::tensor_type : type::sparse_tensor_type);
        t.add_int32(tensor_type::elem_type, static_cast<int32_t>(f.dtype));
        if (f.shape) write_dims(t, *f.shape);
        break;
      }
      case Kind::sequence:
      case Kind::optional: {
        pbf_writer t(w, f.kind == Kind::sequence ? type::sequence_type : type::optional_type);
        if (f.element) {
          pbf_writer e(t, sequence_type::elem_type);
          write_type(e, *f.element);
        }
        break;
      }
      case Kind::map: {
        pbf_writer t(w, type::map_type);
        t.add_int32(map_type::key_type, static_cast<int32_t>(f.key));
        if (f.element) {
          pbf_writer e(t, map_type::value_type);
          write_type(e, *f.element);
        }
        break;
      }
      case Kind::opaque: w.add_message(type::opaque_type, std::string()); break;
      case Kind::unknown: break;
    }
    add_text(w, type::denotation, f.denotation);
  }

  void write_value_info(pbf_writer& w, uint32_t field, const ir::Graph& g, ir::ValueId id) {
    const ir::ValueInfo& v = g.value(id);
    pbf_writer m(w, field);
    m.add_string(value_info::name, name_of(id));
    if (v.fact.kind != Kind::unknown) {
      pbf_writer t(m, value_info::type);
      write_type(t, v.fact);
    }
    add_kept(m, v.unknown);
  }

  // The names that the values of a graph have in the file. A captured value is called as the enclosing graph calls it,
  // and no other value is called like one of an enclosing graph.
  struct Names {
    const Names* outer;
    const ir::Graph* graph;
    std::vector<std::string> of;
    std::unordered_set<std::string_view> taken;  // of live values

    bool has(std::string_view name) const { return taken.count(name) || (outer && outer->has(name)); }
  };
  static Names name_values(const ir::Graph& g, const Names* outer) {
    Names names{outer, &g, {}, {}};
    names.of.reserve(g.values().size());
    for (const ir::ValueInfo& v : g.values()) {
      if (outer && v.source == ir::Source::captured) {
        names.of.push_back(outer->of[v.outer]);
        continue;
      }
      std::string name = v.name;
      const bool own = outer && v.source != ir::Source::undefined;
      for (int i = 1; own && !name.empty() && outer->has(name); ++i) {
        name = format("{}_{}", v.name, i);
        if (g.find(name) != ir::kNone) name = v.name;
      }
      names.of.push_back(std::move(name));
    }
    for (ir::ValueId id = 0; id < g.values().size(); ++id)
      if (g.value(id).source != ir::Source::undefined) names.taken.insert(names.of[id]);
    return names;
  }
  const std::string& name_of(ir::ValueId id) const {
    static const std::string kAbsent;
    return id == ir::kNone ? kAbsent : scope_->of[id];
  }
  // Runs f with the names of `g` in force.
  template <class F>
  Status in_scope(const ir::Graph& g, const Names* outer, F&& f) {
    const Names names = name_values(g, outer);
    const Names* const before = std::exchange(scope_, &names);
    Status status = f();
    scope_ = before;
    return status;
  }

  bool is_written(const ir::Graph& g, ir::ValueId id) const {
    const ir::ValueInfo& v = g.value(id);
    if (v.source != ir::Source::initializer) return false;
    return !options_.used_only || v.is_input || v.is_output || !g.readers(id).empty();
  }

  Status write_graph(pbf_writer& w, const ir::Graph& g) {
    return in_scope(g, scope_, [&] { return write_named_graph(w, g); });
  }
  Status write_named_graph(pbf_writer& w, const ir::Graph& g) {
    const auto count = static_cast<ir::ValueId>(g.values().size());
    TRY(write_nodes(w, graph::node, g));
    add_text(w, graph::name, g.name());
    for (ir::ValueId id = 0; id < count; ++id) {
      if (!is_written(g, id)) continue;
      const Weight& weight = *g.weight_of(id);
      pbf_writer t(w, weight.sparse ? graph::sparse_initializer : graph::initializer);
      Status s = weight.sparse ? write_sparse(t, *weight.sparse, name_of(id)) : write_weight(t, weight, name_of(id));
      if (!s.ok()) return std::move(s).in(quote(name_of(id)));
    }
    add_text(w, graph::doc_string, g.doc());
    for (const ir::ValueId id : g.inputs()) write_value_info(w, graph::input, g, id);
    // IR 3 wants every initializer among the inputs.
    for (ir::ValueId id = 0; id < count; ++id)
      if (model_.ir_version < 4 && is_written(g, id) && !g.value(id).is_input) write_value_info(w, graph::input, g, id);
    for (const ir::ValueId id : g.outputs()) write_value_info(w, graph::output, g, id);
    for (ir::ValueId id = 0; id < count; ++id)
      if (const ir::ValueInfo& v = g.value(id);
          v.source == ir::Source::node && !v.is_output && v.fact.kind != Kind::unknown)
        write_value_info(w, graph::value_info, g, id);
    add_kept(w, g.unknown());
    return {};
  }

  // Fields the reader did not know, each as it was.
  static void add_kept(pbf_writer& w, const std::string& kept) {
    for (protozero::pbf_reader r(kept); r.next();) copy_field(r, w);
  }
  static void copy_field(protozero::pbf_reader& r, pbf_writer& w) {
    using protozero::pbf_wire_type;
    const auto tag = r.tag();  // reading the value makes the reader forget it
    switch (r.wire_type()) {
      case pbf_wire_type::varint: w.add_uint64(tag, r.get_uint64()); break;
      case pbf_wire_type::fixed64: w.add_fixed64(tag, r.get_fixed64()); break;
      case pbf_wire_type::fixed32: w.add_fixed32(tag, r.get_fixed32()); break;
      default: w.add_bytes(tag, r.get_view()); break;
    }
  }

  Status write_nodes(pbf_writer& w, uint32_t field, const ir::Graph& g) {
    TRY_ASSIGN(order, ir::topological_order(g));
    for (const ir::NodeId id : order) {
      const ir::Node& n = g.node(id);
      pbf_writer m(w, field);
      if (n.written)
        for (const int i : n.written->inputs)
          m.add_string(node::input, name_of(i < 0 ? ir::kNone : n.inputs[static_cast<size_t>(i)]));
      else
        for (const ir::ValueId v : n.inputs) m.add_string(node::input, name_of(v));
      for (const ir::ValueId v : n.outputs) m.add_string(node::output, name_of(v));
      add_text(m, node::name, n.name);
      m.add_string(node::op_type, n.op_type);
      for (const ir::Attribute& a : n.written ? n.written->attributes : n.attributes) {
        pbf_writer sub(m, node::attribute);
        if (Status s = write_attribute(sub, a); !s.ok()) return std::move(s).in(n.title());
      }
      add_text(m, node::domain, n.domain);
      add_text(m, node::overload, n.overload);
      add_kept(m, n.unknown);
    }
    return {};
  }

  // The name of a sparse tensor is that of its values.
  Status write_sparse(pbf_writer& w, const SparseWeight& s, const std::string& name = {}) {
    {
      pbf_writer v(w, sparse::values);
      TRY(write_weight(v, s.values, name));
    }
    {
      pbf_writer i(w, sparse::indices);
      TRY(write_weight(i, s.indices, {}));
    }
    for (const int64_t d : s.shape.dims()) w.add_int64(sparse::dims, d);
    return {};
  }

  Status write_attribute(pbf_writer& w, const ir::Attribute& a) {
    using ir::AttrType;
    w.add_string(attribute::name, a.name);
    if (a.type != AttrType::undefined) w.add_int32(attribute::type, static_cast<int32_t>(a.type));
    add_text(w, attribute::ref_attr_name, a.ref);
    if (const auto* i = std::get_if<int64_t>(&a.value)) w.add_int64(attribute::i, *i);
    if (const auto* f = std::get_if<float>(&a.value)) w.add_float(attribute::f, *f);
    if (const auto* s = std::get_if<std::string>(&a.value)) w.add_bytes(attribute::s, *s);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&a.value))
      for (const int64_t i : *v) w.add_int64(attribute::ints, i);
    if (const auto* v = std::get_if<std::vector<float>>(&a.value))
      for (const float f : *v) w.add_float(attribute::floats, f);
    if (const auto* v = std::get_if<std::vector<std::string>>(&a.value))
      for (const std::string& s : *v) w.add_bytes(attribute::strings, s);
    if (const auto* v = std::get_if<std::vector<Weight>>(&a.value))
      for (const Weight& t : *v) {
        pbf_writer sub(w, a.type == AttrType::t ? attribute::t : attribute::tensors);
        TRY(write_weight(sub, t, {}));
      }
    if (const auto* v = std::get_if<std::vector<SparseWeight>>(&a.value))
      for (const SparseWeight& s : *v) {
        pbf_writer sub(w, a.type == AttrType::sparse_tensor ? attribute::sparse_tensor : attribute::sparse_tensors);
        TRY(write_sparse(sub, s));
      }
    if (const auto* v = std::get_if<std::vector<std::shared_ptr<ir::Graph>>>(&a.value))
      for (const auto& g : *v) {
        pbf_writer sub(w, a.type == AttrType::g ? attribute::g : attribute::graphs);
        TRY(write_graph(sub, *g));
      }
    if (const auto* v = std::get_if<std::vector<Fact>>(&a.value))
      for (const Fact& f : *v) {
        pbf_writer sub(w, a.type == AttrType::type_proto ? attribute::tp : attribute::type_protos);
        write_type(sub, f);
      }
    add_kept(w, a.unknown);
    return {};
  }

  Status write_function(pbf_writer& w, const Function& f) {
    return in_scope(*f.body, nullptr, [&] { return write_named_function(w, f); });
  }
  Status write_named_function(pbf_writer& w, const Function& f) {
    w.add_string(function::name, f.name);
    add_text(w, function::domain, f.domain);
    add_text(w, function::overload, f.overload);
    for (const ir::ValueId id : f.body->inputs()) w.add_string(function::input, name_of(id));
    for (const ir::ValueId id : f.body->outputs()) w.add_string(function::output, name_of(id));
    for (const std::string& a : f.attribute_names) w.add_string(function::attribute, a);
    for (const ir::Attribute& a : f.attribute_defaults) {
      pbf_writer sub(w, function::attribute_proto);
      TRY(write_attribute(sub, a));
    }
    TRY(write_nodes(w, function::node, *f.body));
    add_opsets(w, function::opset_import, f.opsets);
    for (ir::ValueId id = 0; id < f.body->values().size(); ++id)
      if (f.body->value(id).fact.kind != Kind::unknown) write_value_info(w, function::value_info, *f.body, id);
    add_kept(w, f.unknown);
    return {};
  }

  const Model& model_;
  const WriteOptions& options_;
  const Names* scope_ = nullptr;
};

}  // namespace

Result<std::string> write_model(const Model& model, const WriteOptions& options) {
  return ModelWriter(model, options).write();
}

Status save_model(const Model& model, const std::string& path) {
  TRY_ASSIGN(bytes, write_model(model));
  return write_file(path, bytes);
}

Result<std::string> write_tensor(const Tensor& tensor, const std::string& name) {
  std::string out;
  pbf_writer w(out);
  const Model model;
  const WriteOptions options;
  TRY(ModelWriter(model, options).write_weight(w, Weight::from(tensor), name));
  return out;
}

}  // namespace tessera::onnx
