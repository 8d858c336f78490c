#include "formats/ort/writer.h"

#include <algorithm>
#include <deque>
#include <unordered_map>

#include "base/file.h"
#include "formats/ort/kernel_types.h"
#include "formats/ort/schema.h"
#include "formats/ort/writer_flat.h"

namespace tessera::ort {
namespace {

using flat::Draft;
using flat::Placed;
using flat::Slot;

constexpr uint64_t kLargestFile = INT32_MAX;  // that ONNX Runtime opens

// Elements of a tensor, and where they go.
struct Blob {
  Tensor tensor;  // what holds them, for decoded ones
  const std::byte* data = nullptr;
  uint64_t size = 0, at = 0;
  Slot from = 0;  // 0: in the external file
  ByteRange range;
};

// The file but for the elements of tensors.
struct Layout {
  std::string head;
  std::vector<Blob> blobs, external;
  uint64_t size = 0;
};

// The constant that a Constant node stands for.
Result<Weight> constant_of(const ir::Node& n) {
  if (n.attributes.size() != 1) return invalid_graph("{} has {} values", n.title(), n.attributes.size());
  const auto& value = n.attributes[0].value;
  const auto list = [](const auto& v) -> Result<Weight> {
    using T = typename std::decay_t<decltype(v)>::value_type;
    TRY_ASSIGN(t, Tensor::of<T>(Shape{static_cast<int64_t>(v.size())}, v));
    return Weight::from(std::move(t));
  };
  const auto scalar = [](const auto& v) -> Result<Weight> {
    TRY_ASSIGN(t, Tensor::scalar(v));
    return Weight::from(std::move(t));
  };
  if (const auto* w = std::get_if<std::vector<Weight>>(&value); w && w->size() == 1) return w->front();
  if (const auto* w = std::get_if<std::vector<SparseWeight>>(&value); w && w->size() == 1)
    return Weight::from(w->front());
  if (const auto* v = std::get_if<float>(&value)) return scalar(*v);
  if (const auto* v = std::get_if<int64_t>(&value)) return scalar(*v);
  if (const auto* v = std::get_if<std::string>(&value)) return scalar(*v);
  if (const auto* v = std::get_if<std::vector<float>>(&value)) return list(*v);
  if (const auto* v = std::get_if<std::vector<int64_t>>(&value)) return list(*v);
  if (const auto* v = std::get_if<std::vector<std::string>>(&value)) return list(*v);
  return invalid_graph("{} has no value", n.title());
}

// What of a graph is written.
struct Selection {
  std::vector<const ir::Node*> nodes;  // in order, without Constant
  std::deque<ir::Node> made;           // those that stand for others
  std::vector<std::pair<ir::ValueId, Weight>> weights;
  std::vector<ir::ValueId> values;  // that nodes, inputs or outputs name
  bool absent = false;              // some node leaves out an argument
};

class ModelWriter {
 public:
  ModelWriter(const Model& model, const WriteOptions& options) : model_(model), options_(options), out_(kIdentifier) {}

  Result<Layout> write() {
    if (!options_.external_file.empty()) TRY(extension("external data"));
    Draft d;
    d.reference(session::ort_version);
    d.reference(session::model);
    d.reference(session::kernel_type_str_resolver);
    const Placed root = out_.place(std::move(d));
    out_.root(root.at());
    out_.text(root[session::ort_version], format("{}", kNewestVersion));
    TRY(write_description(root[session::model]));
    write_resolver(root[session::kernel_type_str_resolver]);
    out_.place_texts();
    return place_blobs();
  }

 private:
  Status extension(std::string_view what) const {
    if (options_.extensions) return {};
    return not_implemented("{} is beyond what ONNX Runtime reads in its format; allow extensions to write it", what);
  }

  // --- lists of tables

