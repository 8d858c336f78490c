#include <charconv>
#include <cmath>
#include <cstring>

#include "ir/text.h"
#include "ir/text_words.h"

namespace tessera {
namespace {

using namespace text;

template <class T>
void append_number(std::string& out, T v) {
  if constexpr (std::is_floating_point_v<T>)
    if (std::isnan(v)) {
      out += std::signbit(v) ? "-nan" : "nan";
      return;
    }
  char digits[40];
  out.append(digits, std::to_chars(digits, digits + sizeof digits, v).ptr);
}

// A float that cannot be taken for an integer.
void append_real(std::string& out, float v) {
  const size_t before = out.size();
  append_number(out, v);
  if (out.find_first_not_of("-0123456789", before) == out.npos) out += ".0";
}

void append_quoted(std::string& out, std::string_view s) {
  out += '"';
  for (const char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    out += c;
  }
  out += '"';
}

template <class Stored, class Shown>
void append_each(std::string& out, const void* data, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    Stored v;
    std::memcpy(&v, static_cast<const char*>(data) + static_cast<size_t>(i) * sizeof v, sizeof v);
    if (i) out += ", ";
    append_number(out, static_cast<Shown>(v));
  }
}

// The first n literals of a tensor's elements.
void append_literals(std::string& out, const Tensor& t, int64_t n) {
  switch (t.dtype()) {
    case DType::string:
      for (int64_t i = 0; i < n; ++i) {
        if (i) out += ", ";
        append_quoted(out, t.values<std::string>()[static_cast<size_t>(i)]);
      }
      return;
    case DType::f32:
    case DType::c64: return append_each<float, float>(out, t.data(), n);
    case DType::f64:
    case DType::c128: return append_each<double, double>(out, t.data(), n);
    case DType::i8: return append_each<int8_t, int>(out, t.data(), n);
    case DType::i16: return append_each<int16_t, int>(out, t.data(), n);
    case DType::i32: return append_each<int32_t, int32_t>(out, t.data(), n);
    case DType::i64: return append_each<int64_t, int64_t>(out, t.data(), n);
    case DType::u16:
    case DType::f16:
    case DType::bf16: return append_each<uint16_t, unsigned>(out, t.data(), n);
    case DType::u32: return append_each<uint32_t, uint32_t>(out, t.data(), n);
    case DType::u64: return append_each<uint64_t, uint64_t>(out, t.data(), n);
    default: return append_each<uint8_t, unsigned>(out, t.data(), n);
  }
}

class Printer {
 public:
  explicit Printer(const TextOptions& options) : options_(options) {}

  void model(const Model& m) {
    ir_version_ = m.ir_version;
    out_ += "<\n  ir_version: ";
    append_number(out_, m.ir_version);
    out_ += ",\n  opset_import: ";
    opsets(m.opsets);
    header("producer_name", m.producer_name);
    header("producer_version", m.producer_version);
    header("domain", m.domain);
    if (m.model_version) {
      out_ += ",\n  model_version: ";
      append_number(out_, m.model_version);
    }
    header("doc_string", m.doc);
    if (!m.metadata.empty()) {
      out_ += ",\n  metadata_props: ";
      entries(m.metadata);
    }
    out_ += "\n>\n";
    graph(*m.graph);
    out_ += '\n';
    for (const Function& f : m.functions) function(f);
  }

  void graph(const ir::Graph& g) {
    name(g.name());
    out_ += " (";
    const std::vector<ir::ValueId> constants = initializers(g);
    bool first = true;
    for (const ir::ValueId id : g.inputs()) value_info(g.value(id), first);
    // Before IR version 4 every initializer is an input too.
    if (ir_version_ < 4)
      for (const ir::ValueId id : constants)
        if (!g.value(id).is_input) value_info(g.value(id), first);
    out_ += ") => (";
    first = true;
    for (const ir::ValueId id : g.outputs()) value_info(g.value(id), first);
    out_ += ')';
    const std::vector<ir::NodeId> order = order_of(g);
    declarations(g, constants, order);
    nodes(g, order);
  }

  std::string take() { return std::move(out_); }

 private:
  void line() {
    out_ += '\n';
    out_.append(static_cast<size_t>(indent_), ' ');
  }
  void header(std::string_view key, std::string_view value) {
    if (value.empty()) return;
    out_ += ",\n  ";
    out_ += key;
    out_ += ": ";
    append_quoted(out_, value);
  }

