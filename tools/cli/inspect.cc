// tessera inspect: what a model file says, and the plan made of it.
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "commands.h"
#include "common/load.h"
#include "common/show.h"
#include "ir/text.h"
#include "report.h"

namespace tessera::cli {
namespace {

struct Options {
  std::string model;
  bool text = false, full = false, json = false, ops = false, shapes = false;
};

struct Parameters {
  int64_t count = 0, bytes = 0;
  std::map<std::string, int64_t> by_origin;  // bytes
};

struct Facts {
  std::map<std::string, int64_t> ops;  // "domain.Op" with its number of nodes, subgraphs and functions included
  int64_t nodes = 0, subgraphs = 0;
  Parameters parameters;

  void add_weight(const Weight& w) {
    parameters.count += w.shape.count();
    parameters.bytes += w.bytes();
    parameters.by_origin[!w.location.empty() ? "external data"
                         : w.range.source    ? "model file"
                                             : "decoded"] += w.bytes();
  }
  void add(const ir::Graph& g) {
    for (const Weight& w : g.weights()) add_weight(w);
    for (const ir::Node& n : g.nodes()) {
      if (n.dead) continue;
      ++nodes;
      ++ops[n.domain.empty() ? n.op_type : n.domain + "." + n.op_type];
      for (const ir::Attribute& a : n.attributes)
        if (const auto* tensors = std::get_if<std::vector<Weight>>(&a.value))
          for (const Weight& w : *tensors) add_weight(w);
      ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
        ++subgraphs;
        add(*sub);
      });
    }
  }
};

std::vector<std::pair<std::string, int64_t>> by_count(const Facts& f) {
  std::vector<std::pair<std::string, int64_t>> out(f.ops.begin(), f.ops.end());
  std::stable_sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return out;
}

// Inputs that callers must or may give; initializers among them may be left out.
std::string value_line(const ir::ValueInfo& v) {
  return format("  {} {}{}\n", v.fact.kind == Kind::unknown ? "(no type)" : v.fact.str(), quote(v.name),
                v.is_input && v.source == ir::Source::initializer ? " (has a default)" : "");
}

void print_text(const Options& o, const Model& m, const Facts& f, const Result<std::shared_ptr<Session>>& session) {
  constexpr size_t kMostOps = 12;
  std::printf("model %s\n", quote(o.model).c_str());
  const auto line = [](const char* key, const std::string& value) {
    if (!value.empty()) std::printf("  %-12s %s\n", key, value.c_str());
  };
  std::string opsets, producer = m.producer_name;
  for (const auto& [domain, version] : m.opsets)
    opsets += (opsets.empty() ? "" : ", ") + format("{} {}", domain.empty() ? "ai.onnx" : domain, version);
  if (!m.producer_version.empty()) producer += " " + m.producer_version;
  line("producer", producer);
  line("domain", m.domain);
  line("version", m.model_version ? format("{}", m.model_version) : "");
  line("IR version", format("{}", m.ir_version));
  line("opsets", opsets);
  line("graph", quote(m.graph->name()));
  line("functions", m.functions.empty() ? "" : format("{}", m.functions.size()));
  for (const auto& [key, value] : m.metadata) line("metadata", format("{} = {}", quote(key), quote(value)));
  std::printf("inputs\n");
  for (const ir::ValueId id : m.graph->inputs()) std::printf("%s", value_line(m.graph->value(id)).c_str());
  std::printf("outputs\n");
  for (const ir::ValueId id : m.graph->outputs()) std::printf("%s", value_line(m.graph->value(id)).c_str());
  std::printf("operators     %s nodes of %zu kinds%s\n", human_count(f.nodes).c_str(), f.ops.size(),
              f.subgraphs ? format(", {} subgraphs", f.subgraphs).c_str() : "");
  const auto ops = by_count(f);
  for (size_t i = 0; i < ops.size() && (o.ops || i < kMostOps); ++i)
    std::printf("  %6s  %s\n", human_count(ops[i].second).c_str(), ops[i].first.c_str());
  if (!o.ops && ops.size() > kMostOps) std::printf("          and %zu more (--ops shows all)\n", ops.size() - kMostOps);
  std::printf("parameters    %s, %s\n", human_count(f.parameters.count).c_str(),
              human_bytes(f.parameters.bytes).c_str());
  for (const auto& [origin, bytes] : f.parameters.by_origin)
    std::printf("  %-14s %s\n", origin.c_str(), human_bytes(bytes).c_str());
  if (session.ok())
    std::printf("%s", plan_text(**session).c_str());
  else
    std::printf("plan\n  none: %s\n", session.status().message().c_str());
}

