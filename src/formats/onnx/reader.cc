#include "formats/onnx/reader.h"

#include <exception>

#include "formats/onnx/fields.h"
#include "formats/onnx/tensor_reader.h"
#include "formats/onnx/wire.h"

namespace tessera::onnx {
namespace {

constexpr int kMaxSubgraphDepth = 64;
constexpr size_t kLongestName = 64 * 1024, kMostArguments = 65536;

using Opsets = std::vector<std::pair<std::string, int64_t>>;

// Both spellings of the default domain become "".
std::string plain_domain(std::string_view domain) { return domain == "ai.onnx" ? std::string() : std::string(domain); }

class ModelReader {
 public:
  ModelReader(BytesPtr bytes, ExternalData& external, std::shared_ptr<DimPool> dims)
      : source_{std::move(bytes), &external}, dims_(std::move(dims)) {}

  Result<Model> read() {
    const auto* data = reinterpret_cast<const char*>(source_.bytes->data());
    const std::string_view message(data, source_.bytes->size());
    if (message.empty()) return error(Code::invalid_protobuf, "the model is empty");
    std::vector<std::string_view> graphs, functions;
    for (Fields f(message); f.next();) switch (f.tag()) {
        case model::ir_version: model_.ir_version = f.integer(); break;
        case model::producer_name: model_.producer_name = f.text(); break;
        case model::producer_version: model_.producer_version = f.text(); break;
        case model::domain: model_.domain = f.text(); break;
        case model::model_version: model_.model_version = f.integer(); break;
        case model::doc_string: model_.doc = f.text(); break;
        case model::graph: graphs.push_back(f.bytes()); break;
        case model::opset_import: TRY(read_opset(f.bytes(), model_.opsets)); break;
        case model::metadata_props: model_.metadata.push_back(read_entry(f.bytes())); break;
        case model::functions: functions.push_back(f.bytes()); break;
        default: f.skip_unknown(model_.unknown);
      }
    if (graphs.empty()) return invalid_graph("the model has no graph");
    if (graphs.size() > 1) return error(Code::invalid_protobuf, "the model has {} graphs", graphs.size());
    if (model_.ir_version < 1 || model_.ir_version > 14)
      return invalid_graph("the model has IR version {}, wanted 1 to 14", model_.ir_version);
    if (model_.opsets.empty()) {
      if (model_.ir_version >= 3) return invalid_graph("the model imports no operator set");
      model_.opsets.push_back({"", 1});
    }
    for (const std::string_view f : functions) {
      TRY_ASSIGN(function, read_function(f));
      model_.functions.push_back(std::move(function));
    }
    TRY_ASSIGN(graph, read_graph(graphs[0], model_.opsets, 0));
    TRY(ir::GraphBuilder::bind_scopes(*graph));
    model_.graph = std::move(graph);
    return std::move(model_);
  }

 private:
  static std::pair<std::string, std::string> read_entry(std::string_view message) {
    std::pair<std::string, std::string> out;
    for (Fields f(message); f.next();) switch (f.tag()) {
        case entry::key: out.first = f.text(); break;
        case entry::value: out.second = f.text(); break;
        default: f.skip();
      }
    return out;
  }

  static Status read_opset(std::string_view message, Opsets& out) {
    std::pair<std::string, int64_t> opset;
    for (Fields f(message); f.next();) switch (f.tag()) {
        case opset::domain: opset.first = plain_domain(f.bytes()); break;
        case opset::version: opset.second = f.integer(); break;
        default: f.skip();
      }
    if (opset.second < 1 || opset.second > INT32_MAX)
      return invalid_graph("operator set {} has version {}", quote(opset.first), opset.second);
    for (const auto& [domain, version] : out)
      if (domain == opset.first) {
        if (version == opset.second) return {};
        return invalid_graph("operator set {} is imported in versions {} and {}", quote(domain), version, opset.second);
      }
    out.push_back(std::move(opset));
    return {};
  }

  static Status check_name(std::string_view name) {
    if (name.size() > kLongestName)
      return invalid_graph("a name is {} bytes long, at most {} are supported", name.size(), kLongestName);
    return {};
  }