  template <class List, class Write>
  Status write_list(Slot from, const List& list, Write&& write) {
    const uint64_t at = out_.references(list.size());
    out_.point(from, at);
    size_t i = 0;
    for (const auto& item : list) TRY(write(flat::Writer::element(at, i++), item));
    return {};
  }

  // --- model

  Status write_description(Slot from) {
    Draft d;
    d.number(model::ir_version, model_.ir_version);
    d.number(model::model_version, model_.model_version);
    for (const int field : {model::opset_import, model::producer_name, model::producer_version, model::domain,
                            model::doc_string, model::graph, model::graph_doc_string, model::metadata_props})
      d.reference(field);
    const Placed m = out_.place(std::move(d));
    out_.point(from, m.at());
    out_.text(m[model::producer_name], model_.producer_name);
    out_.text(m[model::producer_version], model_.producer_version);
    out_.text(m[model::domain], model_.domain);
    out_.text(m[model::doc_string], model_.doc);
    out_.text(m[model::graph_doc_string], model_.graph->doc());
    TRY(write_list(m[model::opset_import], model_.opsets, [&](Slot at, const auto& o) { return write_opset(at, o); }));
    TRY(write_list(m[model::metadata_props], model_.metadata,
                   [&](Slot at, const auto& e) { return write_entry(at, e); }));
    return write_graph(m[model::graph], *model_.graph);
  }

  Status write_opset(Slot from, const std::pair<std::string, int64_t>& opset) {
    Draft d;
    d.reference(opset::domain);
    d.number(opset::version, opset.second);
    const Placed o = out_.place(std::move(d));
    out_.point(from, o.at());
    out_.text(o[opset::domain], opset.first);
    return {};
  }

  Status write_entry(Slot from, const std::pair<std::string, std::string>& entry) {
    Draft d;
    d.reference(entry::key);
    d.reference(entry::value);
    const Placed e = out_.place(std::move(d));
    out_.point(from, e.at());
    out_.text(e[entry::key], entry.first);
    out_.text(e[entry::value], entry.second);
    return {};
  }

  // --- graph

  Result<Selection> select(const ir::Graph& g) {
    Selection s;
    std::vector<bool> named(g.values().size()), read(g.values().size());
    TRY_ASSIGN(order, ir::topological_order(g));
    const auto name = [&](ir::ValueId v) {
      if (v == ir::kNone)
        s.absent = true;
      else
        named[v] = true;
    };
    for (const ir::NodeId id : order) {
      const ir::Node& n = g.node(id);
      if (n.op_type == "Constant" && n.domain.empty()) {
        TRY_ASSIGN(weight, constant_of(n));
        if (n.outputs.empty() || n.outputs[0] == ir::kNone) continue;
        name(n.outputs[0]);
        s.weights.emplace_back(n.outputs[0], std::move(weight));
        continue;
      }
      const ir::Node& written = stand_in(n, s);
      s.nodes.push_back(&written);
      for (const ir::ValueId v : written.inputs) name(v);
      for (const ir::ValueId v : written.outputs) name(v);
      ir::for_each_read(written, [&](ir::ValueId v) { read[v] = true; });
    }
    for (const auto* list : {&g.inputs(), &g.outputs()})
      for (const ir::ValueId v : *list) name(v), read[v] = true;
    for (ir::ValueId v = 0; v < g.values().size(); ++v) {
      if (g.value(v).source == ir::Source::initializer && read[v]) {
        named[v] = true;
        s.weights.emplace_back(v, *g.weight_of(v));
      }
      if (named[v]) s.values.push_back(v);
    }
    return s;
  }

