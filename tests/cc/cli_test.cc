// labels: data
// The `tessera` command as a user meets it: exit codes, files read and written, JSON that parses.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "base/file.h"
#include "common/load.h"
#include "common/npy.h"
#include "common/random.h"
#include "common/show.h"
#include "formats/onnx/writer.h"

namespace tessera::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Answer {
  int code = -1;
  std::string out;  // both streams
};

class Cli : public testing::Test {
 protected:
  void SetUp() override {
    const testing::TestInfo* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::path(TESSERA_BINARY_DIR) / "cli_test" / info->name();
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    std::ofstream(path("sum.onnxtxt")) << R"(<ir_version: 10, opset_import: ["" : 17]>
      sum (float[N,3] x, float[3] y = {1, 2, 3}) => (float[N,3] z) { z = Add(x, y) })";
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  static Answer call(const std::string& arguments) {
    return shell(std::string("'") + TESSERA_BINARY_DIR "/bin/tessera' " + arguments);
  }
  static Answer shell(const std::string& command) {
    Answer a;
    std::FILE* pipe = popen((command + " 2>&1").c_str(), "r");
    if (!pipe) return a;
    std::array<char, 4096> buffer;
    for (size_t n; (n = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) a.out.append(buffer.data(), n);
    a.code = WEXITSTATUS(pclose(pipe));
    return a;
  }
  void save(const std::string& name, const Tensor& t) const {
    ASSERT_TRUE(write_file(path(name), *(name.ends_with(".pb") ? onnx::write_tensor(t) : write_npy(t))).ok());
  }
  static std::string content(const std::string& file) {
    std::ifstream in(file, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  fs::path folder_;
};

Tensor floats(Shape shape, std::vector<float> values) {
  return *Tensor::of<float>(std::move(shape), std::span<const float>(values));
}

TEST_F(Cli, WrongUseIsTwo) {
  EXPECT_EQ(call("").code, 2);
  EXPECT_EQ(call("nothing").code, 2);
  EXPECT_EQ(call("run").code, 2);
  EXPECT_EQ(call("run x.onnx --repeat 0").code, 2);
  EXPECT_EQ(call("run " + path("sum.onnxtxt") + " --target abacus").code, 2);
  EXPECT_EQ(call("--help").code, 0);
  for (const char* command : {"run", "inspect", "check", "bench", "test", "pack", "convert", "optimize", "trim"}) {
    const Answer a = call(std::string(command) + " --help");
    EXPECT_EQ(a.code, 0);
    EXPECT_NE(a.out.find("Examples:"), a.out.npos) << command;
  }
}

TEST_F(Cli, RunReadsAndWritesArrays) {
  save("x.npy", floats({2, 3}, {0, 1, 2, 3, 4, 5}));
  const Answer a =
      call("run --input x=" + path("x.npy") + " " + path("sum.onnxtxt") + " --output z=" + path("z.npy") +
           " --output " + path("folder") + " --output " + path("all.npz") + " --repeat 3 --stats --profile");
  ASSERT_EQ(a.code, 0) << a.out;
  EXPECT_NE(a.out.find("output 'z' float[2,3]\n  [1, 3, 5, 4, 6, 8]"), a.out.npos) << a.out;
  EXPECT_NE(a.out.find("chosen by"), a.out.npos);
  EXPECT_NE(a.out.find("time by operator"), a.out.npos);
  const Result<Tensor> z = read_npy(content(path("z.npy")));
  ASSERT_TRUE(z.ok()) << z.status().message();
  EXPECT_EQ(z->shape(), (Shape{2, 3}));
  EXPECT_EQ(z->values<float>()[5], 8);
  EXPECT_EQ(content(path("folder/z.npy")), content(path("z.npy")));
  const auto archive = read_npz(content(path("all.npz")), [](const std::string&) { return DType::undefined; });
  ASSERT_TRUE(archive.ok()) << archive.status().message();
  ASSERT_EQ(archive->size(), 1u);
  EXPECT_EQ((*archive)[0].name, "z");
}

TEST_F(Cli, RunTakesProtobufArchivesAndDefaults) {
  save("x.pb", floats({1, 3}, {0, 0, 0}));
  EXPECT_NE(call("run " + path("sum.onnxtxt") + " --input " + path("x.pb")).out.find("[1, 2, 3]"), std::string::npos);
  const auto npz = write_npz({{"x", floats({1, 3}, {1, 1, 1})}, {"y", floats({3}, {7, 8, 9})}});
  ASSERT_TRUE(write_file(path("in.npz"), *npz).ok());
  const Answer a = call("run " + path("sum.onnxtxt") + " --json --inputs " + path("in.npz"));
  ASSERT_EQ(a.code, 0) << a.out;
  const json j = json::parse(a.out);
  EXPECT_EQ(j["outputs"][0]["first_values"], "[8, 9, 10]");
  EXPECT_EQ(j["plan"]["steps"], 1);
}

TEST_F(Cli, RandomInputsAreTheSameForTheSameSeed) {
  const std::string base = "run " + path("sum.onnxtxt") + " --input random --dim N=4 --json --seed ";
  const json one = json::parse(call(base + "1").out), again = json::parse(call(base + "1").out),
             two = json::parse(call(base + "2").out);
  EXPECT_EQ(one["outputs"][0]["shape"], (std::vector<int>{4, 3}));
  EXPECT_EQ(one["outputs"], again["outputs"]);
  EXPECT_NE(one["outputs"], two["outputs"]);
}

TEST_F(Cli, FailuresSayWhatToDo) {
  const std::string model = path("sum.onnxtxt");
  const std::pair<std::string, std::string> cases[] = {
      {"run " + path("absent.onnx"), "check the path"},
      {"run " + model, "input 'x' (float[N,3]) is missing; give --input x=FILE.npy"},
      {"run " + model + " --input q=1.npy", "the name is one of 'x'"},
      {"run " + model + " --input x=" + path("absent.npy"), "absent.npy"},
      {"run " + model + " --input x=random --dim N", "wanted name=number"},
      {"run " + model + " --input x=random --input x=random", "given twice"},
      {"run " + model + " --input random --output q=" + path("q.npy"), "no such output"},
      {"check " + model + " " + path("absent.onnx"), "1 OK, 1 failed"},
      {"inspect " + path("absent.onnx"), "check the path"},
  };
  for (const auto& [command, wanted] : cases) {
    const Answer a = call(command);
    EXPECT_EQ(a.code, 1) << command;
    EXPECT_NE(a.out.find(wanted), a.out.npos) << command << "\n" << a.out;
  }
  save("x.npy", floats({3}, {1, 2, 3}));
  EXPECT_NE(call("run " + model + " --input x=" + path("x.npy")).out.find("wanted float[N,3]"), std::string::npos);
}

TEST_F(Cli, InspectSaysWhatIsInside) {
  const std::string model = path("sum.onnxtxt");
  const Answer a = call("inspect " + model);
  EXPECT_EQ(a.code, 0);
  for (const char* wanted :
       {"ai.onnx 17", "float[N,3] 'x'", "float[3] 'y' (has a default)", "1  Add", "parameters    3, 12 B"})
    EXPECT_NE(a.out.find(wanted), a.out.npos) << wanted << "\n" << a.out;
  const json j = json::parse(call("inspect --json " + model).out);
  EXPECT_EQ(j["operators"]["Add"], 1);
  EXPECT_EQ(j["parameter_bytes"], 12);
  const Answer text = call("inspect --text --full " + model);
  ASSERT_TRUE(write_file(path("again.onnxtxt"), text.out).ok());
  EXPECT_EQ(call("inspect --text --full " + path("again.onnxtxt")).out, text.out);
  EXPECT_EQ(call("inspect --full " + model).code, 2);
}

TEST_F(Cli, InspectSaysShapesInTermsOfTheInputs) {
  // An encoder's positions are a table cut to the length of the sequence, which must not hide that length.
  std::ofstream(path("positions.onnxtxt")) << R"(<ir_version: 10, opset_import: ["" : 17]>
    positions (int64[B,S] ids, float[512,8] table, float[100,8] words) => (float[a,b,c] y)
    <int64[1] zero = {0}, int64[1] one = {1}> {
      shape = Shape(ids)
      length = Gather(shape, one)
      cut = Slice(table, zero, length, zero)
      embedded = Gather<axis = 0>(words, ids)
      sum = Add(embedded, cut)
      wanted = Concat<axis = 0>(shape, length)
      flat = ReduceSum<keepdims = 0>(cut, one)
      wide = Expand(flat, wanted)
      y = Relu(sum)
    })";
  const Answer a = call("inspect --shapes " + path("positions.onnxtxt"));
  EXPECT_EQ(a.code, 0);
  for (const char* wanted : {"input 'ids' int64[B,S]", "Slice 'cut' float[min(S,512),8]", "Add 'sum' float[B,S,8]",
                             "Expand 'wide' float[B,S,S]", "Relu 'y' float[B,S,8]"})
    EXPECT_NE(a.out.find(wanted), a.out.npos) << wanted << "\n" << a.out;
  EXPECT_EQ(call("inspect --shapes --json " + path("positions.onnxtxt")).code, 2);
}

TEST_F(Cli, InspectFollowsTurnedListsAndConstantsOfFloats) {
  // Pads come as (begin, end) from the last axis on; exporters turn them around with Reshape, Slice and Transpose.
  std::ofstream(path("pads.onnxtxt")) << R"(<ir_version: 10, opset_import: ["" : 17]>
    pads (float[N,H] x, float[N,3,H,H] picture) => (float[a,b] y, float[c,d,e,f] z)
    <int64[4] list = {1, 2, 3, 4}, int64[2] pairs = {-1, 2}, int64[1] zero = {0}, int64[1] last = {-1},
     int64[1] first = {-9223372036854775807}, int64[1] all = {-1}> {
      square = Reshape(list, pairs)
      upward = Slice(square, last, first, zero, last)
      turned = Transpose<perm = [1, 0]>(upward)
      flat = Reshape(turned, all)
      y = Pad(x, flat)
      scales = Constant<value_floats = [1.0, 1.0, 2.0, 3.0]>()
      z = Resize<mode = "nearest">(picture, , scales)
    })";
  const Answer a = call("inspect --shapes " + path("pads.onnxtxt"));
  EXPECT_EQ(a.code, 0);
  for (const char* wanted : {"Pad 'y' float[7+N,3+H]", "Resize 'z' float[N,3,2*H,3*H]"})
    EXPECT_NE(a.out.find(wanted), a.out.npos) << wanted << "\n" << a.out;
}

TEST_F(Cli, Pack) {
  const std::string model = path("digits.onnx");
  fs::copy_file(std::string(TESSERA_SOURCE_DIR) + "/tests/models/demo/digits.onnx", model);
  const Answer missing = call("pack --verify " + model);
  EXPECT_EQ(missing.code, 1);
  EXPECT_NE(missing.out.find("write it with `tessera pack " + model), missing.out.npos) << missing.out;
  EXPECT_EQ(call("pack " + model).code, 0);
  const Answer whole = call("pack --verify " + model);
  EXPECT_EQ(whole.code, 0);
  EXPECT_NE(whole.out.find("3 packed weights whole"), whole.out.npos) << whole.out;
  std::string bytes = content(model + ".pack");
  bytes[bytes.size() / 2] = static_cast<char>(~bytes[bytes.size() / 2]);
  ASSERT_TRUE(write_file(model + ".pack", bytes).ok());
  const Answer damaged = call("pack --verify " + model);
  EXPECT_EQ(damaged.code, 1);
  EXPECT_NE(damaged.out.find("make it again with `tessera pack`"), damaged.out.npos) << damaged.out;
}

TEST_F(Cli, ConvertAndOptimizeKeepTheModelAndSayWhatTheyWrote) {
  const std::string model = path("digits.onnx");
  fs::copy_file(std::string(TESSERA_SOURCE_DIR) + "/tests/models/demo/digits.onnx", model);
  const std::string before = content(model);
  for (const char* command : {"convert ", "optimize "}) {
    SCOPED_TRACE(command);
    const Answer same = call(command + model + " " + model);
    EXPECT_EQ(same.code, 1);
    EXPECT_NE(same.out.find("give the output another name"), same.out.npos) << same.out;
    EXPECT_EQ(content(model), before);
    const Answer good = call(command + model + " " + path("new.onnx"));
    EXPECT_EQ(good.code, 0) << good.out;
    EXPECT_NE(good.out.find("new.onnx: "), good.out.npos) << good.out;
    EXPECT_NE(good.out.find(" nodes"), good.out.npos) << good.out;
  }
  const Answer formless = call("convert " + model + " " + path("new.model"));
  EXPECT_EQ(formless.code, 1);
  EXPECT_NE(formless.out.find("ends in .onnx, .ort or .onnxtxt"), formless.out.npos) << formless.out;
  EXPECT_FALSE(fs::exists(path("new.model")));
}

// --- convert: what is there stays whole

// A model with one large weight whose elements all have one value.
void save_filled(const std::string& path, float value) {
  constexpr int64_t kSide = 1500;
  ir::GraphBuilder builder;
  const std::vector<float> elements(kSide * kSide, value);
  const Fact matrix = Fact::tensor(DType::f32, std::vector<Dim>{kSide, kSide});
  ASSERT_TRUE(builder.input("x", matrix).ok());
  ASSERT_TRUE(builder.initializer("w", Weight::from(floats({kSide, kSide}, elements))).ok());
  ir::Node n;
  n.op_type = "Add";
  n.version = 17;
  const std::string_view in[] = {"x", "w"}, out[] = {"y"};
  builder.output("y", matrix);
  ASSERT_TRUE(builder.node(std::move(n), in, out).ok());
  Model model;
  model.ir_version = 8;
  model.opsets = {{"", 17}};
  model.graph = builder.finish();
  ASSERT_TRUE(onnx::save_model(model, path).ok());
}

// The value that all elements of the model's weight have; -1 if they differ or the model cannot be read.
float filling(const std::string& path) {
  const auto model = load_model_file(path);
  if (!model.ok() || model->graph->weights().size() != 1) return -1;
  const auto tensor = model->graph->weights()[0].tensor();
  if (!tensor.ok()) return -1;
  const auto values = tensor->values<float>();
  return std::all_of(values.begin(), values.end(), [&](float v) { return v == values[0]; }) ? values[0] : -1;
}

class Convert : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    save_filled(path("one.onnx"), 1);
    save_filled(path("two.onnx"), 2);
    for (const char* end : {"onnx", "ort"}) {
      ASSERT_EQ(call(command("one", end)).code, 0);
      ASSERT_EQ(filling(path(std::string("out.") + end)), 1);
    }
  }
  // Writes out.END with its weight in END.bin.
  std::string command(const std::string& from, const std::string& end) const {
    return "convert --extensions --external " + end + ".bin " + path(from + ".onnx") + " " + path("out." + end);
  }
  std::vector<std::string> names() const {
    std::vector<std::string> out;
    for (const auto& e : fs::directory_iterator(folder_)) out.push_back(e.path().filename().string());
    std::sort(out.begin(), out.end());
    return out;
  }
  // Starts the command and sends it the signal a while later. True if it ended of itself.
  bool interrupt(const std::string& arguments, int signal, int microseconds) const {
    const pid_t child = fork();
    if (child == 0) {
      std::freopen("/dev/null", "w", stderr);
      std::freopen("/dev/null", "w", stdout);
      execl("/bin/sh", "sh", "-c", ("exec '" TESSERA_BINARY_DIR "/bin/tessera' " + arguments).c_str(), nullptr);
      _exit(127);
    }
    std::this_thread::sleep_for(std::chrono::microseconds(microseconds));
    kill(child, signal);
    int state = 0;
    waitpid(child, &state, 0);
    return WIFEXITED(state);
  }
};

