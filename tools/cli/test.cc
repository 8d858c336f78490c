// tessera test: runs folders of ONNX test data (a model beside test_data_set_*) and compares.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common/compare.h"
#include "core/convert.h"
#include "formats/onnx/reader.h"
#include "ops/op.h"
#include "session/session.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;

struct Case {
  fs::path folder;
  std::string name, group;
  Tolerance tolerance;
};

struct TestOptions {
  std::vector<std::string> folders;
  std::string corpus, filter;
  bool by_op = false, verbose = false, json = false;
  MachineOptions machine;
};

Result<std::vector<Value>> read_values(const fs::path& set, const std::string& kind,
                                       const std::vector<ValueSpec>& specs) {
  std::vector<Value> out;
  for (size_t i = 0;; ++i) {
    const fs::path file = set / format("{}_{}.pb", kind, i);
    if (!fs::exists(file)) break;
    TRY_ASSIGN(bytes, map_file(file.string()));
    TRY_ASSIGN(v, onnx::read_value(std::move(bytes), i < specs.size() ? specs[i].fact : Fact{}));
    out.push_back(std::move(v));
  }
  return out;
}

bool draws_at_random(const ir::Graph& graph) {
  bool random = false;
  for (const ir::Node& n : graph.nodes()) {
    random = random || (!n.dead && n.op && n.op->random);
    ir::for_each_subgraph(n, [&](const std::string&, const std::shared_ptr<ir::Graph>& sub) {
      random = random || draws_at_random(*sub);
    });
  }
  return random;
}

// Random values cannot equal another generator's: they must have the form of the expected ones, keep to their range,
// and come again from a session made anew.
std::string random_difference(const Value& got, const Value& again, const Value& want) {
  const Tensor *g = got.tensor(), *w = want.tensor();
  if (!g || !w || g->dtype() != w->dtype() || !(g->shape() == w->shape()))
    return format("{} instead of {}", got.describe(), want.describe());
  std::vector<double> numbers(static_cast<size_t>(g->count())), expected(numbers.size());
  decode(g->dtype(), g->data(), 0, g->count(), numbers.data());
  decode(w->dtype(), w->data(), 0, w->count(), expected.data());
  const bool bits = std::all_of(expected.begin(), expected.end(), [](double v) { return v == 0 || v == 1; });
  for (const double v : numbers)
    if (!std::isfinite(v) || (bits && v != 0 && v != 1)) return format("the value {} is out of range", v);
  const std::string repeated = difference(again, got, {0, 0});
  return repeated.empty() ? "" : "not repeatable: " + repeated;
}

// model.onnx, or else the one .onnx file of the folder.
fs::path model_in(const fs::path& folder) {
  if (fs::exists(folder / "model.onnx") || !fs::is_directory(folder)) return folder / "model.onnx";
  std::vector<fs::path> found;
  for (const auto& e : fs::directory_iterator(folder))
    if (e.path().extension() == ".onnx") found.push_back(e.path());
  return found.size() == 1 ? found[0] : folder / "model.onnx";
}

// Empty if everything agrees.
std::string run_case(const Case& c, const SessionOptions& options) {
  const fs::path model = model_in(c.folder);
  auto session = Session::open(model.string(), options);
  if (!session.ok()) return session.status().message();
  Session& s = **session;
  std::vector<ValueSpec> all = s.inputs();
  for (int k = 0;; ++k) {
    const fs::path set = c.folder / format("test_data_set_{}", k);
    if (!fs::exists(set)) return k == 0 ? "there is no test_data_set_0 beside the model" : "";
    auto inputs = read_values(set, "input", all);
    if (!inputs.ok()) return inputs.status().message();
    auto want = read_values(set, "output", s.outputs());
    if (!want.ok()) return want.status().message();
    std::vector<Value> got(s.outputs().size());
    if (Status status = s.run(*inputs, got); !status.ok()) return status.message();
    const bool random = draws_at_random(*s.model().graph);
    std::vector<Value> again(got.size());
    if (random) {
      auto anew = Session::open(model.string(), options);
      if (!anew.ok()) return anew.status().message();
      if (Status status = (*anew)->run(*inputs, again); !status.ok()) return status.message();
    }
    for (size_t i = 0; i < want->size(); ++i) {
      if (i >= got.size()) return format("output {} is missing", i);
      const std::string d =
          random ? random_difference(got[i], again[i], (*want)[i]) : difference(got[i], (*want)[i], c.tolerance);
      if (!d.empty()) return format("output {}: {}", quote(s.outputs()[i].name), d);
    }
  }
}