  // The node as its own operator set has it. ONNX Runtime knows CastLike only as a function of Cast, and has no
  // functions in files of this format.
  const ir::Node& stand_in(const ir::Node& n, Selection& s) {
    if (n.written) {
      ir::Node& old = s.made.emplace_back(n);
      old.attributes = n.written->attributes;
      old.inputs.clear();
      for (const int i : n.written->inputs) old.inputs.push_back(i < 0 ? ir::kNone : n.inputs[static_cast<size_t>(i)]);
      return old;
    }
    if (n.op_type != "CastLike" || !n.domain.empty() || n.inputs.size() != 2 || n.inputs[1] == ir::kNone) return n;
    const Fact& like = fact_of(n.inputs[1]);
    if (!like.is_tensor() || like.dtype == DType::undefined) return n;
    ir::Node& cast = s.made.emplace_back(n);
    cast.op_type = "Cast";
    cast.inputs.pop_back();
    cast.attributes.push_back(ir::Attribute::integer("to", static_cast<int64_t>(like.dtype)));
    return cast;
  }

  Status write_graph(Slot from, const ir::Graph& g) {
    scopes_.push_back(&g);
    TRY(check_names(g));
    TRY_ASSIGN(s, select(g));
    Draft d;
    for (const int field : {graph::initializers, graph::node_args, graph::nodes, graph::node_edges, graph::inputs,
                            graph::outputs, graph::sparse_initializers})
      d.reference(field);
    d.number(graph::max_node_index, static_cast<uint32_t>(s.nodes.size()));
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    out_.texts(p[graph::inputs], names(graph_inputs(g, s)));
    out_.texts(p[graph::outputs], names(g.outputs()));
    TRY(write_initializers(p, g, s));
    TRY(write_node_args(p[graph::node_args], g, s));
    uint32_t index = 0;
    TRY(write_list(p[graph::nodes], s.nodes, [&](Slot at, const ir::Node* n) {
      Status status = write_node(at, *n, index++);
      return status.ok() ? std::move(status) : std::move(status).in(n->title());
    }));
    TRY(write_edges(p[graph::node_edges], s));
    scopes_.pop_back();
    return {};
  }

  // Before IR version 4 every initializer is listed among the inputs too.
  std::vector<ir::ValueId> graph_inputs(const ir::Graph& g, const Selection& s) const {
    std::vector<ir::ValueId> out = g.inputs();
    if (model_.ir_version < 4)
      for (const auto& [v, weight] : s.weights)
        if (!g.value(v).is_input) out.push_back(v);
    return out;
  }

  std::vector<std::string_view> names(const std::vector<ir::ValueId>& values) const {
    std::vector<std::string_view> out;
    for (const ir::ValueId v : values) out.push_back(v == ir::kNone ? std::string_view() : defined(v).name);
    return out;
  }
  // Captured values have the names of what they capture, which may have changed since they were read.
  Status check_names(const ir::Graph& g) const {
    for (ir::ValueId v = 0; v < g.values().size(); ++v) {
      if (g.value(v).source != ir::Source::captured) continue;
      const ir::ValueId same = g.find(defined(v).name);
      if (same != ir::kNone && same != v && g.value(same).source != ir::Source::captured &&
          g.value(same).source != ir::Source::undefined)
        return invalid_graph("two values are called {}, of a graph and of one inside of it", quote(defined(v).name));
    }
    return {};
  }

  Status write_initializers(const Placed& p, const ir::Graph& g, const Selection& s) {
    std::vector<const std::pair<ir::ValueId, Weight>*> dense, sparse;
    for (const auto& w : s.weights) (w.second.sparse ? sparse : dense).push_back(&w);
    const auto write = [&](Slot at, const std::pair<ir::ValueId, Weight>* w) {
      const std::string& name = g.value(w->first).name;
      Status status = w->second.sparse ? write_sparse(at, *w->second.sparse, name) : write_tensor(at, w->second, name);
      return status.ok() ? std::move(status) : std::move(status).in(quote(name));
    };
    TRY(write_list(p[graph::initializers], dense, write));
    return write_list(p[graph::sparse_initializers], sparse, write);
  }

  // A value of the innermost graph that is being written, where it is defined.
  const ir::ValueInfo& defined(ir::ValueId v) const {
    size_t level = scopes_.size() - 1;
    const ir::ValueInfo* info = &scopes_[level]->value(v);
    while (info->source == ir::Source::captured && level > 0) info = &scopes_[--level]->value(info->outer);
    return *info;
  }
  const Fact& fact_of(ir::ValueId v) const { return defined(v).fact; }