  struct NamedFact {
    std::string_view name;
    Fact fact;
    std::string unknown;
  };
  Result<NamedFact> read_value_info(std::string_view message, DimPool& dims) {
    NamedFact out;
    for (Fields f(message); f.next();) switch (f.tag()) {
        case value_info::name: out.name = f.bytes(); break;
        case value_info::type: {
          TRY_ASSIGN(fact, read_type_proto(f.bytes(), dims));
          out.fact = std::move(fact);
          break;
        }
        default: f.skip_unknown(out.unknown);
      }
    TRY(check_name(out.name));
    return out;
  }

  // Depth of the messages between two graphs: node, attribute, graph.
  Result<std::shared_ptr<ir::Graph>> read_graph(std::string_view message, const Opsets& opsets, int depth) {
    if (depth * 3 > kMaxNesting)
      return error(Code::invalid_protobuf, "subgraphs are nested more than {} deep", kMaxNesting / 3);
    static_assert(kMaxNesting / 3 < kMaxSubgraphDepth);
    ir::GraphBuilder builder(dims_);
    std::string_view name, doc;
    std::string unknown;
    std::vector<std::string_view> value_infos;
    std::vector<std::string_view> nodes;
    for (Fields f(message); f.next();) switch (f.tag()) {
        case graph::node: nodes.push_back(f.bytes()); break;
        case graph::name: name = f.bytes(); break;
        case graph::doc_string: doc = f.bytes(); break;
        case graph::initializer: {
          Source source = source_;
          source.takes_given = depth == 0;
          TRY_ASSIGN(w, read_tensor_proto(f.bytes(), source));
          TRY(check_name(w.name));
          TRY(builder.initializer(w.name, std::move(w.weight)));
          break;
        }
        case graph::sparse_initializer: {
          TRY_ASSIGN(w, read_sparse_tensor_proto(f.bytes(), source_));
          TRY(w.weight.values.keep());
          TRY(w.weight.indices.keep());
          w.weight.limit += 4 * static_cast<int64_t>(source_.bytes->size());
          TRY(check_name(w.name));
          if (Status s = w.weight.check(); !s.ok())
            return invalid_graph("sparse initializer {}: {}", quote(w.name), s.message());
          TRY(builder.initializer(w.name, Weight::from(std::move(w.weight))));
          break;
        }
        case graph::input: {
          TRY_ASSIGN(v, read_value_info(f.bytes(), *dims_));
          if (depth == 0 && v.fact.kind == Kind::unknown)
            return invalid_graph("graph input {} has no type", quote(v.name));
          TRY(builder.input(v.name, std::move(v.fact), std::move(v.unknown)));
          break;
        }
        case graph::output: {
          TRY_ASSIGN(v, read_value_info(f.bytes(), *dims_));
          builder.output(v.name, std::move(v.fact), std::move(v.unknown));
          break;
        }
        case graph::value_info: value_infos.push_back(f.bytes()); break;
        default: f.skip_unknown(unknown);
      }
    for (const std::string_view n : nodes) TRY(read_node(n, opsets, depth, builder));
    for (const std::string_view v : value_infos) {
      TRY_ASSIGN(info, read_value_info(v, *dims_));
      builder.value_info(info.name, std::move(info.fact), std::move(info.unknown));
    }
    builder.describe(name, doc, std::move(unknown));
    if (model_.ir_version < 4) builder.fix_initializers();
    return builder.finish();
  }

  Status read_node(std::string_view message, const Opsets& opsets, int depth, ir::GraphBuilder& builder) {
    ir::Node n;
    inputs_.clear();
    outputs_.clear();
    std::vector<std::string_view> attributes;
    for (Fields f(message); f.next();) switch (f.tag()) {
        case node::input: inputs_.push_back(f.bytes()); break;
        case node::output: outputs_.push_back(f.bytes()); break;
        case node::name: n.name = f.text(); break;
        case node::op_type: n.op_type = f.text(); break;
        case node::attribute: attributes.push_back(f.bytes()); break;
        case node::domain: n.domain = plain_domain(f.bytes()); break;
        case node::overload: n.overload = f.text(); break;
        default: f.skip_unknown(n.unknown);
      }
    if (n.op_type.empty()) return invalid_graph("node {} has no operator", quote(n.name));
    if (inputs_.size() > kMostArguments || outputs_.size() > kMostArguments)
      return invalid_graph("{} has more than {} inputs or outputs", n.title(), kMostArguments);
    TRY(check_name(n.name));
    for (const auto* list : {&inputs_, &outputs_})
      for (const std::string_view arg : *list) TRY(check_name(arg));
    for (const auto& [domain, version] : opsets)
      if (domain == n.domain) n.version = static_cast<int>(version);
    if (n.version == 0 && !has_function(n))
      return invalid_graph("{}: its domain {} is not imported", n.title(), quote(n.domain));
    // Subgraphs read their own nodes through the same scratch lists.
    const std::vector<std::string_view> inputs = inputs_, outputs = outputs_;
    for (const std::string_view a : attributes) {
      Result<ir::Attribute> attribute = read_attribute(a, opsets, depth);
      if (!attribute.ok()) return attribute.take_status().in(n.title());
      if (n.find(attribute->name))
        return invalid_graph("{}: attribute {} is given twice", n.title(), quote(attribute->name));
      n.attributes.push_back(std::move(*attribute));
    }
    return builder.node(std::move(n), inputs, outputs);
  }

