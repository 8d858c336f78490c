// labels: data robust
// What sessions leave on disk and take from memory: saved models, pack files, caches, and buffers that may be gone.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "base/file.h"
#include "base/sha1.h"
#include "base/thread_pool.h"
#include "base/workers.h"
#include "c_client.h"
#include "formats/onnx/writer.h"
#include "ir/text.h"
#include "session/save.h"
#include "tessera/extension.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

constexpr bool kSanitized = client::kSanitized;

void write(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}
std::string content(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

// A folder of its own for each test, gone afterwards.
class Store : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / format("tessera_store_{}_{}", static_cast<int64_t>(getpid()), ++serial_);
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::string path(const std::string& name) const { return (folder_ / name).string(); }

  static std::string floats(size_t count, float scale = 1) {
    std::string data(4 * count, '\0');
    for (size_t i = 0; i < count; ++i) {
      const float v = scale * static_cast<float>(static_cast<int>(i * 7 % 23) - 11) / 16;
      std::memcpy(data.data() + 4 * i, &v, 4);
    }
    return data;
  }
  static std::string encode(const std::string& text) {
    const Result<Model> model = parse_text(text);
    EXPECT_TRUE(model.ok()) << model.status().message();
    return model.ok() ? *onnx::write_model(*model) : "";
  }
  // Two products of odd sizes and a sum, with weights in weights.bin.
  static constexpr const char* kOdd = R"(<ir_version: 10, opset_import: ["" : 17]>
    net (float[M,33] x) => (float[M,33] y)
    <float[33,17] w = ["location": "weights.bin", "offset": "0", "length": "2244"],
     float[17,33] v = ["location": "weights.bin", "offset": "2264", "length": "2244"],
     float[33] b = ["location": "weights.bin", "offset": "4508", "length": "132"]> {
      i = Identity (x)
      a = MatMul (i, w)
      c = MatMul (a, v)
      y = Add (c, b)
    })";
  void make_odd(float scale = 1) const {
    write(path("weights.bin"), floats(33 * 17 * 2 + 5 + 33, scale));
    write(path("model.onnx"), encode(kOdd));
  }

  static std::shared_ptr<Session> open(const std::string& path, const SessionOptions& options = {}) {
    auto s = Session::open(path, options);
    EXPECT_TRUE(s.ok()) << s.status().message();
    return s.ok() ? *s : nullptr;
  }
  static std::vector<float> run(Session* session, int64_t m = 3, int64_t width = 33) {
    if (!session) return {};
    std::vector<float> x(static_cast<size_t>(m * width));
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 9) - 4;
    std::vector<Value> in = {*Tensor::of<float>(Shape{m, width}, x)};
    if (session->inputs().size() > 1) in.push_back(*Tensor::scalar(true));
    std::vector<Value> out(session->outputs().size());
    const Status s = session->run(in, out);
    EXPECT_TRUE(s.ok()) << s.message();
    if (!s.ok()) return {};
    std::vector<float> all;
    for (const Value& v : out) {
      const auto values = v.tensor()->values<float>();
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
  static SessionOptions saving(const std::string& path, const std::string& data = "", bool packs = false) {
    SessionOptions o;
    o.optimized_model_path = path;
    if (!data.empty()) {
      EXPECT_TRUE(o.set("session.optimized_model_external_initializers_file_name", data).ok());
    }
    EXPECT_TRUE(o.set("session.save_external_prepacked_constant_initializers", packs ? "1" : "0").ok());
    return o;
  }

  fs::path folder_;
  static inline int serial_ = 0;
};

TEST(Sha1, IsTheStandardOne) {
  Sha1 abc, empty, long_one;
  abc.add("abc", 3);
  EXPECT_EQ(abc.finish(), "a9993e364706816aba3e25717850c26c9cd0d89d");
  EXPECT_EQ(empty.finish(), "da39a3ee5e6b4b0d3255bfef95601890afd80709");
  const std::string a(1000, 'a');
  for (int i = 0; i < 1000; ++i) long_one.add(a.data(), a.size());
  EXPECT_EQ(long_one.finish(), "34aa973cd4c4daa4f61eeb2bdbad27316534016f");
}

TEST_F(Store, SavedModelHasItsDataAndPacksBesideIt) {
  make_odd();
  const std::vector<float> want = run(open(path("model.onnx")).get());
  fs::create_directories(path("out"));
  open(path("model.onnx"), saving(path("out/saved.onnx"), "saved.bin", true));
  fs::rename(path("out"), path("moved"));
  const auto saved = open(path("moved/saved.onnx"));
  EXPECT_EQ(run(saved.get()), want);
  const Counters c = saved->memory().counters;
  EXPECT_EQ(c.pack_calls, 0);
  EXPECT_EQ(c.packs_stale, 0);
  EXPECT_GT(c.packs_mapped, 0);
  // The identity is gone; weights of 1,024 bytes and more are outside, smaller ones inside.
  for (const ir::Node& n : saved->model().graph->nodes()) EXPECT_NE(n.op_type, "Identity");
  for (const Weight& w : saved->model().graph->weights()) EXPECT_EQ(w.location.empty(), w.bytes() < 1024);
}

TEST_F(Store, SavingTwiceGivesTheSameBytes) {
  make_odd();
  for (const char* out : {"a", "b", "c"}) {
    fs::create_directories(path(out));
    SessionOptions o = saving(path(std::string(out) + "/saved.onnx"), "saved.bin", true);
    o.threads = *out == 'b' ? 2 : 1;
    open(path("model.onnx"), o);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  for (const char* out : {"b", "c"})
    for (const char* name : {"/saved.onnx", "/saved.bin", "/saved.onnx.pack"})
      EXPECT_EQ(content(path("a") + name), content(path(out) + name)) << out << name;
}

TEST_F(Store, WithoutADataFileTheModelIsWholeWhereverItIs) {
  make_odd();
  const std::vector<float> want = run(open(path("model.onnx")).get());
  fs::create_directories(path("elsewhere"));
  open(path("model.onnx"), saving(path("elsewhere/saved.onnx")));
  open(path("model.onnx"), saving(path("beside.onnx")));
  EXPECT_EQ(run(open(path("elsewhere/saved.onnx")).get()), want);
  EXPECT_EQ(run(open(path("beside.onnx")).get()), want);
  // Beside the data the references stay; elsewhere the weights are inside.
  EXPECT_LT(fs::file_size(path("beside.onnx")) + 4000, fs::file_size(path("elsewhere/saved.onnx")));
}

// Branches and loops with weights of their own, weights shared, and weights of the enclosing graph; old forms of
// operators; a name that a rewrite moves.
constexpr const char* kBodies = R"(<ir_version: 8, opset_import: ["" : 11]>
  net (float[M,33] x, bool flag) => (float[M,33] y, float[K] r)
  <float[33,33] w = ["location": "weights.bin", "offset": "0", "length": "4356"],
   float[33,33] v = ["location": "weights.bin", "offset": "4356", "length": "4356"], int64 trips = {2}, bool go = {1}> {
    i = Identity (x)
    a = MatMul (i, w)
    b = If (flag) <then_branch = yes () => (float[M,33] t)
                     <float[33,33] own = ["location": "weights.bin", "offset": "0", "length": "4356"]> {
                     k = Identity (a)
                     p = MatMul (k, own)
                     t = MatMul (p, v) },
                   else_branch = no () => (float[M,33] e) { e = MatMul (a, v) }>
    c = Loop (trips, go, b) <body = loop (int64 n, bool in, float[M,33] h) => (bool out, float[M,33] g) {
                     out = Identity (in)
                     q = MatMul (h, w)
                     d = Mul (q, small)
                     g = Tanh (d) }>
    small = Constant <value = float {0.0625}> ()
    y = Relu (c)
    s = ReduceSum <axes = [1], keepdims = 0> (y)
    r = Softmax <axis = 0> (s)
  })";

