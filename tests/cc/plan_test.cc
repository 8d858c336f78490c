// What the plan promises: no allocation in the steady state, a slab of the planned size, cheap rebinding, weights in
// place.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <new>
#include <random>

#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "session/session.h"

namespace {
std::atomic<int64_t> allocations{0};
}
[[gnu::noinline]] void* operator new(size_t n) {
  ++allocations;
  if (void* p = std::malloc(n ? n : 1)) return p;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* p) noexcept { std::free(p); }
[[gnu::noinline]] void operator delete(void* p, size_t) noexcept { std::free(p); }

namespace tessera {
namespace {

// A graph given as "out = Op(in, in)" rows over float values of one shape.
struct Row {
  const char* out;
  const char* op;
  std::vector<const char*> in;
};
Result<std::string> model_of(std::vector<Row> rows, std::vector<Dim> shape, const char* output,
                             const std::vector<float>* constant = nullptr) {
  ir::GraphBuilder g;
  TRY(g.input("x", Fact::tensor(DType::f32, shape)));
  if (constant) {
    TRY_ASSIGN(c, Tensor::of<float>(Shape{static_cast<int64_t>(constant->size())}, *constant));
    TRY(g.initializer("c", Weight::from(c)));
  }
  for (const Row& r : rows) {
    ir::Node n;
    n.op_type = r.op;
    n.name = r.out;
    std::vector<std::string_view> in(r.in.begin(), r.in.end());
    const std::string_view out[] = {r.out};
    TRY(g.node(std::move(n), in, out));
  }
  g.output(output, Fact{});
  Model m;
  m.ir_version = 10;
  m.opsets = {{"", 21}};
  m.graph = g.finish();
  return onnx::write_model(m);
}

std::shared_ptr<Session> open(const std::string& bytes, SessionOptions options = {}) {
  options.threads = 1;
  auto s = Session::from_bytes(borrow_bytes(bytes.data(), bytes.size()), options);
  EXPECT_TRUE(s.ok()) << s.status().message();
  return s.ok() ? *s : nullptr;
}

TEST(Plan, SteadyRunsAllocateNothing) {
  std::vector<Row> rows;
  std::vector<std::string> names;
  for (int i = 0; i < 100; ++i) names.push_back("v" + std::to_string(i));
  for (int i = 0; i < 100; ++i)
    rows.push_back(
        {names[static_cast<size_t>(i)].c_str(), "Add", {i ? names[static_cast<size_t>(i - 1)].c_str() : "x", "c"}});
  const std::vector<float> c(16, 1.0f);
  const auto bytes = model_of(rows, {16}, "v99", &c);
  ASSERT_TRUE(bytes.ok());
  auto session = open(*bytes);
  ASSERT_TRUE(session);
  const std::vector<Value> in{*Tensor::of<float>(Shape{16}, std::vector<float>(16, 0.0f))};
  std::vector<Value> out(1);
  ASSERT_TRUE(session->run(in, out).ok());
  ASSERT_TRUE(session->run(in, out).ok());
  const int64_t before = allocations;
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(session->run(in, out).ok());
  EXPECT_EQ(allocations - before, 0);
  EXPECT_EQ(out[0].tensor()->values<float>()[3], 100.0f);
}

TEST(Plan, TheSlabIsAsLargeAsThePeak) {
  // a and b live together, then c: two buffers at the peak, and the last step runs in place.
  const auto bytes = model_of({{"a", "Relu", {"x"}},
                               {"b", "Sigmoid", {"x"}},
                               {"s", "Add", {"a", "b"}},
                               {"t", "Relu", {"s"}},
                               {"y", "Sigmoid", {"t"}}},
                              {1024, 64}, "y");
  ASSERT_TRUE(bytes.ok());
  auto session = open(*bytes);
  ASSERT_TRUE(session);
  const std::vector<Value> in{*Tensor::allocate(DType::f32, Shape{1024, 64})};
  std::vector<Value> out(1);
  ASSERT_TRUE(session->run(in, out).ok());
  EXPECT_EQ(session->memory().planned_peak, 2 * 1024 * 64 * 4);
  EXPECT_EQ(session->memory().slab_bytes, session->memory().planned_peak);
}

TEST(Plan, AShapeReadAtTheEndKeepsNoBytesAlive) {
  // Shape(a) runs last, but a's bytes are free after Relu.
  const auto with = model_of(
      {{"a", "Relu", {"x"}}, {"b", "Relu", {"a"}}, {"s", "Sigmoid", {"b"}}, {"y", "Shape", {"a"}}}, {1 << 16}, "s");
  ASSERT_TRUE(with.ok());
  auto session = open(*with);
  ASSERT_TRUE(session);
  const std::vector<Value> in{*Tensor::allocate(DType::f32, Shape{1 << 16})};
  std::vector<Value> out(1);
  ASSERT_TRUE(session->run(in, out).ok());
  EXPECT_EQ(session->memory().planned_peak, (1 << 16) * 4);
}

// Unfused DequantizeLinear + MatMul layers, listed at random: weights are expanded one at a time whatever the listing.
TEST(Plan, PeakDoesNotDependOnTheListing) {
  constexpr int kLayers = 16;
  constexpr int64_t kSide = 256;
  std::vector<int8_t> zeros(kSide * kSide, 0);
  for (unsigned seed = 0; seed < 20; ++seed) {
    ir::GraphBuilder g;
    ASSERT_TRUE(g.input("x0", Fact::tensor(DType::f32, std::vector<Dim>{1, kSide})).ok());
    ASSERT_TRUE(g.initializer("scale", Weight::from(*Tensor::scalar(1.0f))).ok());
    std::vector<std::pair<ir::Node, std::vector<std::string>>> nodes;  // inputs, then the output
    for (int i = 0; i < kLayers; ++i) {
      const std::string q = format("q{}", i), w = format("w{}", i);
      ASSERT_TRUE(g.initializer(q, Weight::from(*Tensor::of<int8_t>(Shape{kSide, kSide}, zeros))).ok());
      ir::Node dequantize, product;
      dequantize.op_type = "DequantizeLinear";
      dequantize.name = "d" + std::to_string(i);
      product.op_type = "MatMul";
      product.name = "m" + std::to_string(i);
      nodes.push_back({dequantize, {q, "scale", w}});
      nodes.push_back({product, {format("x{}", i), w, format("x{}", i + 1)}});
    }
    std::shuffle(nodes.begin(), nodes.end(), std::mt19937(seed));
    for (auto& [node, names] : nodes) {
      std::vector<std::string_view> in(names.begin(), names.end() - 1);
      const std::string_view out[] = {names.back()};
      ASSERT_TRUE(g.node(node, in, out).ok());
    }
    g.output(format("x{}", kLayers), Fact{});
    Model m;
    m.ir_version = 10;
    m.opsets = {{"", 21}};
    m.graph = g.finish();
    const auto bytes = onnx::write_model(m);
    ASSERT_TRUE(bytes.ok());
    auto session = open(*bytes);
    ASSERT_TRUE(session);
    const std::vector<Value> in{*Tensor::allocate(DType::f32, Shape{1, kSide})};
    std::vector<Value> out(1);
    ASSERT_TRUE(session->run(in, out).ok());
    EXPECT_LE(session->memory().slab_bytes, 2 * kSide * kSide * 4 + 64 * 1024) << "listing " << seed;
    EXPECT_LE(session->loaded().planned_peak, kSide * kSide * 4 + 2 * kSide * 4) << "listing " << seed;
  }
}

TEST(Plan, ChangingShapesGiveRightAnswers) {
  const std::vector<float> c{1.0f};
  const auto bytes = model_of({{"a", "Add", {"x", "c"}}, {"b", "Mul", {"a", "a"}}, {"y", "Sub", {"b", "x"}}},
                              {DimPool().symbol("N")}, "y", &c);
  ASSERT_TRUE(bytes.ok());
  auto session = open(*bytes);
  ASSERT_TRUE(session);
  for (const int64_t n : {3, 1, 1000, 2, 0, 17, 1000, 5}) {
    std::vector<float> x(static_cast<size_t>(n));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);
    const std::vector<Value> in{*Tensor::of<float>(Shape{n}, x)};
    std::vector<Value> out(1);
    ASSERT_TRUE(session->run(in, out).ok());
    ASSERT_EQ(out[0].tensor()->count(), n);
    for (size_t i = 0; i < x.size(); ++i)
      ASSERT_EQ(out[0].tensor()->values<float>()[i], (x[i] + 1) * (x[i] + 1) - x[i]);
  }
}

// Between operators that compute in float a half float is not rounded, but MatMul's operands are, and so is everything
// when optimisation is off.
TEST(Plan, ValuesStayWideBetweenWidenedOperators) {
  for (const bool wide : {true, false}) {
    SCOPED_TRACE(wide);
    const Result<Model> m = parse_text(R"(<ir_version: 10, opset_import: ["" : 17]>
        wide (float16[1] x) => (y, z) <float16[1] tiny = {1678}, float16[1,1] one = {15360}> {
          a = Add (x, tiny)
          y = Sub (a, x)
          b = Add (x, tiny)
          m = MatMul (b, one)
          z = Sub (m, x)
        })");
    ASSERT_TRUE(m.ok()) << m.status().message();
    const std::string bytes = *onnx::write_model(*m);
    SessionOptions options;
    if (!wide) options.disabled_rewrites = {"keep_wide"};
    const auto session = open(bytes, options);
    const uint16_t one = 0x3c00;
    std::vector<Value> in{Tensor(DType::f16, Shape{1}, borrow_bytes(&one, sizeof one))}, out(2);
    const Status s = session->run(in, out);
    ASSERT_TRUE(s.ok()) << s.message();
    const auto bits = [&](size_t i) { return *static_cast<const uint16_t*>(out[i].tensor()->data()); };
    EXPECT_EQ(bits(0) != 0, wide) << "1 + 0.0001 is 1 when rounded";
    EXPECT_EQ(bits(1), 0);
  }
}

TEST(Plan, WeightsHandedOverAreUsedInPlace) {
  const std::string folder = std::string(TESSERA_SOURCE_DIR) + "/tests/models/samples/";
  std::ifstream file(folder + "external.bin", std::ios::binary);
  const std::string content{std::istreambuf_iterator<char>(file), {}};
  auto buffer = allocate_bytes(content.size());
  std::memcpy((*buffer)->data(), content.data(), content.size());
  std::ifstream model_file(folder + "external.onnx", std::ios::binary);
  const std::string model{std::istreambuf_iterator<char>(model_file), {}};
  SessionOptions options;
  EXPECT_FALSE(Session::from_bytes(borrow_bytes(model.data(), model.size()), options).ok())
      << "a model in memory must not read the current folder";
  options.external_files["./external.bin"] = borrow_bytes((*buffer)->data(), (*buffer)->size());
  auto session = open(model, options);
  ASSERT_TRUE(session);
  EXPECT_EQ(session->memory().counters.bytes_copied, 0);
  EXPECT_EQ(session->memory().counters.bytes_mapped, 0);
  const Tensor& w = session->loaded().plan->constants()[0].tensor;
  EXPECT_GE(static_cast<const std::byte*>(w.data()), (*buffer)->data());
  EXPECT_LT(static_cast<const std::byte*>(w.data()), (*buffer)->data() + (*buffer)->size());
}

}  // namespace
}  // namespace tessera