  // Where a type, a number or a graph could stand too.
  void name(std::string_view s) {
    if (is_identifier(s) && !is_type_word(s) && !is_float_word(s))
      out_ += s;
    else
      append_quoted(out_, s);
  }
  // Where nothing but a name can stand.
  void plain_name(std::string_view s) {
    if (is_identifier(s))
      out_ += s;
    else
      append_quoted(out_, s);
  }
  // Names joined by dots stay bare where each is an identifier.
  void domain(std::string_view s) {
    bool bare = true;
    for (size_t from = 0; from <= s.size();) {
      const size_t dot = std::min(s.find('.', from), s.size());
      bare = bare && is_identifier(s.substr(from, dot - from));
      from = dot + 1;
    }
    if (bare)
      out_ += s;
    else
      append_quoted(out_, s);
  }

  void opsets(const std::vector<std::pair<std::string, int64_t>>& list) {
    const char* separator = "[";
    for (const auto& [domain, version] : list) {
      out_ += separator;
      append_quoted(out_, domain);
      out_ += " : ";
      append_number(out_, version);
      separator = ", ";
    }
    out_ += list.empty() ? "[]" : "]";
  }
  void entries(const std::vector<std::pair<std::string, std::string>>& list) {
    const char* separator = "[";
    for (const auto& [key, value] : list) {
      out_ += separator;
      append_quoted(out_, key);
      out_ += ": ";
      append_quoted(out_, value);
      separator = ", ";
    }
    out_ += ']';
  }

  // The names DimPool::fresh gives.
  static bool is_anonymous(std::string_view s) {
    constexpr std::string_view kPrefix = "unknown_";
    return s.starts_with(kPrefix) && s.find_first_not_of("0123456789", kPrefix.size()) == s.npos;
  }
  void dims(const Fact& f) {
    if (!f.shape) out_ += "[]";
    if (!f.shape || f.shape->empty()) return;
    char separator = '[';
    for (const Dim& d : *f.shape) {
      out_ += separator;
      separator = ',';
      if (d.known()) {
        append_number(out_, d.value());
      } else if (const std::string s = d.str(); is_anonymous(s)) {
        out_ += '?';
      } else {
        name(s);
      }
    }
    out_ += ']';
  }
  void type(const Fact& f) {
    switch (f.kind) {
      case Kind::tensor: out_ += name_of(f.dtype); return dims(f);
      case Kind::sparse_tensor:
        out_ += "sparse_tensor(";
        out_ += name_of(f.dtype);
        dims(f);
        break;
      case Kind::sequence: out_ += "seq("; break;
      case Kind::optional: out_ += "optional("; break;
      case Kind::map:
        out_ += "map(";
        out_ += name_of(f.key);
        out_ += ", ";
        break;
      case Kind::opaque: out_ += "opaque("; break;
      case Kind::unknown: return;
    }
    if (f.element) type(*f.element);
    out_ += ')';
  }
  // The syntax has a word for every part of it.
  static bool can_say(const Fact& f) {
    switch (f.kind) {
      case Kind::tensor:
      case Kind::sparse_tensor: return f.dtype != DType::undefined;
      case Kind::sequence:
      case Kind::optional: return f.element && can_say(*f.element);
      case Kind::map: return f.key != DType::undefined && f.element && can_say(*f.element);
      case Kind::opaque: return true;
      default: return false;
    }
  }

  void value_info(const ir::ValueInfo& v, bool& first) {
    if (!first) out_ += ", ";
    first = false;
    if (can_say(v.fact)) {
      type(v.fact);
      out_ += ' ';
    }
    name(v.name);
  }

