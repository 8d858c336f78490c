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

// Keeps what it is given in a text, and says so.
OrtStatus* locate(void* text, const char* name, const OrtValue* value, const OrtExternalInitializerInfo*,
                  OrtExternalInitializerInfo** out) {
  auto& kept = *static_cast<std::string*>(text);
  if (std::string(name) != "w") return api().CreateStatus(ORT_FAIL, "only w is known");
  const size_t offset = kept.size();
  const std::vector<float> numbers = values(const_cast<OrtValue*>(value));
  kept.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(float));
  return api().CreateExternalInitializerInfo("kept.data", static_cast<int64_t>(offset), kept.size() - offset, out);
}

TEST(CAbiCompile, WeightsWhereAFunctionPutsThem) {
  const std::string model = large_model();
  const auto o = compilation(model);
  std::string compiled, kept(128, ' ');
  ok(compiler().ModelCompilationOptions_SetOutputModelWriteFunc(o.get(), append, &compiled));
  ok(compiler().ModelCompilationOptions_SetOutputModelGetInitializerLocationFunc(o.get(), locate, &kept));
  ok(compiler().CompileModel(env(), o.get()));
  EXPECT_EQ(kept.size(), 4128u);
  EXPECT_LT(compiled.size(), 2000u);
  const auto with_file = options();
  const char* name = "kept.data";
  char* buffer = kept.data();
  const size_t size = kept.size();
  ok(api().AddExternalInitializersFromFilesInMemory(with_file.get(), &name, &buffer, &size, 1));
  expect_threes(load(compiled, with_file.get()).get());
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

// An OrtModel: y = Neg(x).
TEST(CAbiCompile, WhatTheEditorMade) {
  const OrtModelEditorApi& editor = *api().GetModelEditorApi();
  const auto x = new_tensor({3}, kType<float>);
  OrtTypeInfo* made = nullptr;
  ok(api().GetTypeInfo(x.get(), &made));
  const auto type = own(made);
  OrtValueInfo *in = nullptr, *out = nullptr;
  ok(editor.CreateValueInfo("x", type.get(), &in));
  ok(editor.CreateValueInfo("y", type.get(), &out));
  OrtGraph* graph = nullptr;
  ok(editor.CreateGraph(&graph));
  ok(editor.SetGraphInputs(graph, &in, 1));
  ok(editor.SetGraphOutputs(graph, &out, 1));
  const char *names[] = {"x", "y"}, *domain = "";
  const int version = 18;
  OrtNode* node = nullptr;
  ok(editor.CreateNode("Neg", "", "n", names, 1, names + 1, 1, nullptr, 0, &node));
  ok(editor.AddNodeToGraph(graph, node));
  OrtModel* model = nullptr;
  ok(editor.CreateModel(&domain, &version, 1, &model));
  ok(editor.AddGraphToModel(model, graph));
  const auto o = compilation({});
  ok(compiler().ModelCompilationOptions_SetInputModel(o.get(), model));
  std::string compiled;
  ok(compiler().ModelCompilationOptions_SetOutputModelWriteFunc(o.get(), append, &compiled));
  ok(compiler().CompileModel(env(), o.get()));
  api().ReleaseModel(model);
  std::vector<float> data = {1, -2, 3};
  const auto input = tensor({3}, data);
  OrtValue* y = nullptr;
  ok(run(load(compiled).get(), {"x"}, {input.get()}, {"y"}, &y));
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(values(y), (std::vector<float>{-1, 2, -3}));
  api().ReleaseValue(y);
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