TEST_F(Convert, ReplacesAModelAndItsData) {
  const auto before = names();
  for (const char* end : {"onnx", "ort"}) {
    const Answer a = call(command("two", end));
    ASSERT_EQ(a.code, 0) << a.out;
    EXPECT_NE(a.out.find(std::string(end) + ".bin: 9.00 MB of weights"), a.out.npos) << a.out;
    EXPECT_EQ(filling(path(std::string("out.") + end)), 2);
    EXPECT_EQ(load_model_file(path(std::string("out.") + end))->graph->weights()[0].location,
              std::string(end) + ".bin");
  }
  EXPECT_EQ(names(), before);
}

TEST_F(Convert, AFileThatMayNotGrowLeavesTheOldOnes) {
  const auto before = names();
  for (const char* end : {"onnx", "ort"}) {
    const std::string limited = "ulimit -f 100; '" TESSERA_BINARY_DIR "/bin/tessera' " + command("two", end);
    const Answer a = shell("bash -c \"" + limited + "\"");
    EXPECT_EQ(a.code, 1) << a.out;
    EXPECT_NE(a.out.find("File too large"), a.out.npos) << a.out;
    EXPECT_EQ(filling(path(std::string("out.") + end)), 1);
  }
  EXPECT_EQ(names(), before);
}

