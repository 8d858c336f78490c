#include <algorithm>
#include <cstring>

#include "ir/text.h"
#include "ir/text_scanner.h"

namespace tessera {
namespace {

using namespace text;
using ir::Attribute;
using ir::AttrType;
using ir::GraphBuilder;
using Opsets = std::vector<std::pair<std::string, int64_t>>;

// Both spellings of the default domain become "".
std::string plain_domain(std::string domain) { return domain == "ai.onnx" ? std::string() : domain; }

// The type of a list of `type`.
AttrType list_of(AttrType type) {
  switch (type) {
    case AttrType::f: return AttrType::floats;
    case AttrType::i: return AttrType::ints;
    case AttrType::s: return AttrType::strings;
    case AttrType::t: return AttrType::tensors;
    case AttrType::g: return AttrType::graphs;
    case AttrType::sparse_tensor: return AttrType::sparse_tensors;
    case AttrType::type_proto: return AttrType::type_protos;
    default: return AttrType::undefined;
  }
}
AttrType element_of(AttrType list) {
  for (const AttrWord& w : kAttrWords)
    if (list_of(w.type) == list) return w.type;
  return AttrType::undefined;
}
std::string_view word_of(AttrType type) {
  for (const AttrWord& w : kAttrWords)
    if (w.type == type) return w.word;
  return "undefined";
}

class Parser {
 public:
  Parser(std::string_view text, std::shared_ptr<DimPool> dims) : in_(text), dims_(std::move(dims)) {}

  Result<Model> model() {
    Model m;
    TRY(model_header(m));
    ir_version_ = m.ir_version;
    opsets_ = m.opsets;
    TRY_ASSIGN(main, graph(0));
    m.graph = std::move(main);
    while (!in_.done()) {
      TRY_ASSIGN(f, function(m));
      m.functions.push_back(std::move(f));
    }
    for (const Unimported& u : unimported_) {
      const auto has = [&](const Function& f) { return f.domain == u.domain; };
      if (std::none_of(m.functions.begin(), m.functions.end(), has))
        return invalid("{}: {}: its domain {} is not imported", in_.place(u.position), u.title, quote(u.domain));
    }
    TRY(GraphBuilder::bind_scopes(*m.graph));
    return m;
  }

  Result<std::shared_ptr<ir::Graph>> lone_graph(std::span<const std::pair<std::string, int64_t>> opsets) {
    opsets_.assign(opsets.begin(), opsets.end());
    TRY_ASSIGN(g, graph(0));
    if (!in_.done()) return in_.wrong("the end of the text after the graph");
    TRY(GraphBuilder::bind_scopes(*g));
    return std::move(g);
  }

 private:
  struct Unimported {
    size_t position;
    std::string domain, title;
  };
  struct Declared {
    std::string name;
    Fact fact;
  };

  // Calls one() for each item between open and close, separated by commas.
  template <class F>
  Status items(char open, char close, F&& one) {
    TRY(in_.expect(open));
    if (in_.take(close)) return {};
    do TRY(one());
    while (in_.take(','));
    if (!in_.take(close)) return in_.wrong(format("',' or '{}'", std::string_view(&close, 1)));
    return {};
  }

  Status opset_list(Opsets& out) {
    return items('[', ']', [&]() -> Status {
      const size_t at = in_.position();
      TRY_ASSIGN(domain, in_.string("a domain in quotes"));
      TRY(in_.expect(':'));
      TRY_ASSIGN(version, in_.integer("the version of an operator set"));
      domain = plain_domain(domain);
      if (version < 1 || version > INT32_MAX)
        return in_.wrong_at(at, format("version {} of {}", version, quote(domain)), "a version of 1 or more");
      for (const auto& [other, number] : out)
        if (other == domain && number != version)
          return in_.wrong_at(at, format("version {} of {}", version, quote(domain)),
                              format("one version, {}", number));
      if (std::find(out.begin(), out.end(), std::pair(domain, version)) == out.end())
        out.push_back({std::move(domain), version});
      return {};
    });
  }
  Status entry_list(std::vector<std::pair<std::string, std::string>>& out) {
    return items('[', ']', [&]() -> Status {
      TRY_ASSIGN(key, in_.string("a key in quotes"));
      TRY(in_.expect(':'));
      TRY_ASSIGN(value, in_.string("a value in quotes"));
      out.push_back({std::move(key), std::move(value)});
      return {};
    });
  }
  // An error of somebody else, said of a place in the text.
  Status at_place(Status status, size_t position) const {
    return status.ok() ? std::move(status) : std::move(status).in(in_.place(position));
  }
  template <class T>
  static Status store(Result<T> value, T& out) {
    if (!value.ok()) return value.take_status();
    out = std::move(*value);
    return {};
  }