TEST_F(Store, BodiesAreSavedAndLoaded) {
  write(path("weights.bin"), floats(33 * 33 * 2));
  write(path("model.onnx"), encode(kBodies));
  const std::vector<float> want = run(open(path("model.onnx")).get());
  fs::create_directories(path("out"));
  open(path("model.onnx"), saving(path("out/saved.onnx"), "saved.bin", true));
  const auto saved = open(path("out/saved.onnx"));
  EXPECT_EQ(run(saved.get()), want);
  EXPECT_EQ(saved->memory().counters.pack_calls, 0);
  EXPECT_EQ(saved->model().opset(""), 11);
}

// As .ort, from either format: the same results, and packs beside it that are used.
TEST_F(Store, ModelsAreSavedAsOrt) {
  make_odd();
  fs::create_directories(path("bodies"));
  write(path("bodies/weights.bin"), floats(33 * 33 * 2));
  write(path("bodies/model.onnx"), encode(kBodies));
  for (const std::string model : {"model.onnx", "bodies/model.onnx"}) {
    const std::vector<float> want = run(open(path(model)).get());
    fs::create_directories(path("out"));
    open(path(model), saving(path("out/saved.ort"), "", true));
    EXPECT_EQ(content(path("out/saved.ort")).substr(4, 4), "ORTM");
    const auto saved = open(path("out/saved.ort"));
    EXPECT_EQ(run(saved.get()), want) << model;
    EXPECT_EQ(saved->memory().counters.pack_calls, 0);
    EXPECT_EQ(saved->memory().counters.packs_stale, 0);
    EXPECT_GT(saved->memory().counters.packs_mapped, 0);
    // Weights beside it, and back to .onnx.
    const auto beside = open(path(model), saving(path("out/beside.ort"), "beside.bin", true));
    EXPECT_EQ(beside->warnings().size(), 1u);
    const auto outside = open(path("out/beside.ort"));
    EXPECT_EQ(run(outside.get()), want) << model;
    EXPECT_EQ(outside->memory().counters.pack_calls, 0);
    EXPECT_LT(fs::file_size(path("out/beside.ort")), fs::file_size(path("out/saved.ort")));
    SessionOptions o = saving(path("out/named"), "", true);
    ASSERT_TRUE(o.set("session.save_model_format", "ORT").ok());
    ASSERT_TRUE(o.set("session.load_model_format", "ONNX").ok());
    open(path(model), o);
    EXPECT_EQ(content(path("out/named")), content(path("out/saved.ort")));
    EXPECT_EQ(content(path("out/named.pack")), content(path("out/saved.ort.pack")));
    open(path("out/saved.ort"), saving(path("out/back.onnx"), "back.bin", true));
    EXPECT_EQ(run(open(path("out/back.onnx")).get()), want) << model;
    fs::remove_all(path("out"));
  }
}

// An operator that takes the place of itself is written in the version that the model has it in.
TEST_F(Store, FoldedConvolutionsAreSavedInTheirOwnOperatorSet) {
  for (const int opset : {9, 11, 15, 21, 22}) {
    write(path("weights.bin"), floats(4 * 3 * 9 + 16, 0.5));
    std::string text = R"(<ir_version: 8, opset_import: ["" : OPSET]>
      net (float[M,33] x) => (float[M,P] y)
      <float[4,3,3] w = ["location": "weights.bin", "offset": "0", "length": "144"],
       float[4] scale = {1, 2, 0.5, -1}, float[4] bias = {0, 1, 2, 3}, float[4] mean = {0.5, 0, -1, 2},
       float[4] var = {1, 0.25, 2, 4}, int64[3] apart = {-1, 3, 11}, int64[2] flat = {0, -1}> {
        i = Reshape (x, apart)
        c = Conv <pads = [1, 1]> (i, w)
        b = BatchNormalization <epsilon = 0.001> (c, scale, bias, mean, var)
        y = Reshape (b, flat)
      })";
    text.replace(text.find("OPSET"), 5, format("{}", opset));
    write(path("model.onnx"), encode(text));
    const std::vector<float> want = run(open(path("model.onnx")).get());
    open(path("model.onnx"), saving(path("saved.onnx"), "saved.bin", true));
    SessionOptions as_it_is;
    as_it_is.optimization_level = 0;
    const auto saved = open(path("saved.onnx"), as_it_is);
    EXPECT_EQ(run(saved.get()), want) << opset;
    EXPECT_EQ(saved->model().opset(""), opset);
    for (const ir::Node& n : saved->model().graph->nodes()) EXPECT_NE(n.op_type, "BatchNormalization") << opset;
  }
}

TEST_F(Store, RefusesToSaveWhatItCannot) {
  make_odd();
  const auto refused = [&](SessionOptions o, const char* part) {
    const auto s = Session::open(path("model.onnx"), o);
    ASSERT_FALSE(s.ok());
    EXPECT_NE(s.status().message().find(part), std::string::npos) << s.status().message();
  };
  refused(saving(path("no/such/folder/saved.onnx")), "saved.onnx");
  refused(saving(path("saved.onnx"), "../saved.bin"), "not beneath");
  refused(saving(path("saved.onnx"), "/saved.bin"), "not beneath");
  SessionOptions o = saving(path("saved.onnx"));
  ASSERT_TRUE(o.set("session.save_model_format", "TXT").ok());
  refused(o, "wanted ONNX or ORT");
  o = {};
  ASSERT_TRUE(o.set("session.save_external_prepacked_constant_initializers", "1").ok());
  EXPECT_EQ(open(path("model.onnx"), o)->warnings().size(), 1u);
  EXPECT_FALSE(fs::exists(path("saved.onnx")));
}

