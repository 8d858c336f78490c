// labels: robust
// Any bytes as a model, any tensors as input: a right answer or a status; never a crash, a hang or a leak.
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "core/convert.h"
#include "session/session.h"

// Absurd sizes must come back as a null pointer, as they do without the sanitizer.
extern "C" const char* __asan_default_options();
extern "C" const char* __asan_default_options() { return "allocator_may_return_null=1:detect_leaks=1"; }
extern "C" const char* __tsan_default_options();
extern "C" const char* __tsan_default_options() { return "allocator_may_return_null=1"; }

namespace tessera {
namespace {

namespace fs = std::filesystem;
const std::string kModels = std::string(TESSERA_SOURCE_DIR) + "/tests/models";

std::string read_all(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// Cancels runs that take longer than a second: a mutated trip count may ask for 2^60 iterations.
class Watchdog {
 public:
  Watchdog() : thread_([this] { watch(); }) {}
  ~Watchdog() {
    stop_ = true;
    thread_.join();
  }
  void start() {
    options.cancel = false;
    started_ = now();
  }
  void finish() { started_ = 0; }
  RunOptions options;

 private:
  static int64_t now() { return now_ns(); }
  void watch() {
    while (!stop_) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const int64_t s = started_;
      if (s && now() - s > 1'000'000'000) options.cancel = true;
    }
  }
  std::atomic<int64_t> started_{0};
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

SessionOptions limited() {
  SessionOptions o;
  o.threads = 1;
  o.max_tensor_bytes = o.max_run_bytes = 64 << 20;
  return o;
}

// Small inputs of the declared types; an absurd declared dimension is simply not met.
std::vector<Value> inputs_for(const Session& s) {
  std::vector<Value> out;
  for (const ValueSpec& spec : s.inputs()) {
    std::vector<int64_t> dims;
    int64_t count = 1;
    if (spec.fact.shape)
      for (const Dim& d : *spec.fact.shape) {
        dims.push_back(d.known() && d.value() < 64 ? d.value() : 2);
        count *= std::max<int64_t>(1, dims.back());
        if (count > 4096) dims.back() = 1, count = 4096;
      }
    auto t = Tensor::allocate(spec.fact.dtype == DType::undefined ? DType::f32 : spec.fact.dtype, Shape(dims));
    if (!t.ok() || t->count() > 1 << 20) return {};
    if (t->dtype() != DType::string && !kComplex.has(t->dtype())) {
      const std::vector<int64_t> ones(static_cast<size_t>(t->count()), 1);
      encode(t->dtype(), t->mutable_data(), 0, t->count(), ones.data());
    }
    out.push_back(*t);
  }
  return out;
}

// Loads and, if that works, runs twice. Returns whether a run succeeded.
bool exercise(std::string_view bytes, Watchdog& dog, const fs::path* folder = nullptr) {
  SessionOptions options = limited();
  std::string external;
  if (folder) {
    external = read_all(*folder / "external.bin");
    options.external_files["external.bin"] = borrow_bytes(external.data(), external.size());
  }
  auto session = Session::from_bytes(borrow_bytes(bytes.data(), bytes.size()), options);
  if (!session.ok()) {
    EXPECT_FALSE(session.status().message().empty());
    EXPECT_LT(session.status().message().size(), 2000u);
    return false;
  }
  const std::vector<Value> inputs = inputs_for(**session);
  bool ran = false;
  for (int i = 0; i < 2; ++i) {
    std::vector<Value> outputs((*session)->outputs().size());
    dog.start();
    const Status s = (*session)->run(inputs, outputs, &dog.options);
    dog.finish();
    EXPECT_TRUE(s.ok() || !s.message().empty());
    ran = ran || s.ok();
  }
  return ran;
}

std::vector<fs::path> samples() {
  std::vector<fs::path> out;
  for (const auto& e : fs::directory_iterator(kModels + "/samples"))
    if (e.path().extension() == ".onnx") out.push_back(e.path());
  std::sort(out.begin(), out.end());
  return out;
}
const fs::path kSamples = kModels + "/samples";

TEST(Robust, SamplesRun) {
  Watchdog dog;
  ASSERT_GE(samples().size(), 10u);
  for (const fs::path& p : samples()) {
    EXPECT_TRUE(exercise(read_all(p), dog, &kSamples)) << p;
    auto session = Session::open(p.string());
    EXPECT_TRUE(session.ok()) << session.status().message();
  }
}

TEST(Robust, EveryTruncation) {
  Watchdog dog;
  for (const fs::path& p : samples()) {
    const std::string whole = read_all(p);
    for (size_t n = 0; n < whole.size(); ++n) {
      // An own allocation, so that reading past the end is seen.
      const std::vector<char> prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(n));
      exercise({prefix.data(), prefix.size()}, dog, &kSamples);
    }
  }
}

TEST(Robust, RandomMutations) {
  Watchdog dog;
  const char* text = std::getenv("TESSERA_MUTATIONS");
  const int total = text ? std::atoi(text) : 100000;
  const unsigned seed = 7;
  std::printf("seed %u, %d mutations\n", seed, total);
  std::mt19937 random(seed);
  const std::vector<fs::path> files = samples();
  std::vector<std::string> contents;
  for (const fs::path& p : files) contents.push_back(read_all(p));
  int ran = 0;
  for (int i = 0; i < total; ++i) {
    std::string bytes = contents[static_cast<size_t>(i) % contents.size()];
    for (unsigned k = 0, edits = 1 + random() % 4; k < edits; ++k) {
      const size_t at = random() % bytes.size();
      switch (random() % 4) {
        case 0: bytes[at] = static_cast<char>(random()); break;
        case 1: bytes[at] = static_cast<char>(bytes[at] ^ 1 << random() % 8); break;
        case 2: bytes.erase(at, 1 + random() % 3); break;
        default: bytes.insert(at, 1, static_cast<char>(random())); break;
      }
      if (bytes.empty()) bytes = "x";
    }
    ran += exercise(bytes, dog, &kSamples);
  }
  std::printf("%d of %d mutated models still ran\n", ran, total);
}

TEST(Robust, BadModelsAreRefusedWithCodeAndReason) {
  std::ifstream in(kModels + "/bad/expect.tsv");
  ASSERT_TRUE(in);
  std::string line;
  int count = 0;
  while (std::getline(in, line)) {
    const size_t a = line.find('\t'), b = line.find('\t', a + 1);
    const std::string name = line.substr(0, a), code = line.substr(a + 1, b - a - 1), text = line.substr(b + 1);
    SCOPED_TRACE(name);
    const auto start = std::chrono::steady_clock::now();
    auto session = Session::open(kModels + "/bad/" + name + ".onnx", limited());
    ASSERT_FALSE(session.ok());
    EXPECT_EQ(static_cast<int>(session.status().code()), std::atoi(code.c_str())) << session.status().message();
    EXPECT_NE(session.status().message().find(text), std::string::npos) << session.status().message();
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(20));
    ++count;
  }
  EXPECT_GE(count, 50);
}

TEST(Robust, WrongInputsAreRefusedAndTheSessionGoesOn) {
  auto session = Session::open(kModels + "/samples/mlp.onnx");
  ASSERT_TRUE(session.ok()) << session.status().message();
  std::vector<Value> outputs(1);
  const auto good = Tensor::of<float>(Shape{1, 4}, std::vector<float>{1, 2, 3, 4});
  const Value in[] = {*good};
  ASSERT_TRUE((*session)->run(in, outputs).ok());
  const std::vector<float> before(outputs[0].tensor()->values<float>().begin(),
                                  outputs[0].tensor()->values<float>().end());
  const auto refused = [&](const Tensor& t, std::string_view text) {
    const Value bad[] = {t};
    std::vector<Value> out(1);
    const Status s = (*session)->run(bad, out);
    EXPECT_EQ(s.code(), Code::invalid_argument);
    EXPECT_NE(s.message().find(text), std::string::npos) << s.message();
  };
  refused(*Tensor::of<double>(Shape{1, 4}, std::vector<double>{1, 2, 3, 4}),
          "input 'x' is tensor(double)[1,4], wanted float[N,4]");
  refused(*Tensor::of<float>(Shape{4}, std::vector<float>{1, 2, 3, 4}), "tensor(float)[4], wanted float[N,4]");
  refused(*Tensor::of<float>(Shape{1, 3}, std::vector<float>{1, 2, 3}), "tensor(float)[1,3], wanted float[N,4]");
  EXPECT_FALSE((*session)->run({}, outputs).ok());
  std::vector<Value> again(1);
  ASSERT_TRUE((*session)->run(in, again).ok());
  EXPECT_TRUE(std::equal(before.begin(), before.end(), again[0].tensor()->values<float>().begin()));
}

TEST(Robust, ABatchOfZeroRuns) {
  auto session = Session::open(kModels + "/samples/mlp.onnx");
  ASSERT_TRUE(session.ok());
  const Value in[] = {*Tensor::allocate(DType::f32, Shape{0, 4})};
  std::vector<Value> out(1);
  ASSERT_TRUE((*session)->run(in, out).ok());
  EXPECT_EQ(out[0].tensor()->shape(), (Shape{0, 3}));
}

}  // namespace
}  // namespace tessera
