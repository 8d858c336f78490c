// labels: data
// Quantised weights in every form that models give them: each is multiplied as it is, packed once and straight from
// where it lies, and the product is that of the floats they stand for.
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "base/file.h"
#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "session/save.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr const char* kFused = "dequantize_matmul";

// Bytes that look random, as the text of a list.
std::string bytes_text(int64_t count, int seed, int64_t less = 0) {
  std::string out = "{";
  uint32_t state = static_cast<uint32_t>(seed) * 2654435761u + 1;
  for (int64_t i = 0; i < count; ++i)
    out += format("{}{}", i ? "," : "", static_cast<int64_t>((state = state * 1664525 + 1013904223) >> 24) - less);
  return out + "}";
}
std::string scales_text(int64_t count) {
  std::string out = "{";
  for (int64_t i = 0; i < count; ++i) out += format("{}0.0{}", i ? "," : "", 11 + i * 7 % 83);
  return out + "}";
}

struct Form {
  const char* name;
  const char* type;  // of the codes
  int64_t k, n;
  bool n_first;   // weights are [n, k]
  int64_t block;  // along k; 0: one scale for each column
  bool zero;
  const char* nodes;  // with d = the dequantised weights, ending in y
  int64_t fused = 1;
};

int bits_of_type(const std::string& type) { return type.back() == '2' ? 2 : type.back() == '4' ? 4 : 8; }

std::string text_of(const Form& f) {
  const int64_t rows = f.n_first ? f.n : f.k, columns = f.n_first ? f.k : f.n;
  const int axis = f.block ? f.n_first : !f.n_first;
  const int64_t blocks = f.block ? (f.k + f.block - 1) / f.block : 1, scales = blocks * f.n;
  const std::string shape = !f.block    ? format("{}", f.n)
                            : f.n_first ? format("{},{}", f.n, blocks)
                                        : format("{},{}", blocks, f.n);
  const int bits = bits_of_type(f.type);
  const int64_t less = std::string_view(f.type) == "int8" ? 128 : 0;
  const auto list = [&](int64_t count, int seed) { return bytes_text((count * bits + 7) / 8, seed, less); };
  std::string weights = format("{}[{},{}] w = {}, float[{}] s = {}", f.type, rows, columns, list(rows * columns, 1),
                               shape, scales_text(scales));
  if (f.zero) weights += format(", {}[{}] z = {}", f.type, shape, list(scales, 2));
  const std::string dequantize = format("d = DequantizeLinear <axis = {}{}> (w, s{})\n", axis,
                                        f.block ? format(", block_size = {}", f.block) : "", f.zero ? ", z" : "");
  return format(
      "<ir_version: 12, opset_import: [\"\" : 25]> net (float[M,{}] x, bool flag) => (float[M,P] y) <{}> { {} {} }",
      f.k, weights, dequantize, f.nodes);
}

constexpr Form kForms[] = {
    {"blocks of rows", "int4", 96, 40, false, 32, false, "y = MatMul (x, d)"},
    {"unsigned", "uint4", 96, 40, false, 32, false, "y = MatMul (x, d)"},
    {"unsigned with zeros", "uint4", 96, 40, false, 32, true, "y = MatMul (x, d)"},
    {"signed with zeros", "int4", 96, 40, false, 16, true, "y = MatMul (x, d)"},
    {"two bits", "int2", 96, 40, false, 32, true, "y = MatMul (x, d)"},
    {"two bits unsigned", "uint2", 128, 64, false, 64, true, "y = MatMul (x, d)"},
    {"eight bits", "int8", 96, 40, false, 32, false, "y = MatMul (x, d)"},
    {"eight bits unsigned", "uint8", 96, 40, false, 32, true, "y = MatMul (x, d)"},
    {"k is no multiple of the block", "int4", 100, 40, false, 32, true, "y = MatMul (x, d)"},
    {"k smaller than the block", "int4", 20, 40, false, 32, false, "y = MatMul (x, d)"},
    {"one scale for each column", "int4", 96, 40, false, 0, true, "y = MatMul (x, d)"},
    {"one scale for each column of [n, k]", "int4", 96, 40, true, 0, true, "t = Transpose (d)\n y = MatMul (x, t)"},
    {"transposed", "int4", 96, 40, true, 32, false, "t = Transpose <perm = [1, 0]> (d)\n y = MatMul (x, t)"},
    {"transposed with zeros", "uint4", 100, 40, true, 32, true, "t = Transpose (d)\n y = MatMul (x, t)"},
    {"transB", "int4", 96, 40, true, 32, true, "y = Gemm <transB = 1> (x, d)"},
    {"Gemm", "uint4", 96, 40, false, 32, false, "y = Gemm (x, d)"},
    {"odd width", "int4", 96, 41, false, 32, true, "y = MatMul (x, d)"},
    {"of an outer graph", "int4", 96, 40, false, 32, false,
     "y = If (flag) <then_branch = yes () => (float[M,P] a) { e = DequantizeLinear <axis = 0, block_size = 32> (w, s)\n"
     "a = MatMul (x, e) }, "
     "else_branch = no () => (float[M,P] b) { g = DequantizeLinear <axis = 0, block_size = 32> (w, s)\n"
     "c = MatMul (x, g)\n b = Neg (c) }>",
     2},
    {"tied", "int4", 64, 64, false, 32, false, "h = MatMul (x, d)\n y = MatMul (h, d)", 2},
    {"tied, dequantised twice", "int4", 64, 64, false, 32, false,
     "e = DequantizeLinear <axis = 0, block_size = 32> (w, s)\n h = MatMul (x, d)\n y = MatMul (h, e)", 2},
};