// Runs f in a process of its own and gives how it ended.
template <class F>
int in_child(F&& f) {
  const pid_t pid = fork();
  if (pid == 0) _exit(f());
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::vector<std::string> names_in(const std::string& folder) {
  std::vector<std::string> out;
  for (const auto& e : fs::directory_iterator(folder)) out.push_back(e.path().filename().string());
  std::sort(out.begin(), out.end());
  return out;
}

TEST_F(Store, AFullDiskLeavesTheOldFiles) {
  make_odd();
  fs::create_directories(path("out"));
  open(path("model.onnx"), saving(path("out/saved.onnx"), "saved.bin", true));
  const std::vector<float> want = run(open(path("out/saved.onnx")).get());
  const std::vector<std::string> before = names_in(path("out"));
  for (const rlim_t limit : {100, 1500, 3000, 5000, 9000}) {
    const int code = in_child([&] {
      signal(SIGXFSZ, SIG_IGN);
      const rlimit r{limit, limit};
      setrlimit(RLIMIT_FSIZE, &r);
      return Session::open(path("model.onnx"), saving(path("out/saved.onnx"), "saved.bin", true)).ok() ? 0 : 1;
    });
    EXPECT_LE(code, 1) << limit;
    EXPECT_EQ(names_in(path("out")), before) << limit;
    EXPECT_EQ(run(open(path("out/saved.onnx")).get()), want) << limit;
  }
}

// A folder that nobody may write to: models open, saving says why it cannot, a cache is done without.
TEST_F(Store, AFolderThatCannotBeWrittenIsNoHindrance) {
  make_odd();
  fs::create_directories(path("fixed"));
  fs::rename(path("model.onnx"), path("fixed/model.onnx"));
  fs::rename(path("weights.bin"), path("fixed/weights.bin"));
  const std::vector<std::string> before = names_in(path("fixed"));
  fs::permissions(path("fixed"), fs::perms(0555));
  const int code = in_child([&] {
    if (geteuid() == 0 && seteuid(65534) != 0) return 10;
    const auto plain = Session::open(path("fixed/model.onnx"));
    if (!plain.ok() || run(plain->get()).empty()) return 11;
    const auto saved = Session::open(path("fixed/model.onnx"), saving(path("fixed/saved.onnx"), "saved.bin", true));
    if (saved.ok() || saved.status().message().find("saved.") == std::string::npos) return 12;
    if (save_packs(**plain, path("fixed/model.onnx.pack")).ok()) return 13;
    SessionOptions cached;
    cached.pack_cache_dir = path("fixed");
    const auto without = Session::open(path("fixed/model.onnx"), cached);
    if (!without.ok() || (*without)->warnings().size() != 1 || run(without->get()).empty()) return 14;
    return 0;
  });
  fs::permissions(path("fixed"), fs::perms(0755));
  EXPECT_EQ(code, 0);
  EXPECT_EQ(names_in(path("fixed")), before);
  // Nor one that is no folder.
  EXPECT_FALSE(
      Session::open(path("fixed/model.onnx"), saving(path("fixed/weights.bin/saved.onnx"), "saved.bin", true)).ok());
}

// Data that lies beyond what 32 bits count, and a tensor that is longer: the file is all holes but for a few bytes.
TEST_F(Store, FilesOfManyGigabytesAreMapped) {
  constexpr int64_t kRow = 1 << 20, kRows = 2560, kAt = int64_t{5} << 30;
  std::ofstream out(path("large.bin"), std::ios::binary);
  out.seekp(kRow * (kRows - 1));
  out.write(floats(33).data(), 132);  // the last row of the tensor
  out.seekp(kAt);
  out.write(floats(33, 2).data(), 132);
  out.close();
  const std::string text = format(R"(<ir_version: 10, opset_import: ["" : 17]>
    net (float[M,33] x) => (float[M,33] y)
    <float[2560,262144] table = ["location": "large.bin", "offset": "0", "length": "{}"],
     float[33] b = ["location": "large.bin", "offset": "{}", "length": "132"],
     int64 last = {2559}, int64[1] zero = {0}, int64[1] width = {33}> {
      r = Gather (table, last)
      s = Slice (r, zero, width)
      p = Add (x, s)
      y = Add (p, b)
    })",
                                  kRow * kRows, kAt);
  write(path("model.onnx"), encode(text));
  SessionOptions o;
  ASSERT_TRUE(o.set("optimization.disable_specified_optimizers", "fold_constants").ok());
  o.optimization_level = 0;
  const auto check = [&](const std::shared_ptr<Session>& session) {
    const std::vector<float> got = run(session.get(), 1);
    ASSERT_EQ(got.size(), 33u);
    for (size_t i = 0; i < got.size(); ++i) {
      const float v = static_cast<float>(static_cast<int>(i * 7 % 23) - 11) / 16;
      EXPECT_EQ(got[i], static_cast<float>(i % 9) - 4 + 3 * v) << i;
    }
    EXPECT_LT(session->memory().counters.bytes_copied, 1000);
  };
  check(open(path("model.onnx"), o));
  // The same file handed over.
  const std::string model = content(path("model.onnx"));
  const auto mapped = map_file(path("large.bin"));
  ASSERT_TRUE(mapped.ok());
  o.external_files["large.bin"] = borrow_bytes((*mapped)->data(), (*mapped)->size());
  const auto memory = Session::from_bytes(borrow_bytes(model.data(), model.size()), o);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  check(*memory);
  // One byte too few.
  o.external_files["large.bin"] = borrow_bytes((*mapped)->data(), static_cast<size_t>(kAt) + 131);
  EXPECT_FALSE(Session::from_bytes(borrow_bytes(model.data(), model.size()), o).ok());
}

TEST_F(Store, AProcessKilledWhileSavingLeavesAWholeModel) {
  make_odd();
  fs::create_directories(path("out"));
  open(path("model.onnx"), saving(path("out/saved.onnx"), "saved.bin", true));
  const std::vector<float> want = run(open(path("out/saved.onnx")).get());
  std::mt19937 random(3);
  for (int i = 0; i < (kSanitized ? 5 : 30); ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      for (;;) static_cast<void>(Session::open(path("model.onnx"), saving(path("out/saved.onnx"), "saved.bin", true)));
    }
    std::this_thread::sleep_for(std::chrono::microseconds(1000 + random() % 20000));
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    ASSERT_EQ(run(open(path("out/saved.onnx")).get()), want) << i;
  }
}