  Status write_node_args(Slot from, const ir::Graph& g, const Selection& s) {
    std::unordered_map<ir::ValueId, const Weight*> constants;
    for (const auto& [v, w] : s.weights) constants.emplace(v, &w);
    std::vector<std::pair<std::string_view, Fact>> args;
    for (const ir::ValueId v : s.values) {
      const auto it = constants.find(v);
      if (it == constants.end())
        args.emplace_back(defined(v).name, fact_of(v));
      else
        args.emplace_back(g.value(v).name,
                          Fact::tensor(it->second->dtype, std::vector<Dim>(it->second->shape.dims().begin(),
                                                                           it->second->shape.dims().end())));
    }
    if (s.absent) args.emplace_back("", Fact{});
    return write_list(from, args,
                      [&](Slot at, const auto& arg) { return write_value_info(at, arg.first, arg.second); });
  }

  Status write_value_info(Slot from, std::string_view name, const Fact& fact) {
    Draft d;
    d.reference(value_info::name);
    if (!name.empty()) d.reference(value_info::type);
    const Placed v = out_.place(std::move(d));
    out_.point(from, v.at());
    out_.text(v[value_info::name], name);
    if (name.empty()) return {};
    Status s = write_type(v[value_info::type], fact);
    return s.ok() ? std::move(s) : std::move(s).in(quote(name));
  }

  Status write_edges(Slot from, const Selection& s) {
    struct Ends {
      std::vector<EdgeEnd> in, out;
    };
    std::vector<Ends> ends(s.nodes.size());
    std::unordered_map<ir::ValueId, EdgeEnd> producers;
    for (uint32_t i = 0; i < s.nodes.size(); ++i) {
      const auto& outputs = s.nodes[i]->outputs;
      for (size_t k = 0; k < outputs.size(); ++k)
        if (outputs[k] != ir::kNone) producers[outputs[k]] = {i, static_cast<int32_t>(k), 0};
    }
    for (uint32_t i = 0; i < s.nodes.size(); ++i) {
      const ir::Node& n = *s.nodes[i];
      std::vector<ir::ValueId> reads = n.inputs;
      for (const ir::ValueId v : implicit_inputs(n)) reads.push_back(v);
      for (size_t k = 0; k < reads.size(); ++k) {
        const auto it = producers.find(reads[k]);
        if (it == producers.end()) continue;
        const EdgeEnd p{it->second.node_index, it->second.src_arg_index, static_cast<int32_t>(k)};
        ends[i].in.push_back(p);
        ends[p.node_index].out.push_back({i, p.src_arg_index, p.dst_arg_index});
      }
    }
    uint32_t index = 0;
    return write_list(from, ends, [&](Slot at, const Ends& e) {
      Draft d;
      d.number(node_edge::node_index, index++);
      d.reference(node_edge::input_edges);
      d.reference(node_edge::output_edges);
      const Placed p = out_.place(std::move(d));
      out_.point(at, p.at());
      out_.point(p[node_edge::input_edges], out_.numbers<EdgeEnd>(e.in));
      out_.point(p[node_edge::output_edges], out_.numbers<EdgeEnd>(e.out));
      return Status{};
    });
  }

  // --- nodes

  // What its subgraphs read from outside, each once.
  static std::vector<ir::ValueId> implicit_inputs(const ir::Node& n) {
    std::vector<ir::ValueId> out;
    ir::for_each_capture(n, [&](ir::ValueId v) {
      if (std::find(out.begin(), out.end(), v) == out.end()) out.push_back(v);
    });
    return out;
  }

