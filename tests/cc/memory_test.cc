// labels: data
// Where activations lie: caches that a caller keeps grow in place, and bodies work inside the memory of their parent.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <numeric>

#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "session/session.h"

namespace tessera {
namespace {

std::shared_ptr<Session> open(std::string_view text) {
  Result<Model> model = parse_text(text);
  EXPECT_TRUE(model.ok()) << model.status().message();
  if (!model.ok()) return nullptr;
  const Result<std::string> bytes = onnx::write_model(*model);
  auto storage = allocate_bytes(bytes->size());
  std::copy_n(bytes->data(), bytes->size(), reinterpret_cast<char*>((*storage)->data()));
  SessionOptions options;
  options.threads = 1;
  auto session = Session::from_bytes(*storage, options);
  EXPECT_TRUE(session.ok()) << session.status().message();
  return session.ok() ? *session : nullptr;
}

std::vector<float> numbers(int64_t count, float first) {
  std::vector<float> v(static_cast<size_t>(count));
  for (size_t i = 0; i < v.size(); ++i) v[i] = first + static_cast<float>(i % 13) / 8;
  return v;
}
Tensor tensor(Shape shape, float first) { return *Tensor::of<float>(shape, numbers(shape.count(), first)); }

// Pages of which some may not be written: a copy into them ends the process.
class Pages {
 public:
  explicit Pages(size_t count) : size_(count * page()) {
    data_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  }
  ~Pages() { munmap(data_, size_); }
  static size_t page() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
  float* floats() const { return static_cast<float*>(data_); }
  void allow_only(size_t one) {
    mprotect(data_, size_, PROT_READ);
    mprotect(static_cast<char*>(data_) + one * page(), page(), PROT_READ | PROT_WRITE);
  }
  // The first elements as a tensor.
  Tensor view(Shape shape) const {
    return {DType::f32, std::move(shape),
            std::make_shared<Bytes>(Bytes::Origin::borrowed, data_, size_, nullptr, nullptr)};
  }

