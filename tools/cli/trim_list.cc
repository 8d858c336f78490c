#include "trim_list.h"

#include <charconv>
#include <nlohmann/json.hpp>

#include "base/file.h"
#include "common/load.h"
#include "ir/inline.h"
#include "ops/op.h"
#include "ops/resolve.h"

namespace tessera::cli {
namespace {

using nlohmann::json;

std::string plain_domain(std::string_view domain) { return domain == "ai.onnx" ? std::string() : std::string(domain); }

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r"), end = text.find_last_not_of(" \t\r");
  return begin == text.npos ? std::string_view() : text.substr(begin, end - begin + 1);
}

// Parts between separators that stand in no braces.
std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> out;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    const bool end = i == text.size();
    if (!end) depth += text[i] == '{' || text[i] == '[' ? 1 : text[i] == '}' || text[i] == ']' ? -1 : 0;
    if (!end && (text[i] != separator || depth > 0)) continue;
    out.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  return out;
}

Result<std::string> read_text(const std::string& path) {
  TRY_ASSIGN(bytes, map_file(path));
  return std::string(reinterpret_cast<const char*>(bytes->data()), bytes->size());
}

// --- models

// The name that ONNX Runtime's lists have for an element type.
std::string type_name(DType t) {
  switch (t) {
    case DType::f64: return "double";
    case DType::f16: return "MLFloat16";
    case DType::bf16: return "BFloat16";
    case DType::string: return "std::string";
    case DType::f32:
    case DType::boolean: return std::string(name_of(t));
    default: return std::string(name_of(t)) + (kInts.has(t) ? "_t" : "");
  }
}

void note_types(const ir::Graph& g, const std::vector<ir::ValueId>& values, std::map<int, std::set<std::string>>& out) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] == ir::kNone) continue;
    const Fact& f = g.value(values[i]).fact;
    if (f.is_tensor() && f.dtype != DType::undefined) out[static_cast<int>(i)].insert(type_name(f.dtype));
  }
}

void add_nodes(const ir::Graph& g, OperatorList& out) {
  for (const ir::Node& n : g.nodes()) {
    if (!n.dead) {
      Needed& needed = out[{n.domain, n.op_type}];
      needed.opsets.insert(n.version);
      note_types(g, n.inputs, needed.inputs);
      note_types(g, n.outputs, needed.outputs);
    }
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) { add_nodes(*sub, out); });
  }
}

// --- configurations

Status add_types(const json& types, const char* which, std::map<int, std::set<std::string>>& out) {
  if (!types.contains(which)) return {};
  for (const auto& [index, names] : types[which].items()) {
    int i = -1;
    std::from_chars(index.data(), index.data() + index.size(), i);
    if (i < 0 || !names.is_array()) return invalid("wanted {{\"{}\": {{\"0\": [\"float\"]}}}}", which);
    for (const json& name : names)
      if (name.is_string()) out[i].insert(name.get<std::string>());
  }
  return {};
}

Status add_operator(std::string_view text, const std::string& domain, const std::set<int>& opsets, OperatorList& out) {
  const size_t brace = std::min(text.find('{'), text.size());
  const std::string name(trimmed(text.substr(0, brace)));
  if (name.empty()) return {};
  Needed& needed = out[{domain, name}];
  needed.opsets.insert(opsets.begin(), opsets.end());
  if (brace == text.size()) return {};
  const json types = json::parse(text.substr(brace), nullptr, false);
  if (!types.is_object()) return invalid("the types of {} are no JSON object", quote(name));
  for (const bool input : {true, false})
    if (Status s = add_types(types, input ? "inputs" : "outputs", input ? needed.inputs : needed.outputs); !s.ok())
      return std::move(s).in(quote(name));
  return {};
}

Status add_line(std::string_view line, OperatorList& out) {
  if (line.empty() || line[0] == '#') return {};
  // Types that are allowed everywhere change nothing here: kernels take every type that the standard allows.
  if (line.starts_with("!globally_allowed_types")) return {};
  if (line[0] == '!') return invalid("{} is not supported", quote(line));
  const auto parts = split(line, ';');
  if (parts.size() != 3) return invalid("wanted domain;opsets;operators");
  std::set<int> opsets;
  for (const std::string_view text : split(parts[1], ',')) {
    int version = 0;
    const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), version);
    if (ec != std::errc() || end != text.data() + text.size() || version < 1)
      return invalid("{} is no operator set", quote(text));
    opsets.insert(version);
  }
  for (const std::string_view text : split(parts[2], ',')) TRY(add_operator(text, plain_domain(parts[0]), opsets, out));
  return {};
}

