#include "formats/ort/reader.h"

#include <algorithm>
#include <charconv>
#include <set>
#include <unordered_map>

#include "formats/ort/flat.h"
#include "formats/ort/schema.h"
#include "formats/ort/tensors.h"

namespace tessera::ort {
namespace {

using flat::Table;
using flat::Vector;

constexpr size_t kLongestName = 64 * 1024, kMostArguments = 65536;

// Both spellings of the default domain become "".
std::string plain_domain(std::string_view domain) { return domain == "ai.onnx" ? std::string() : std::string(domain); }

Status check_name(std::string_view name) {
  if (name.size() > kLongestName)
    return invalid_graph("a name is {} bytes long, at most {} are supported", name.size(), kLongestName);
  return {};
}

bool parse_number(std::string_view text, int& out) {
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), out);
  return ec == std::errc() && end == text.data() + text.size();
}

template <class T>
std::vector<T> copy(const Vector<T>& list) {
  std::vector<T> out;
  out.reserve(list.size());
  for (const T v : list) out.push_back(v);
  return out;
}

std::vector<std::string> copy_texts(const Vector<std::string_view>& list) {
  std::vector<std::string> out;
  out.reserve(list.size());
  for (const std::string_view v : list) out.emplace_back(v);
  return out;
}

class ModelReader {
 public:
  ModelReader(BytesPtr bytes, ExternalData& external, std::shared_ptr<DimPool> dims, KernelTypesOf* standard)
      : file_({reinterpret_cast<const char*>(bytes->data()), bytes->size()}),
        source_{std::move(bytes), &external},
        dims_(std::move(dims)),
        standard_(standard) {}

  Result<Model> read() {
    Status s = read_session();
    TRY(file_.status());  // explains better what follows from damage
    if (!s.ok()) return s;
    return std::move(model_);
  }

 private:
  using Facts = std::unordered_map<std::string_view, Fact>;  // by name

  Status read_session() {
    if (flat::File::identifier(file_.bytes()) != kIdentifier)
      return error(Code::fail, "not a model in ONNX Runtime's format: it does not say {}", kIdentifier);
    const Table root = file_.root();
    TRY(check_version(root.text(session::ort_version)));
    const Table m = root.table(session::model);
    if (!m) return invalid_graph("the file has no model");
    TRY(read_description(m));
    const Table g = m.table(model::graph);
    if (!g) return invalid_graph("the model has no graph");
    TRY(read_resolver(root.table(session::kernel_type_str_resolver)));
    TRY_ASSIGN(graph, read_graph(g, "graph", m.text(model::graph_doc_string), 0));
    TRY(file_.status());
    TRY(ir::GraphBuilder::bind_scopes(*graph));
    model_.graph = std::move(graph);
    return {};
  }

  static Status check_version(std::string_view text) {
    int version = 0;
    if (!parse_number(text, version) || version < kOldestVersion || version > kNewestVersion)
      return error(Code::fail, "the file is of version {} of ONNX Runtime's format, wanted {} to {}", quote(text),
                   kOldestVersion, kNewestVersion);
    return {};
  }

  Status read_description(const Table& m) {
    model_.ir_version = m.number<int64_t>(model::ir_version);
    model_.producer_name = m.text(model::producer_name);
    model_.producer_version = m.text(model::producer_version);
    model_.domain = m.text(model::domain);
    model_.model_version = m.number<int64_t>(model::model_version);
    model_.doc = m.text(model::doc_string);
    for (const Table p : m.list<Table>(model::metadata_props))
      model_.metadata.emplace_back(p.text(entry::key), p.text(entry::value));
    for (const Table o : m.list<Table>(model::opset_import)) TRY(read_opset(o));
    TRY(file_.status());
    if (model_.ir_version < 1 || model_.ir_version > 14)
      return invalid_graph("the model has IR version {}, wanted 1 to 14", model_.ir_version);
    if (model_.opsets.empty()) return invalid_graph("the model imports no operator set");
    return {};
  }