  // How many inputs stand for each formal one; the last may take many.
  static std::vector<int32_t> input_counts(const ir::Node& n, const std::optional<KernelTypes>& types) {
    uint32_t formal = 0;
    if (types)
      for (const auto& [name, places] : types->places)
        for (const ArgumentPlace& p : places)
          if (!p.output) formal = std::max(formal, p.index + 1);
    if (!types) formal = static_cast<uint32_t>(n.inputs.size());
    std::vector<int32_t> out(formal);
    for (size_t i = 0; i < n.inputs.size() && formal; ++i) ++out[std::min<size_t>(i, formal - 1)];
    return out;
  }

  Status write_node(Slot from, const ir::Node& n, uint32_t index) {
    for (const Function& f : model_.functions)
      if (f.domain == n.domain && f.name == n.op_type)
        return invalid("it calls a function, which must be unfolded first");
    const auto types = kernel_types(n.domain, n.op_type, n.version);
    const int since = types ? types->since : n.since ? n.since : n.version;
    if (types) resolver_[format("{}:{}:{}", n.domain, n.op_type, since)] = *types;
    Draft d;
    d.number(node::since_version, int32_t{since});
    d.number(node::index, index);
    for (const int field : {node::name, node::domain, node::op_type, node::inputs, node::outputs, node::attributes,
                            node::input_arg_counts, node::implicit_inputs})
      d.reference(field);
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    out_.text(p[node::name], n.name);
    out_.text(p[node::domain], n.domain);
    out_.text(p[node::op_type], n.op_type);
    out_.texts(p[node::inputs], names(n.inputs));
    out_.texts(p[node::outputs], names(n.outputs));
    out_.texts(p[node::implicit_inputs], names(implicit_inputs(n)));
    out_.point(p[node::input_arg_counts], out_.numbers<int32_t>(input_counts(n, types)));
    return write_list(p[node::attributes], n.attributes, [&](Slot at, const ir::Attribute& a) {
      Status s = write_attribute(at, a);
      return s.ok() ? std::move(s) : std::move(s).in(format("attribute {}", quote(a.name)));
    });
  }

  static int value_field(const ir::Attribute& a) {
    using ir::AttrType;
    switch (a.type) {
      case AttrType::f: return attribute::f;
      case AttrType::i: return attribute::i;
      case AttrType::s: return attribute::s;
      case AttrType::t: return attribute::t;
      case AttrType::g: return attribute::g;
      case AttrType::floats: return attribute::floats;
      case AttrType::ints: return attribute::ints;
      case AttrType::strings: return attribute::strings;
      case AttrType::tensors: return attribute::tensors;
      case AttrType::graphs: return attribute::graphs;
      case AttrType::sparse_tensor:
      case AttrType::sparse_tensors: return attribute::sparse_tensors;
      case AttrType::type_proto:
      case AttrType::type_protos: return attribute::types;
      case AttrType::undefined: break;
    }
    return -1;
  }

  Status write_attribute(Slot from, const ir::Attribute& a) {
    const int field = value_field(a);
    if (field < 0 || !a.ref.empty()) return invalid_graph("it has no value of its own");
    if (field > attribute::graphs) TRY(extension("an attribute of types or sparse tensors"));
    if (a.type == ir::AttrType::graphs) TRY(extension("an attribute of several graphs"));
    Draft d;
    d.reference(attribute::name);
    d.number(attribute::type, static_cast<int32_t>(a.type));
    if (const auto* v = std::get_if<float>(&a.value))
      d.number(field, *v);
    else if (const auto* v = std::get_if<int64_t>(&a.value))
      d.number(field, *v);
    else
      d.reference(field);
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    out_.text(p[attribute::name], a.name);
    return write_attribute_value(p[field], a);
  }