TEST_F(Store, ProcessesThatWriteOnePackFileAllWriteItWhole) {
  make_odd();
  const auto session = open(path("model.onnx"));
  ASSERT_TRUE(save_packs(*session, path("want.pack")).ok());
  std::vector<pid_t> writers;
  for (int i = 0; i < 2; ++i) {
    const pid_t pid = fork();
    if (pid == 0) {
      for (int k = 0; k < 50; ++k)
        if (!save_packs(*session, path("model.onnx.pack")).ok()) _exit(1);
      _exit(0);
    }
    writers.push_back(pid);
  }
  int read = 0;
  for (int done = 0; done < 2;) {
    if (const auto bytes = map_file(path("model.onnx.pack")); bytes.ok()) {
      const auto packs = PackFile::read(*bytes);
      ASSERT_TRUE(packs.ok()) << packs.status().message();
      ASSERT_TRUE((*packs)->verify().ok());
      ++read;
    }
    int status = 0;
    if (waitpid(writers[static_cast<size_t>(done)], &status, WNOHANG) > 0) {
      EXPECT_EQ(status, 0);
      ++done;
    }
  }
  EXPECT_GT(read, 0);
  EXPECT_EQ(content(path("model.onnx.pack")), content(path("want.pack")));
}

TEST_F(Store, CachedPacksAreFoundTheNextTime) {
  make_odd();
  fs::create_directories(path("cache"));
  SessionOptions o;
  ASSERT_TRUE(o.set("session.pack_cache_dir", path("cache")).ok());
  SessionOptions off;
  off.pack_file = "off";
  const std::vector<float> want = run(open(path("model.onnx"), off).get());
  {
    const auto first = open(path("model.onnx"), o);
    EXPECT_EQ(run(first.get()), want);
    EXPECT_TRUE(first->warnings().empty());
    EXPECT_EQ(first->memory().counters.packs_stale, 0);
  }
  EXPECT_EQ(names_in(path("cache")).size(), 1u);
  const auto next = open(path("model.onnx"), o);
  EXPECT_EQ(run(next.get()), want);
  EXPECT_EQ(next->memory().counters.pack_calls, 0);
  EXPECT_EQ(next->memory().counters.packs_mapped, 2);
  // Other weights under the same name: packed anew, and cached anew.
  write(path("weights.bin"), floats(33 * 17 * 2 + 5 + 33, 2));
  EXPECT_EQ(run(open(path("model.onnx"), o).get()), run(open(path("model.onnx"), off).get()));
}

TEST_F(Store, ACacheThatCannotBeWrittenIsAWarning) {
  make_odd();
  SessionOptions o;
  ASSERT_TRUE(o.set("session.pack_cache_dir", path("no_such_folder")).ok());
  const auto session = open(path("model.onnx"), o);
  EXPECT_EQ(session->warnings().size(), 1u);
  EXPECT_FALSE(run(session.get()).empty());
}

TEST_F(Store, GuardedFilesCanBeCutOffWhileRunning) {
  make_odd();
  SessionOptions o;
  ASSERT_TRUE(o.set("session.guard_mapped_files", "1").ok());
  const auto session = open(path("model.onnx"), o);
  fs::resize_file(path("weights.bin"), 0);
  fs::resize_file(path("model.onnx"), 0);
  EXPECT_FALSE(run(session.get()).empty());
}