  Status model_header(Model& m) {
    constexpr std::string_view kKeys =
        "ir_version, opset_import, producer_name, producer_version, domain, model_version, doc_string or "
        "metadata_props";
    const size_t begin = in_.position();
    TRY(items('<', '>', [&]() -> Status {
      const size_t at = in_.position();
      TRY_ASSIGN(key, in_.word(kKeys));
      TRY(in_.expect(':'));
      if (key == "ir_version") return store(in_.integer("an integer"), m.ir_version);
      if (key == "model_version") return store(in_.integer("an integer"), m.model_version);
      if (key == "opset_import") return opset_list(m.opsets);
      if (key == "metadata_props") return entry_list(m.metadata);
      const std::pair<std::string_view, std::string*> texts[] = {{"producer_name", &m.producer_name},
                                                                 {"producer_version", &m.producer_version},
                                                                 {"domain", &m.domain},
                                                                 {"doc_string", &m.doc}};
      for (const auto& [name, field] : texts)
        if (key == name) return store(in_.string("a text in quotes"), *field);
      return in_.wrong_at(at, quote(key), kKeys);
    }));
    if (m.ir_version < 1 || m.ir_version > 14)
      return in_.wrong_at(begin, format("ir_version {}", m.ir_version), "ir_version 1 to 14");
    return {};
  }

  // --- types

  Result<Fact> type(int depth) {
    const size_t at = in_.position();
    if (depth > kDeepest) return in_.wrong_at(at, "one more type inside", format("at most {} levels", kDeepest));
    TRY_ASSIGN(word, in_.word("a type"));
    Fact out;
    if (const DType dtype = dtype_named(word); dtype != DType::undefined) {
      out.kind = Kind::tensor;
      out.dtype = dtype;
      TRY(shape(out));
      return out;
    }
    if (!is_type_word(word)) return in_.wrong_at(at, quote(word), "a type");
    TRY(in_.expect('('));
    if (word == "opaque") {
      out.kind = Kind::opaque;
      TRY(opaque_names());
    } else if (word == "sparse_tensor") {
      const size_t inside = in_.position();
      TRY_ASSIGN(dense, type(depth + 1));
      if (!dense.is_tensor()) return in_.wrong_at(inside, dense.str(), "a tensor type");
      out = std::move(dense);
      out.kind = Kind::sparse_tensor;
    } else {
      out.kind = word == "seq" ? Kind::sequence : word == "optional" ? Kind::optional : Kind::map;
      if (out.kind == Kind::map) {
        const size_t inside = in_.position();
        TRY_ASSIGN(key, in_.word("an element type"));
        out.key = dtype_named(key);
        if (out.key == DType::undefined) return in_.wrong_at(inside, quote(key), "an element type");
        TRY(in_.expect(','));
      }
      TRY_ASSIGN(element, type(depth + 1));
      out.element = std::make_shared<const Fact>(std::move(element));
    }
    TRY(in_.expect(')'));
    return out;
  }
  // No brackets: a scalar; empty ones: any rank.
  Status shape(Fact& out) {
    if (in_.peek() != '[') {
      out.shape.emplace();
      return {};
    }
    std::vector<Dim> dims;
    const size_t at = in_.position();
    TRY(items('[', ']', [&]() -> Status {
      TRY_ASSIGN(d, dim());
      dims.push_back(d);
      return {};
    }));
    if (dims.size() > kMaxRank)
      return in_.wrong_at(at, format("{} dimensions", dims.size()), format("at most {}", kMaxRank));
    if (!dims.empty()) out.shape = std::move(dims);
    return {};
  }
  Result<Dim> dim() {
    constexpr std::string_view kWanted = "a dimension: a number, a name or '?'";
    if (in_.take('?')) return dims_->fresh();
    if (in_.peek() == '"' || !in_.peek_word().empty()) {
      TRY_ASSIGN(symbol, in_.name(kWanted));
      return symbol.empty() ? dims_->fresh() : dims_->symbol(symbol);
    }
    TRY_ASSIGN(value, in_.integer(kWanted));
    return value < 0 ? dims_->fresh() : Dim(value);
  }
  // The names of an opaque type, which nothing here uses.
  Status opaque_names() {
    while (in_.peek() != ')') {
      TRY(in_.word("a name or ')'").take_status());
      if (!in_.take('.') && !in_.take(',')) break;
    }
    return {};
  }