  Status write_attribute_value(Slot from, const ir::Attribute& a) {
    if (const auto* v = std::get_if<std::string>(&a.value)) out_.text(from, *v);
    if (const auto* v = std::get_if<std::vector<float>>(&a.value)) out_.point(from, out_.numbers<float>(*v));
    if (const auto* v = std::get_if<std::vector<int64_t>>(&a.value)) out_.point(from, out_.numbers<int64_t>(*v));
    if (const auto* v = std::get_if<std::vector<std::string>>(&a.value))
      out_.texts(from, std::vector<std::string_view>(v->begin(), v->end()));
    if (const auto* v = std::get_if<std::vector<Weight>>(&a.value)) {
      if (a.type == ir::AttrType::t) return write_tensor(from, v->front(), {});
      return write_list(from, *v, [&](Slot at, const Weight& w) { return write_tensor(at, w, {}); });
    }
    if (const auto* v = std::get_if<std::vector<std::shared_ptr<ir::Graph>>>(&a.value)) {
      if (a.type == ir::AttrType::g) return write_graph(from, *v->front());
      return write_list(from, *v, [&](Slot at, const auto& g) { return write_graph(at, *g); });
    }
    if (const auto* v = std::get_if<std::vector<SparseWeight>>(&a.value))
      return write_list(from, *v, [&](Slot at, const SparseWeight& w) { return write_sparse(at, w, {}); });
    if (const auto* v = std::get_if<std::vector<Fact>>(&a.value))
      return write_list(from, *v, [&](Slot at, const Fact& f) { return write_type(at, f); });
    return {};
  }

  // --- tensors

  Status check_element_type(DType t) const {
    if (t == DType::undefined) return invalid_graph("its element type is not known");
    return static_cast<int>(t) <= kLastElementType ? Status{} : extension(name_of(t));
  }

  Status write_tensor(Slot from, const Weight& w, std::string_view name) {
    TRY(check_element_type(w.dtype));
    const bool text = w.dtype == DType::string;
    const bool external = !options_.external_file.empty() && !text && w.bytes() >= options_.external_least;
    Draft d;
    d.reference(tensor::name);
    d.reference(tensor::dims);
    d.number(tensor::data_type, static_cast<int32_t>(w.dtype));
    if (external) d.number(tensor::external_data_offset, static_cast<int64_t>(external_size_));
    d.reference(external ? tensor::external_data_location : text ? tensor::string_data : tensor::raw_data);
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    out_.text(p[tensor::name], name);
    out_.point(p[tensor::dims], out_.numbers<int64_t>(w.shape.dims()));
    if (text) {
      TRY_ASSIGN(t, w.tensor());
      const auto values = t.values<std::string>();
      out_.texts(p[tensor::string_data], std::vector<std::string_view>(values.begin(), values.end()));
      return {};
    }
    TRY_ASSIGN(blob, blob_of(w));
    if (external) {
      out_.text(p[tensor::external_data_location], options_.external_file);
      blob.at = external_size_;
      external_size_ = static_cast<uint64_t>(round_up(static_cast<int64_t>(external_size_ + blob.size), kAlignment));
      layout_.external.push_back(std::move(blob));
    } else {
      blob.from = p[tensor::raw_data];
      layout_.blobs.push_back(std::move(blob));
    }
    return {};
  }

  static Result<Blob> blob_of(const Weight& w) {
    Blob out;
    out.size = static_cast<uint64_t>(w.bytes());
    if (w.decoded.empty() && !w.sparse) {
      if (w.range.length < out.size) return invalid_graph("it has {} bytes, wanted {}", w.range.length, out.size);
      out.range = w.range;
      out.data = w.range.data();
      return out;
    }
    TRY_ASSIGN(t, w.tensor());
    out.data = static_cast<const std::byte*>(t.data());
    out.tensor = std::move(t);
    return out;
  }

  Status write_sparse(Slot from, const SparseWeight& w, std::string_view name) {
    Draft d;
    d.reference(sparse::values);
    d.reference(sparse::indices);
    d.reference(sparse::dims);
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    out_.point(p[sparse::dims], out_.numbers<int64_t>(w.shape.dims()));
    TRY(write_tensor(p[sparse::values], w.values, name));
    return write_tensor(p[sparse::indices], w.indices, {});
  }