  Status read_opset(const Table& o) {
    std::string domain = plain_domain(o.text(opset::domain));
    const auto version = o.number<int64_t>(opset::version);
    if (version < 1 || version > INT32_MAX)
      return invalid_graph("operator set {} has version {}", quote(domain), version);
    if (const int64_t other = model_.opset(domain); other != 0 && other != version)
      return invalid_graph("operator set {} is imported in versions {} and {}", quote(domain), other, version);
    if (model_.opset(domain) == 0) model_.opsets.emplace_back(std::move(domain), version);
    return {};
  }

  // Nothing here needs the table; one that contradicts the standard means that the file cannot be trusted.
  Status read_resolver(const Table& table) {
    std::set<std::string_view> seen;
    for (const Table op : table.list<Table>(resolver::op_kernel_type_str_args)) {
      const std::string_view id = op.text(resolver_op::op_id);
      if (!seen.insert(id).second) return invalid_graph("operator {} is described twice", quote(id));
      if (Status s = read_resolver_op(id, op); !s.ok()) return std::move(s).in(format("operator {}", quote(id)));
      TRY(file_.status());
    }
    return {};
  }

  // The arguments that share a type, whatever its variable is called.
  static std::set<std::vector<ArgumentPlace>> groups_of(const KernelTypes& types) {
    std::set<std::vector<ArgumentPlace>> out;
    for (const auto& [variable, places] : types.places) out.insert(places);
    return out;
  }

  Status read_resolver_op(std::string_view id, const Table& op) {
    const size_t second = id.rfind(':'), first = second == 0 ? id.npos : id.rfind(':', second - 1);
    KernelTypes said;
    if (second == id.npos || first == id.npos || !parse_number(id.substr(second + 1), said.since))
      return invalid_graph("wanted domain:name:version");
    std::set<ArgumentPlace> placed;
    for (const Table t : op.list<Table>(resolver_op::kernel_type_str_args)) {
      const auto [it, fresh] = said.places.try_emplace(std::string(t.text(resolver_type::kernel_type_str)));
      if (!fresh) return invalid_graph("type {} is described twice", quote(it->first));
      for (const Table a : t.list<Table>(resolver_type::args)) {
        it->second.push_back({a.number<int8_t>(resolver_arg::arg_type) == resolver_arg::output,
                              a.number<uint32_t>(resolver_arg::index)});
        if (!placed.insert(it->second.back()).second) return invalid_graph("an argument has two types");
      }
      std::sort(it->second.begin(), it->second.end());
    }
    if (!standard_) return {};
    const auto known = standard_(id.substr(0, first), id.substr(first + 1, second - first - 1), said.since);
    // Files made by hand name versions between those that changed the operator, and the type variables of others.
    const bool same =
        known && (known->since == said.since ? known->places == said.places : groups_of(*known) == groups_of(said));
    if (known && known->of_standard && !same)
      return invalid_graph("the file says other types of its arguments than the standard");
    if (!same) foreign_[std::string(id)] = std::move(said);
    return {};
  }

  // Of operators that no standard knows, or that were others when the file was written: what shares a type in the table
  // does so at every node.
  Status check_foreign_types(const ir::Node& n, int since, std::span<const std::string_view> inputs,
                             std::span<const std::string_view> outputs, const Facts& facts) {
    if (foreign_.empty()) return {};
    const auto said = foreign_.find(format("{}:{}:{}", n.domain, n.op_type, since));
    if (said == foreign_.end()) return {};
    for (const auto& [variable, places] : said->second.places) {
      DType type = DType::undefined;
      for (const ArgumentPlace& p : places) {
        const auto args = p.output ? outputs : inputs;
        const auto fact = p.index < args.size() ? facts.find(args[p.index]) : facts.end();
        if (fact == facts.end() || !fact->second.is_tensor() || fact->second.dtype == DType::undefined) continue;
        if (type == DType::undefined) type = fact->second.dtype;
        if (type != fact->second.dtype)
          return invalid_graph("{}: the file says that the arguments of type {} are alike, they are {} and {}",
                               n.title(), quote(variable), name_of(type), name_of(fact->second.dtype));
      }
    }
    return {};
  }