  bool at_type() { return is_type_word(in_.peek_word()); }
  Result<Declared> declaration() {
    Declared out;
    if (at_type()) TRY(store(type(0), out.fact));
    TRY(store(in_.name("the name of a value"), out.name));
    return out;
  }

  // --- constants

  // The data of a constant whose type has been read: {numbers}, or [entries] for an external file.
  Result<Weight> constant(const Fact& type, size_t at) {
    Weight w;
    w.dtype = type.dtype;
    std::vector<int64_t> dims;
    bool fixed = type.is_tensor() && type.shape;
    for (size_t i = 0; fixed && i < type.shape->size(); ++i) {
      fixed = (*type.shape)[i].known();
      dims.push_back((*type.shape)[i].value());
    }
    if (!fixed) return in_.wrong_at(at, type.str(), "a tensor type whose dimensions are numbers");
    Result<Shape> shape = Shape::checked(dims);
    if (!shape.ok() || !bytes_for(w.dtype, shape->count()))
      return in_.wrong_at(at, type.str(), "a shape whose bytes 63 bits can count");
    w.shape = std::move(*shape);
    if (in_.peek() == '[') {
      TRY(external(w));
      return w;
    }
    TRY(elements(w));
    return w;
  }

  Status external(Weight& w) {
    const size_t at = in_.position();
    std::vector<std::pair<std::string, std::string>> entries;
    TRY(entry_list(entries));
    for (const auto& [key, value] : entries) {
      uint64_t number = 0;
      if (key == "location") {
        w.location = value;
      } else if (key == "checksum") {
        w.checksum = value;
      } else if (key == "offset" || key == "length") {
        if (!parse_number(value, &number))
          return in_.wrong_at(at, format("{} {}", key, quote(value)), "a number of bytes");
        if (key == "offset") w.location_offset = number;
        if (key == "length" && number != static_cast<uint64_t>(w.bytes()))
          return in_.wrong_at(at, format("length {}", number), format("{}, what the type takes", w.bytes()));
      }
    }
    if (w.location.empty()) return in_.wrong_at(at, "external data without a file", "a \"location\"");
    return {};
  }

  Status elements(Weight& w) {
    const size_t at = in_.position();
    const int64_t wanted = literals_for(w.dtype, w.shape.count());
    std::vector<std::string> strings;
    std::string bytes;
    bytes.reserve(std::min<size_t>(in_.rest(), static_cast<size_t>(w.dtype == DType::string ? 0 : w.bytes())));
    int64_t got = 0;
    TRY(items('{', '}', [&]() -> Status {
      if (++got > wanted) return in_.wrong(format("'}' after {} values", wanted));
      if (w.dtype != DType::string) return element(w.dtype, bytes);
      TRY_ASSIGN(s, in_.string("a text in quotes"));
      strings.push_back(std::move(s));
      return {};
    }));
    if (got != wanted) return in_.wrong_at(at, format("{} values", got), format("{}", wanted));
    TRY_ASSIGN(t, Tensor::allocate(w.dtype, w.shape));
    if (w.dtype == DType::string)
      std::move(strings.begin(), strings.end(), static_cast<std::string*>(t.mutable_data()));
    else if (!bytes.empty())
      std::memcpy(t.mutable_data(), bytes.data(), bytes.size());
    w.decoded = std::move(t);
    return {};
  }