  void tensor_type(const Weight& w) {
    out_ += name_of(w.dtype);
    char separator = '[';
    for (const int64_t d : w.shape.dims()) {
      out_ += separator;
      append_number(out_, d);
      separator = ',';
    }
    if (w.shape.rank()) out_ += ']';
  }
  void tensor_data(const Weight& w) {
    if (!w.location.empty()) {
      std::vector<std::pair<std::string, std::string>> list = {
          {"location", w.location}, {"offset", format("{}", w.location_offset)}, {"length", format("{}", w.bytes())}};
      if (!w.checksum.empty()) list.emplace_back("checksum", w.checksum);
      return entries(list);
    }
    const Result<Tensor> t = w.tensor();
    if (!t.ok()) {
      out_ += "{...}";
      return;
    }
    const int64_t all = literals_for(w.dtype, w.shape.count());
    const bool whole = w.shape.count() <= options_.most_elements;
    const int64_t shown = whole ? all : std::min(all, std::max<int64_t>(options_.most_elements, 0));
    out_ += '{';
    append_literals(out_, *t, shown);
    if (!whole) out_ += shown ? ", ..." : "...";
    out_ += '}';
  }
  void constant(const Weight& w) {
    tensor_type(w);
    out_ += w.location.empty() ? " " : " = ";
    tensor_data(w);
  }
  void sparse_type(const SparseWeight& s) {
    out_ += "sparse_tensor(";
    Weight whole;
    whole.dtype = s.values.dtype;
    whole.shape = s.shape;
    tensor_type(whole);
    out_ += ')';
  }
  void sparse_data(const SparseWeight& s) {
    out_ += '{';
    constant(s.values);
    out_ += ", ";
    constant(s.indices);
    out_ += '}';
  }
  void sparse(const SparseWeight& s) {
    sparse_type(s);
    out_ += ' ';
    sparse_data(s);
  }

  void subgraph(const std::shared_ptr<ir::Graph>& g) {
    indent_ += 2;
    graph(*g);
    indent_ -= 2;
  }

  template <class T, class F>
  void list(const std::vector<T>& items, bool single, F&& one) {
    if (!single) out_ += '[';
    for (size_t i = 0; i < items.size(); ++i) {
      if (i) out_ += ", ";
      one(items[i]);
    }
    if (!single) out_ += ']';
  }

  void attribute(const ir::Attribute& a) {
    plain_name(a.name);
    const bool empty = std::visit(
        [](const auto& v) {
          if constexpr (requires { v.empty(); } && !std::is_same_v<std::decay_t<decltype(v)>, std::string>)
            return v.empty();
          else
            return false;
        },
        a.value);
    if (empty || !a.ref.empty())
      for (const AttrWord& w : kAttrWords)
        if (w.type == a.type) {
          out_ += ": ";
          out_ += w.word;
        }
    out_ += " = ";
    if (!a.ref.empty()) {
      out_ += '@';
      plain_name(a.ref);
      return;
    }
    using ir::AttrType;
    const bool single = a.type == AttrType::t || a.type == AttrType::g || a.type == AttrType::sparse_tensor ||
                        a.type == AttrType::type_proto;
    if (const auto* v = std::get_if<int64_t>(&a.value)) append_number(out_, *v);
    if (const auto* v = std::get_if<float>(&a.value)) append_real(out_, *v);
    if (const auto* v = std::get_if<std::string>(&a.value)) append_quoted(out_, *v);
    if (const auto* v = std::get_if<std::vector<int64_t>>(&a.value))
      list(*v, false, [&](int64_t x) { append_number(out_, x); });
    if (const auto* v = std::get_if<std::vector<float>>(&a.value))
      list(*v, false, [&](float x) { append_real(out_, x); });
    if (const auto* v = std::get_if<std::vector<std::string>>(&a.value))
      list(*v, false, [&](const std::string& x) { append_quoted(out_, x); });
    if (const auto* v = std::get_if<std::vector<Weight>>(&a.value))
      list(*v, single, [&](const Weight& x) { constant(x); });
    if (const auto* v = std::get_if<std::vector<SparseWeight>>(&a.value))
      list(*v, single, [&](const SparseWeight& x) { sparse(x); });
    if (const auto* v = std::get_if<std::vector<std::shared_ptr<ir::Graph>>>(&a.value))
      list(*v, single, [&](const std::shared_ptr<ir::Graph>& x) { subgraph(x); });
    if (const auto* v = std::get_if<std::vector<Fact>>(&a.value)) list(*v, single, [&](const Fact& x) { type(x); });
  }
  void attributes(const std::vector<ir::Attribute>& all) {
    const char* separator = " <";
    for (const ir::Attribute& a : all) {
      out_ += separator;
      attribute(a);
      separator = ", ";
    }
    if (!all.empty()) out_ += '>';
  }

