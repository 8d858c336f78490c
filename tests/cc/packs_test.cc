// labels: data robust
// Packed weights: written once, mapped at load, shared, and never trusted when they are not of this model's weights.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <random>

#include "base/file.h"
#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "session/save.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

// A folder of its own for each test, gone afterwards.
class Packs : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / format("tessera_packs_{}_{}", static_cast<int64_t>(getpid()), ++serial_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static std::string content(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  static void write(const std::string& path, const std::string& content) {
    std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
  }

  // weights.bin: floats; model.onnx: three products of odd sizes, one of them in a branch, one weight used twice.
  void make_model(float scale = 1, const std::string& checksum = {}) const {
    std::string data(4 * (33 * 17 + 17 * 33 + 5), '\0');
    for (size_t i = 0; i < data.size() / 4; ++i) {
      const float v = scale * static_cast<float>(static_cast<int>(i * 7 % 23) - 11) / 16;
      std::memcpy(data.data() + 4 * i, &v, 4);
    }
    write(path("weights.bin"), data);
    const std::string stated = checksum.empty() ? "" : format(", \"checksum\": \"{}\"", checksum);
    Result<Model> model = parse_text(format(R"(<ir_version: 10, opset_import: ["" : 17]>
      net (float[M,33] x, bool flag) => (float[M,33] y)
      <float[33,17] w = ["location": "weights.bin", "offset": "0", "length": "2244"{}],
       float[17,33] v = ["location": "weights.bin", "offset": "2264", "length": "2244"{}]> {
        a = MatMul (x, w)
        b = If (flag) <then_branch = yes () => (float[M,33] t) { t = MatMul (a, v) },
                       else_branch = no () => (float[M,33] e) { n = Neg (a)
                                                                e = MatMul (n, v) }>
        c = MatMul (b, w)
        y = MatMul (c, v)
      })",
                                            stated, stated));
    ASSERT_TRUE(model.ok()) << model.status().message();
    write(path("model.onnx"), *onnx::write_model(*model));
  }

  std::shared_ptr<Session> open(SessionOptions options = {}) const {
    auto s = Session::open(path("model.onnx"), options);
    EXPECT_TRUE(s.ok()) << s.status().message();
    return s.ok() ? *s : nullptr;
  }
  static std::vector<float> run(Session& session, int64_t m = 3, bool flag = true) {
    std::vector<float> x(static_cast<size_t>(m * 33));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 9) - 4;
    const std::vector<Value> in = {*Tensor::of<float>(Shape{m, 33}, x), *Tensor::scalar(flag)};
    std::vector<Value> out(1);
    const Status s = session.run(in, out);
    EXPECT_TRUE(s.ok()) << s.message();
    if (!s.ok()) return {};
    const auto v = out[0].tensor()->values<float>();
    return {v.begin(), v.end()};
  }
  // The answer without any pack file, and the pack file.
  std::vector<float> pack() const {
    SessionOptions off;
    off.pack_file = "off";
    const auto session = open(off);
    std::vector<float> want = run(*session);
    const auto saved = save_packs(*session, path("model.onnx.pack"));
    EXPECT_TRUE(saved.ok()) << saved.status().message();
    return want;
  }

  fs::path folder_;
  static inline int serial_ = 0;
};

TEST_F(Packs, AreMappedAndNothingIsPacked) {
  make_model();
  const std::vector<float> want = pack();
  const auto session = open();
  EXPECT_EQ(run(*session), want);
  const Counters c = session->memory().counters;
  EXPECT_EQ(c.pack_calls, 0);
  EXPECT_EQ(c.packs_stale, 0);
  EXPECT_EQ(c.packs_mapped, 2);  // two weights, wherever they are read
  EXPECT_EQ(c.packs_shared, 3);
  for (const int64_t m : {1, 2, 5, 16, 64})
    for (const bool flag : {false, true}) {
      SessionOptions off;
      off.pack_file = "off";
      EXPECT_EQ(run(*session, m, flag), run(*open(off), m, flag)) << m;
    }
}

TEST_F(Packs, AreTheSameBytesEachTime) {
  make_model();
  pack();
  const std::string first = content(path("model.onnx.pack"));
  pack();
  EXPECT_EQ(content(path("model.onnx.pack")), first);
}

TEST_F(Packs, AreSharedBySessions) {
  make_model();
  SessionOptions off;
  off.pack_file = "off";
  const auto one = open(off), two = open(off);
  const std::vector<float> a = run(*one), b = run(*two);
  EXPECT_EQ(a, b);
  EXPECT_EQ(one->memory().counters.pack_calls + two->memory().counters.pack_calls, 2);
}