  Result<Fact> read_value_type(const Table& info) {
    const Table t = info.table(value_info::type);
    if (!t) return Fact{};
    return read_type(t, *dims_);
  }

  Result<std::shared_ptr<ir::Graph>> read_graph(const Table& g, std::string_view name, std::string_view doc,
                                                int depth) {
    if (depth > kMaxDepth) return error(Code::fail, "subgraphs are nested more than {} deep", kMaxDepth);
    ir::GraphBuilder builder(dims_);
    TRY(read_initializers(g, builder));
    TRY_ASSIGN(facts, read_node_args(g));
    TRY(read_arguments(g, facts, depth, builder));
    for (const Table n : g.list<Table>(graph::nodes)) {
      TRY(read_node(n, facts, depth, builder));
      TRY(file_.status());
    }
    for (auto& [value, fact] : facts) builder.value_info(value, std::move(fact));
    TRY(check_edges(g));
    builder.describe(name, doc, {});
    if (model_.ir_version < 4) builder.fix_initializers();
    return builder.finish();
  }

  Status read_initializers(const Table& g, ir::GraphBuilder& builder) {
    for (const Table t : g.list<Table>(graph::initializers)) {
      const std::string_view name = t.text(tensor::name);
      TRY(check_name(name));
      TRY_ASSIGN(weight, read_tensor(t, source_));
      TRY(builder.initializer(name, std::move(weight)));
      TRY(file_.status());
    }
    for (const Table t : g.list<Table>(graph::sparse_initializers)) {
      const std::string_view name = t.table(sparse::values).text(tensor::name);
      TRY(check_name(name));
      TRY_ASSIGN(weight, read_sparse_tensor(t, source_));
      TRY(file_.status());
      if (Status s = weight.check(); !s.ok())
        return invalid_graph("sparse initializer {}: {}", quote(name), s.message());
      TRY(builder.initializer(name, Weight::from(std::move(weight))));
    }
    return {};
  }

  Result<Facts> read_node_args(const Table& g) {
    Facts out;
    for (const Table v : g.list<Table>(graph::node_args)) {
      const std::string_view name = v.text(value_info::name);
      TRY(check_name(name));
      Result<Fact> fact = read_value_type(v);
      if (!fact.ok()) return fact.take_status().in(quote(name));
      TRY(file_.status());
      if (!out.emplace(name, std::move(*fact)).second) return invalid_graph("{} is described twice", quote(name));
    }
    return out;
  }

  Status read_arguments(const Table& g, const Facts& facts, int depth, ir::GraphBuilder& builder) {
    const auto fact_of = [&](std::string_view name) -> Result<Fact> {
      const auto it = facts.find(name);
      if (it == facts.end()) return invalid_graph("the type of {} is not described", quote(name));
      return it->second;
    };
    for (const std::string_view name : g.list<std::string_view>(graph::inputs)) {
      TRY_ASSIGN(fact, fact_of(name));
      if (depth == 0 && fact.kind == Kind::unknown) return invalid_graph("graph input {} has no type", quote(name));
      TRY(builder.input(name, std::move(fact)));
    }
    for (const std::string_view name : g.list<std::string_view>(graph::outputs)) {
      TRY_ASSIGN(fact, fact_of(name));
      builder.output(name, std::move(fact));
    }
    return {};
  }

  // The version in force, after comparing it with what the node says. A node of a version later than the imported set
  // is what it says, as it is for ONNX Runtime: files made by hand have such nodes.
  Result<int> version_of(const ir::Node& n, int since) {
    auto version = static_cast<int>(model_.opset(n.domain));
    if (version == 0) return invalid_graph("{}: its domain {} is not imported", n.title(), quote(n.domain));
    const auto known = standard_ ? standard_(n.domain, n.op_type, std::max(version, since)) : std::nullopt;
    if (known ? known->since == since : !standard_) version = std::max(version, since);
    if (since < 1 || since > version || (known && known->since != since))
      return invalid_graph("{}: version {} of the operator is not that of operator set {}", n.title(), since, version);
    return version;
  }