TEST_F(Store, PacksAreTheSameForEveryTargetAndRowCount) {
  write(path("weights.bin"), floats(257 * 257 * 2));
  write(path("model.onnx"), encode(R"(<ir_version: 10, opset_import: ["" : 17]>
    net (float[M,257] x) => (float[M,257] y)
    <float[257,257] w = ["location": "weights.bin", "offset": "0", "length": "264196"],
     float[257,257] v = ["location": "weights.bin", "offset": "264196", "length": "264196"]> {
      a = MatMul (x, w)
      y = MatMul (a, v)
    })"));
  std::vector<Target> targets;
  for (const Target t : {Target::scalar, Target::sse4, Target::avx2, Target::avx3})
    if (t <= best_target()) targets.push_back(t);
  std::string first;
  for (const Target made_by : targets) {
    SessionOptions o;
    o.target = made_by;
    o.pack_file = "off";
    ASSERT_TRUE(save_packs(*open(path("model.onnx"), o), path("model.onnx.pack")).ok());
    if (first.empty()) first = content(path("model.onnx.pack"));
    ASSERT_EQ(content(path("model.onnx.pack")), first);
  }
  for (const Target t : targets) {
    SessionOptions with, without;
    with.target = without.target = t;
    without.pack_file = "off";
    const auto a = open(path("model.onnx"), with);
    const auto plain = open(path("model.onnx"), without);
    EXPECT_EQ(a->memory().counters.packs_stale, 0);
    for (int64_t m = 1; m <= 64; m += kSanitized || t == Target::scalar ? 9 : 1)
      ASSERT_EQ(run(a.get(), m, 257), run(plain.get(), m, 257)) << target_name(t) << " " << m;
    EXPECT_EQ(a->memory().counters.pack_calls, 0);
  }
}

// Any bytes may stand where a pack file should be.
TEST_F(Store, AnyDamageToAPackFileIsSurvived) {
  make_odd();
  ASSERT_TRUE(save_packs(*open(path("model.onnx")), path("p")).ok());
  const std::string whole = content(path("p"));
  auto storage = *allocate_bytes(whole.size());
  int64_t accepted = 0;
  const auto look = [&](size_t size) {
    const auto packs = PackFile::read(borrow_bytes(storage->data(), size));
    if (!packs.ok()) return;
    static_cast<void>((*packs)->verify());
    ByteRange out;
    for (const PackEntry& e : (*packs)->entries()) static_cast<void>((*packs)->find(e.key, {}, &out));
    ++accepted;
  };
  std::memcpy(storage->data(), whole.data(), whole.size());
  for (size_t cut = 0; cut < whole.size(); ++cut) look(cut);
  EXPECT_EQ(accepted, 0);
  std::mt19937_64 random(5);
  for (int i = 0; i < (kSanitized ? 20'000 : 1'000'000); ++i) {
    const int edits = 1 + static_cast<int>(random() % 4);
    size_t at[4];
    for (int k = 0; k < edits; ++k) {
      // Half of them where the numbers are: the header, and the table with its footer at the end.
      const size_t near_end = whole.size() - 1 - random() % 400, anywhere = random() % whole.size();
      at[k] = random() % 2 ? anywhere : random() % 4 ? near_end : random() % 64;
      storage->data()[at[k]] = static_cast<std::byte>(random());
    }
    look(whole.size());
    for (int k = 0; k < edits; ++k) storage->data()[at[k]] = static_cast<std::byte>(whole[at[k]]);
  }
}

TEST_F(Store, LinksOutOfTheFolderAreRefused) {
  make_odd();
  fs::create_directories(path("inner"));
  fs::rename(path("model.onnx"), path("inner/model.onnx"));
  fs::create_symlink("../weights.bin", path("inner/weights.bin"));
  EXPECT_FALSE(Session::open(path("inner/model.onnx")).ok());
  fs::remove(path("inner/weights.bin"));
  fs::create_hard_link(path("weights.bin"), path("inner/weights.bin"));
  EXPECT_TRUE(Session::open(path("inner/model.onnx")).ok());
  fs::rename(path("inner/weights.bin"), path("inner/other.bin"));
  fs::create_symlink("other.bin", path("inner/weights.bin"));
  EXPECT_TRUE(Session::open(path("inner/model.onnx")).ok());
}

// How caches of downloaded models look: links in one folder, files in another under names of their own.
TEST_F(Store, LinksToWhereTheModelItselfLiesAreFollowed) {
  make_odd();
  for (const char* folder : {"blobs/deep", "snapshots/version", "elsewhere"}) fs::create_directories(path(folder));
  fs::rename(path("model.onnx"), path("blobs/1"));
  fs::rename(path("weights.bin"), path("blobs/2"));
  const std::string model = path("snapshots/version/model.onnx"), data = path("snapshots/version/weights.bin");
  const auto opens = [&](const fs::path& target) {
    fs::remove(data);
    fs::create_symlink(target, data);
    return Session::open(model).ok();
  };
  for (const bool absolute : {false, true}) {
    const fs::path up = absolute ? path("") : "../..";
    fs::remove(model);
    fs::create_symlink(up / "blobs/1", model);
    EXPECT_TRUE(opens(up / "blobs/2"));
    fs::copy_file(path("blobs/2"), path("blobs/deep/2"), fs::copy_options::overwrite_existing);
    EXPECT_TRUE(opens(up / "blobs/deep/2"));
    fs::copy_file(path("blobs/2"), path("elsewhere/2"), fs::copy_options::overwrite_existing);
    EXPECT_FALSE(opens(up / "elsewhere/2"));
    fs::create_symlink("../elsewhere/2", path("blobs/out"));
    EXPECT_FALSE(opens(up / "blobs/out"));
    fs::remove(path("blobs/out"));
    fs::copy_file(path("blobs/2"), path("snapshots/version/own.bin"), fs::copy_options::overwrite_existing);
    EXPECT_TRUE(opens(absolute ? fs::path(path("snapshots/version/own.bin")) : "own.bin"));
  }
  const Result<std::shared_ptr<Session>> refused =
      opens(path("elsewhere/2")) ? invalid("it opened") : Session::open(model);
  EXPECT_NE(refused.status().message().find("leaves the model's folder"), std::string::npos)
      << refused.status().message();
}

TEST_F(Store, LinksOutOfTheFolderAreNoPackFiles) {
  make_odd();
  const auto wants = run(open(path("model.onnx")).get());
  fs::create_directories(path("inner"));
  fs::rename(path("model.onnx"), path("inner/model.onnx"));
  fs::rename(path("weights.bin"), path("inner/weights.bin"));
  ASSERT_TRUE(save_packs(*open(path("inner/model.onnx")), path("out.pack")).ok());
  const auto mapped = [&](bool strict_links) {
    SessionOptions o;
    o.strict_external_data = strict_links;
    if (strict_links) o.external_files["weights.bin"] = *map_file(path("inner/weights.bin"));
    const auto s = open(path("inner/model.onnx"), o);
    EXPECT_EQ(run(s.get()), wants);
    return s->memory().counters.packs_mapped;
  };
  const std::string pack = path("inner/model.onnx.pack");
  const auto strictly = [&] {
    SessionOptions o;
    o.pack_strict = true;
    return Session::open(path("inner/model.onnx"), o).ok();
  };
  fs::create_symlink("../out.pack", pack);
  EXPECT_EQ(mapped(false), 0);
  EXPECT_FALSE(strictly());
  fs::remove(pack);
  fs::create_symlink(path("out.pack"), pack);
  EXPECT_EQ(mapped(false), 0);
  fs::remove(pack);
  // Links inside, and hard links, are files of the folder; strictly, no link is.
  fs::create_hard_link(path("out.pack"), pack);
  EXPECT_TRUE(strictly());
  EXPECT_EQ(mapped(false), 2);
  EXPECT_EQ(mapped(true), 0);
  fs::rename(pack, path("inner/real.pack"));
  fs::remove(path("out.pack"));
  fs::create_symlink("real.pack", pack);
  EXPECT_EQ(mapped(false), 2);
  EXPECT_EQ(mapped(true), 0);
  fs::remove(pack);
  fs::rename(path("inner/real.pack"), pack);
  EXPECT_EQ(mapped(true), 2);
}

// --- cancelling

TEST(Stop, LeavesOutChunksThatHaveNotBegun) {
  for (const int threads : {1, 2}) {
    std::atomic<bool> stop{false};
    std::atomic<int> ran{0};
    {
      const StopScope scope(&stop);
      parallel_for(threads, 1000, [&](int64_t, int) {
        if (++ran == 3) stop = true;
      });
    }
    EXPECT_GE(ran, 3);
    EXPECT_LT(ran, 3 + threads);
    ran = 0;
    parallel_for(threads, 10, [&](int64_t, int) { ++ran; });
    EXPECT_EQ(ran, 10);
  }
}

TEST_F(Store, ACancelledRunLeavesNoHalfPackedWeight) {
  make_odd();
  SessionOptions o;
  o.pack_file = "off";
  const std::vector<float> want = run(open(path("model.onnx"), o).get());
  const auto session = open(path("model.onnx"), o);
  RunOptions cancelled;
  cancelled.cancel = true;
  std::vector<Value> in = {*Tensor::of<float>(Shape{1, 33}, std::vector<float>(33))}, out(1);
  const Status s = session->run(in, out, &cancelled);
  EXPECT_EQ(s.code(), Code::canceled) << s.message();
  EXPECT_EQ(session->memory().counters.pack_calls, 0);
  EXPECT_EQ(run(session.get()), want);
  std::atomic<bool> stop{true};
  const auto again = open(path("model.onnx"), o);
  const auto saved = save_packs(*again, path("p"), true, &stop);
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.status().code(), Code::canceled);
  EXPECT_EQ(names_in(path("")), (std::vector<std::string>{"model.onnx", "weights.bin"}));
}

// Cancelled when the weights are read again to be saved: nothing is left behind.
TEST_F(Store, CancellingEndsSaving) {
  make_odd();
  const std::string data = content(path("weights.bin"));
  fs::create_directories(path("out"));
  for (const char* name : {"out/saved.onnx", "out/saved.ort"}) {
    SessionOptions o = saving(path(name), "saved.bin", true);
    auto cancel = std::make_shared<std::atomic<bool>>(false);
    int calls = 0;
    o.cancel_load = cancel;
    o.external_readers["weights.bin"] = {data.size(), [&](uint64_t offset, size_t length, void* to) -> Status {
                                           *cancel = ++calls > 3;
                                           std::memcpy(to, data.data() + offset, length);
                                           return {};
                                         }};
    const auto s = Session::open(path("model.onnx"), o);
    ASSERT_FALSE(s.ok());
    EXPECT_EQ(s.status().code(), Code::canceled) << s.status().message();
    EXPECT_GT(calls, 3);
    EXPECT_TRUE(names_in(path("out")).empty()) << name;
  }
}

// --- memory handed over, through the C ABI ---------------------------------------------------------------------------

using client::api;
using client::env;
using client::ok;
using client::options;

class Handed : public Store {
 protected:
  void SetUp() override {
    Store::SetUp();
    make_odd();
    want_ = run(open(path("model.onnx")).get());
    data_ = content(path("weights.bin"));
    model_ = content(path("model.onnx"));
    page_ = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    size_ = (data_.size() + page_ - 1) / page_ * page_;
    memory_ = mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    std::memcpy(memory_, data_.data(), data_.size());
  }
  void TearDown() override {
    munmap(memory_, size_);
    Store::TearDown();
  }
  void add_file(OrtSessionOptions* o, const char* name = "weights.bin") const {
    const char* names[] = {name};
    char* buffers[] = {static_cast<char*>(memory_)};
    const size_t sizes[] = {data_.size()};
    ok(api().AddExternalInitializersFromFilesInMemory(o, names, buffers, sizes, 1));
  }
  static std::vector<float> run_c(OrtSession* s) {
    std::vector<float> x(3 * 33);
    for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 9) - 4;
    const auto in = client::tensor({3, 33}, x);
    OrtValue* y = nullptr;
    ok(client::run(s, {"x"}, {in.get()}, {"y"}, &y));
    if (!y) return {};
    const std::vector<float> out = client::values(y);
    api().ReleaseValue(y);
    return out;
  }
  static TesseraMemory memory_of(const OrtSession* s) {
    TesseraMemory m{};
    m.size = sizeof m;
    ok(TesseraGetApi(3)->SessionGetMemory(s, &m));
    return m;
  }
  static TesseraPacks packs_of(const OrtSession* s) {
    TesseraPacks p{};
    p.size = sizeof p;
    ok(TesseraGetApi(3)->SessionGetPacks(s, &p));
    return p;
  }

  std::vector<float> want_;
  std::string data_, model_;
  size_t page_ = 0, size_ = 0;
  void* memory_ = nullptr;
};