TEST_F(Packs, StayValidInACopiedFolder) {
  make_model();
  const std::vector<float> want = pack();
  const fs::path copy = folder_ / "copy";
  fs::create_directories(copy);
  for (const char* name : {"model.onnx", "weights.bin", "model.onnx.pack"}) fs::copy_file(folder_ / name, copy / name);
  auto session = Session::open((copy / "model.onnx").string());
  ASSERT_TRUE(session.ok()) << session.status().message();
  EXPECT_EQ(run(**session), want);
  EXPECT_EQ((*session)->memory().counters.pack_calls, 0);
}

TEST_F(Packs, OfOtherWeightsAreStale) {
  make_model();
  pack();
  make_model(2);
  SessionOptions off;
  off.pack_file = "off";
  const auto session = open();
  EXPECT_EQ(run(*session), run(*open(off)));
  EXPECT_GT(session->memory().counters.packs_stale, 0);
  EXPECT_EQ(session->memory().counters.packs_mapped, 0);
  SessionOptions strict;
  strict.pack_strict = true;
  const auto refused = Session::open(path("model.onnx"), strict);
  ASSERT_FALSE(refused.ok());
  EXPECT_NE(refused.status().message().find("tessera pack"), std::string::npos) << refused.status().message();
}

// A model that states the checksums of its weights: nothing has to be read to know that a pack is of others.
TEST_F(Packs, AreNamedByTheChecksumsOfTheModel) {
  make_model(1, "1111");
  const std::vector<float> want = pack();
  auto session = open();
  EXPECT_EQ(run(*session), want);
  EXPECT_EQ(session->memory().counters.packs_mapped, 2);
  session.reset();
  make_model(2, "2222");
  session = open();
  EXPECT_NE(run(*session), want);
  EXPECT_EQ(session->memory().counters.packs_mapped, 0);
}

TEST_F(Packs, AndWeightsThatChangeUnderASessionAreNoticed) {
  make_model();
  pack();
  for (const char* name : {"weights.bin", "model.onnx.pack"}) {
    const std::string whole = content(path(name));
    auto session = open();
    const std::vector<float> want = run(*session);
    fs::resize_file(path(name), 8);
    std::vector<Value> out(1);
    const std::vector<Value> in = {*Tensor::of<float>(Shape{1, 33}, std::vector<float>(33)), *Tensor::scalar(true)};
    const Status s = session->run(in, out);
    EXPECT_FALSE(s.ok());
    EXPECT_NE(s.message().find("was changed after it was opened"), std::string::npos) << s.message();
    write(path(name), whole);
    session = open();
    EXPECT_EQ(run(*session), want);
    // Replaced by name: the old file is still there for whoever has it open.
    fs::rename(path(name), path("moved"));
    write(path(name), "another");
    EXPECT_EQ(run(*session), want);
    fs::rename(path("moved"), path(name));
  }
}

TEST_F(Packs, EveryDamageIsFoundByVerifying) {
  make_model();
  pack();
  const std::string whole = content(path("model.onnx.pack"));
  std::mt19937 random(7);
  int found = 0;
  for (int i = 0; i < 2000; ++i) {
    std::string damaged = whole;
    const size_t at = random() % damaged.size();
    damaged[at] = static_cast<char>(damaged[at] ^ (1 << random() % 8));
    auto storage = allocate_bytes(damaged.size());
    std::memcpy((*storage)->data(), damaged.data(), damaged.size());
    const auto packs = PackFile::read(*storage);
    found += !packs.ok() || !(*packs)->verify().ok();
  }
  // Zeros between the parts are the only bytes that nothing depends on.
  EXPECT_GE(found, 1200);
}

TEST_F(Packs, ADamagedFileIsNotUsed) {
  make_model();
  const std::vector<float> want = pack();
  const std::string whole = content(path("model.onnx.pack"));
  std::mt19937 random(11);
  for (size_t cut = 0; cut < whole.size(); cut += 1 + random() % 97) {
    write(path("model.onnx.pack"), whole.substr(0, cut));
    const auto session = open();
    ASSERT_EQ(run(*session), want) << cut;
    ASSERT_EQ(session->memory().counters.packs_mapped, 0) << cut;
  }
  for (int i = 0; i < 300; ++i) {
    std::string damaged = whole;
    for (int k = 0; k < 3; ++k) damaged[random() % damaged.size()] = static_cast<char>(random());
    write(path("model.onnx.pack"), damaged);
    SessionOptions options;
    options.pack_verify = true;
    ASSERT_EQ(run(*open(options)), want) << i;
  }
}

}  // namespace
}  // namespace tessera