std::shared_ptr<Session> open_text(const std::string& text, const SessionOptions& options) {
  Result<Model> model = parse_text(text);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return nullptr;
  const std::string bytes = *onnx::write_model(*model);
  Result<std::shared_ptr<Bytes>> own = allocate_bytes(bytes.size());
  std::memcpy((*own)->data(), bytes.data(), bytes.size());
  auto session = Session::from_bytes(*own, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? *session : nullptr;
}

std::vector<float> run(Session& session, int64_t m, int64_t k, bool flag = true) {
  std::vector<float> x(static_cast<size_t>(m * k));
  for (size_t i = 0; i < x.size(); ++i) x[i] = std::sin(static_cast<float>(i));
  std::vector<Value> in = {*Tensor::of<float>(Shape{m, k}, x)}, out(1);
  if (session.inputs().size() > 1) in.push_back(*Tensor::scalar(flag));
  const Status s = session.run(in, out);
  EXPECT_TRUE(s.ok()) << s.message();
  if (!s.ok()) return {};
  const auto v = out[0].tensor()->values<float>();
  return {v.begin(), v.end()};
}

int64_t count_of(const Session& session, const char* rule) {
  const auto it = session.loaded().rewrites.find(rule);
  return it == session.loaded().rewrites.end() ? 0 : it->second;
}

// The greatest difference within a row, of the row's norm.
double distance(const std::vector<float>& got, const std::vector<float>& want, int64_t rows) {
  if (got.size() != want.size()) return INFINITY;
  double worst = 0;
  const size_t n = got.size() / static_cast<size_t>(rows);
  for (size_t r = 0; r < got.size(); r += n) {
    double most = 0, norm = 0;
    for (size_t i = r; i < r + n; ++i) {
      most = std::max(most, std::abs(static_cast<double>(got[i]) - static_cast<double>(want[i])));
      norm += static_cast<double>(want[i]) * static_cast<double>(want[i]);
    }
    worst = std::max(worst, most / std::sqrt(norm));
  }
  return worst;
}

TEST(Qdq, EveryFormIsFused) {
  for (const Form& f : kForms) {
    SCOPED_TRACE(f.name);
    SessionOptions exact, int8, unfused;
    exact.rewrites.accuracy_level = 0;
    int8.rewrites.accuracy_level = 4;
    unfused.disabled_rewrites = {kFused};
    const auto a = open_text(text_of(f), exact), b = open_text(text_of(f), int8), c = open_text(text_of(f), unfused);
    ASSERT_TRUE(a && b && c);
    EXPECT_EQ(count_of(*a, kFused), f.fused);
    EXPECT_EQ(count_of(*b, kFused), f.fused);
    for (const int64_t m : {1, 3, 17})
      for (const bool flag : {true, false}) {
        const std::vector<float> want = run(*c, m, f.k, flag);
        EXPECT_LE(distance(run(*a, m, f.k, flag), want, m), 1e-5) << m;
        EXPECT_LE(distance(run(*b, m, f.k, flag), want, m), 1e-2) << m;
      }
  }
}

TEST(Qdq, TiedWeightsArePackedOnce) {
  const Form& tied = kForms[std::size(kForms) - 1];
  const auto session = open_text(text_of(tied), {});
  run(*session, 2, tied.k);
  const Counters c = session->memory().counters;
  EXPECT_EQ(c.pack_calls, 1);
  EXPECT_EQ(c.bytes_packed_in, 64 * 64 / 2 + 2 * 64 * 4);
}

// A chain of products, every other of which has the weights on its left and cannot be fused.
std::shared_ptr<Session> open_chain(int layers, int64_t size) {
  std::string weights, first, then;
  for (int i = 0; i < layers; ++i) {
    weights += format("{}int4[{},{}] w{} = {}, float[4,{}] s{} = {}", i ? ", " : "", size, size, i,
                      bytes_text(size * size / 2, i), size, i, scales_text(4 * size));
    first += format("d{} = DequantizeLinear <axis = 0, block_size = 32> (w{}, s{})\n", i, i, i);
    const std::string in = i ? format("h{}", i) : "x", out = i + 1 < layers ? format("h{}", i + 1) : "y";
    then += i % 2 ? format("p{} = MatMul (d{}, {})\n {} = Tanh (p{})\n", i, i, in, out, i)
                  : format("p{} = MatMul ({}, d{})\n {} = Tanh (p{})\n", i, in, i, out, i);
  }
  return open_text(
      format("<ir_version: 10, opset_import: [\"\" : 21]> net (float[{},{}] x) => (float[{},{}] y) <{}> { {} {} }",
             size, size, size, size, weights, first, then),
      {});
}

// The weights of each product that is not fused are dequantised just before it: only one such matrix is there.
TEST(Qdq, WhatIsNotFusedIsDequantisedLate) {
  int64_t peak[2] = {};
  for (const int layers : {4, 16}) {
    const auto session = open_chain(layers, 128);
    ASSERT_TRUE(session);
    EXPECT_EQ(count_of(*session, kFused), layers / 2);
    run(*session, 128, 128);
    peak[layers == 16] = session->memory().planned_peak;
  }
  EXPECT_EQ(peak[0], peak[1]);
}

class QdqFile : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / format("tessera_qdq_{}", static_cast<int64_t>(getpid()));
    fs::create_directories(folder_);
    std::string data(kCodes + kScales, '\0');
    for (size_t i = 0; i < kCodes; ++i) data[i] = static_cast<char>(i * 37 % 251);
    for (size_t i = 0; i < kScales / 4; ++i) {
      const float s = 0.01f * static_cast<float>(1 + i % 7);
      std::memcpy(data.data() + kCodes + 4 * i, &s, 4);
    }
    std::ofstream(path("weights.bin"), std::ios::binary).write(data.data(), static_cast<std::streamsize>(data.size()));
    const Result<Model> model = parse_text(format(
        R"(<ir_version: 10, opset_import: ["" : 21]> net (float[M,128] x) => (float[M,96] y)
        <int4[128,96] w = ["location": "weights.bin", "offset": "0", "length": "{}"],
         float[4,96] s = ["location": "weights.bin", "offset": "{}", "length": "{}"]> {
          d = DequantizeLinear <axis = 0, block_size = 32> (w, s)
          y = MatMul (x, d)
        })",
        static_cast<int64_t>(kCodes), static_cast<int64_t>(kCodes), static_cast<int64_t>(kScales)));
    ASSERT_TRUE(model.ok()) << model.status().message();
    ASSERT_TRUE(onnx::save_model(*model, path("model.onnx")).ok());
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const char* name) const { return (folder_ / name).string(); }

  static constexpr size_t kCodes = 128 * 96 / 2, kScales = 4 * 96 * 4;
  fs::path folder_;
};

