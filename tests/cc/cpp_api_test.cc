// labels: robust
// The C++ API, as a program uses it.
#include "tessera/tessera.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "tiny_model.h"

namespace {

using tessera::ElementType;
using tessera::Tensor;

tessera::Session load(const std::string& model, const tessera::Options& options = {}) {
  return {model.data(), model.size(), options};
}

template <class T>
std::vector<T> copy(tessera::View<T> view) {
  return {view.begin(), view.end()};
}

// Expects an Error with `code` whose words contain `part`.
template <class F>
void expect_error(OrtErrorCode code, const std::string& part, F&& f) {
  try {
    f();
    FAIL() << "no error, wanted " << part;
  } catch (const tessera::Error& e) {
    EXPECT_EQ(e.code(), code) << e.what();
    EXPECT_NE(std::string(e.what()).find(part), std::string::npos) << e.what();
  }
}

TEST(CppApi, RunsAModelFromAFile) {
  const std::string path = testing::TempDir() + "tessera_cpp_api.onnx";
  std::ofstream(path, std::ios::binary) << tiny::add_relu();
  tessera::Session session(path);
  const std::vector<float> numbers = {1, 2, 3};
  Tensor x({1, 3}, numbers);
  auto y = session.run({{"x", x}});
  ASSERT_EQ(y.size(), 2u);
  EXPECT_EQ(copy(y["sum"].as<float>()), (std::vector<float>{2, 0, 6}));
  EXPECT_EQ(y[1].as<float>()[2], 6);
  EXPECT_EQ(y["positive"].shape(), (tessera::Shape{1, 3}));
  std::filesystem::remove(path);
}

TEST(CppApi, DescribesTheModel) {
  const tessera::Session session = load(tiny::add_relu());
  ASSERT_EQ(session.inputs().size(), 1u);
  EXPECT_EQ(session.inputs()[0].name, "x");
  EXPECT_EQ(session.inputs()[0].type, ElementType::f32);
  EXPECT_EQ(session.inputs()[0].shape, (tessera::Shape{-1, 3}));
  EXPECT_EQ(session.inputs()[0].str(), "float[n,3]");
  ASSERT_EQ(session.outputs().size(), 2u);
  EXPECT_EQ(session.outputs()[1].name, "positive");
  EXPECT_EQ(load(tiny::identity(tiny::sequence_type(tiny::kFloat))).inputs()[0].str(), "sequence");
}

TEST(CppApi, ErrorsHaveCodeAndWords) {
  expect_error(ORT_NO_SUCHFILE, "nowhere.onnx", [] { tessera::Session("nowhere.onnx"); });
  expect_error(ORT_INVALID_PROTOBUF, "ONNX", [] { load("not a model"); });
  tessera::Session session = load(tiny::add_relu());
  const Tensor x({1, 3}, {1.f, 2.f, 3.f}), wrong({1, 3}, {int64_t{1}, int64_t{2}, int64_t{3}});
  expect_error(ORT_INVALID_ARGUMENT, "'z'", [&] { session.run({{"z", x}}); });
  expect_error(ORT_INVALID_ARGUMENT, "int64", [&] { session.run({{"x", wrong}}); });
  expect_error(ORT_INVALID_ARGUMENT, "'z'", [&] { session.run({{"x", x}}, {"z"}); });
  auto y = session.run({{"x", x}});
  expect_error(ORT_INVALID_ARGUMENT, "sum, positive", [&] { y["z"]; });
  expect_error(ORT_INVALID_ARGUMENT, "2", [&] { y[2]; });
  expect_error(ORT_INVALID_ARGUMENT, "float[1,3]", [&] { y[0].as<int64_t>(); });
  expect_error(ORT_INVALID_ARGUMENT, "wants 4 values, got 3", [] { Tensor({2, 2}, {1.f, 2.f, 3.f}); });
  expect_error(ORT_INVALID_ARGUMENT, "", [] {
    float one = 1;
    Tensor::borrow({2, 2}, &one, 1);
  });
  expect_error(ORT_INVALID_ARGUMENT, "empty", [] { (void)tessera::Value().shape(); });
  tessera::Options options;
  options.config["session.execution_order"] = "sideways";
  expect_error(ORT_INVALID_ARGUMENT, "sideways", [&] { load(tiny::add_relu(), options); });
}

TEST(CppApi, TensorsOfManyKinds) {
  EXPECT_EQ(Tensor::scalar(2.5).as<double>()[0], 2.5);
  EXPECT_TRUE(Tensor::scalar(2.5).shape().empty());
  EXPECT_EQ(Tensor({2}, std::vector<bool>{true, false}).type(), ElementType::boolean);
  EXPECT_EQ(Tensor({2}, {uint8_t{1}, uint8_t{2}}).str(), "uint8[2]");
  EXPECT_EQ(Tensor::empty<float>({0, 3}).size(), 0u);
  EXPECT_EQ(Tensor::empty({4}, ElementType::f16).type(), ElementType::f16);
  Tensor half = Tensor::empty({1}, ElementType::f16);
  *static_cast<uint16_t*>(half.bytes()) = 0x3c00;
  float numbers[] = {1, 2, 3, 4};
  Tensor borrowed = Tensor::borrow({2, 2}, numbers, 4);
  borrowed.as<float>()[3] = 40;
  EXPECT_EQ(numbers[3], 40);
  const Tensor constant = Tensor::borrow({2, 2}, static_cast<const float*>(numbers), 4);
  EXPECT_EQ(constant.as<float>().data(), numbers);
}

TEST(CppApi, Strings) {
  tessera::Session session = load(tiny::identity(tiny::tensor_type(tiny::kString, {"n"})));
  const std::string with_zero("a\0b", 3);
  const Tensor x({3}, std::vector<std::string>{"one", "", with_zero}), y({2}, {"p", "q"});
  EXPECT_EQ(session.run({{"x", x}})["y"].strings(), (std::vector<std::string>{"one", "", with_zero}));
  EXPECT_EQ(session.run({{"x", y}})[0].strings()[1], "q");
  expect_error(ORT_INVALID_ARGUMENT, "strings()", [&] { session.run({{"x", x}})[0].bytes(); });
}

TEST(CppApi, Sequences) {
  tessera::Session session = load(tiny::identity(tiny::sequence_type(tiny::kFloat)));
  const Tensor a({1}, {1.f}), b({2}, {2.f, 3.f});
  const OrtValue* parts[] = {a.get(), b.get()};
  OrtValue* made = nullptr;
  const OrtApi& c = *OrtGetApiBase()->GetApi(ORT_API_VERSION);
  ASSERT_EQ(c.CreateValue(parts, 2, ONNX_TYPE_SEQUENCE, &made), nullptr);
  const tessera::Value x(made);
  auto y = session.run({{"x", x}});
  EXPECT_TRUE(y[0].is_sequence());
  EXPECT_FALSE(y[0].is_tensor());
  auto items = y[0].parts();
  ASSERT_EQ(items.size(), 2u);
  EXPECT_EQ(copy(items[1].as<float>()), (std::vector<float>{2, 3}));
}

TEST(CppApi, WritesIntoGivenTensors) {
  tessera::Session session = load(tiny::add_relu());
  const Tensor x({1, 3}, {1.f, 2.f, 3.f});
  float room[3] = {};
  Tensor sum = Tensor::borrow({1, 3}, room, 3), positive = Tensor::empty<float>({1, 3});
  session.run_into({{"x", x}}, {{"sum", sum}, {"positive", positive}});
  EXPECT_EQ(room[2], 6);
  EXPECT_EQ(positive.as<float>()[2], 6);
  Tensor small = Tensor::empty<float>({1, 2});
  expect_error(ORT_INVALID_ARGUMENT, "'sum'", [&] { session.run_into({{"x", x}}, {{"sum", small}}); });
}

TEST(CppApi, CancelsAndGoesOn) {
  tessera::Session session = load(tiny::swapping(64, 20));
  const Tensor x({64, 64}, std::vector<float>(64 * 64, 1.f));
  tessera::Cancellation cancellation;
  std::thread other([&] { cancellation.cancel(); });
  expect_error(ORT_FAIL, "terminate", [&] {
    for (;;) session.run({{"x", x}}, {}, &cancellation);
  });
  other.join();
  cancellation.reset();
  EXPECT_EQ(session.run({{"x", x}}, {"y"}, &cancellation)[0].as<float>()[0], 1);
}

TEST(CppApi, Options) {
  const std::string model = tiny::add_relu("weights.bin");
  std::vector<float> weights = {1, -2, 3};
  tessera::Options options;
  options.threads = 1;
  options.optimization = ORT_DISABLE_ALL;
  options.external_files = {{"weights.bin", weights.data(), weights.size() * sizeof(float)}};
  options.profile = testing::TempDir() + "tessera_cpp_profile";
  tessera::Session copied = load(model, options);
  options.keep_buffers = true;
  options.profile.clear();
  tessera::Session kept = load(model, options);
  EXPECT_EQ(kept.run({{"x", Tensor({1, 3}, {0.f, 0.f, 0.f})}})["sum"].as<float>()[0], 1);
  weights[0] = 99;
  EXPECT_EQ(copied.run({{"x", Tensor({1, 3}, {0.f, 0.f, 0.f})}})["sum"].as<float>()[0], 1);
  const std::string profile = copied.end_profiling();
  EXPECT_TRUE(std::filesystem::exists(profile)) << profile;
  std::filesystem::remove(profile);
  EXPECT_EQ(kept.end_profiling(), "");
}

TEST(CppApi, ExternalFilesOfEveryKind) {
  const std::string model = tiny::add_relu("weights.bin");
  const auto weights = std::make_shared<std::vector<float>>(std::vector<float>{1, -2, 3});
  const auto first_sum = [&](const tessera::ExternalFile& file) {
    tessera::Options options;
    options.external_files = {file};
    return load(model, options).run({{"x", Tensor({1, 3}, {0.f, 0.f, 0.f})}})["sum"].as<float>()[1];
  };
  tessera::ExternalFile kept{"weights.bin", weights->data(), 12};
  kept.keeper = weights;
  EXPECT_EQ(first_sum(kept), -2);
  kept.keeper.reset();
  EXPECT_EQ(weights.use_count(), 1);
  tessera::ExternalFile read{"weights.bin", nullptr, 12};
  read.read = [&](uint64_t offset, size_t length, void* to) {
    std::memcpy(to, reinterpret_cast<const char*>(weights->data()) + offset, length);
  };
  EXPECT_EQ(first_sum(read), -2);
  read.read = [](uint64_t, size_t, void*) { throw std::runtime_error("the line is dead"); };
  EXPECT_THROW(first_sum(read), tessera::Error);
  std::FILE* file = std::tmpfile();
  std::fwrite("....", 1, 4, file);
  std::fwrite(weights->data(), 4, 3, file);
  std::fflush(file);
  tessera::ExternalFile mapped{"weights.bin", nullptr, 12};
  mapped.descriptor = fileno(file);
  mapped.offset = 4;
  EXPECT_EQ(first_sum(mapped), -2);
  std::fclose(file);
}

TEST(CppApi, TellsOfMemory) {
  tessera::Session session = load(tiny::swapping(32, 3));
  session.run({{"x", Tensor({1, 32}, std::vector<float>(32))}});
  const tessera::Memory m = session.memory();
  EXPECT_GE(m.weights, 32 * 32 * 4);
  EXPECT_GE(m.slab, m.planned_peak);
  EXPECT_NE(session.explain().find("MatMul"), std::string::npos);
}

TEST(CppApi, SessionsAndResultsMove) {
  std::vector<tessera::Session> sessions;
  sessions.push_back(load(tiny::add_relu()));
  sessions.push_back(load(tiny::add_relu()));
  tessera::Outputs y = sessions[0].run({{"x", Tensor({1, 3}, {1.f, 2.f, 3.f})}});
  sessions.clear();
  const tessera::Outputs moved = std::move(y);
  EXPECT_EQ(moved["sum"].as<float>()[0], 2);
  EXPECT_EQ(moved[std::string("sum")].shape(), moved[0].shape());
  for (const auto& [name, value] : moved) EXPECT_EQ(value.str(), "float[1,3]") << name;
}

}  // namespace