  // A function may live in a domain that the model does not import.
  bool has_function(const ir::Node& n) const {
    for (const Function& f : model_.functions)
      if (f.domain == n.domain) return true;
    return false;
  }

  template <class T>
  static std::vector<T>& list_in(ir::Attribute& a) {
    if (!std::holds_alternative<std::vector<T>>(a.value)) a.value = std::vector<T>();
    return std::get<std::vector<T>>(a.value);
  }

  Result<ir::Attribute> read_attribute(std::string_view message, const Opsets& opsets, int depth) {
    ir::Attribute a;
    int declared = 0;
    ir::AttrType found = ir::AttrType::undefined;
    bool mixed = false;
    const auto note = [&](ir::AttrType t) {
      mixed = mixed || (found != ir::AttrType::undefined && found != t);
      found = t;
    };
    for (Fields f(message); f.next();) switch (f.tag()) {
        case attribute::name: a.name = f.text(); break;
        case attribute::type: declared = static_cast<int32_t>(f.integer()); break;
        case attribute::ref_attr_name: a.ref = f.text(); break;
        case attribute::f:
          a.value = f.real();
          note(ir::AttrType::f);
          break;
        case attribute::i:
          a.value = f.integer();
          note(ir::AttrType::i);
          break;
        case attribute::s:
          a.value = f.text();
          note(ir::AttrType::s);
          break;
        case attribute::floats:
          note(ir::AttrType::floats);
          f.reals(list_in<float>(a));
          break;
        case attribute::ints:
          note(ir::AttrType::ints);
          f.integers(list_in<int64_t>(a));
          break;
        case attribute::strings:
          note(ir::AttrType::strings);
          list_in<std::string>(a).push_back(f.text());
          break;
        case attribute::t:
        case attribute::tensors: {
          note(f.tag() == attribute::t ? ir::AttrType::t : ir::AttrType::tensors);
          TRY_ASSIGN(w, read_tensor_proto(f.bytes(), source_));
          TRY(w.weight.keep());  // operators hold on to their attributes
          list_in<Weight>(a).push_back(std::move(w.weight));
          break;
        }
        case attribute::sparse_tensor:
        case attribute::sparse_tensors: {
          note(f.tag() == attribute::sparse_tensor ? ir::AttrType::sparse_tensor : ir::AttrType::sparse_tensors);
          TRY_ASSIGN(w, read_sparse_tensor_proto(f.bytes(), source_));
          TRY(w.weight.values.keep());
          TRY(w.weight.indices.keep());
          list_in<SparseWeight>(a).push_back(std::move(w.weight));
          break;
        }
        case attribute::g:
        case attribute::graphs: {
          note(f.tag() == attribute::g ? ir::AttrType::g : ir::AttrType::graphs);
          TRY_ASSIGN(g, read_graph(f.bytes(), opsets, depth + 1));
          list_in<std::shared_ptr<ir::Graph>>(a).push_back(std::move(g));
          break;
        }
        case attribute::tp:
        case attribute::type_protos: {
          note(f.tag() == attribute::tp ? ir::AttrType::type_proto : ir::AttrType::type_protos);
          TRY_ASSIGN(t, read_type_proto(f.bytes(), *dims_));
          list_in<Fact>(a).push_back(std::move(t));
          break;
        }
        default: f.skip_unknown(a.unknown);
      }
    return settle_type(std::move(a), declared, found, mixed);
  }