TEST_F(QdqFile, IsPackedStraightFromTheMapping) {
  const auto session = Session::open(path("model.onnx"));
  ASSERT_TRUE(session.ok()) << session.status().message();
  run(**session, 2, 128);
  const Counters c = (*session)->memory().counters;
  EXPECT_EQ(c.bytes_copied, 0);
  EXPECT_EQ(c.bytes_packed_in, static_cast<int64_t>(kCodes + kScales));
  EXPECT_EQ(c.pack_calls, 1);
}

TEST_F(QdqFile, HasItsPacksInAFile) {
  std::vector<float> want;
  {
    const auto session = Session::open(path("model.onnx"));
    ASSERT_TRUE(session.ok()) << session.status().message();
    want = run(**session, 2, 128);
    const auto saved = save_packs(**session, path("model.onnx.pack"));
    ASSERT_TRUE(saved.ok()) << saved.status().message();
  }
  const auto again = Session::open(path("model.onnx"));
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(run(**again, 2, 128), want);
  const Counters c = (*again)->memory().counters;
  EXPECT_EQ(c.packs_mapped, 1);
  EXPECT_EQ(c.pack_calls, 0);
  EXPECT_EQ(c.bytes_packed_in + c.bytes_copied, 0);
}

TEST_F(QdqFile, IsNotPackedOnceCancelled) {
  const auto session = Session::open(path("model.onnx"));
  ASSERT_TRUE(session.ok()) << session.status().message();
  RunOptions options;
  options.cancel = true;
  std::vector<float> x(128);
  const std::vector<Value> in = {*Tensor::of<float>(Shape{1, 128}, x)};
  std::vector<Value> out(1);
  EXPECT_EQ((*session)->run(in, out, &options).code(), Code::canceled);
  EXPECT_EQ((*session)->memory().counters.pack_calls, 0);
  SessionOptions stopped;
  stopped.cancel_load = std::make_shared<const std::atomic<bool>>(true);
  EXPECT_EQ(Session::open(path("model.onnx"), stopped).status().code(), Code::canceled);
}

}  // namespace
}  // namespace tessera
