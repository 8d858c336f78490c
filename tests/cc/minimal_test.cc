// The minimal library, opened as a client opens it, runs the demo model from .onnx and agrees with the expected
// outputs.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "common/compare.h"
#include "formats/onnx/reader.h"
#include "onnxruntime_c_api.h"

namespace tessera {
namespace {

const std::string kDemo = std::string(TESSERA_SOURCE_DIR) + "/tests/models/demo/";

Tensor expected(const std::string& name) {
  auto bytes = map_file(kDemo + "test_data_set_0/" + name);
  EXPECT_TRUE(bytes.ok());
  auto value = onnx::read_tensor(*bytes);
  EXPECT_TRUE(value.ok());
  return *value->tensor();
}

TEST(Minimal, RunsTheDemoModelFromOnnx) {
  void* library = dlopen(TESSERA_BINARY_DIR "/lib/libtessera_minimal.so", RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr) << dlerror();
  const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  ASSERT_NE(base, nullptr);
  const OrtApi& c = *base()->GetApi(ORT_API_VERSION);
  const auto ok = [&](OrtStatus* s) { ASSERT_EQ(s, nullptr) << c.GetErrorMessage(s); };
  OrtEnv* env = nullptr;
  OrtSessionOptions* options = nullptr;
  OrtSession* session = nullptr;
  OrtMemoryInfo* memory = nullptr;
  OrtValue *in = nullptr, *out = nullptr;
  ok(c.CreateEnv(ORT_LOGGING_LEVEL_WARNING, "minimal", &env));
  ok(c.CreateSessionOptions(&options));
  ok(c.CreateSession(env, (kDemo + "digits.onnx").c_str(), options, &session));
  ok(c.CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &memory));
  Tensor image = expected("input_0.pb");
  const Tensor want = expected("output_0.pb");
  const auto dims = image.shape().dims();
  std::vector<float> pixels(image.values<float>().begin(), image.values<float>().end());
  ok(c.CreateTensorWithDataAsOrtValue(memory, pixels.data(), pixels.size() * sizeof(float), dims.data(), dims.size(),
                                      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &in));
  const char *in_name = "image", *out_name = "probabilities";
  ok(c.Run(session, nullptr, &in_name, &in, 1, &out_name, 1, &out));
  void* data = nullptr;
  ok(c.GetTensorMutableData(out, &data));
  const auto got = Tensor::of<float>(
      want.shape(), std::span<const float>(static_cast<const float*>(data), static_cast<size_t>(want.count())));
  EXPECT_EQ(cli::difference(Value(*got), Value(want), {1e-4, 1e-6}), "");
  c.ReleaseValue(out);
  c.ReleaseValue(in);
  c.ReleaseMemoryInfo(memory);
  c.ReleaseSession(session);
  c.ReleaseSessionOptions(options);
  c.ReleaseEnv(env);
}

}  // namespace
}  // namespace tessera