  // --- types

  Status write_type(Slot from, const Fact& f) {
    uint8_t kind = type_info::none;
    switch (f.kind) {
      case Kind::tensor: kind = type_info::tensor; break;
      case Kind::sequence: kind = type_info::sequence; break;
      case Kind::map: kind = type_info::map; break;
      case Kind::optional: kind = type_info::optional; break;
      case Kind::sparse_tensor: kind = type_info::sparse_tensor; break;
      case Kind::opaque:
      case Kind::unknown: return invalid_graph("its type is not known, so it cannot be written");
    }
    if (kind > type_info::map) TRY(extension(f.kind == Kind::optional ? "an optional type" : "a sparse type"));
    Draft d;
    d.reference(type_info::denotation);
    d.number(type_info::value_type, kind);
    d.reference(type_info::value);
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    out_.text(p[type_info::denotation], f.denotation);
    return f.kind == Kind::tensor || f.kind == Kind::sparse_tensor ? write_tensor_type(p[type_info::value], f)
                                                                   : write_element_type(p[type_info::value], f);
  }

  Status write_element_type(Slot from, const Fact& f) {
    const bool map = f.kind == Kind::map;
    const int element = map ? static_cast<int>(map_type::value_type) : sequence_type::elem_type;
    if (!f.element) return invalid_graph("the type of its elements is not known, so it cannot be written");
    Draft d;
    if (map) d.number(map_type::key_type, static_cast<int32_t>(f.key));
    d.reference(element);
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    return write_type(p[element], *f.element);
  }

  Status write_tensor_type(Slot from, const Fact& f) {
    TRY(check_element_type(f.dtype));
    Draft d;
    d.number(tensor_type::elem_type, static_cast<int32_t>(f.dtype));
    if (f.shape) d.reference(tensor_type::shape);
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    if (!f.shape) return {};
    Draft s;
    s.reference(shape::dim);
    const Placed shape = out_.place(std::move(s));
    out_.point(p[tensor_type::shape], shape.at());
    return write_list(shape[shape::dim], *f.shape, [&](Slot at, const Dim& dim) { return write_dim(at, dim); });
  }

  Status write_dim(Slot from, const Dim& dim) {
    const std::string symbol = dim.known() ? std::string() : dim.str();
    // A dimension that somebody named; not one that inference made up.
    const bool named = !symbol.empty() && symbol.find("unknown_") == symbol.npos;
    Draft d;
    d.reference(dimension::value);
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    Draft v;
    v.number(dimension_value::dim_type, dim.known() ? dimension_value::number
                                        : named     ? dimension_value::symbol
                                                    : dimension_value::unknown);
    if (dim.known()) v.number(dimension_value::dim_value, dim.value());
    if (named) v.reference(dimension_value::dim_param);
    const Placed value = out_.place(std::move(v));
    out_.point(p[dimension::value], value.at());
    if (named) out_.text(value[dimension_value::dim_param], symbol);
    return {};
  }

  // --- the table of type strings

  void write_resolver(Slot from) {
    Draft d;
    d.reference(resolver::op_kernel_type_str_args);
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    (void)write_list(p[resolver::op_kernel_type_str_args], resolver_, [&](Slot at, const auto& op) {
      Draft o;
      o.reference(resolver_op::op_id);
      o.reference(resolver_op::kernel_type_str_args);
      const Placed placed = out_.place(std::move(o));
      out_.point(at, placed.at());
      out_.text(placed[resolver_op::op_id], op.first);
      return write_list(placed[resolver_op::kernel_type_str_args], op.second.places,
                        [&](Slot type_at, const auto& type) { return write_resolver_type(type_at, type); });
    });
  }

