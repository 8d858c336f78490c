// labels: data robust
// Random models over all operators: planned runs agree bit for bit with running every node on its own, and inferred
// facts agree with the values. A failing model is made smaller and printed in textual syntax.
//
//   random_model_test [--first SEED] [--models COUNT] [--nodes PER_MODEL] [--apart] [--tally] [--write FOLDER]
//
// --apart checks each model in a process of its own, so that a crash shrinks too; --tally says how often each operator
// was used, and why it was refused; --write leaves the models and all their values there (SEED/model.onnx, NAME.pb).
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "random_check.h"
#include "session/session.h"

// GCC 12's LeakSanitizer itself ends with a bad access after this program's many models. Other tests look for leaks.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "allocator_may_return_null=1:detect_leaks=0";
}

namespace tessera::testing {
namespace {

struct Settings {
  uint64_t first = 1;
  int models = 120, nodes = 30;
  bool apart = false, tally = false;
  std::string folder;
};
Settings settings;

Status write_out(const RandomModel& model) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(settings.folder) / std::to_string(model.seed);
  fs::create_directories(folder);
  std::vector<Value> inputs;
  for (const RandomInput& i : model.graph.inputs) inputs.push_back(i.value);
  TRY_ASSIGN(scope, Interpreter(model).run(model.graph, inputs));
  TRY_ASSIGN(whole, to_model(model, scope));
  TRY(onnx::save_model(whole, (folder / "model.onnx").string()));
  for (const auto& [name, value] : scope) {
    if (!value.tensor()) continue;
    TRY_ASSIGN(bytes, onnx::write_tensor(*value.tensor(), name));
    std::ofstream(folder / (name + ".pb"), std::ios::binary) << bytes;
  }
  return {};
}

TEST(RandomModels, PlannedRunsAgreeWithNodesAlone) {
  Tallies tallies;
  int nodes = 0, runs = 0;
  std::printf("seeds %llu to %llu\n", static_cast<unsigned long long>(settings.first),
              static_cast<unsigned long long>(settings.first) + static_cast<unsigned long long>(settings.models) - 1);
  const auto check = settings.apart ? check_apart : check_model;
  for (int i = 0; i < settings.models; ++i) {
    const uint64_t seed = settings.first + static_cast<uint64_t>(i);
    SCOPED_TRACE(format("seed {}", seed));
    const RandomModel model = random_model(seed, settings.nodes, tallies);
    nodes += model.graph.node_count();
    if (!settings.folder.empty()) {
      const Status s = write_out(model);
      ASSERT_TRUE(s.ok()) << s.message();
    }
    const Verdict v = check(model);
    runs += v.runs;
    if (v.failure.empty()) continue;
    const RandomModel small = v.valid ? shrink(model, check) : model;
    ADD_FAILURE() << v.failure << "\nsmaller: " << check(small).failure << "\n" << show(small);
  }
  int used = 0;
  for (const auto& [name, t] : tallies) {
    used += t.made > 0;
    if (settings.tally)
      std::printf("%6d made %6d refused  %s  %s\n", t.made, t.refused, name.c_str(), t.reason.c_str());
  }
  std::printf("%d nodes of %d operators in %d models, %d planned runs\n", nodes, used, settings.models, runs);
  if (settings.models >= 100) {
    EXPECT_GT(used, 120) << "operators in use";
  }
}

// What was found so, made small: every model loads and gives the same in every run.
constexpr const char* kFound[] = {
    // Axes that are dimensions.
    R"(<ir_version: 10, opset_import: ["" : 19]> found (float[n,1,m] x) => (y) <int64[1] c = {0}> {
         s = Shape (x)
         axes = Gather (s, c)
         y = ReduceL2 <keepdims = 1> (x, axes)
       })",
    // A value that binding computes, taken at its last use.
    R"(<ir_version: 10, opset_import: ["" : 17]> found (float[n,1] x) => (y, q) {
         s = Shape (x)
         y = Reshape (x, s)
         q = SequenceConstruct (s)
       })",
};

TEST(RandomModels, FoundBefore) {
  for (const char* text : kFound) {
    SCOPED_TRACE(text);
    const Result<Model> model = parse_text(text);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const Result<std::string> bytes = onnx::write_model(*model);
    ASSERT_TRUE(bytes.ok()) << bytes.status().message();
    const auto session = Session::from_bytes(borrow_bytes(bytes->data(), bytes->size()));
    ASSERT_TRUE(session.ok()) << session.status().message();
    std::vector<Value> inputs, first;
    for (const ValueSpec& in : (*session)->inputs()) {
      std::vector<int64_t> dims(static_cast<size_t>(in.fact.rank()), 1);
      inputs.push_back(*Tensor::of<float>(Shape(dims), std::vector<float>{-2}));
    }
    for (int run = 0; run < 3; ++run) {
      std::vector<Value> got((*session)->outputs().size());
      const Status s = (*session)->run(inputs, got);
      ASSERT_TRUE(s.ok()) << s.message();
      if (!run) first = got;
      for (size_t i = 0; i < got.size(); ++i) EXPECT_TRUE(same_bits(got[i], first[i])) << "run " << run;
    }
  }
}

}  // namespace
}  // namespace tessera::testing

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  auto& s = tessera::testing::settings;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    const char* next = i + 1 < argc ? argv[i + 1] : "";
    if (a == "--apart") {
      s.apart = true;
    } else if (a == "--tally") {
      s.tally = true;
    } else if (a == "--first") {
      s.first = std::strtoull(next, nullptr, 10), ++i;
    } else if (a == "--models") {
      s.models = std::atoi(next), ++i;
    } else if (a == "--nodes") {
      s.nodes = std::atoi(next), ++i;
    } else if (a == "--write") {
      s.folder = next, ++i;
    } else {
      std::fprintf(stderr, "random_model_test: unknown argument %s\n", a.c_str());
      return 2;
    }
  }
  return RUN_ALL_TESTS();
}