TEST_F(Convert, AKilledOneLeavesAWholeModel) {
  std::mt19937 random(7);
  for (int i = 0; i < 24; ++i) {
    const std::string end = i % 2 ? "onnx" : "ort", from = i / 2 % 2 ? "one" : "two";
    interrupt(command(from, end), SIGKILL, 1000 + static_cast<int>(random() % 60000));
    const float value = filling(path("out." + end));
    ASSERT_TRUE(value == 1 || value == 2) << value;
  }
}

TEST_F(Convert, AnInterruptedOneLeavesNothingBehind) {
  std::mt19937 random(8);
  for (int i = 0; i < 24; ++i) {
    const std::string end = i % 2 ? "onnx" : "ort", from = i / 2 % 2 ? "one" : "two";
    const auto before = names();
    const bool ended = interrupt(command(from, end), SIGINT, 1000 + static_cast<int>(random() % 60000));
    const float value = filling(path("out." + end));
    ASSERT_TRUE(value == 1 || value == 2) << value;
    if (ended) {  // not before it could listen
      EXPECT_EQ(names(), before);
    }
  }
}

TEST_F(Convert, RefusesToWriteOverTheDataItReads) {
  const Answer a = call("convert --external onnx.bin " + path("out.onnx") + " " + path("new.onnx"));
  EXPECT_EQ(a.code, 1);
  EXPECT_NE(a.out.find("give the new weights another name"), a.out.npos) << a.out;
  EXPECT_EQ(filling(path("out.onnx")), 1);
}