  Status write_resolver_type(Slot from, const std::pair<const std::string, std::vector<ArgumentPlace>>& type) {
    Draft d;
    d.reference(resolver_type::kernel_type_str);
    d.reference(resolver_type::args);
    const Placed p = out_.place(std::move(d));
    out_.point(from, p.at());
    out_.text(p[resolver_type::kernel_type_str], type.first);
    return write_list(p[resolver_type::args], type.second, [&](Slot at, const ArgumentPlace& place) {
      Draft a;
      a.number(resolver_arg::arg_type, place.output ? resolver_arg::output : resolver_arg::input);
      a.number(resolver_arg::index, place.index);
      out_.point(at, out_.place(std::move(a)).at());
      return Status{};
    });
  }

  // --- places for the elements

  Result<Layout> place_blobs() {
    uint64_t end = out_.size();
    for (Blob& b : layout_.blobs) {
      b.at = static_cast<uint64_t>(round_up(static_cast<int64_t>(end + 4), kAlignment));
      if (b.size > UINT32_MAX || b.at - 4 - b.from > UINT32_MAX)
        return error(Code::fail, "the weights do not fit into one file of this format; write them as external data");
      out_.point(b.from, b.at - 4);
      end = b.at + b.size;
    }
    if (!out_.fits()) return error(Code::fail, "the graph does not fit into a file of this format");
    if (end > kLargestFile) TRY(extension(format("a file of {} bytes", end)));
    layout_.size = end;
    layout_.head = out_.take();
    return std::move(layout_);
  }

  const Model& model_;
  const WriteOptions& options_;
  flat::Writer out_;
  Layout layout_;
  uint64_t external_size_ = 0;
  std::map<std::string, KernelTypes> resolver_;
  std::vector<const ir::Graph*> scopes_;
};

// Hands out the bytes of the file in order: write(data, size).
template <class Write>
Status emit(const Layout& layout, const WriteOptions& options, Write&& write) {
  TRY(write(layout.head.data(), layout.head.size()));
  uint64_t at = layout.head.size();
  const char zeros[kAlignment + 4] = {};
  for (const Blob& b : layout.blobs) {
    TRY(write(zeros, b.at - 4 - at));
    const auto count = static_cast<uint32_t>(b.size);
    TRY(write(&count, 4));
    TRY(write(b.data, b.size));
    drop_pages(b.range);
    at = b.at + b.size;
    if (options.progress) options.progress(static_cast<int64_t>(at), static_cast<int64_t>(layout.size));
  }
  return {};
}

Status save_external(const Layout& layout, const std::string& path, const WriteOptions& options) {
  TRY_ASSIGN(file, AtomicFile::create(path, options.cancel));
  uint64_t at = 0;
  const char zeros[kAlignment] = {};
  for (const Blob& b : layout.external) {
    TRY(file->write(zeros, b.at - at));
    TRY(file->write(b.data, b.size));
    drop_pages(b.range);
    at = b.at + b.size;
  }
  return file->finish();
}

}  // namespace

Result<std::string> write_model(const Model& model, const WriteOptions& options) {
  WriteOptions inside = options;
  inside.external_file.clear();
  TRY_ASSIGN(layout, ModelWriter(model, inside).write());
  std::string out;
  out.reserve(layout.size);
  TRY(emit(layout, inside, [&](const void* data, size_t size) {
    out.append(static_cast<const char*>(data), size);
    return Status{};
  }));
  return out;
}

Status write_model(const Model& model, AtomicFile& file, const std::string& folder, const WriteOptions& options) {
  TRY_ASSIGN(layout, ModelWriter(model, options).write());
  if (!layout.external.empty() && !options.external_is_there)
    TRY(save_external(layout, folder + "/" + options.external_file, options));
  return emit(layout, options, [&](const void* data, size_t size) { return file.write(data, size); });
}

Status save_model(const Model& model, const std::string& path, const WriteOptions& options) {
  TRY_ASSIGN(file, AtomicFile::create(path, options.cancel));
  TRY(write_model(model, *file, folder_of_new(path), options));
  return file->finish();
}

}  // namespace tessera::ort
