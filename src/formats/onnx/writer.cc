#include "formats/onnx/writer.h"

#include <protozero/pbf_reader.hpp>
#include <protozero/pbf_writer.hpp>

#include "base/file.h"
#include "formats/onnx/fields.h"

namespace tessera::onnx {
namespace {

using protozero::pbf_writer;

class ModelWriter {
 public:
  explicit ModelWriter(const Model& model) : model_(model) {}

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

  static Status write_weight(pbf_writer& w, const Weight& weight, const std::string& name) {
    for (const int64_t d : weight.shape.dims()) w.add_int64(tensor::dims, d);
    w.add_int32(tensor::data_type, static_cast<int32_t>(weight.dtype));
    add_text(w, tensor::name, name);
    if (!weight.location.empty()) {
      const auto add = [&](const char* key, const std::string& value) {
        pbf_writer e(w, tensor::external_data);
        e.add_string(entry::key, key);
        e.add_string(entry::value, value);
      };
      add("location", weight.location);
      add("offset", format("{}", weight.location_offset));
      add("length", format("{}", weight.bytes()));
      if (!weight.checksum.empty()) add("checksum", weight.checksum);
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

  static void write_value_info(pbf_writer& w, uint32_t field, const ir::ValueInfo& v) {
    pbf_writer m(w, field);
    m.add_string(value_info::name, v.name);
    if (v.fact.kind != Kind::unknown) {
      pbf_writer t(m, value_info::type);
      write_type(t, v.fact);
    }
    add_kept(m, v.unknown);
  }

  Status write_graph(pbf_writer& w, const ir::Graph& g) {
    TRY(write_nodes(w, graph::node, g));
    add_text(w, graph::name, g.name());
    for (const ir::ValueInfo& v : g.values()) {
      if (v.source != ir::Source::initializer) continue;
      const Weight& weight = g.weights()[v.weight];
      pbf_writer t(w, weight.sparse ? graph::sparse_initializer : graph::initializer);
      Status s = weight.sparse ? write_sparse(t, *weight.sparse, v.name) : write_weight(t, weight, v.name);
      if (!s.ok()) return std::move(s).in(quote(v.name));
    }
    add_text(w, graph::doc_string, g.doc());
    for (const ir::ValueId id : g.inputs()) write_value_info(w, graph::input, g.value(id));
    // IR 3 wants every initializer among the inputs.
    for (const ir::ValueInfo& v : g.values())
      if (model_.ir_version < 4 && v.source == ir::Source::initializer && !v.is_input)
        write_value_info(w, graph::input, v);
    for (const ir::ValueId id : g.outputs()) write_value_info(w, graph::output, g.value(id));
    for (const ir::ValueInfo& v : g.values())
      if (v.source == ir::Source::node && !v.is_output && v.fact.kind != Kind::unknown)
        write_value_info(w, graph::value_info, v);
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
      for (const ir::ValueId v : n.inputs) m.add_string(node::input, v == ir::kNone ? std::string() : g.value(v).name);
      for (const ir::ValueId v : n.outputs)
        m.add_string(node::output, v == ir::kNone ? std::string() : g.value(v).name);
      add_text(m, node::name, n.name);
      m.add_string(node::op_type, n.op_type);
      for (const ir::Attribute& a : n.attributes) {
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
  static Status write_sparse(pbf_writer& w, const SparseWeight& s, const std::string& name = {}) {
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
    w.add_string(function::name, f.name);
    add_text(w, function::domain, f.domain);
    add_text(w, function::overload, f.overload);
    for (const ir::ValueId id : f.body->inputs()) w.add_string(function::input, f.body->value(id).name);
    for (const ir::ValueId id : f.body->outputs()) w.add_string(function::output, f.body->value(id).name);
    for (const std::string& a : f.attribute_names) w.add_string(function::attribute, a);
    for (const ir::Attribute& a : f.attribute_defaults) {
      pbf_writer sub(w, function::attribute_proto);
      TRY(write_attribute(sub, a));
    }
    TRY(write_nodes(w, function::node, *f.body));
    add_opsets(w, function::opset_import, f.opsets);
    for (const ir::ValueInfo& v : f.body->values())
      if (v.fact.kind != Kind::unknown) write_value_info(w, function::value_info, v);
    add_kept(w, f.unknown);
    return {};
  }

  const Model& model_;
};

}  // namespace

Result<std::string> write_model(const Model& model) { return ModelWriter(model).write(); }

Status save_model(const Model& model, const std::string& path) {
  TRY_ASSIGN(bytes, write_model(model));
  return write_file(path, bytes);
}

Result<std::string> write_tensor(const Tensor& tensor, const std::string& name) {
  std::string out;
  pbf_writer w(out);
  TRY(ModelWriter::write_weight(w, Weight::from(tensor), name));
  return out;
}

}  // namespace tessera::onnx