  // The declared type wins over an absent value (an empty list, a zero that proto3 writers leave out).
  static Result<ir::Attribute> settle_type(ir::Attribute a, int declared, ir::AttrType found, bool mixed) {
    using ir::AttrType;
    if (declared < 0 || declared > static_cast<int>(AttrType::type_protos))
      return invalid_graph("attribute {} has type {}, which ONNX does not know", quote(a.name), declared);
    a.type = declared ? static_cast<AttrType>(declared) : found;
    if (mixed || (found != AttrType::undefined && a.type != found))
      return invalid_graph("attribute {} says it is of one type and has a value of another", quote(a.name));
    if (found != AttrType::undefined || !a.ref.empty()) return a;
    switch (a.type) {
      case AttrType::f: a.value = 0.0f; break;
      case AttrType::i: a.value = int64_t{0}; break;
      case AttrType::s: a.value = std::string(); break;
      case AttrType::floats: a.value = std::vector<float>(); break;
      case AttrType::ints: a.value = std::vector<int64_t>(); break;
      case AttrType::strings: a.value = std::vector<std::string>(); break;
      case AttrType::tensors: a.value = std::vector<Weight>(); break;
      case AttrType::graphs: a.value = std::vector<std::shared_ptr<ir::Graph>>(); break;
      case AttrType::sparse_tensors: a.value = std::vector<SparseWeight>(); break;
      case AttrType::type_protos: a.value = std::vector<Fact>(); break;
      default: return invalid_graph("attribute {} has no value", quote(a.name));
    }
    return a;
  }

  Result<Function> read_function(std::string_view message) {
    Function out;
    ir::GraphBuilder builder(dims_);
    std::vector<std::string_view> nodes, value_infos, outputs;
    Opsets opsets;
    for (Fields f(message); f.next();) switch (f.tag()) {
        case function::name: out.name = f.text(); break;
        case function::domain: out.domain = plain_domain(f.bytes()); break;
        case function::overload: out.overload = f.text(); break;
        case function::input: {
          const std::string_view name = f.bytes();
          TRY(check_name(name));
          TRY(builder.input(name, Fact{}));
          break;
        }
        case function::output: outputs.push_back(f.bytes()); break;
        case function::attribute: out.attribute_names.push_back(f.text()); break;
        case function::attribute_proto: {
          TRY_ASSIGN(a, read_attribute(f.bytes(), opsets, 0));
          out.attribute_defaults.push_back(std::move(a));
          break;
        }
        case function::node: nodes.push_back(f.bytes()); break;
        case function::value_info: value_infos.push_back(f.bytes()); break;
        case function::opset_import: TRY(read_opset(f.bytes(), opsets)); break;
        default: f.skip_unknown(out.unknown);
      }
    // A function may call functions of domains the model knows.
    for (const auto& o : model_.opsets)
      if (std::find_if(opsets.begin(), opsets.end(), [&](const auto& p) { return p.first == o.first; }) == opsets.end())
        opsets.push_back(o);
    const auto body = [&]() -> Status {
      for (const std::string_view n : nodes) TRY(read_node(n, opsets, 0, builder));
      for (const std::string_view o : outputs) builder.output(o, Fact{});
      for (const std::string_view v : value_infos) {
        TRY_ASSIGN(info, read_value_info(v, *dims_));
        builder.value_info(info.name, std::move(info.fact));
      }
      out.body = builder.finish();
      return ir::GraphBuilder::bind_scopes(*out.body);
    };
    if (Status s = body(); !s.ok()) return std::move(s).in(format("function {}", quote(out.name)));
    out.opsets = std::move(opsets);
    return out;
  }