TEST_F(Cli, ConvertReportsWhatChanged) {
  std::ofstream(path("m.onnxtxt")) << R"(<ir_version: 10, opset_import: ["" : 17]>
    g (float[2,2] x) => (float[2,2] y) <float[2,2] w = {1, 2, 3, 4}, float[1] unread = {5}> {
      k = Constant <value_float = 2.0> ()
      a = MatMul (x, w)
      b = Identity (a)
      y = Mul (b, k)
    })";
  const Answer plain = call("convert --pack " + path("m.onnxtxt") + " " + path("m.ort"));
  ASSERT_EQ(plain.code, 0) << plain.out;
  for (const char* wanted : {"m.ort: 3 nodes (of 4)", "1 Constant nodes became initializers",
                             "1 initializers that nobody reads were left out", "m.ort.pack: 1 packed weights"})
    EXPECT_NE(plain.out.find(wanted), plain.out.npos) << wanted << "\n" << plain.out;
  const Answer optimised = call("convert --optimize 99 " + path("m.ort") + " " + path("n.onnx"));
  ASSERT_EQ(optimised.code, 0) << optimised.out;
  EXPECT_NE(optimised.out.find("Identity: 0 nodes, were 1"), optimised.out.npos) << optimised.out;
}

// --- trim

TEST_F(Cli, TrimListsWhatModelsNeed) {
  std::ofstream(path("m.onnxtxt")) << R"(<ir_version: 10, opset_import: ["" : 17]>
    g (float[2,2] x, bool c) => (float[2,2] y) {
      y = If (c) <then_branch = t () => (float[2,2] a) { a = Softplus (x) },
                  else_branch = e () => (float[2,2] b) { b = MeanVarianceNormalization (x) }>
    })";
  const Answer a = call("trim --list-only " + path("m.onnxtxt") + " -o " + path("small"));
  ASSERT_EQ(a.code, 0) << a.out;
  const std::string list = content(path("small/operators.txt")), config = content(path("small/operators.config"));
  EXPECT_NE(list.find("control/if.cc If\n"), list.npos) << list;
  EXPECT_NE(list.find("math/unary.cc Softplus\n"), list.npos) << list;
  EXPECT_NE(config.find("Softplus{\"inputs\":{\"0\":[\"float\"]}"), config.npos) << config;
  // The list of types is read again, and gives the same.
  const Answer again = call("trim --list-only " + path("small/operators.config") + " -o " + path("again"));
  ASSERT_EQ(again.code, 0) << again.out;
  EXPECT_EQ(content(path("again/operators.txt")), list);
  EXPECT_EQ(content(path("again/operators.config")), config);
}

