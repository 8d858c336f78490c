// tessera run: runs a model once or many times and shows what came out.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common/load.h"
#include "common/npy.h"
#include "common/show.h"
#include "formats/onnx/writer.h"
#include "inputs.h"
#include "report.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct Options {
  std::string model;
  InputOptions inputs;
  MachineOptions machine;
  std::vector<std::string> outputs;
  bool profile = false, stats = false, show_image = false, json = false;
  int repeat = 1;
};

struct Run {
  std::vector<Value> outputs;
  int64_t first_ns = 0;  // binds shapes and packs weights
  Times later;
  Profile profile;
};

Result<Run> run_model(const Options& o, Session& session, const Feed& feed) {
  Run run;
  const std::vector<std::string_view> in(feed.names.begin(), feed.names.end());
  std::vector<std::string_view> out;
  for (const ValueSpec& s : session.outputs()) out.push_back(s.name);
  Progress progress;
  for (int i = 0; i < o.repeat; ++i) {
    progress.say(format("run {} of {}", i + 1, o.repeat));
    std::vector<Value> values(out.size());
    const bool profiled = o.profile && i + 1 == o.repeat;
    run.profile = {};
    const int64_t begin = now_ns();
    TRY(session.run_named(in, feed.values, out, values, nullptr, profiled ? &run.profile : nullptr));
    const int64_t took = now_ns() - begin;
    i == 0 ? void(run.first_ns = took) : run.later.ns.push_back(took);
    run.outputs = std::move(values);
  }
  return run;
}

// --- writing outputs

// A name as a file name: what could leave the folder becomes '_'.
std::string file_name(const std::string& name) {
  std::string out;
  for (const char c : name) out += c == '/' || c == '\0' ? '_' : c;
  return out.empty() || out == "." || out == ".." ? "_" + out : out;
}

Status write_value(const Value& value, const std::string& path, const std::string& name) {
  const Tensor* t = value.tensor();
  if (!t) return not_implemented("output {} is a {}, only tensors can be written", quote(name), value.describe());
  TRY_ASSIGN(bytes, path.ends_with(".pb") ? onnx::write_tensor(*t, name) : write_npy(*t));
  return write_file(path, bytes);
}

Status write_archive(const Session& session, const std::vector<Value>& values, const std::string& path) {
  std::vector<NamedTensor> arrays;
  for (size_t i = 0; i < values.size(); ++i)
    if (const Tensor* t = values[i].tensor()) arrays.push_back({session.outputs()[i].name, *t});
  TRY_ASSIGN(bytes, write_npz(arrays));
  return write_file(path, bytes);
}

Status write_outputs(const std::string& to, const Session& session, const std::vector<Value>& values) {
  const auto& specs = session.outputs();
  for (size_t i = 0; i < specs.size(); ++i)
    if (to.starts_with(specs[i].name + "="))
      return write_value(values[i], to.substr(specs[i].name.size() + 1), specs[i].name);
  if (to.find('=') != to.npos) return invalid("--output {}: the model has no such output", quote(to));
  if (to.ends_with(".npz")) return write_archive(session, values, to);
  std::error_code ec;
  fs::create_directories(to, ec);
  if (ec) return error(Code::fail, "the folder {} cannot be made: {}", quote(to), ec.message());
  for (size_t i = 0; i < specs.size(); ++i)
    if (values[i].tensor())
      TRY(write_value(values[i], (fs::path(to) / (file_name(specs[i].name) + ".npy")).string(), specs[i].name));
  return {};
}

// --- showing

void show_inputs(const Feed& feed) {
  for (size_t i = 0; i < feed.names.size(); ++i) {
    const Tensor* t = feed.values[i].tensor();
    if (const auto text = t ? picture(*t) : std::nullopt)
      std::printf("input %s %s%s\n%s", quote(feed.names[i]).c_str(), std::string(name_of(t->dtype())).c_str(),
                  t->shape().str().c_str(), text->c_str());
  }
}

void show_output(const Options& o, const ValueSpec& spec, const Value& value) {
  constexpr size_t kMostBars = 32;
  const Tensor* t = value.tensor();
  const std::string type =
      t ? std::string(name_of(t->dtype())) + (t->shape().rank() ? t->shape().str() : "") : value.describe();
  std::printf("output %s %s\n", quote(spec.name).c_str(), type.c_str());
  const auto p = t ? probabilities(*t) : std::nullopt;
  if (p && o.show_image && p->size() <= kMostBars)
    std::printf("%s", bar_chart(*p).c_str());
  else if (const std::string values = first_values(value); !values.empty())
    std::printf("  %s\n", values.c_str());
  if (p) std::printf("  most probable: %s\n", top_classes(*p, o.show_image ? 3 : 5).c_str());
}