  void arguments(const ir::Graph& g, const std::vector<ir::ValueId>& ids) {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (i) out_ += ", ";
      name(ids[i] == ir::kNone ? std::string_view() : g.value(ids[i]).name);
    }
  }
  void node(const ir::Graph& g, const ir::Node& n) {
    if (!n.name.empty()) {
      out_ += '[';
      plain_name(n.name);
      out_ += "] ";
    }
    arguments(g, n.outputs);
    out_ += n.outputs.empty() ? "= " : " = ";
    if (!n.domain.empty()) {
      domain(n.domain);
      out_ += '.';
    }
    plain_name(n.op_type);
    if (!n.overload.empty()) {
      out_ += ':';
      plain_name(n.overload);
    }
    bool graphs = false;
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>&) { graphs = true; });
    if (!graphs) attributes(n.attributes);
    out_ += " (";
    arguments(g, n.inputs);
    out_ += ')';
    if (graphs) attributes(n.attributes);
  }

  // A graph with a cycle is printed as it is listed.
  static std::vector<ir::NodeId> order_of(const ir::Graph& g) {
    if (Result<std::vector<ir::NodeId>> order = ir::topological_order(g); order.ok()) return std::move(*order);
    std::vector<ir::NodeId> listed;
    for (ir::NodeId i = 0; i < g.nodes().size(); ++i)
      if (!g.node(i).dead) listed.push_back(i);
    return listed;
  }
  void nodes(const ir::Graph& g, const std::vector<ir::NodeId>& order) {
    out_ += " {";
    indent_ += 2;
    for (const ir::NodeId id : order) {
      line();
      node(g, g.node(id));
    }
    indent_ -= 2;
    line();
    out_ += '}';
  }

  static std::vector<ir::ValueId> initializers(const ir::Graph& g) {
    std::vector<ir::ValueId> out;
    for (ir::ValueId id = 0; id < g.values().size(); ++id)
      if (g.value(id).source == ir::Source::initializer) out.push_back(id);
    std::sort(out.begin(), out.end(),
              [&](ir::ValueId a, ir::ValueId b) { return g.value(a).weight < g.value(b).weight; });
    return out;
  }
  // Constants, and the types of values that are no inputs or outputs.
  void declarations(const ir::Graph& g, const std::vector<ir::ValueId>& constants,
                    const std::vector<ir::NodeId>& order) {
    const char* separator = " <";
    const auto begin = [&] {
      out_ += separator;
      separator = ",";
      line();
    };
    indent_ += 2;
    for (const ir::ValueId id : constants) {
      begin();
      const Weight& w = *g.weight_of(id);
      w.sparse ? sparse_type(*w.sparse) : tensor_type(w);
      out_ += ' ';
      name(g.value(id).name);
      out_ += " = ";
      w.sparse ? sparse_data(*w.sparse) : tensor_data(w);
    }
    for (const ir::NodeId n : order)
      for (const ir::ValueId id : g.node(n).outputs) {
        if (id == ir::kNone || g.value(id).is_output || !can_say(g.value(id).fact)) continue;
        begin();
        bool first = true;
        value_info(g.value(id), first);
      }
    indent_ -= 2;
    if (*separator != ',') return;
    line();
    out_ += '>';
  }

  void function(const Function& f) {
    out_ += "\n<\n  domain: ";
    append_quoted(out_, f.domain);
    header("overload", f.overload);
    out_ += ",\n  opset_import: ";
    opsets(f.opsets);
    out_ += "\n>\n";
    name(f.name);
    const char* separator = " <";
    for (const std::string& a : f.attribute_names) {
      out_ += separator;
      plain_name(a);
      separator = ", ";
    }
    for (const ir::Attribute& a : f.attribute_defaults) {
      out_ += separator;
      attribute(a);
      separator = ", ";
    }
    out_ += *separator == ',' ? "> (" : " (";
    const ir::Graph& g = *f.body;
    bool first = true;
    for (const ir::ValueId id : g.inputs()) value_info(g.value(id), first);
    out_ += ") => (";
    first = true;
    for (const ir::ValueId id : g.outputs()) value_info(g.value(id), first);
    out_ += ')';
    const std::vector<ir::NodeId> order = order_of(g);
    declarations(g, {}, order);
    nodes(g, order);
    out_ += '\n';
  }

  const TextOptions& options_;
  std::string out_;
  int indent_ = 0;
  int64_t ir_version_ = INT64_MAX;
};

}  // namespace

std::string to_text(const Model& model, const TextOptions& options) {
  Printer p(options);
  p.model(model);
  return p.take();
}

std::string to_text(const ir::Graph& graph, const TextOptions& options) {
  Printer p(options);
  p.graph(graph);
  return p.take() + "\n";
}

}  // namespace tessera