TEST_F(Cli, TrimReadsListsOfReducedBuilds) {
  std::ofstream(path("ops.config")) << R"(# a comment
!globally_allowed_types;float,int64_t
ai.onnx;12,13;Add,Conv{"inputs": {"0": ["float"]}},HardSwish
ai.onnx.ml;1;Scaler
com.microsoft;1;MatMulNBits
)";
  const Answer a = call("trim --list-only " + path("ops.config") + " -o " + path("small"));
  ASSERT_EQ(a.code, 0) << a.out;
  const std::string list = content(path("small/operators.txt"));
  for (const char* wanted :
       {"math/binary.cc Add\n", "nn/conv.cc Conv\n", "quant/matmul_nbits.cc com.microsoft:MatMulNBits\n",
        " ai.onnx.ml:Scaler\n", " HardSwish\n"})
    EXPECT_NE(list.find(wanted), list.npos) << wanted << "\n" << list;
  const std::pair<const char*, const char*> wrong[] = {{"ai.onnx;12", "line 1: wanted domain;opsets;operators"},
                                                       {"ai.onnx;x;Add", "'x' is no operator set"},
                                                       {"ai.onnx;12;Add{\"inputs\"", "are no JSON object"},
                                                       {"ai.onnx;12;Nonsense", "have no operator ai.onnx:Nonsense"}};
  for (const auto& [line, wanted] : wrong) {
    std::ofstream(path("wrong.config")) << line << "\n";
    const Answer refused = call("trim --list-only " + path("wrong.config") + " -o " + path("small"));
    EXPECT_EQ(refused.code, 1);
    EXPECT_NE(refused.out.find(wanted), refused.out.npos) << refused.out;
  }
}