  // One literal, appended as it is stored.
  Status element(DType dtype, std::string& out) {
    switch (dtype) {
      case DType::f32:
      case DType::c64: return append<float, float>(out, "a number");
      case DType::f64:
      case DType::c128: return append<double, double>(out, "a number");
      case DType::i8: return append<int64_t, int8_t>(out, "an integer of 8 bits");
      case DType::i16: return append<int64_t, int16_t>(out, "an integer of 16 bits");
      case DType::i32: return append<int64_t, int32_t>(out, "an integer of 32 bits");
      case DType::i64: return append<int64_t, int64_t>(out, "an integer of 64 bits");
      case DType::u16:
      case DType::f16:
      case DType::bf16: return append<int64_t, uint16_t>(out, "16 bits as a number from 0 to 65535");
      case DType::u32: return append<int64_t, uint32_t>(out, "a number from 0 to 4294967295");
      case DType::u64: return append<uint64_t, uint64_t>(out, "a number of 64 bits");
      default: return append<int64_t, uint8_t>(out, "8 bits as a number from 0 to 255");
    }
  }
  template <class Read, class Stored>
  Status append(std::string& out, std::string_view wanted) {
    const size_t at = in_.position();
    TRY_ASSIGN(spelling, in_.number(wanted));
    Read v{};
    if (!parse_number(spelling, &v) || (std::is_integral_v<Read> && static_cast<Read>(static_cast<Stored>(v)) != v))
      return in_.wrong_at(at, quote(spelling), wanted);
    const auto stored = static_cast<Stored>(v);
    char bytes[sizeof stored];
    std::memcpy(bytes, &stored, sizeof stored);
    out.append(bytes, sizeof stored);
    return {};
  }

  // --- attributes

  template <class T>
  static Attribute value_of(AttrType type, T value) {
    Attribute a;
    a.type = type;
    a.value = std::move(value);
    return a;
  }

  Result<Attribute> number_value(AttrType expected) {
    constexpr std::string_view kWanted = "a value: a number, a text, a tensor, a type, a graph or '@name'";
    const size_t at = in_.position();
    TRY_ASSIGN(spelling, in_.number(kWanted));
    if (is_real(spelling) || expected == AttrType::f) {
      float v = 0;
      if (!parse_number(spelling, &v)) return in_.wrong_at(at, quote(spelling), "a number that fits into a float");
      return value_of(AttrType::f, v);
    }
    int64_t v = 0;
    if (!parse_number(spelling, &v)) return in_.wrong_at(at, quote(spelling), "an integer of 64 bits");
    return value_of(AttrType::i, v);
  }

  // A value that begins with a type: a tensor, a sparse tensor, or the type itself.
  Result<Attribute> typed_value() {
    const size_t at = in_.position();
    TRY_ASSIGN(fact, type(0));
    if (fact.kind == Kind::sparse_tensor && in_.peek() == '{') {
      TRY_ASSIGN(s, sparse(fact, at));
      return value_of(AttrType::sparse_tensor, std::vector{std::move(s)});
    }
    const char next = in_.peek();
    if (next != '{' && next != '=' && next != '"' && in_.peek_word().empty())
      return value_of(AttrType::type_proto, std::vector{std::move(fact)});
    if (next == '"' || next == '_' || is_alpha(next)) TRY(in_.name("a name").take_status());
    in_.take('=');
    TRY_ASSIGN(w, constant(fact, at));
    return value_of(AttrType::t, std::vector{std::move(w)});
  }
  Result<SparseWeight> sparse(const Fact& fact, size_t at) {
    SparseWeight out;
    std::vector<int64_t> dims;
    if (fact.shape)
      for (const Dim& d : *fact.shape) dims.push_back(d.known() ? d.value() : -1);
    Result<Shape> shape = Shape::checked(dims);
    if (!fact.shape || !shape.ok()) return in_.wrong_at(at, fact.str(), "a shape of numbers");
    out.shape = std::move(*shape);
    TRY(in_.expect('{'));
    for (Weight* part : {&out.values, &out.indices}) {
      const size_t begin = in_.position();
      TRY_ASSIGN(t, type(0));
      TRY(store(constant(t, begin), *part));
      TRY(in_.expect(part == &out.values ? ',' : '}'));
    }
    if (out.values.dtype != fact.dtype)
      return in_.wrong_at(at, format("{} values in {}", name_of(out.values.dtype), fact.str()), name_of(fact.dtype));
    return out;
  }

  Result<Attribute> graph_value(int depth) {
    TRY_ASSIGN(g, graph(depth + 1));
    return value_of(AttrType::g, std::vector{std::move(g)});
  }

