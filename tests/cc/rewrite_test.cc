// labels: data
// Rewrites: tests/rewrites/*.test, each case a model in text, the operators that are left, and the rules that did it.
// Whatever a rule does, the answers stay within 1e-5 (or the case's own tolerance, of the largest number) of those
// without it, and bytes within one step.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "session/session.h"

namespace tessera {
namespace {

struct Case {
  std::string path, name, model, expect;
  int line = 0;
  std::map<std::string, int64_t> rules;
  std::map<std::string, std::string> options;
  double tolerance = 1e-5;
};

std::vector<Case> read_cases(const std::string& path) {
  std::vector<Case> out;
  std::ifstream in(path);
  bool given = false;
  int number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    std::istringstream words(line);
    std::string word;
    if (line.rfind("== ", 0) == 0) {
      out.push_back({path, line.substr(3), {}, {}, number, {}, {}});
      given = false;
    } else if (out.empty()) {
      continue;
    } else if (given) {
      out.back().model += line + "\n";
    } else if (words >> word) {
      if (word == "given") given = true;
      if (word == "expect") std::getline(words >> std::ws, out.back().expect);
      if (word == "tolerance") words >> out.back().tolerance;
      if (std::string key; word == "option" && words >> key) words >> out.back().options[key];
      int64_t times = 0;
      std::string rule;
      if (word == "rule" && words >> rule >> times) out.back().rules[rule] = times;
    }
  }
  return out;
}

TEST(Rewrites, AreDisabledByOrtsKey) {
  const Result<Model> model = parse_text(R"(<ir_version: 10, opset_import: ["" : 17]>
    g (float[N,3] x) => (float[N,3] y) {
      a = Identity (x)
      y = Neg (a)
    })");
  ASSERT_TRUE(model.ok()) << model.status().message();
  const Result<std::string> bytes = onnx::write_model(*model);
  SessionOptions options;
  ASSERT_TRUE(options.set("optimization.disable_specified_optimizers", "drop_identity,another").ok());
  const auto session = Session::from_bytes(borrow_bytes(bytes->data(), bytes->size()), options);
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_TRUE((*session)->loaded().rewrites.empty());
  EXPECT_EQ((*session)->loaded().plan->steps().size(), 2u);
}

TEST(Rewrites, RefuseBadSettings) {
  SessionOptions options;
  for (const char* bad : {"5", "-1", "four", ""})
    EXPECT_FALSE(options.set("session.qdq_matmulnbits_accuracy_level", bad).ok()) << bad;
  for (const char* bad : {"24", "8", "512", "x"})
    EXPECT_FALSE(options.set("session.qdq_matmulnbits_block_size", bad).ok()) << bad;
  EXPECT_FALSE(options.set("session.disable_quant_qdq", "yes").ok());
  EXPECT_NE(options.set("session.qdq_matmulnbits_accuracy_level", "9").message().find("between 0 and 4"),
            std::string::npos);
  for (const char* good : {"0", "-1", "16", "256"})
    EXPECT_TRUE(options.set("session.qdq_matmulnbits_block_size", good).ok()) << good;
  EXPECT_TRUE(options.set("session.qdq_matmulnbits_accuracy_level", "1").ok());
  EXPECT_EQ(options.rewrites.accuracy_level, 1);
}

class RewriteCase : public ::testing::Test {
 public:
  explicit RewriteCase(const Case& c) : case_(c) {}

  void TestBody() override {
    const Result<Model> model = parse_text(case_.model);
    ASSERT_TRUE(model.ok()) << model.status().message();
    const Result<std::string> bytes = onnx::write_model(*model);
    ASSERT_TRUE(bytes.ok());
    const auto open = [&](int level, const char* target) {
      SessionOptions options;
      EXPECT_TRUE(options.set("session.cpu_target", target).ok());
      options.optimization_level = level;
      for (const auto& [key, value] : case_.options) EXPECT_TRUE(options.set(key, value).ok());
      return Session::from_bytes(borrow_bytes(bytes->data(), bytes->size()), options);
    };
    const auto plain = open(0, "avx512"), rewritten = open(99, "avx512");
    ASSERT_TRUE(plain.ok()) << plain.status().message();
    ASSERT_TRUE(rewritten.ok()) << rewritten.status().message();
    EXPECT_TRUE((*plain)->loaded().rewrites.empty());
    EXPECT_EQ((*rewritten)->loaded().rewrites, case_.rules);
    std::string left;
    for (const Step& s : (*rewritten)->loaded().plan->steps()) left += (left.empty() ? "" : " ") + s.node->op_type;
    EXPECT_EQ(left, case_.expect);
    EXPECT_TRUE(ir::verify(*(*rewritten)->model().graph).ok());
    compare(**plain, **rewritten);
    for (const char* target : {"scalar", "sse4", "avx2"}) {
      const auto other = open(99, target);
      ASSERT_TRUE(other.ok()) << other.status().message();
      compare(**plain, **other);
    }
  }