TEST_F(Cli, TrimProvesALibrary) {
  const std::string library = TESSERA_BINARY_DIR "/lib/libtessera_minimal.so";
  const std::string digits = std::string(TESSERA_SOURCE_DIR) + "/tests/models/demo/digits.onnx";
  const Answer good = call("trim --prove " + library + " " + digits + " " + path("sum.onnxtxt"));
  EXPECT_EQ(good.code, 0) << good.out;
  EXPECT_NE(good.out.find("sum.onnxtxt: 1 run through it"), good.out.npos) << good.out;
}

// Builds a library, which takes minutes: TESSERA_TRIM=1 cli_test --gtest_filter=*TrimBuilds
TEST_F(Cli, TrimBuilds) {
  if (!std::getenv("TESSERA_TRIM")) GTEST_SKIP() << "set TESSERA_TRIM to build a trimmed library";
  const std::string digits = std::string(TESSERA_SOURCE_DIR) + "/tests/models/demo/digits.onnx";
  const Answer a = call("trim " + digits + " -o " + path("small"));
  ASSERT_EQ(a.code, 0) << a.out;
  EXPECT_LE(fs::file_size(path("small/libtessera_minimal.so")), 500'000u);
  const Answer other = call("trim --prove " + path("small/libtessera_minimal.so") + " " + path("sum.onnxtxt"));
  EXPECT_EQ(other.code, 1);
  EXPECT_NE(other.out.find("was built without ai.onnx:Add; add that to its list of operators, or run `tessera trim`"),
            other.out.npos)
      << other.out;
}

TEST_F(Cli, CheckAndBench) {
  const std::string model = path("sum.onnxtxt");
  EXPECT_EQ(call("check " + model).code, 0);
  const json checked = json::parse(call("check --json " + model).out);
  EXPECT_EQ(checked[0]["ok"], true);
  const Answer a = call("bench " + model + " --threads 1,2 --seconds 0.01 --json");
  ASSERT_EQ(a.code, 0) << a.out;
  const json j = json::parse(a.out);
  ASSERT_EQ(j.size(), 2u);
  EXPECT_EQ(j[1]["threads"], 2);
  EXPECT_GT(j[0]["wall_ns"]["min"], 0);
  EXPECT_GE(j[0]["runs"], 2);
  EXPECT_GT(j[0]["peak_rss_bytes"], 0);
}

// --- the parts of tools/common

TEST(Npy, EveryTypeComesBack) {
  for (int i = 1; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    if (kFloat6.has(dtype)) continue;
    for (const std::vector<Dim>& shape : {std::vector<Dim>{}, {Dim(5)}, {Dim(2), Dim(0)}, {Dim(2), Dim(3)}}) {
      const Result<Value> v = random_value(Fact::tensor(dtype, shape), {}, 7);
      ASSERT_TRUE(v.ok()) << v.status().message();
      const Tensor& t = *v->tensor();
      const auto bytes = write_npy(t);
      ASSERT_TRUE(bytes.ok()) << name_of(dtype);
      const Result<Tensor> back = read_npy(*bytes, dtype);
      ASSERT_TRUE(back.ok()) << name_of(dtype) << ": " << back.status().message();
      ASSERT_EQ(back->dtype(), dtype);
      EXPECT_EQ(back->shape(), t.shape());
      if (dtype == DType::string) {
        EXPECT_TRUE(std::equal(t.values<std::string>().begin(), t.values<std::string>().end(),
                               back->values<std::string>().begin()));
      } else if (t.bytes()) {
        EXPECT_EQ(std::memcmp(back->data(), t.data(), static_cast<size_t>(t.bytes())), 0) << name_of(dtype);
      }
    }
  }
}

std::string npy(std::string_view header, std::string_view data) {
  std::string out("\x93NUMPY\x01\x00", 8);
  out += static_cast<char>(header.size() & 255);
  out += static_cast<char>(header.size() >> 8);
  return out.append(header).append(data);
}

TEST(Npy, OtherOrders) {
  const auto fortran = read_npy(npy("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3), }", {"\1\2\3\4\5\6", 6}));
  ASSERT_TRUE(fortran.ok()) << fortran.status().message();
  EXPECT_EQ(std::vector<uint8_t>(fortran->values<uint8_t>().begin(), fortran->values<uint8_t>().end()),
            (std::vector<uint8_t>{1, 3, 5, 2, 4, 6}));
  const auto big = read_npy(npy("{'descr': '>i2', 'fortran_order': False, 'shape': (2,), }", {"\0\1\1\0", 4}));
  ASSERT_TRUE(big.ok());
  EXPECT_EQ(big->values<int16_t>()[0], 1);
  EXPECT_EQ(big->values<int16_t>()[1], 256);
  const auto text = read_npy(npy("{'descr': '|S3', 'fortran_order': False, 'shape': (2,), }", {"ab\0xyz", 6}));
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->values<std::string>()[0], "ab");
}