// The cases that the manifest of a corpus lists.
Result<std::vector<Case>> read_corpus(const fs::path& folder) {
  const fs::path file = folder / "manifest.json";
  std::ifstream in(file);
  if (!in)
    return invalid("{} cannot be read; --corpus takes a folder made by tools/make_corpus.py", quote(file.string()));
  const auto manifest = nlohmann::json::parse(in, nullptr, false);
  if (!manifest.is_array()) return invalid("{} is not a list of cases", quote(file.string()));
  std::vector<Case> cases;
  for (const auto& m : manifest) {
    const auto text = [&](const char* key) { return m.contains(key) && m[key].is_string() ? std::string(m[key]) : ""; };
    const auto number = [&](const char* key, double otherwise) {
      return m.contains(key) && m[key].is_number() ? m[key].get<double>() : otherwise;
    };
    Case c;
    c.name = text("name");
    if (c.name.empty()) return invalid("{}: case {} has no name", quote(file.string()), cases.size());
    c.folder = folder / text("group") / c.name;
    c.group = text("op");
    const bool expanded = m.contains("expanded") && m["expanded"] == true;
    if (c.group.empty()) c.group = text("group") + (expanded ? " expanded" : "");
    c.tolerance = {number("rtol", c.tolerance.rtol), number("atol", c.tolerance.atol)};
    cases.push_back(std::move(c));
  }
  return cases;
}

Result<std::vector<Case>> collect(const TestOptions& o) {
  std::vector<Case> cases;
  if (!o.corpus.empty()) {
    TRY_ASSIGN(listed, read_corpus(o.corpus));
    cases = std::move(listed);
  }
  for (const std::string& f : o.folders) cases.push_back({f, fs::path(f).filename().string(), "given", {}});
  std::erase_if(cases, [&](const Case& c) {
    return !o.filter.empty() && c.name.find(o.filter) == c.name.npos && c.group != o.filter;
  });
  return cases;
}

int run(const TestOptions& o) {
  SessionOptions options;
  if (Status s = o.machine.apply(options); !s.ok()) return complain(s.message(), kUsage);
  const Result<std::vector<Case>> collected = collect(o);
  if (!collected.ok()) return complain(collected.status().message(), kUsage);
  const std::vector<Case>& cases = *collected;
  if (cases.empty())
    return complain("no test case found; give folders that hold model.onnx and test_data_set_0", kUsage);
  std::map<std::string, std::pair<int, int>> groups;
  int passed = 0, done = 0;
  Progress progress;
  auto report = nlohmann::json::array();
  for (const Case& c : cases) {
    progress.say(format("{}/{} {}", done, cases.size(), c.name));
    const std::string wrong = run_case(c, options);
    ++done;
    ++groups[c.group].second;
    if (wrong.empty()) {
      ++passed;
      ++groups[c.group].first;
    } else if (!o.json && (o.verbose || o.corpus.empty())) {
      std::printf("FAIL %s: %s\n", c.name.c_str(), wrong.c_str());
    }
    if (o.json) report.push_back({{"name", c.name}, {"group", c.group}, {"passed", wrong.empty()}, {"why", wrong}});
  }
  progress.say({});
  if (o.json) {
    std::printf("%s\n", report.dump(1).c_str());
  } else {
    if (o.by_op)
      for (const auto& [name, count] : groups)
        std::printf("%-32s %4d of %4d%s\n", name.c_str(), count.first, count.second,
                    count.first == count.second ? "" : "  <-");
    std::printf("%d passed, %zu failed, target %s, %d threads\n", passed, cases.size() - static_cast<size_t>(passed),
                std::string(target_name(options.target)).c_str(),
                o.machine.threads > 0 ? o.machine.threads : usable_processors());
  }
  return passed == static_cast<int>(cases.size()) ? kOk : kFailed;
}

}  // namespace

void add_test(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<TestOptions>();
  CLI::App* cmd = app.add_subcommand("test", "Run ONNX test data and compare");
  cmd->footer("Examples:\n  tessera test tests/models/demo\n  tessera test --corpus build/corpus --group-by-op\n");
  cmd->add_option("folders", o->folders, "Folders with model.onnx (or one other .onnx file) and test_data_set_*");
  cmd->add_option("--corpus", o->corpus, "A folder made by tools/make_corpus.py");
  cmd->add_option("--filter", o->filter, "Only cases whose name contains this, or whose operator it is");
  cmd->add_flag("--group-by-op", o->by_op, "Print passed and total per operator");
  cmd->add_flag("-v,--verbose", o->verbose, "Say why each failing case fails");
  cmd->add_flag("--json", o->json, "Print one JSON object per case");
  o->machine.add_to(*cmd);
  cmd->callback([o, &exit_code] { exit_code = run(*o); });
}

}  // namespace tessera::cli