TEST_F(Handed, MemoryIsNotTouchedAfterCreation) {
  for (const char* prepacking : {"0", "1"}) {
    const auto o = options({{"session.disable_prepacking", prepacking}});
    add_file(o.get());
    const auto s = client::load(model_, o.get());
    mprotect(memory_, size_, PROT_NONE);
    EXPECT_EQ(run_c(s.get()), want_);
    mprotect(memory_, size_, PROT_READ | PROT_WRITE);
    // Only what is read as it is was copied.
    EXPECT_EQ(memory_of(s.get()).copied, *prepacking == '0' ? 132 : 132 + 2 * 2244);
  }
}

TEST_F(Handed, SessionsShareWhatWasPackedOfTheSameContent) {
  const auto o = options();
  add_file(o.get());
  const auto one = client::load(model_, o.get()), two = client::load(model_, o.get());
  EXPECT_EQ(packs_of(one.get()).made, 2);
  EXPECT_EQ(packs_of(two.get()).made, 0);
  EXPECT_EQ(packs_of(two.get()).shared, 2);
  EXPECT_EQ(run_c(two.get()), want_);
}

TEST_F(Handed, BorrowedMemoryIsNeverCopied) {
  const auto o = options({{"session.external_initializers_borrow", "1"}});
  add_file(o.get(), "./weights.bin");
  const auto one = client::load(model_, o.get());
  const auto p = options({{"session.external_initializers_borrow", "1"}});
  add_file(p.get(), ".//weights.bin");
  const auto two = client::load(model_, p.get());
  EXPECT_EQ(run_c(one.get()), want_);
  EXPECT_EQ(run_c(two.get()), want_);
  EXPECT_EQ(memory_of(one.get()).copied, 0);
  EXPECT_EQ(packs_of(one.get()).made + packs_of(two.get()).made, 2);
}

TEST_F(Handed, MemoryIsReleasedWhenNobodyUsesIt) {
  int released = 0;
  const auto release = [](void* count) { ++*static_cast<int*>(count); };
  auto o = options();
  const TesseraApi* t = TesseraGetApi(3);
  ok(t->AddExternalFile(o.get(), "weights.bin", memory_, data_.size(), release, &released));
  client::refused(t->AddExternalFile(o.get(), "weights.bin", memory_, data_.size(), release, &released),
                  ORT_INVALID_ARGUMENT, "twice");
  EXPECT_EQ(released, 0);
  auto s = client::load(model_, o.get());
  o.reset();
  EXPECT_EQ(released, 0);
  EXPECT_EQ(run_c(s.get()), want_);
  EXPECT_EQ(memory_of(s.get()).copied, 0);
  s.reset();
  EXPECT_EQ(released, 1);
}

TEST_F(Handed, FilesAreReadPieceByPiece) {
  struct Reads {
    const std::string* data;
    int calls = 0, released = 0;
    size_t bytes = 0;
  } reads{&data_};
  const auto read = [](void* context, uint64_t offset, size_t length, void* to) -> OrtStatus* {
    auto& r = *static_cast<Reads*>(context);
    if (offset + length > r.data->size()) return api().CreateStatus(ORT_FAIL, "past the end");
    ++r.calls;
    r.bytes += length;
    std::memcpy(to, r.data->data() + offset, length);
    return nullptr;
  };
  const auto release = [](void* context) { ++static_cast<Reads*>(context)->released; };
  auto o = options();
  ok(TesseraGetApi(3)->AddExternalReader(o.get(), "weights.bin", data_.size(), read, release, &reads));
  auto s = client::load(model_, o.get());
  EXPECT_EQ(run_c(s.get()), want_);
  EXPECT_EQ(reads.calls, 3);
  EXPECT_EQ(reads.bytes, 2u * 2244 + 132);
  s.reset();
  o.reset();
  EXPECT_EQ(reads.released, 1);
  // A file larger than its reader can read.
  o = options();
  ok(TesseraGetApi(3)->AddExternalReader(o.get(), "weights.bin", uint64_t{1} << 40, read, nullptr, &reads));
  data_.resize(100);
  client::refused(client::try_load(model_, o.get()), ORT_FAIL, "past the end");
}