 private:
  size_t size_;
  void* data_;
};

TEST(Cache, AnUpdateTouchesNothingElse) {
  const auto session = open(R"(<ir_version: 10, opset_import: ["" : 24]>
    step (float[1,1,8,D] cache, float[1,1,1,D] row, int64[1] place, float[1,1,1,D] q, int64[1] length)
      => (float[1,1,8,D] present, float[1,1,1,D] y) {
      present = TensorScatter <axis = 2> (cache, row, place)
      y = Attention (q, present, present, , , , length)
    })");
  ASSERT_TRUE(session);
  const auto d = static_cast<int64_t>(Pages::page() / sizeof(float));
  Pages pages(8);
  const std::vector<float> old = numbers(8 * d, 1);
  std::copy(old.begin(), old.end(), pages.floats());
  const Tensor row = tensor({1, 1, 1, d}, -4), q = tensor({1, 1, 1, d}, 2);
  const int64_t place[] = {3}, length[] = {4};
  std::vector<Value> inputs = {tensor({1, 1, 8, d}, 1), row, *Tensor::of<int64_t>({1}, place), q,
                               *Tensor::of<int64_t>({1}, length)};
  std::vector<Value> fresh(2);
  ASSERT_TRUE(session->run(inputs, fresh).ok());

  inputs[0] = pages.view({1, 1, 8, d});
  std::vector<Value> outputs = {Value(pages.view({1, 1, 8, d})), Value()};
  pages.allow_only(3);
  const Status status = session->run(inputs, outputs);
  ASSERT_TRUE(status.ok()) << status.message();
  for (size_t o = 0; o < 2; ++o)
    EXPECT_TRUE(std::ranges::equal(outputs[o].tensor()->values<float>(), fresh[o].tensor()->values<float>())) << o;
  EXPECT_EQ(outputs[0].tensor()->data(), pages.floats());
}

constexpr const char* kGrowing = R"(<ir_version: 10, opset_import: ["" : 23]>
    step (float[1,H,1,D] q, float[1,H,1,D] k, float[1,H,1,D] v, float[1,H,P,D] past_k, float[1,H,P,D] past_v)
      => (float[1,H,1,D] y, float[1,H,T,D] present_k, float[1,H,T,D] present_v) {
      y, present_k, present_v = Attention (q, k, v, , past_k, past_v)
    })";

TEST(Cache, GrowsWhereItLies) {
  const auto session = open(kGrowing);
  ASSERT_TRUE(session);
  const auto d = static_cast<int64_t>(Pages::page() / sizeof(float));
  Pages keys(8), values(8);
  std::copy_n(numbers(5 * d, 1).data(), 5 * d, keys.floats());
  std::copy_n(numbers(5 * d, 2).data(), 5 * d, values.floats());
  std::vector<Value> inputs;
  for (const float f : {3.f, 4.f, 5.f}) inputs.push_back(tensor({1, 1, 1, d}, f));
  inputs.push_back(tensor({1, 1, 5, d}, 1));
  inputs.push_back(tensor({1, 1, 5, d}, 2));
  std::vector<Value> fresh(3);
  ASSERT_TRUE(session->run(inputs, fresh).ok());

  inputs[3] = keys.view({1, 1, 5, d});
  inputs[4] = values.view({1, 1, 5, d});
  std::vector<Value> outputs = {Value(), Value(keys.view({1, 1, 6, d})), Value(values.view({1, 1, 6, d}))};
  keys.allow_only(5);
  values.allow_only(5);
  ASSERT_TRUE(session->run(inputs, outputs).ok());
  for (size_t o = 0; o < 3; ++o)
    EXPECT_TRUE(std::ranges::equal(outputs[o].tensor()->values<float>(), fresh[o].tensor()->values<float>())) << o;
}

TEST(Cache, OfSeveralHeadsMovesInItsOwnMemory) {
  const auto session = open(kGrowing);
  ASSERT_TRUE(session);
  Pages keys(1), values(1);
  std::copy_n(numbers(3 * 4 * 2, 1).data(), 3 * 4 * 2, keys.floats());
  std::copy_n(numbers(3 * 4 * 2, 2).data(), 3 * 4 * 2, values.floats());
  std::vector<Value> inputs;
  for (const float f : {3.f, 4.f, 5.f}) inputs.push_back(tensor({1, 3, 1, 2}, f));
  inputs.push_back(tensor({1, 3, 4, 2}, 1));
  inputs.push_back(tensor({1, 3, 4, 2}, 2));
  std::vector<Value> fresh(3);
  ASSERT_TRUE(session->run(inputs, fresh).ok());
  inputs[3] = keys.view({1, 3, 4, 2});
  inputs[4] = values.view({1, 3, 4, 2});
  std::vector<Value> outputs = {Value(), Value(keys.view({1, 3, 5, 2})), Value(values.view({1, 3, 5, 2}))};
  ASSERT_TRUE(session->run(inputs, outputs).ok());
  for (size_t o = 0; o < 3; ++o)
    EXPECT_TRUE(std::ranges::equal(outputs[o].tensor()->values<float>(), fresh[o].tensor()->values<float>())) << o;
}

// A shape may come from a kernel that wants working memory: it runs when that memory is there.
TEST(Shapes, MayDependOnKernelsWithScratch) {
  const auto session = open(R"(<ir_version: 10, opset_import: ["" : 22]>
    g (float[3,3] x) => (float[N] y) <int64[1] one = {1}> {
      d = Det (x)
      n = Cast <to = 7> (d)
      l = Reshape (n, one)
      y = ConstantOfShape (l)
    })");
  ASSERT_TRUE(session);
  const float x[] = {2, 0, 0, 0, 3, 0, 0, 0, 1};
  std::vector<Value> out(1);
  const Status s = session->run(std::vector<Value>{*Tensor::of<float>({3, 3}, x)}, out);
  ASSERT_TRUE(s.ok()) << s.message();
  EXPECT_EQ(out[0].tensor()->shape().str(), "[6]");
}

// What binding computed is there for the runs after it, whoever reads it last.
TEST(Shapes, AreNotGivenAwayByTheirLastReader) {
  const auto session = open(R"(<ir_version: 10, opset_import: ["" : 21]>
    g (float[48] x, int64[1] begin) => (float[N] y, seq(int64[1]) q) <int64[1] c = {36}> {
      end = Concat <axis = 0> (c)
      y = Slice (x, begin, end)
      q = SequenceConstruct (end)
    })");
  ASSERT_TRUE(session);
  const int64_t begin[] = {0};
  const std::vector<Value> in = {tensor({48}, 1), *Tensor::of<int64_t>({1}, begin)};
  for (int run = 0; run < 3; ++run) {
    std::vector<Value> out(2);
    const Status s = session->run(in, out);
    ASSERT_TRUE(s.ok()) << s.message();
    EXPECT_EQ(out[0].tensor()->shape().str(), "[36]");
    EXPECT_EQ(out[1].sequence()->items[0].tensor()->values<int64_t>()[0], 36);
  }
}

// Two large values die before the loop: its body fits where they were.
TEST(Bodies, WorkInTheMemoryOfTheirParent) {
  const auto session = open(R"(<ir_version: 10, opset_import: ["" : 21]>
    looped (float[64,64] x, int64 count) => (float[64,64] y) <bool yes = {1}> {
      a = Exp (x)
      b = Add (a, x)
      c = Neg (b)
      s = ReduceSum <keepdims = 0> (c)
      y = Loop (count, yes, x) <body = turn (int64 i, bool go, float[64,64] v) => (bool again, float[64,64] next) {
        again = Identity (go)
        t = Add (v, s)
        u = Exp (t)
        w = Add (u, t)
        next = Tanh (w)
      }>
    })");
  ASSERT_TRUE(session);
  const int64_t count = 5;
  const std::vector<Value> inputs = {tensor({64, 64}, -1), *Tensor::scalar(count)};
  std::vector<Value> first(1);
  ASSERT_TRUE(session->run(inputs, first).ok());
  for (int i = 0; i < 3; ++i) {
    std::vector<Value> again(1);
    ASSERT_TRUE(session->run(inputs, again).ok());
    EXPECT_TRUE(std::ranges::equal(again[0].tensor()->values<float>(), first[0].tensor()->values<float>()));
  }
  const MemoryStats m = session->memory();
  EXPECT_LE(m.slab_bytes, 3 * 64 * 64 * 4 + 4096);
  EXPECT_EQ(m.idle_bytes, m.slab_bytes) << "a body took memory of its own";
}

}  // namespace
}  // namespace tessera