  Status read_node(const Table& t, const Facts& facts, int depth, ir::GraphBuilder& builder) {
    ir::Node n;
    n.name = t.text(node::name);
    n.op_type = t.text(node::op_type);
    n.domain = plain_domain(t.text(node::domain));
    TRY(check_name(n.name));
    if (n.op_type.empty()) return invalid_graph("node {} has no operator", quote(n.name));
    if (t.number<int32_t>(node::type) != 0) return not_implemented("{} is a fused function", n.title());
    const auto since = t.number<int32_t>(node::since_version);
    TRY_ASSIGN(version, version_of(n, since));
    n.version = version;
    const auto inputs = copy(t.list<std::string_view>(node::inputs));
    const auto outputs = copy(t.list<std::string_view>(node::outputs));
    if (inputs.size() > kMostArguments || outputs.size() > kMostArguments)
      return invalid_graph("{} has more than {} inputs or outputs", n.title(), kMostArguments);
    for (const auto* list : {&inputs, &outputs})
      for (const std::string_view arg : *list) TRY(check_name(arg));
    TRY(check_foreign_types(n, since, inputs, outputs, facts));
    for (const Table a : t.list<Table>(node::attributes)) {
      Result<ir::Attribute> attribute = read_attribute(a, depth);
      if (!attribute.ok()) return attribute.take_status().in(n.title());
      if (n.find(attribute->name))
        return invalid_graph("{}: attribute {} is given twice", n.title(), quote(attribute->name));
      n.attributes.push_back(std::move(*attribute));
      TRY(file_.status());
    }
    return builder.node(std::move(n), inputs, outputs);
  }

  Result<ir::Attribute> read_attribute(const Table& t, int depth) {
    using ir::AttrType;
    ir::Attribute a;
    a.name = t.text(attribute::name);
    const auto type = t.number<int32_t>(attribute::type);
    if (type < 1 || type > static_cast<int>(AttrType::type_protos))
      return invalid_graph("attribute {} has type {}, which ONNX does not know", quote(a.name), type);
    a.type = static_cast<AttrType>(type);
    switch (a.type) {
      case AttrType::f: a.value = t.number<float>(attribute::f); break;
      case AttrType::i: a.value = t.number<int64_t>(attribute::i); break;
      case AttrType::s: a.value = std::string(t.text(attribute::s)); break;
      case AttrType::floats: a.value = copy(t.list<float>(attribute::floats)); break;
      case AttrType::ints: a.value = copy(t.list<int64_t>(attribute::ints)); break;
      case AttrType::strings: a.value = copy_texts(t.list<std::string_view>(attribute::strings)); break;
      default: TRY(read_structured(t, depth, a));
    }
    return a;
  }

  // Tensors, graphs, sparse tensors and types, one or many.
  Status read_structured(const Table& t, int depth, ir::Attribute& a) {
    using ir::AttrType;
    switch (a.type) {
      case AttrType::t:
      case AttrType::tensors:
        return read_each<Weight>(t, attribute::t, attribute::tensors, a,
                                 [&](const Table& one) { return read_tensor(one, source_); });
      case AttrType::g:
      case AttrType::graphs:
        return read_each<std::shared_ptr<ir::Graph>>(t, attribute::g, attribute::graphs, a, [&](const Table& one) {
          return read_graph(one, a.name, {}, depth + 1);
        });
      case AttrType::sparse_tensor:
      case AttrType::sparse_tensors:
        return read_each<SparseWeight>(t, -1, attribute::sparse_tensors, a,
                                       [&](const Table& one) { return read_sparse_tensor(one, source_); });
      default:
        return read_each<Fact>(t, -1, attribute::types, a, [&](const Table& one) { return read_type(one, *dims_); });
    }
  }