TEST_F(Handed, PartsOfOpenFilesAreMapped) {
  write(path("large.bin"), std::string(5000, 'x') + data_ + "tail");
  const int fd = ::open(path("large.bin").c_str(), O_RDONLY);
  const auto o = options();
  const TesseraApi* t = TesseraGetApi(3);
  client::refused(t->AddExternalDescriptor(o.get(), "weights.bin", fd, 5000, data_.size() + 5), ORT_FAIL, "wanted");
  client::refused(t->AddExternalDescriptor(o.get(), "weights.bin", -1, 0, 1), ORT_FAIL, "inspect");
  ok(t->AddExternalDescriptor(o.get(), "weights.bin", fd, 5000, data_.size()));
  close(fd);
  const auto s = client::load(model_, o.get());
  EXPECT_EQ(run_c(s.get()), want_);
}

TEST_F(Handed, InitializersAreReplaced) {
  const auto plain = floats(33 * 17);
  std::vector<float> w(33 * 17), v(17 * 33), b(33);
  std::memcpy(w.data(), data_.data(), 2244);
  std::memcpy(v.data(), data_.data() + 2264, 2244);
  std::memcpy(b.data(), data_.data() + 4508, 132);
  const auto tw = client::tensor({33, 17}, w), tv = client::tensor({17, 33}, v), tb = client::tensor({33}, b);
  const char* names[] = {"w", "v", "b"};
  const OrtValue* values[] = {tw.get(), tv.get(), tb.get()};
  auto o = options();
  ok(api().AddExternalInitializers(o.get(), names, values, 3));
  const auto s = client::load(model_, o.get());  // no file is needed
  EXPECT_EQ(run_c(s.get()), want_);
  o = options();
  ok(api().AddInitializer(o.get(), "w", tw.get()));
  ok(api().AddInitializer(o.get(), "nobody", tb.get()));
  client::refused(api().AddInitializer(o.get(), "w", tw.get()), ORT_INVALID_ARGUMENT, "twice");
  add_file(o.get());
  EXPECT_EQ(run_c(client::load(model_, o.get()).get()), want_);
  o = options();
  const char* missing[] = {"nobody"};
  ok(api().AddExternalInitializers(o.get(), missing, values, 1));
  add_file(o.get());
  client::refused(client::try_load(model_, o.get()), ORT_INVALID_ARGUMENT, "nobody");
  o = options();
  const char* other[] = {"v"};
  ok(api().AddExternalInitializers(o.get(), other, values, 1));
  add_file(o.get());
  client::refused(client::try_load(model_, o.get()), ORT_INVALID_ARGUMENT, "wanted");
}

TEST_F(Handed, AContainerKeepsPacksBetweenSessions) {
  OrtPrepackedWeightsContainer* container = nullptr;
  ok(api().CreatePrepackedWeightsContainer(&container));
  const auto o = options({{"session.pack_file", "off"}});
  const auto once = [&] {
    OrtSession* made = nullptr;
    ok(api().CreateSessionWithPrepackedWeightsContainer(env(), path("model.onnx").c_str(), o.get(), container, &made));
    const auto s = client::own(made);
    EXPECT_EQ(run_c(s.get()), want_);
    return packs_of(s.get()).made;
  };
  EXPECT_EQ(once(), 2);
  EXPECT_EQ(once(), 0);
  api().ReleasePrepackedWeightsContainer(container);
  OrtSession* made = nullptr;
  client::refused(api().CreateSessionWithPrepackedWeightsContainer(env(), "x", o.get(), nullptr, &made),
                  ORT_INVALID_ARGUMENT, "container");
}

// Tables reach bodies, functions and attributes; what they do not have is looked for on disk, unless that is forbidden.
TEST_F(Handed, TablesReachEveryTensor) {
  write(path("weights.bin"), floats(33 * 33 * 2));
  const std::string bodies = encode(kBodies);
  write(path("bodies.onnx"), bodies);
  const std::vector<float> want = run(open(path("bodies.onnx")).get());
  const std::string data = content(path("weights.bin"));
  fs::remove(path("weights.bin"));
  SessionOptions o;
  o.external_files["././weights.bin"] =
      std::make_shared<Bytes>(Bytes::Origin::passing, const_cast<char*>(data.data()), data.size(), nullptr, nullptr);
  const auto s = open(path("bodies.onnx"), o);
  EXPECT_EQ(run(s.get()), want);
  const auto memory = Session::from_bytes(borrow_bytes(bodies.data(), bodies.size()), o);
  ASSERT_TRUE(memory.ok()) << memory.status().message();
  EXPECT_EQ(run(memory->get()), want);
  const auto missing = Session::from_bytes(borrow_bytes(bodies.data(), bodies.size()));
  ASSERT_FALSE(missing.ok());
  EXPECT_NE(missing.status().message().find("has no folder"), std::string::npos);
  // Mixed: one file from the table, one from disk; strictly, none from disk.
  write(path("b.bin"), floats(33));
  const std::string mixed = encode(R"(<ir_version: 10, opset_import: ["" : 17]>
    net (float[M,33] x) => (float[M,33] y)
    <float[33] a = ["location": "weights.bin", "offset": "3", "length": "132"],
     float[33] b = ["location": "b.bin", "offset": "0", "length": "132"]> {
      p = Add (x, a)
      y = Add (p, b)
    })");
  write(path("mixed.onnx"), mixed);
  EXPECT_EQ(run(open(path("mixed.onnx"), o).get()).size(), 99u);
  ASSERT_TRUE(o.set("session.external_data_strict", "1").ok());
  EXPECT_FALSE(Session::open(path("mixed.onnx"), o).ok());
}

// Functions, tensors of attributes and bodies of scans.
TEST_F(Handed, TablesReachFunctionsAttributesAndScans) {
  const std::string text = encode(R"(<ir_version: 10, opset_import: ["" : 17, "own" : 1]>
    net (float[M,33] x) => (float[M,33] y) {
      a = own.Shift (x)
      k = Constant <value = float[33] = ["location": "./weights.bin", "offset": "5", "length": "132"]> ()
      b = Add (a, k)
      y = Scan <num_scan_inputs = 1, body = row (float[33] r) => (float[33] s)
                  <float[33] v = ["location": "weights.bin", "offset": "264", "length": "132"]> {
                  s = Mul (r, v) }> (b)
    }
    <domain: "own", opset_import: ["" : 17]> Shift (x) => (y) {
      c = Constant <value = float[33] = ["location": "weights.bin", "offset": "132", "length": "132"]> ()
      y = Sub (x, c)
    })");
  ASSERT_EQ(text.find(data_.substr(132, 32)), std::string::npos);
  SessionOptions o;
  o.external_files["weights.bin"] =
      std::make_shared<Bytes>(Bytes::Origin::passing, memory_, data_.size(), nullptr, nullptr);
  const auto session = Session::from_bytes(borrow_bytes(text.data(), text.size()), o);
  ASSERT_TRUE(session.ok()) << session.status().message();
  mprotect(memory_, size_, PROT_NONE);
  const std::vector<float> got = run(session->get(), 2);
  mprotect(memory_, size_, PROT_READ | PROT_WRITE);
  ASSERT_EQ(got.size(), 66u);
  const auto at = [&](size_t offset, size_t i) {
    float v;
    std::memcpy(&v, data_.data() + offset + 4 * i, 4);
    return v;
  };
  for (size_t i = 0; i < got.size(); ++i) {
    const float x = static_cast<float>(i % 9) - 4, k = at(5, i % 33);
    EXPECT_EQ(got[i], (x - at(132, i % 33) + k) * at(264, i % 33)) << i;
  }
}