TEST(Npy, DamagedFilesAreRefused) {
  const std::string good = *write_npy(floats({2, 2}, {1, 2, 3, 4}));
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(read_npy(good.substr(0, n)).ok()) << n;
  for (size_t i = 0; i < good.size(); ++i)
    for (const char c : {'\0', '\xff', '9', '(', '\''}) {
      std::string bad = good;
      bad[i] = c;
      (void)read_npy(bad).ok();
    }
  for (const char* header : {"{'descr': '|O', 'fortran_order': False, 'shape': (2,), }",
                             "{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (2,), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (9223372036854775807, 9), }",
                             "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,), }",
                             "{'descr': '<U0', 'fortran_order': False, 'shape': (1000000000,), }",
                             "{'descr': '<f4', 'shape': (1,), }", "{}", ""})
    EXPECT_FALSE(read_npy(npy(header, std::string(64, '\0'))).ok()) << header;
}

TEST(Npz, DamagedArchivesAreRefused) {
  const auto none = [](const std::string&) { return DType::undefined; };
  const std::string good = *write_npz({{"a", floats({2}, {1, 2})}, {"b", floats({}, {3})}});
  ASSERT_EQ(read_npz(good, none)->size(), 2u);
  for (size_t n = 0; n < good.size(); ++n) EXPECT_FALSE(read_npz(good.substr(0, n), none).ok()) << n;
  for (size_t i = 0; i < good.size(); ++i)
    for (const char c : {'\0', '\xff', '\x08'}) {
      std::string bad = good;
      bad[i] = c;
      (void)read_npz(bad, none).ok();
    }
}

