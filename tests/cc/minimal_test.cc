// The small libraries, opened as a client opens them, run the demo model from .onnx and from .ort and agree with the
// expected outputs.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "common/compare.h"
#include "formats/onnx/reader.h"
#include "formats/ort/writer.h"
#include "other_library.h"
#include "session/session.h"

namespace tessera {
namespace {

const std::string kDemo = std::string(TESSERA_SOURCE_DIR) + "/tests/models/demo/";
const std::string kMinimal = TESSERA_BINARY_DIR "/lib/libtessera_minimal.so";
const std::string kExtended = TESSERA_BINARY_DIR "/lib/libtessera_extended.so";

Tensor expected(const std::string& name) {
  auto bytes = map_file(kDemo + "test_data_set_0/" + name);
  EXPECT_TRUE(bytes.ok());
  auto value = onnx::read_tensor(*bytes);
  EXPECT_TRUE(value.ok());
  return *value->tensor();
}

std::string demo_as_onnx() {
  const auto bytes = map_file(kDemo + "digits.onnx");
  EXPECT_TRUE(bytes.ok());
  return {reinterpret_cast<const char*>((*bytes)->data()), (*bytes)->size()};
}

std::string demo_as_ort() {
  SessionOptions options;
  options.optimization_level = 0;
  const auto session = Session::open(kDemo + "digits.onnx", options);
  EXPECT_TRUE(session.ok());
  auto written = ort::write_model((*session)->model());
  EXPECT_TRUE(written.ok());
  return std::move(*written);
}

void expect_digits(const std::string& library, const std::string& model) {
  const auto got = testing::OtherLibrary(library).run(model, {Value(expected("input_0.pb"))});
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(cli::difference((*got)[0], Value(expected("output_0.pb")), {1e-4, 1e-6}), "");
}

TEST(Minimal, RunsTheDemoModelFromOnnx) { expect_digits(kMinimal, demo_as_onnx()); }
TEST(Minimal, RunsTheDemoModelFromOrt) { expect_digits(kMinimal, demo_as_ort()); }
TEST(Extended, RunsTheDemoModelFromOnnx) { expect_digits(kExtended, demo_as_onnx()); }
TEST(Extended, RunsTheDemoModelFromOrt) { expect_digits(kExtended, demo_as_ort()); }

TEST(Minimal, DamagedModelsAreRefused) {
  const testing::OtherLibrary library(kMinimal);
  for (const std::string& model : {demo_as_onnx(), demo_as_ort()})
    for (size_t size = 0; size < model.size(); size += 1 + model.size() / 97)
      EXPECT_FALSE(library.run(model.substr(0, size), {Value(expected("input_0.pb"))}).ok()) << size;
}

const OrtApi& api_of(const std::string& path) {
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  EXPECT_NE(library, nullptr) << dlerror();
  return *reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"))()->GetApi(ORT_API_VERSION);
}

TEST(Minimal, FunctionsThatAreLeftOutSaySo) {
  const OrtApi& c = api_of(kMinimal);
  OrtCustomOpDomain* domain = nullptr;
  OrtStatus* status = c.CreateCustomOpDomain("mine", &domain);
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(c.GetErrorCode(status), ORT_NOT_IMPLEMENTED);
  EXPECT_NE(std::string(c.GetErrorMessage(status)).find("libtessera has it"), std::string::npos);
  c.ReleaseStatus(status);
  c.ReleaseCustomOpDomain(domain);
  EXPECT_EQ(c.GetModelEditorApi(), nullptr);
  EXPECT_EQ(c.GetEpApi(), nullptr);
}

TEST(Minimal, EverySlotCanBeCalled) {
  const OrtApi& c = api_of(kMinimal);
  const auto* slots = reinterpret_cast<const void* const*>(&c);
  for (size_t i = 0; i < sizeof(OrtApi) / sizeof(void*); ++i) EXPECT_NE(slots[i], nullptr) << "slot " << i;
}

}  // namespace
}  // namespace tessera
