// labels: robust
// OrtCompileApi: the optimised model goes to a file, to memory or to a function, and runs like the original.
#include <gtest/gtest.h>

#include <cstdio>
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