TEST_F(Handed, AFileIsGivenOnce) {
  const auto o = options();
  add_file(o.get());
  const auto again = [&](const char* name) {
    const char* names[] = {name};
    char* buffers[] = {static_cast<char*>(memory_)};
    const size_t sizes[] = {data_.size()};
    return api().AddExternalInitializersFromFilesInMemory(o.get(), names, buffers, sizes, 1);
  };
  for (const char* name : {"weights.bin", "./weights.bin", ".//weights.bin", "././/weights.bin"})
    client::refused(again(name), ORT_INVALID_ARGUMENT, "An entry for this name has already been added");
  client::refused(again("./"), ORT_INVALID_ARGUMENT, "empty name");
  ok(again("other/weights.bin"));
  EXPECT_EQ(run_c(client::load(model_, o.get()).get()), want_);
  SessionOptions twice;
  twice.external_files["weights.bin"] = twice.external_files["./weights.bin"] =
      borrow_bytes(data_.data(), data_.size());
  const auto s = Session::open(path("model.onnx"), twice);
  ASSERT_FALSE(s.ok());
  EXPECT_NE(s.status().message().find("already been added"), std::string::npos) << s.status().message();
}

// Lengths of nothing and places that no element is aligned to.
TEST_F(Handed, AnyPlaceWillDo) {
  for (const int offset : {0, 1, 2, 3, 5, 7}) {
    const std::string text = encode(format(R"(<ir_version: 10, opset_import: ["" : 17]>
      net (float[M,33] x) => (float[K,33] y)
      <float[33] a = ["location": "weights.bin", "offset": "{}", "length": "132"],
       float[0,33] none = ["location": "weights.bin", "offset": "{}", "length": "0"]> {
        p = Mul (x, a)
        y = Concat <axis = 0> (none, p)
      })",
                                           offset, offset));
    for (const Bytes::Origin origin : {Bytes::Origin::passing, Bytes::Origin::borrowed}) {
      SessionOptions o;
      o.external_files["weights.bin"] = std::make_shared<Bytes>(origin, memory_, data_.size(), nullptr, nullptr);
      const auto s = Session::from_bytes(borrow_bytes(text.data(), text.size()), o);
      ASSERT_TRUE(s.ok()) << s.status().message();
      const std::vector<float> got = run(s->get(), 1);
      ASSERT_EQ(got.size(), 33u);
      for (size_t i = 0; i < 33; ++i) {
        float v;
        std::memcpy(&v, data_.data() + static_cast<size_t>(offset) + 4 * i, 4);
        const float want = (static_cast<float>(i % 9) - 4) * v;
        EXPECT_EQ(std::memcmp(&got[i], &want, 4), 0) << offset << " " << i;
      }
    }
  }
}

TEST_F(Handed, PacksAndBuffersGoTogether) {
  fs::create_directories(path("out"));
  open(path("model.onnx"), saving(path("out/saved.onnx"), "saved.bin", true));
  const std::string data = content(path("out/saved.bin"));
  fs::remove(path("out/saved.bin"));
  SessionOptions o;
  o.external_files["saved.bin"] =
      std::make_shared<Bytes>(Bytes::Origin::passing, const_cast<char*>(data.data()), data.size(), nullptr, nullptr);
  const auto s = open(path("out/saved.onnx"), o);
  EXPECT_EQ(run(s.get()), want_);
  EXPECT_EQ(s->memory().counters.pack_calls, 0);
  EXPECT_EQ(s->memory().counters.packs_mapped, 2);
  // And with everything from memory.
  const std::string model = content(path("out/saved.onnx")), pack = content(path("out/saved.onnx.pack"));
  auto aligned = *allocate_bytes(pack.size());
  std::memcpy(aligned->data(), pack.data(), pack.size());
  o.external_files["the.pack"] = aligned;
  o.pack_file = "the.pack";
  const auto m = Session::from_bytes(borrow_bytes(model.data(), model.size()), o);
  ASSERT_TRUE(m.ok()) << m.status().message();
  EXPECT_EQ(run(m->get()), want_);
  EXPECT_EQ((*m)->memory().counters.pack_calls, 0);
}

TEST_F(Handed, RangesThatAreNotThereAreRefused) {
  std::mt19937_64 random(9);
  const auto number = [&]() -> std::string {
    const uint64_t v = random() >> (random() % 64);
    switch (random() % 6) {
      case 0: return "-1";
      case 1: return "18446744073709551615";
      case 2: return format("{}", v % 5000);
      default: return format("{}", v);
    }
  };
  int opened = 0;
  for (int i = 0; i < (kSanitized ? 2'000 : 100'000); ++i) {
    tiny::Message w;
    w.number(1, 33).number(2, tiny::kFloat).text(8, "b");
    w.message(13, tiny::Message().text(1, "location").text(2, random() % 8 ? "weights.bin" : "./w\0eights.bin/../x"));
    if (random() % 8) w.message(13, tiny::Message().text(1, "offset").text(2, number()));
    if (random() % 4 == 0) w.message(13, tiny::Message().text(1, "length").text(2, number()));
    w.number(14, 1);
    tiny::Graph g;
    g.nodes = {tiny::node("Add", {"x", "b"}, {"y"})};
    g.weights = {w};
    g.inputs = {tiny::value("x", tiny::kFloat, {"M", 33})};
    g.outputs = {tiny::value("y", tiny::kFloat, {"M", 33})};
    const std::string model = tiny::model(g);
    SessionOptions o;
    o.external_files["weights.bin"] =
        std::make_shared<Bytes>(Bytes::Origin::passing, memory_, data_.size(), nullptr, nullptr);
    const auto s = Session::from_bytes(borrow_bytes(model.data(), model.size()), o);
    opened += s.ok();
    if (s.ok()) {
      ASSERT_EQ(run(s->get()).size(), 99u);
    }
  }
  EXPECT_GT(opened, 0);
}

TEST_F(Handed, CancellingEndsALoad) {
  SessionOptions o;
  o.cancel_load = std::make_shared<std::atomic<bool>>(true);
  const auto s = Session::open(path("model.onnx"), o);
  ASSERT_FALSE(s.ok());
  EXPECT_EQ(s.status().code(), Code::canceled);
}

}  // namespace
}  // namespace tessera