TEST(Show, NumbersHaveUnits) {
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(999'950), "1.00 MB");
  EXPECT_EQ(human_bytes(25'600'000), "25.6 MB");
  EXPECT_EQ(human_time(450), "450 ns");
  EXPECT_EQ(human_time(1'230'000), "1.23 ms");
  EXPECT_EQ(human_time(90e9), "90.0 s");
  EXPECT_EQ(human_count(999), "999");
  EXPECT_EQ(human_count(11173962), "11,173,962");
}

TEST(Show, PicturesAndProbabilities) {
  EXPECT_FALSE(probabilities(floats({3}, {0.5, 0.6, 0.2})).has_value());
  EXPECT_FALSE(probabilities(floats({2, 2}, {0.25, 0.25, 0.25, 0.25})).has_value());
  const auto p = probabilities(floats({1, 4}, {0.125, 0, 0.75, 0.125}));
  ASSERT_TRUE(p.has_value());
  EXPECT_EQ(top_classes(*p, 2), "2 (75.0 %), 0 (12.5 %)");
  EXPECT_NE(bar_chart(*p).find("█ 75.0 %"), std::string::npos);
  EXPECT_FALSE(picture(floats({4}, {1, 2, 3, 4})).has_value());
  EXPECT_EQ(picture(floats({1, 1, 2, 2}, {0, 1, 1, 0})), "      ████\n      ████\n  ████    \n  ████    \n");
}

}  // namespace
}  // namespace tessera::cli