void print_json(const Options& o, const Model& m, const Facts& f, const Result<std::shared_ptr<Session>>& session) {
  using nlohmann::json;
  json out = {{"model", o.model},
              {"ir_version", m.ir_version},
              {"producer_name", m.producer_name},
              {"producer_version", m.producer_version},
              {"domain", m.domain},
              {"model_version", m.model_version},
              {"graph", m.graph->name()},
              {"nodes", f.nodes},
              {"subgraphs", f.subgraphs},
              {"functions", m.functions.size()},
              {"operators", f.ops},
              {"parameters", f.parameters.count},
              {"parameter_bytes", f.parameters.bytes},
              {"parameter_bytes_by_origin", f.parameters.by_origin},
              {"metadata", m.metadata},
              {"inputs", json::array()},
              {"outputs", json::array()}};
  for (const auto& [domain, version] : m.opsets) out["opsets"][domain.empty() ? "ai.onnx" : domain] = version;
  for (const ir::ValueId id : m.graph->inputs()) {
    const ir::ValueInfo& v = m.graph->value(id);
    out["inputs"].push_back(
        {{"name", v.name}, {"type", v.fact.str()}, {"has_default", v.source == ir::Source::initializer}});
  }
  for (const ir::ValueId id : m.graph->outputs())
    out["outputs"].push_back({{"name", m.graph->value(id).name}, {"type", m.graph->value(id).fact.str()}});
  out["plan"] = session.ok() ? plan_json(**session) : json{{"error", session.status().message()}};
  std::printf("%s\n", out.dump(1, ' ', false, json::error_handler_t::replace).c_str());
}

// Every value that a node makes, with what inference found; bodies of control flow are indented below their node.
void print_shapes(const ir::Graph& g, int indent) {
  for (const ir::Node& n : g.nodes()) {
    if (n.dead) continue;
    for (const ir::ValueId id : n.outputs)
      if (id != ir::kNone)
        std::printf("%*s%s %s %s\n", indent, "", n.op_type.c_str(), quote(g.value(id).name).c_str(),
                    g.value(id).fact.str().c_str());
    ir::for_each_subgraph(n, [&](const std::string& name, const std::shared_ptr<ir::Graph>& sub) {
      std::printf("%*s%s of %s\n", indent + 2, "", name.c_str(), n.op_type.c_str());
      print_shapes(*sub, indent + 4);
    });
  }
}

int inspect_shapes(const Options& o) {
  const auto session = open_session(o.model, {});
  if (!session.ok()) return complain(format("{}\n  {}", session.status().message(), advice(session.status())), kFailed);
  const ir::Graph& g = *(*session)->loaded().model.graph;
  for (const ir::ValueId id : g.inputs())
    std::printf("input %s %s\n", quote(g.value(id).name).c_str(), g.value(id).fact.str().c_str());
  print_shapes(g, 0);
  return kOk;
}

int inspect(const Options& o) {
  if (o.shapes) return inspect_shapes(o);
  constexpr int64_t kShortConstants = 8;
  Result<Model> model = load_model_file(o.model);
  if (!model.ok()) return complain(format("{}\n  {}", model.status().message(), advice(model.status())), kFailed);
  if (o.text) {
    const std::string text = to_text(*model, {o.full ? INT64_MAX : kShortConstants});
    std::fwrite(text.data(), 1, text.size(), stdout);
    return kOk;
  }
  Facts facts;
  facts.add(*model->graph);
  for (const Function& f : model->functions) facts.add(*f.body);
  const auto session = open_session(o.model, {});
  (o.json ? print_json : print_text)(o, *model, facts, session);
  return kOk;
}

}  // namespace

void add_inspect(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* cmd = app.add_subcommand("inspect", "Show what a model contains");
  cmd->footer(
      "Examples:\n"
      "  tessera inspect model.onnx\n"
      "  tessera inspect model.onnx --text | less\n"
      "  tessera inspect model.onnx --text --full > model.onnxtxt\n"
      "  tessera inspect model.onnx --shapes\n"
      "  tessera inspect model.onnx --json\n");
  cmd->add_option("model", o->model, "A .onnx file, or a .onnxtxt file in ONNX's textual syntax")->required();
  CLI::Option* text = cmd->add_flag("--text", o->text, "Print the model in ONNX's textual syntax, constants cut short");
  cmd->add_flag("--full", o->full, "With --text: print constants whole, so that the text can be read back")
      ->needs(text);
  CLI::Option* json = cmd->add_flag("--json", o->json, "Print one JSON object")->excludes(text);
  cmd->add_flag("--shapes", o->shapes, "List every value with its type and its shape in terms of the inputs' symbols")
      ->excludes(text)
      ->excludes(json);
  cmd->add_flag("--ops", o->ops, "List all kinds of operators, not just the most frequent");
  cmd->callback([o, &exit_code] { exit_code = inspect(*o); });
}

}  // namespace tessera::cli
