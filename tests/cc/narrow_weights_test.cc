// Weights of 16-bit floats: packed from their own bytes, in their own size, with the result of the widened weights.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "core/convert.h"
#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "session/save.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kRows = 33, kColumns = 17;

class NarrowWeights : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / format("tessera_narrow_{}_{}", static_cast<int64_t>(getpid()), ++serial_);
    fs::create_directories(folder_);
    std::string data(2 * kRows * kColumns, '\0');
    for (int64_t i = 0; i < kRows * kColumns; ++i) {
      const uint16_t bits = narrow(static_cast<float>(i * 37 % 101) / 64 - 0.75f);
      std::memcpy(data.data() + 2 * i, &bits, 2);
    }
    std::ofstream(folder_ / "weights.bin", std::ios::binary) << data;
  }
  void TearDown() override { fs::remove_all(folder_); }

  uint16_t narrow(float v) const { return GetParam() == DType::f16 ? float_to_f16(v) : float_to_bf16(v); }
  std::string path() const { return (folder_ / "model.onnx").string(); }

  // `body` computes y[M,17] from x[M,33] and w, the weight as rows x columns.
  std::shared_ptr<Session> open(const std::string& body, int64_t rows, int64_t columns) const {
    const char* type = GetParam() == DType::f16 ? "float16" : "bfloat16";
    const auto model = parse_text(format(R"(<ir_version: 10, opset_import: ["" : 17]>
      net ({}[M,33] x) => ({}[M,17] y)
      <{}[{},{}] w = ["location": "weights.bin", "offset": "0", "length": "1122"]> { {} })",
                                         type, type, type, rows, columns, body));
    EXPECT_TRUE(model.ok()) << model.status().message();
    if (!model.ok()) return nullptr;
    std::ofstream(path(), std::ios::binary) << *onnx::write_model(*model);
    auto s = Session::open(path(), {});
    EXPECT_TRUE(s.ok()) << s.status().message();
    return s.ok() ? *s : nullptr;
  }
  std::vector<uint16_t> run(Session& session, int64_t m) const {
    Result<Tensor> x = Tensor::allocate(GetParam(), Shape{m, kRows});
    for (int64_t i = 0; i < m * kRows; ++i)
      static_cast<uint16_t*>(x->mutable_data())[i] = narrow(static_cast<float>(i * 29 % 83) / 32 - 1.25f);
    const std::vector<Value> in = {*x};
    std::vector<Value> out(1);
    const Status s = session.run(in, out);
    EXPECT_TRUE(s.ok()) << s.message();
    std::vector<uint16_t> bits(static_cast<size_t>(m * kColumns));
    if (s.ok()) std::memcpy(bits.data(), out[0].tensor()->data(), bits.size() * 2);
    return bits;
  }

  fs::path folder_;
  static inline int serial_ = 0;
};
INSTANTIATE_TEST_SUITE_P(Types, NarrowWeights, testing::Values(DType::f16, DType::bf16),
                         [](const auto& info) { return std::string(name_of(info.param)); });

constexpr const char* kMatMul = "y = MatMul (x, w)";
constexpr const char* kGemm = "y = Gemm <transB = 1> (x, w)";

TEST_P(NarrowWeights, ArePackedWithoutACopy) {
  const auto session = open(kMatMul, kRows, kColumns);
  run(*session, 2);
  const Counters c = session->memory().counters;
  EXPECT_EQ(c.bytes_copied, 0);
  EXPECT_EQ(c.bytes_packed_in, 2 * kRows * kColumns);
  EXPECT_EQ(c.bytes_packed_out, 2 * kRows * 32);
}

TEST_P(NarrowWeights, GiveWhatWidenedOnesGive) {
  const auto widened = [](const char* op) {
    return format("a = Cast <to = 1> (x)\n b = Cast <to = 1> (w)\n c = {}\n y = Cast <to = {}> (c)", op,
                  GetParam() == DType::f16 ? 10 : 16);
  };
  const auto product = open(kMatMul, kRows, kColumns);
  const auto wide_product = open(widened("MatMul (a, b)"), kRows, kColumns);
  const auto turned = open(kGemm, kColumns, kRows);
  const auto wide_turned = open(widened("Gemm <transB = 1> (a, b)"), kColumns, kRows);
  for (const int64_t m : {1, 3, 4, 12, 30, 100}) {
    EXPECT_EQ(run(*product, m), run(*wide_product, m)) << m;
    EXPECT_EQ(run(*turned, m), run(*wide_turned, m)) << m;
  }
}

TEST_P(NarrowWeights, AreFoundInAPackFile) {
  const auto session = open(kMatMul, kRows, kColumns);
  const std::vector<uint16_t> want = run(*session, 5);
  const auto saved = save_packs(*session, path() + ".pack");
  ASSERT_TRUE(saved.ok()) << saved.status().message();
  const auto again = open(kMatMul, kRows, kColumns);
  EXPECT_EQ(run(*again, 5), want);
  EXPECT_EQ(again->memory().counters.packs_stale, 0);
  EXPECT_EQ(again->memory().counters.pack_calls, 0);
}

}  // namespace
}  // namespace tessera