void show_times(const Run& run) {
  std::printf("time   first run %s", human_time(static_cast<double>(run.first_ns)).c_str());
  if (!run.later.ns.empty())
    std::printf(", then min %s, median %s of %zu", human_time(static_cast<double>(run.later.min())).c_str(),
                human_time(static_cast<double>(run.later.median())).c_str(), run.later.ns.size());
  std::printf("\n");
}

nlohmann::json output_json(const ValueSpec& spec, const Value& value) {
  nlohmann::json out = {{"name", spec.name}, {"kind", value.describe()}};
  const Tensor* t = value.tensor();
  if (!t) return out;
  out["type"] = std::string(name_of(t->dtype()));
  out["shape"] = std::vector<int64_t>(t->shape().dims().begin(), t->shape().dims().end());
  out["first_values"] = first_values(value, 32);
  if (const auto p = probabilities(*t)) {
    out["most_probable"] = std::max_element(p->begin(), p->end()) - p->begin();
    out["probability"] = *std::max_element(p->begin(), p->end());
  }
  return out;
}

void print_json(const Options& o, const Session& session, const Run& run) {
  nlohmann::json out = {{"model", o.model}, {"plan", plan_json(session)}, {"memory", memory_json(session)}};
  for (size_t i = 0; i < run.outputs.size(); ++i)
    out["outputs"].push_back(output_json(session.outputs()[i], run.outputs[i]));
  out["time_ns"] = {{"first", run.first_ns}, {"runs", run.later.ns.size()}};
  if (!run.later.ns.empty()) {
    out["time_ns"]["min"] = run.later.min();
    out["time_ns"]["median"] = run.later.median();
  }
  if (o.profile) out["profile"] = profile_json(run.profile);
  std::printf("%s\n", out.dump(1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

int run(const Options& o) {
  SessionOptions options;
  if (Status s = o.machine.apply(options); !s.ok()) return complain(s.message(), kUsage);
  auto session = open_session(o.model, options);
  if (!session.ok()) return complain(format("{}\n  {}", session.status().message(), advice(session.status())), kFailed);
  const Result<Feed> feed = gather_inputs(o.inputs, **session);
  if (!feed.ok()) return complain(feed.status().message(), kFailed);
  if (o.show_image && !o.json) show_inputs(*feed);
  const Result<Run> run = run_model(o, **session, *feed);
  if (!run.ok()) return complain(run.status().message(), kFailed);
  for (const std::string& to : o.outputs)
    if (Status s = write_outputs(to, **session, run->outputs); !s.ok()) return complain(s.message(), kFailed);
  if (o.json) {
    print_json(o, **session, *run);
    return kOk;
  }
  for (size_t i = 0; i < run->outputs.size(); ++i) show_output(o, (*session)->outputs()[i], run->outputs[i]);
  show_times(*run);
  if (o.stats) std::printf("%s%s", memory_text(**session).c_str(), plan_text(**session).c_str());
  if (o.profile) std::printf("%s", profile_text(run->profile).c_str());
  return kOk;
}

}  // namespace

void add_run(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* cmd = app.add_subcommand("run", "Run a model and show its outputs");
  cmd->footer(
      "Examples:\n"
      "  tessera run model.onnx --input x=x.npy --output results\n"
      "  tessera run model.onnx --input random --dim batch=4 --repeat 100 --stats\n"
      "  tessera run model.onnx --inputs all.npz --output y=y.npy --profile\n"
      "  tessera run --show-image tests/models/demo/digits.onnx --input image=tests/models/demo/sample_3.npy\n");
  cmd->add_option("model", o->model, "A .onnx file, or a .onnxtxt file in ONNX's textual syntax")->required();
  o->inputs.add_to(*cmd);
  cmd->add_option("--output", o->outputs, "A folder, a .npz file, name=FILE.npy or name=FILE.pb to write to")
      ->allow_extra_args(false);
  o->machine.add_to(*cmd);
  cmd->add_option("--repeat", o->repeat, "Run this many times and measure (default: 1)")->check(CLI::Range(1, 1000000));
  cmd->add_flag("--profile", o->profile, "Show the time of each operator in the last run");
  cmd->add_flag("--stats", o->stats, "Show memory and what the planner did");
  cmd->add_flag("--show-image", o->show_image, "Draw inputs that are pictures, and probabilities as bars");
  cmd->add_flag("--json", o->json, "Print one JSON object");
  cmd->callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tessera::cli