  Result<Attribute> single_value(AttrType expected, int depth) {
    const size_t at = in_.position();
    if (in_.take('@')) {
      Attribute a;
      a.type = expected;
      TRY(store(in_.name("the name of an attribute"), a.ref));
      return a;
    }
    if (in_.peek() == '"') {
      TRY_ASSIGN(text, in_.string("a text"));
      if (in_.peek() != '(') return value_of(AttrType::s, std::move(text));
      in_.rewind(at);
      return graph_value(depth);
    }
    const std::string_view word = in_.peek_word();
    if (word.empty() || is_float_word(word)) return number_value(expected);
    return is_type_word(word) ? typed_value() : graph_value(depth);
  }

  // Adds the one value of `from` (a T, or a list of one) to the list in `list`; false if it is of another kind.
  template <class T, class Held = std::vector<T>>
  static bool append_as(Attribute& list, const Attribute& from) {
    const auto* held = std::get_if<Held>(&from.value);
    if (!held) return false;
    if (!std::holds_alternative<std::vector<T>>(list.value)) list.value = std::vector<T>();
    if constexpr (std::is_same_v<Held, T>)
      std::get<std::vector<T>>(list.value).push_back(*held);
    else
      std::get<std::vector<T>>(list.value).push_back(held->front());
    return true;
  }
  // A list that began with integers goes on with reals: all are reals.
  static void widen(Attribute& list) {
    std::vector<float> reals;
    for (const int64_t i : std::get<std::vector<int64_t>>(list.value)) reals.push_back(static_cast<float>(i));
    list.value = std::move(reals);
    list.type = AttrType::floats;
  }

  Result<Attribute> list_value(AttrType declared, int depth) {
    Attribute list;
    list.type = declared;
    const size_t begin = in_.position();
    TRY(items('[', ']', [&]() -> Status {
      const size_t at = in_.position();
      const AttrType expected = list.type == AttrType::floats ? AttrType::f : element_of(declared);
      TRY_ASSIGN(one, single_value(expected, depth));
      if (list.type == AttrType::ints && one.type == AttrType::f && declared == AttrType::undefined) widen(list);
      if (list.type == AttrType::undefined) list.type = list_of(one.type);
      if (!one.ref.empty() || list_of(one.type) != list.type)
        return in_.wrong_at(at, one.ref.empty() ? format("a value of type {}", word_of(one.type)) : "a reference",
                            format("a list of one type, {}", word_of(list.type)));
      append_as<int64_t, int64_t>(list, one) || append_as<float, float>(list, one) ||
          append_as<std::string, std::string>(list, one) || append_as<Weight>(list, one) ||
          append_as<SparseWeight>(list, one) || append_as<Fact>(list, one) ||
          append_as<std::shared_ptr<ir::Graph>>(list, one);
      return {};
    }));
    if (!std::holds_alternative<std::monostate>(list.value)) return list;
    switch (declared) {
      case AttrType::floats: list.value = std::vector<float>(); break;
      case AttrType::ints: list.value = std::vector<int64_t>(); break;
      case AttrType::strings: list.value = std::vector<std::string>(); break;
      case AttrType::tensors: list.value = std::vector<Weight>(); break;
      case AttrType::graphs: list.value = std::vector<std::shared_ptr<ir::Graph>>(); break;
      case AttrType::sparse_tensors: list.value = std::vector<SparseWeight>(); break;
      case AttrType::type_protos: list.value = std::vector<Fact>(); break;
      default: return in_.wrong_at(begin, "an empty list", "its type after the name, as in 'axes: ints = []'");
    }
    return list;
  }

  // What follows the name of an attribute.
  Result<Attribute> attribute_value(std::string name, int depth) {
    AttrType declared = AttrType::undefined;
    if (in_.take(':')) {
      const size_t at = in_.position();
      TRY_ASSIGN(word, in_.word("the type of an attribute"));
      for (const AttrWord& w : kAttrWords)
        if (w.word == word) declared = w.type;
      if (declared == AttrType::undefined) return in_.wrong_at(at, quote(word), "the type of an attribute");
    }
    TRY(in_.expect('='));
    const size_t at = in_.position();
    TRY_ASSIGN(a, in_.peek() == '[' ? list_value(declared, depth) : single_value(declared, depth));
    if (declared != AttrType::undefined && a.type != declared)
      return in_.wrong_at(at, format("a value of type {}", word_of(a.type)), word_of(declared));
    a.name = std::move(name);
    return std::move(a);
  }