 private:
  void compare(Session& plain, Session& rewritten) {
    std::vector<Value> inputs;
    for (const ValueSpec& spec : plain.inputs()) {
      std::vector<int64_t> dims;
      for (const Dim& d : *spec.fact.shape) dims.push_back(d.known() ? d.value() : 3);
      Tensor t = *Tensor::allocate(spec.fact.dtype, Shape(dims));
      for (int64_t i = 0; i < t.count(); ++i) {
        if (spec.fact.dtype == DType::f32)
          static_cast<float*>(t.mutable_data())[i] = std::sin(static_cast<float>(i * 7 + 1)) * 3;
        else if (spec.fact.dtype == DType::i64)
          static_cast<int64_t*>(t.mutable_data())[i] = i % 2;
        else
          static_cast<uint8_t*>(t.mutable_data())[i] =
              spec.fact.dtype == DType::boolean ? 1 : static_cast<uint8_t>(i * 37 + 11);
      }
      inputs.push_back(std::move(t));
    }
    std::vector<Value> a(plain.outputs().size()), b(a.size());
    ASSERT_TRUE(plain.run(inputs, a).ok());
    ASSERT_TRUE(rewritten.run(inputs, b).ok());
    for (size_t o = 0; o < a.size(); ++o) {
      EXPECT_EQ(plain.outputs()[o].name, rewritten.outputs()[o].name);
      if (set_of(DType::i8, DType::u8).has(a[o].tensor()->dtype())) {
        const auto x = a[o].tensor()->values<uint8_t>(), y = b[o].tensor()->values<uint8_t>();
        ASSERT_EQ(x.size(), y.size());
        for (size_t i = 0; i < x.size(); ++i) EXPECT_LE(std::abs(static_cast<int8_t>(x[i] - y[i])), 1) << i;
      }
      if (a[o].tensor()->dtype() != DType::f32) continue;
      const auto x = a[o].tensor()->values<float>(), y = b[o].tensor()->values<float>();
      ASSERT_EQ(x.size(), y.size());
      float largest = 1;
      for (const float v : x) largest = std::max(largest, std::abs(v));
      for (size_t i = 0; i < x.size(); ++i)
        EXPECT_NEAR(x[i], y[i], case_.tolerance * (case_.tolerance == 1e-5 ? std::max(1.f, std::abs(x[i])) : largest))
            << i;
    }
  }

  const Case& case_;
};

void register_cases() {
  static std::vector<Case> cases;
  for (const auto& e : std::filesystem::directory_iterator(std::string(TESSERA_SOURCE_DIR) + "/tests/rewrites"))
    if (e.path().extension() == ".test")
      for (Case& c : read_cases(e.path().string())) cases.push_back(std::move(c));
  for (const Case& c : cases) {
    std::string name = c.name;
    for (char& ch : name)
      if (!std::isalnum(static_cast<unsigned char>(ch))) ch = '_';
    ::testing::RegisterTest(std::filesystem::path(c.path).stem().c_str(), name.c_str(), nullptr, nullptr,
                            c.path.c_str(), c.line, [&c]() -> ::testing::Test* { return new RewriteCase(c); });
  }
}

}  // namespace

void register_rewrite_cases() { register_cases(); }

}  // namespace tessera

int main(int argc, char** argv) {
  ::testing::InitGoogleTest(&argc, argv);
  tessera::register_rewrite_cases();
  return RUN_ALL_TESTS();
}