json types_of(const std::map<int, std::set<std::string>>& types) {
  json out = json::object();
  for (const auto& [i, names] : types) out[std::to_string(i)] = names;
  return out;
}

}  // namespace

std::string shown(const OperatorKey& key) { return (key.first.empty() ? "ai.onnx" : key.first) + ":" + key.second; }

Status add_model(const std::string& path, OperatorList& out) {
  TRY_ASSIGN(model, load_model_file(path));
  TRY(ir::inline_functions(model));
  SessionOptions options;
  options.optimization_level = 0;
  options.pack_file = "off";
  options.pack_weights = false;
  TRY_ASSIGN(session, open_session(path, options));
  add_nodes(*session->model().graph, out);  // with types, after unfolding
  OperatorList as_written;
  add_nodes(*model.graph, as_written);
  for (const auto& [key, needed] : as_written) out[key].opsets.insert(needed.opsets.begin(), needed.opsets.end());
  return {};
}

Status add_config(const std::string& path, OperatorList& out) {
  TRY_ASSIGN(text, read_text(path));
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    if (Status s = add_line(line, out); !s.ok()) return std::move(s).in(format("{} line {}", quote(path), number));
  }
  return {};
}

std::string to_config(const OperatorList& list) {
  std::map<std::string, std::string> lines;  // by what stands before the operators
  for (const auto& [key, needed] : list) {
    std::string head = (key.first.empty() ? "ai.onnx" : key.first) + ";";
    for (const int v : needed.opsets) head += (head.back() == ';' ? "" : ",") + std::to_string(v);
    std::string op = key.second;
    json types = json::object();
    if (!needed.inputs.empty()) types["inputs"] = types_of(needed.inputs);
    if (!needed.outputs.empty()) types["outputs"] = types_of(needed.outputs);
    if (!types.empty()) op += types.dump();
    std::string& line = lines[head];
    line += (line.empty() ? "" : ",") + op;
  }
  std::string out = "# Operators and the types that they see: domain;operator sets;operators.\n";
  for (const auto& [head, ops] : lines) out += head + ";" + ops + "\n";
  return out;
}

Result<OperatorFiles> OperatorFiles::read(const std::string& source) {
  OperatorFiles out;
  out.folder_ = source + "/src/ops/";
  Result<std::string> text = read_text(out.folder_ + "ops.txt");
  if (!text.ok())
    return error(text.status().code(), "{}; --source wants the folder of Tessera's sources", text.status().message());
  for (const std::string_view line : split(*text, '\n')) {
    if (line.empty() || line[0] == '#') continue;
    const auto words = split(line, ' ');
    for (size_t i = 1; i < words.size(); ++i) {
      const size_t colon = words[i].rfind(':');
      const bool plain = colon == std::string_view::npos;
      const std::string domain(plain ? std::string_view() : words[i].substr(0, colon));
      out.files_[{domain, std::string(words[i].substr(plain ? 0 : colon + 1))}] = words[0];
    }
  }
  return out;
}

Status OperatorFiles::add_parts(OperatorList& list) const {
  std::vector<OperatorKey> waiting;
  for (const auto& [key, needed] : list) waiting.push_back(key);
  while (!waiting.empty()) {
    const OperatorKey key = waiting.back();
    waiting.pop_back();
    const Op* op = find_op(key.first, key.second);
    const auto file = files_.find(key);
    if (!op || !op->compose || file == files_.end()) continue;
    TRY_ASSIGN(text, read_text(folder_ + file->second));
    for (const auto& [other, other_file] : files_) {
      if (!other.first.empty() || text.find('"' + other.second + '"') == text.npos) continue;
      if (list.try_emplace(other).second) waiting.push_back(other);
    }
  }
  return {};
}

Result<std::string> OperatorFiles::to_list(const OperatorList& list) const {
  std::map<std::string, std::string> lines;
  for (const auto& [key, needed] : list) {
    const auto file = files_.find(key);
    if (file == files_.end()) return not_implemented("the sources in {} have no operator {}", folder_, shown(key));
    lines[file->second] += " " + (key.first.empty() ? "" : key.first + ":") + key.second;
  }
  std::string out = "# Operators of a trimmed library; src/ops/ops.txt has all of them.\n";
  for (const auto& [file, names] : lines) out += file + names + "\n";
  return out;
}

}  // namespace tessera::cli