  Source source_;
  Model model_;
  std::shared_ptr<DimPool> dims_;
  std::vector<std::string_view> inputs_, outputs_;
};

// What `f` reads, if the bytes are protobuf to their end.
template <class F>
auto undamaged(F&& f) -> decltype(f()) {
  forget_damage();
  auto out = f();
  if (const char* what = damage())
    return error(Code::invalid_protobuf, "not an ONNX file, or a damaged one ({})", what);
  return out;
}

std::string_view view_of(const Bytes& b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

Result<Value> value_of_sequence(std::string_view message, const Source& source, int depth);

Result<Value> value_of_tensor(std::string_view message, const Source& source) {
  TRY_ASSIGN(w, read_tensor_proto(message, source));
  TRY_ASSIGN(t, w.weight.tensor());
  return Value(std::move(t));
}

Result<Value> value_of_map(std::string_view message, const Source& source, int depth) {
  std::vector<int64_t> keys;
  std::vector<std::string> string_keys;
  Value values;
  bool strings = false;
  for (Fields f(message); f.next();) switch (f.tag()) {
      case map::key_type: strings = f.integer() == static_cast<int>(DType::string); break;
      case map::keys: f.integers(keys); break;
      case map::string_keys: string_keys.push_back(f.text()); break;
      case map::values: {
        TRY_ASSIGN(v, value_of_sequence(f.bytes(), source, depth + 1));
        values = std::move(v);
        break;
      }
      default: f.skip();
    }
  const size_t n = strings ? string_keys.size() : keys.size();
  if ((values.sequence() ? values.sequence()->items.size() : 0) != n)
    return invalid("a map has {} keys and another number of values", n);
  auto out = std::make_shared<Map>();
  if (strings) out->entries.emplace<1>();
  for (size_t i = 0; i < n; ++i) {
    const Value& v = values.sequence()->items[i];
    if (strings)
      std::get<1>(out->entries)[string_keys[i]] = v;
    else
      std::get<0>(out->entries)[keys[i]] = v;
  }
  return Value(std::move(out));
}

Result<Value> value_of_optional(std::string_view message, const Source& source, int depth) {
  if (depth > kMaxNesting) return error(Code::invalid_protobuf, "a value is nested more than {} deep", kMaxNesting);
  Value out{None{}};
  for (Fields f(message); f.next();) {
    Result<Value> v = Value(None{});
    switch (f.tag()) {
      case optional::tensor_value: v = value_of_tensor(f.bytes(), source); break;
      case optional::sequence_value: v = value_of_sequence(f.bytes(), source, depth + 1); break;
      case optional::map_value: v = value_of_map(f.bytes(), source, depth + 1); break;
      case optional::optional_value: v = value_of_optional(f.bytes(), source, depth + 1); break;
      default: f.skip(); continue;
    }
    if (!v.ok()) return v;
    out = std::move(*v);
  }
  return out;
}

Result<Value> value_of_sequence(std::string_view message, const Source& source, int depth) {
  if (depth > kMaxNesting) return error(Code::invalid_protobuf, "a value is nested more than {} deep", kMaxNesting);
  auto out = std::make_shared<Sequence>();
  for (Fields f(message); f.next();) {
    Result<Value> v = Value(None{});
    switch (f.tag()) {
      case sequence::tensor_values: v = value_of_tensor(f.bytes(), source); break;
      case sequence::sequence_values: v = value_of_sequence(f.bytes(), source, depth + 1); break;
      case sequence::map_values: v = value_of_map(f.bytes(), source, depth + 1); break;
      case sequence::optional_values: v = value_of_optional(f.bytes(), source, depth + 1); break;
      default: f.skip(); continue;
    }
    if (!v.ok()) return v;
    if (const Tensor* t = v->tensor()) out->element = t->dtype();
    out->items.push_back(std::move(*v));
  }
  return Value(std::move(out));
}

}  // namespace

Result<Model> read_model(BytesPtr bytes, ExternalData& external, std::shared_ptr<DimPool> dims) {
  return undamaged([&] { return ModelReader(std::move(bytes), external, std::move(dims)).read(); });
}

Result<Value> read_tensor(BytesPtr bytes) {
  return undamaged([&] { return value_of_tensor(view_of(*bytes), Source{bytes, nullptr}); });
}
Result<Value> read_sequence(BytesPtr bytes) {
  return undamaged([&] { return value_of_sequence(view_of(*bytes), Source{bytes, nullptr}, 0); });
}
Result<Value> read_optional(BytesPtr bytes) {
  return undamaged([&] { return value_of_optional(view_of(*bytes), Source{bytes, nullptr}, 0); });
}
Result<Value> read_map(BytesPtr bytes) {
  return undamaged([&] { return value_of_map(view_of(*bytes), Source{bytes, nullptr}, 0); });
}

Result<Value> read_value(BytesPtr bytes, const Fact& fact) {
  switch (fact.kind) {
    case Kind::sequence: return read_sequence(std::move(bytes));
    case Kind::optional: return read_optional(std::move(bytes));
    case Kind::map: return read_map(std::move(bytes));
    default: return read_tensor(std::move(bytes));
  }
}

}  // namespace tessera::onnx