  Status attributes(std::vector<Attribute>& out, int depth) {
    return items('<', '>', [&]() -> Status {
      const size_t at = in_.position();
      TRY_ASSIGN(name, in_.name("the name of an attribute"));
      TRY_ASSIGN(a, attribute_value(name, depth));
      for (const Attribute& other : out)
        if (other.name == a.name) return in_.wrong_at(at, format("attribute {} again", quote(name)), "each once");
      out.push_back(std::move(a));
      return {};
    });
  }

  // --- nodes and graphs

  // Names up to something that is none; an absent one is "" or nothing before a comma.
  Status names(std::vector<std::string>& out) {
    for (;;) {
      if (in_.peek() == '"' || !in_.peek_word().empty()) {
        TRY_ASSIGN(name, in_.name("a name"));
        out.push_back(std::move(name));
      } else if (in_.peek() == ',') {
        out.emplace_back();
      } else {
        return {};
      }
      if (!in_.take(',')) return {};
    }
  }

  Status operator_name(ir::Node& n) {
    TRY(store(in_.name("an operator"), n.op_type));
    while (in_.take('.')) {
      if (!n.domain.empty()) n.domain += '.';
      n.domain += n.op_type;
      TRY(store(in_.name("an operator"), n.op_type));
    }
    n.domain = plain_domain(std::move(n.domain));
    return in_.take(':') ? store(in_.name("an overload"), n.overload) : Status{};
  }

  Status node(GraphBuilder& builder, int depth) {
    ir::Node n;
    if (in_.take('[')) {
      if (in_.peek() != ']') TRY(store(in_.name("the name of a node"), n.name));
      TRY(in_.expect(']'));
    }
    std::vector<std::string> inputs, outputs;
    const size_t at = in_.position();
    TRY(names(outputs));
    if (!in_.take('=')) return in_.wrong(outputs.empty() ? "a node or '}'" : "',' or '='");
    TRY(operator_name(n));
    if (in_.peek() == '<') TRY(attributes(n.attributes, depth));
    TRY(in_.expect('('));
    TRY(names(inputs));
    if (!in_.take(')')) return in_.wrong("a name, ',' or ')'");
    if (n.attributes.empty() && in_.peek() == '<') TRY(attributes(n.attributes, depth));
    for (const auto& [domain, version] : opsets_)
      if (domain == n.domain) n.version = static_cast<int>(version);
    if (n.version == 0) unimported_.push_back({at, n.domain, n.title()});
    const std::vector<std::string_view> in(inputs.begin(), inputs.end()), out(outputs.begin(), outputs.end());
    return at_place(builder.node(std::move(n), in, out), at);
  }
  Status nodes(GraphBuilder& builder, int depth) {
    TRY(in_.expect('{'));
    while (!in_.take('}')) TRY(node(builder, depth));
    return {};
  }

  // Constants and types between '<' and '>'; types are told once the nodes are known.
  Status declarations(GraphBuilder& builder, std::vector<Declared>& types) {
    return items('<', '>', [&]() -> Status {
      const size_t at = in_.position();
      TRY_ASSIGN(d, declaration());
      if (in_.take('=')) {
        if (d.fact.kind == Kind::sparse_tensor) {
          TRY_ASSIGN(s, sparse(d.fact, at));
          return at_place(builder.initializer(d.name, Weight::from(std::move(s))), at);
        }
        TRY_ASSIGN(w, constant(d.fact, at));
        return at_place(builder.initializer(d.name, std::move(w)), at);
      }
      types.push_back(std::move(d));
      return {};
    });
  }

