// labels: robust
// OrtCompileApi: the optimised model goes to a file, to memory or to a function, and runs like the original.
#include <gtest/gtest.h>

#include <cstdio>
#include <filesystem>
#include <memory>

#include "c_client.h"

namespace {

using namespace client;

const OrtCompileApi& compiler() { return *api().GetCompileApi(); }

using OwnedOptions = std::unique_ptr<OrtModelCompilationOptions, void (*)(OrtModelCompilationOptions*)>;

OwnedOptions compilation(const std::string& model) {
  OrtModelCompilationOptions* made = nullptr;
  const auto o = options();
  ok(compiler().CreateModelCompilationOptionsFromSessionOptions(env(), o.get(), &made));
  if (!model.empty()) ok(compiler().ModelCompilationOptions_SetInputModelFromBuffer(made, model.data(), model.size()));
  return {made, compiler().ReleaseModelCompilationOptions};
}

TEST(CAbiCompile, ToAFile) {
  const std::string model = tiny::add_relu(), path = testing::TempDir() + "/compiled.onnx";
  const auto o = compilation(model);
  ok(compiler().ModelCompilationOptions_SetOutputModelPath(o.get(), path.c_str()));
  ok(compiler().CompileModel(env(), o.get()));
  OrtSession* s = nullptr;
  ok(api().CreateSession(env(), path.c_str(), nullptr, &s));
  ASSERT_NE(s, nullptr);
  expect_sums(s);
  api().ReleaseSession(s);
  std::remove(path.c_str());
}

TEST(CAbiCompile, ToMemory) {
  const std::string model = tiny::add_relu();
  const auto o = compilation(model);
  void* data = nullptr;
  size_t size = 0;
  ok(compiler().ModelCompilationOptions_SetOutputModelBuffer(o.get(), allocator(), &data, &size));
  ok(compiler().CompileModel(env(), o.get()));
  ASSERT_GT(size, 0u);
  const std::string compiled(static_cast<const char*>(data), size);
  ok(api().AllocatorFree(allocator(), data));
  expect_sums(load(compiled).get());
}

OrtStatus* append(void* text, const void* data, size_t size) {
  static_cast<std::string*>(text)->append(static_cast<const char*>(data), size);
  return nullptr;
}

TEST(CAbiCompile, ToAFunction) {
  const std::string model = tiny::add_relu();
  const auto o = compilation(model);
  std::string compiled;
  ok(compiler().ModelCompilationOptions_SetOutputModelWriteFunc(o.get(), append, &compiled));
  ok(compiler().CompileModel(env(), o.get()));
  expect_sums(load(compiled).get());
}

TEST(CAbiCompile, KeepsAFileThatIsThere) {
  const std::string model = tiny::add_relu(), path = testing::TempDir() + "/compiled_once.onnx";
  const auto o = compilation(model);
  ok(compiler().ModelCompilationOptions_SetFlags(o.get(), OrtCompileApiFlags_ERROR_IF_OUTPUT_FILE_EXISTS));
  ok(compiler().ModelCompilationOptions_SetOutputModelPath(o.get(), path.c_str()));
  ok(compiler().CompileModel(env(), o.get()));
  refused(compiler().CompileModel(env(), o.get()), ORT_FAIL, "compiled_once.onnx");
  ok(compiler().ModelCompilationOptions_SetFlags(o.get(), OrtCompileApiFlags_NONE));
  ok(compiler().CompileModel(env(), o.get()));
  ok(compiler().ModelCompilationOptions_SetFlags(o.get(), OrtCompileApiFlags_ERROR_IF_NO_NODES_COMPILED));
  refused(compiler().CompileModel(env(), o.get()), ORT_FAIL, "compiled");
  refused(compiler().ModelCompilationOptions_SetFlags(o.get(), 8), ORT_INVALID_ARGUMENT, "8");
  std::remove(path.c_str());
}

// A model with one weight of 4000 bytes, y = x + w.
std::string large_model() {
  return tiny::model({.nodes = {tiny::node("Add", {"x", "w"}, {"y"})},
                      .weights = {tiny::weight("w", {1000}, std::vector<float>(1000, 2.0f))},
                      .inputs = {tiny::value("x", tiny::kFloat, {1000})},
                      .outputs = {tiny::value("y", tiny::kFloat, {1000})}});
}

void expect_threes(OrtSession* s) {
  std::vector<float> data(1000, 1.0f);
  const auto x = tensor({1000}, data);
  OrtValue* y = nullptr;
  ok(run(s, {"x"}, {x.get()}, {"y"}, &y));
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(values(y), std::vector<float>(1000, 3.0f));
  api().ReleaseValue(y);
}

TEST(CAbiCompile, WeightsToAFileOfTheirOwn) {
  const std::string model = large_model(), folder = testing::TempDir(), path = folder + "/compiled_outside.onnx";
  const auto o = compilation(model);
  ok(compiler().ModelCompilationOptions_SetOutputModelPath(o.get(), path.c_str()));
  ok(compiler().ModelCompilationOptions_SetOutputModelExternalInitializersFile(o.get(), "compiled_outside.data", 100));
  ok(compiler().CompileModel(env(), o.get()));
  EXPECT_GE(std::filesystem::file_size(folder + "/compiled_outside.data"), 4000u);
  EXPECT_LT(std::filesystem::file_size(path), 2000u);
  OrtSession* s = nullptr;
  ok(api().CreateSession(env(), path.c_str(), nullptr, &s));
  ASSERT_NE(s, nullptr);
  expect_threes(s);
  api().ReleaseSession(s);
  void* data = nullptr;
  size_t size = 0;
  ok(compiler().ModelCompilationOptions_SetOutputModelBuffer(o.get(), allocator(), &data, &size));
  refused(compiler().CompileModel(env(), o.get()), ORT_INVALID_ARGUMENT, "compiled_outside.data");
  std::filesystem::remove(path);
  std::filesystem::remove(folder + "/compiled_outside.data");
}

TEST(CAbiCompile, WeightsToMemoryOfTheirOwn) {
  const std::string model = large_model();
  const auto o = compilation(model);
  void *data = nullptr, *weights = nullptr;
  size_t size = 0, weights_size = 0;
  ok(compiler().ModelCompilationOptions_SetOutputModelBuffer(o.get(), allocator(), &data, &size));
  ok(compiler().ModelCompilationOptions_SetOutputModelExternalInitializersBuffer(o.get(), "w.data", 100, allocator(),
                                                                                 &weights, &weights_size));
  ok(compiler().CompileModel(env(), o.get()));
  ASSERT_GE(weights_size, 4000u);
  const auto with_file = options();
  const char* name = "w.data";
  char* buffer = static_cast<char*>(weights);
  ok(api().AddExternalInitializersFromFilesInMemory(with_file.get(), &name, &buffer, &weights_size, 1));
  expect_threes(load(std::string(static_cast<const char*>(data), size), with_file.get()).get());
  ok(api().AllocatorFree(allocator(), data));
  ok(api().AllocatorFree(allocator(), weights));
}

TEST(CAbiCompile, RefusesWhatIsMissing) {
  const auto empty = compilation({});
  refused(compiler().CompileModel(env(), empty.get()), ORT_INVALID_ARGUMENT, "input");
  const std::string model = tiny::add_relu(), broken = "no model";
  const auto o = compilation(model), bad = compilation(broken);
  refused(compiler().CompileModel(env(), o.get()), ORT_INVALID_ARGUMENT, "output");
  void* data = nullptr;
  size_t size = 0;
  ok(compiler().ModelCompilationOptions_SetOutputModelBuffer(bad.get(), allocator(), &data, &size));
  OrtStatus* status = compiler().CompileModel(env(), bad.get());
  EXPECT_NE(status, nullptr);
  EXPECT_EQ(data, nullptr);
  api().ReleaseStatus(status);
}

}  // namespace