  template <class T, class Read>
  Status read_each(const Table& t, int one, int many, ir::Attribute& a, Read&& read) {
    using ir::AttrType;
    std::vector<T> out;
    const bool single = a.type == AttrType::t || a.type == AttrType::g;
    std::vector<Table> parts = single ? std::vector<Table>{t.table(one)} : copy(t.list<Table>(many));
    const bool wants_one = single || a.type == AttrType::sparse_tensor || a.type == AttrType::type_proto;
    if (wants_one && (parts.size() != 1 || !parts[0])) return invalid_graph("attribute {} has no value", quote(a.name));
    for (const Table& part : parts) {
      TRY_ASSIGN(value, read(part));
      out.push_back(std::move(value));
      TRY(file_.status());
    }
    a.value = std::move(out);
    return {};
  }

  // What a node gives and reads, by name; what only its subgraphs read comes last.
  struct Ends {
    std::vector<std::string_view> outputs, inputs;
  };
  using EndsOf = std::unordered_map<uint32_t, Ends>;

  Result<EndsOf> read_ends(const Table& g) {
    EndsOf out;
    const auto max_index = g.number<uint32_t>(graph::max_node_index);
    for (const Table n : g.list<Table>(graph::nodes)) {
      const auto index = n.number<uint32_t>(node::index);
      if (index >= max_index) return invalid_graph("node number {} is not below {}", index, max_index);
      Ends ends{copy(n.list<std::string_view>(node::outputs)), copy(n.list<std::string_view>(node::inputs))};
      for (const std::string_view name : n.list<std::string_view>(node::implicit_inputs)) ends.inputs.push_back(name);
      if (!out.emplace(index, std::move(ends)).second) return invalid_graph("two nodes have the number {}", index);
    }
    return out;
  }

  // Edges are known from names; those of the file must be the same ones.
  Status check_edges(const Table& g) {
    TRY_ASSIGN(nodes, read_ends(g));
    for (const Table e : g.list<Table>(graph::node_edges)) {
      const auto at = nodes.find(e.number<uint32_t>(node_edge::node_index));
      if (at == nodes.end()) return invalid_graph("edges of a node that does not exist");
      for (const bool in : {true, false})
        for (const EdgeEnd end : e.list<EdgeEnd>(in ? node_edge::input_edges : node_edge::output_edges)) {
          const auto other = nodes.find(end.node_index);
          if (other == nodes.end()) return invalid_graph("an edge leads to a node that does not exist");
          const auto &outputs = (in ? other : at)->second.outputs, &inputs = (in ? at : other)->second.inputs;
          const auto src = static_cast<size_t>(end.src_arg_index), dst = static_cast<size_t>(end.dst_arg_index);
          if (src >= outputs.size() || dst >= inputs.size() || outputs[src] != inputs[dst])
            return invalid_graph("an edge joins what has different names");
        }
      TRY(file_.status());
    }
    return {};
  }

  flat::File file_;
  Source source_;
  Model model_;
  std::shared_ptr<DimPool> dims_;
  KernelTypesOf* standard_;
  std::map<std::string, KernelTypes, std::less<>> foreign_;  // what the table says beyond the standard
};

}  // namespace

bool is_ort_model(const Bytes& bytes) {
  return flat::File::identifier({reinterpret_cast<const char*>(bytes.data()), bytes.size()}) == kIdentifier;
}

int64_t saved_optimizations(const Bytes& bytes) {
  flat::File file({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  const Table g = file.root().table(session::model).table(model::graph);
  int64_t out = 0;
  for (const Table e : g.table(graph::runtime_optimizations).list<Table>(optimizations::records))
    out += static_cast<int64_t>(e.list<Table>(optimizations_of::records).size());
  return out;
}

Result<Model> read_model(BytesPtr bytes, ExternalData& external, std::shared_ptr<DimPool> dims,
                         KernelTypesOf* standard) {
  return ModelReader(std::move(bytes), external, std::move(dims), standard).read();
}

}  // namespace tessera::ort