  Result<std::shared_ptr<ir::Graph>> graph(int depth) {
    if (depth > kDeepest)
      return in_.wrong_at(in_.position(), "one more graph inside", format("at most {} levels", kDeepest));
    GraphBuilder builder(dims_);
    TRY_ASSIGN(name, in_.name("the name of a graph"));
    builder.describe(name, {}, {});
    TRY(items('(', ')', [&]() -> Status {
      const size_t at = in_.position();
      TRY_ASSIGN(d, declaration());
      TRY(at_place(builder.input(d.name, d.fact), at));
      if (!in_.take('=')) return {};
      TRY_ASSIGN(w, constant(d.fact, at));
      return at_place(builder.initializer(d.name, std::move(w)), at);
    }));
    TRY(in_.expect_arrow());
    TRY(items('(', ')', [&]() -> Status {
      TRY_ASSIGN(d, declaration());
      builder.output(d.name, std::move(d.fact));
      return {};
    }));
    std::vector<Declared> types;
    if (in_.peek() == '<') TRY(declarations(builder, types));
    TRY(nodes(builder, depth));
    for (Declared& d : types) builder.value_info(d.name, std::move(d.fact));
    if (ir_version_ < 4) builder.fix_initializers();
    return builder.finish();
  }

  // --- functions

  Status function_header(Function& f) {
    constexpr std::string_view kKeys = "domain, overload, opset_import or doc_string";
    return items('<', '>', [&]() -> Status {
      const size_t at = in_.position();
      TRY_ASSIGN(key, in_.word(kKeys));
      TRY(in_.expect(':'));
      if (key == "opset_import") return opset_list(f.opsets);
      if (key != "domain" && key != "overload" && key != "doc_string") return in_.wrong_at(at, quote(key), kKeys);
      TRY_ASSIGN(text, in_.string("a text in quotes"));
      if (key == "domain") f.domain = plain_domain(std::move(text));
      if (key == "overload") f.overload = std::move(text);
      return {};
    });
  }

  Result<Function> function(const Model& m) {
    Function f;
    if (in_.peek() == '<') TRY(function_header(f));
    TRY(store(in_.name("the name of a function"), f.name));
    // A function may call functions of domains the model knows.
    for (const auto& o : m.opsets)
      if (std::none_of(f.opsets.begin(), f.opsets.end(), [&](const auto& p) { return p.first == o.first; }))
        f.opsets.push_back(o);
    opsets_ = f.opsets;
    if (in_.peek() == '<')
      TRY(items('<', '>', [&]() -> Status {
        TRY_ASSIGN(name, in_.name("the name of an attribute"));
        if (in_.peek() != ':' && in_.peek() != '=') {
          f.attribute_names.push_back(std::move(name));
          return {};
        }
        TRY_ASSIGN(a, attribute_value(std::move(name), 0));
        f.attribute_defaults.push_back(std::move(a));
        return {};
      }));
    TRY(function_body(f));
    return f;
  }

  Status function_body(Function& f) {
    GraphBuilder builder(dims_);
    std::vector<Declared> types, outputs;
    TRY(items('(', ')', [&]() -> Status {
      const size_t at = in_.position();
      TRY_ASSIGN(d, declaration());
      return at_place(builder.input(d.name, std::move(d.fact)), at);
    }));
    TRY(in_.expect_arrow());
    TRY(items('(', ')', [&]() -> Status {
      TRY_ASSIGN(d, declaration());
      outputs.push_back(std::move(d));
      return {};
    }));
    if (in_.peek() == '<')
      TRY(items('<', '>', [&]() -> Status {
        TRY_ASSIGN(d, declaration());
        types.push_back(std::move(d));
        return {};
      }));
    TRY(nodes(builder, 0));
    for (Declared& d : outputs) builder.output(d.name, std::move(d.fact));
    for (Declared& d : types) builder.value_info(d.name, std::move(d.fact));
    f.body = builder.finish();
    return GraphBuilder::bind_scopes(*f.body).in(format("function {}", quote(f.name)));
  }

  Scanner in_;
  std::shared_ptr<DimPool> dims_;
  Opsets opsets_;
  std::vector<Unimported> unimported_;
  int64_t ir_version_ = INT64_MAX;
};

}  // namespace

Result<Model> parse_text(std::string_view text) { return Parser(text, std::make_shared<DimPool>()).model(); }

Result<std::shared_ptr<ir::Graph>> parse_graph_text(std::string_view text,
                                                    std::span<const std::pair<std::string, int64_t>> opsets,
                                                    std::shared_ptr<DimPool> dims) {
  return Parser(text, std::move(dims)).lone_graph(opsets);
}

}  // namespace tessera
