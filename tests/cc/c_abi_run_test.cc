// labels: robust threads
// Runs through the C ABI: outputs, cancelling, bindings, many threads, fork, memory; and the same client with our
// library and with ONNX Runtime's.
#include <dlfcn.h>
#include <glob.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <numeric>
#include <thread>

#include "c_client.h"
#include "tessera/extension.h"

#if defined(__SANITIZE_THREAD__)
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }  // a forked child may start threads
#endif

namespace {

using namespace client;

// --- runs

TEST(CAbiRun, RefusesWrongCalls) {
  const auto s = load(tiny::add_relu());
  std::vector<float> data = kX, more(12);
  const auto x = tensor({2, 3}, data), line = tensor({6}, data), wide = tensor({3, 4}, more);
  const auto integers = new_tensor({2, 3}, kType<int64_t>);
  OrtValue* y = nullptr;
  const auto refuse = [&](std::vector<const char*> in, std::vector<const OrtValue*> inputs,
                          std::vector<const char*> out, const char* part) {
    refused(run(s.get(), in, inputs, out, &y), ORT_INVALID_ARGUMENT, part);
    EXPECT_EQ(y, nullptr);
  };
  refuse({"q"}, {x.get()}, {"sum"}, "'q'");
  refuse({"x"}, {x.get()}, {"q"}, "'q'");
  refuse({}, {}, {"sum"}, "'x'");
  refuse({"x", "x"}, {x.get(), x.get()}, {"sum"}, "twice");
  refuse({"x"}, {x.get()}, {}, "output");
  refuse({"x"}, {nullptr}, {"sum"}, "null");
  refuse({nullptr}, {x.get()}, {"sum"}, "empty");
  refuse({""}, {x.get()}, {"sum"}, "empty");
  refuse({"x"}, {x.get()}, {nullptr}, "empty");
  refuse({"x"}, {line.get()}, {"sum"}, "[6]");
  refuse({"x"}, {wide.get()}, {"sum"}, "[3,4]");
  refuse({"x"}, {integers.get()}, {"sum"}, "int64");
  const char* names[] = {"x"};
  const OrtValue* inputs[] = {x.get()};
  refused(api().Run(nullptr, nullptr, names, inputs, 1, names, 1, &y), ORT_INVALID_ARGUMENT, "session");
  refused(api().Run(s.get(), nullptr, nullptr, inputs, 1, names, 1, &y), ORT_INVALID_ARGUMENT);
  refused(api().Run(s.get(), nullptr, names, nullptr, 1, names, 1, &y), ORT_INVALID_ARGUMENT);
  refused(api().Run(s.get(), nullptr, names, inputs, 1, nullptr, 1, &y), ORT_INVALID_ARGUMENT);
  refused(api().Run(s.get(), nullptr, names, inputs, 1, names, 1, nullptr), ORT_INVALID_ARGUMENT);
  expect_sums(s.get());
}

TEST(CAbiRun, AnySubsetOfOutputsInAnyOrderAndTwice) {
  const auto s = load(tiny::add_relu());
  std::vector<float> data = {-9, 9, 0};
  const auto x = tensor({1, 3}, data);
  OrtValue* y[4] = {};
  ok(run(s.get(), {"x"}, {x.get()}, {"positive", "sum", "positive", "sum"}, y));
  EXPECT_EQ(values(y[0]), (std::vector<float>{0, 7, 3}));
  EXPECT_EQ(values(y[1]), (std::vector<float>{-8, 7, 3}));
  EXPECT_EQ(values(y[2]), values(y[0]));
  EXPECT_EQ(values(y[3]), values(y[1]));
  void *a = nullptr, *b = nullptr;
  ok(api().GetTensorMutableData(y[0], &a));
  ok(api().GetTensorMutableData(y[2], &b));
  EXPECT_NE(a, b);
  for (OrtValue* v : y) api().ReleaseValue(v);
}

TEST(CAbiRun, WritesIntoTheClientsTensors) {
  const auto s = load(tiny::add_relu());
  std::vector<float> data = kX, room(6), small(3);
  const auto x = tensor({2, 3}, data), y = tensor({2, 3}, room), too_small = tensor({1, 3}, small);
  const auto integers = new_tensor({2, 3}, kType<int64_t>);
  OrtValue* out = y.get();
  ok(run(s.get(), {"x"}, {x.get()}, {"sum"}, &out));
  EXPECT_EQ(out, y.get());
  EXPECT_EQ(room, kSum);
  out = too_small.get();
  refused(run(s.get(), {"x"}, {x.get()}, {"sum"}, &out), ORT_INVALID_ARGUMENT, "[2,3]");
  EXPECT_EQ(out, too_small.get());
  out = integers.get();
  refused(run(s.get(), {"x"}, {x.get()}, {"sum"}, &out), ORT_INVALID_ARGUMENT, "int64");
  // One given and wrong, one to be made: nothing is made.
  OrtValue* both[] = {nullptr, too_small.get()};
  refused(run(s.get(), {"x"}, {x.get()}, {"sum", "positive"}, both), ORT_INVALID_ARGUMENT);
  EXPECT_EQ(both[0], nullptr);
  // The same tensor in and out.
  out = x.get();
  ok(run(s.get(), {"x"}, {x.get()}, {"sum"}, &out));
  EXPECT_EQ(data, kSum);
}

TEST(CAbiRun, BuffersNeedNoAlignment) {
  const auto s = load(tiny::add_relu());
  std::vector<char> in(25), out(25);
  std::memcpy(in.data() + 1, kX.data(), 24);
  const int64_t shape[] = {2, 3};
  OrtValue *x = nullptr, *y = nullptr;
  ok(api().CreateTensorWithDataAsOrtValue(host(), in.data() + 1, 24, shape, 2, kType<float>, &x));
  ok(api().CreateTensorWithDataAsOrtValue(host(), out.data() + 1, 24, shape, 2, kType<float>, &y));
  const auto keep_x = own(x), keep_y = own(y);
  ok(run(s.get(), {"x"}, {x}, {"sum"}, &y));
  std::vector<float> got(6);
  std::memcpy(got.data(), out.data() + 1, 24);
  EXPECT_EQ(got, kSum);
}

TEST(CAbiRun, ResultsOutliveTheSession) {
  auto s = load(tiny::add_relu());
  OrtValue* y = nullptr;
  {
    std::vector<float> data = kX;
    const auto x = tensor({2, 3}, data);
    ok(run(s.get(), {"x"}, {x.get()}, {"sum"}, &y));
    data.assign(6, 99);
  }
  s.reset();
  EXPECT_EQ(values(y), kSum);
  api().ReleaseValue(y);
}

TEST(CAbiRun, EmptyTensorsAndChangingShapes) {
  const auto s = load(tiny::add_relu());
  for (const int64_t n : {0, 1, 7, 3, 0, 100}) {
    std::vector<float> data(static_cast<size_t>(n * 3), 1.f);
    const auto x = tensor({n, 3}, data);
    OrtValue* y = nullptr;
    ok(run(s.get(), {"x"}, {x.get()}, {"sum"}, &y));
    EXPECT_EQ(shape_of(y), (std::vector<int64_t>{n, 3}));
    for (size_t i = 0; const float v : values(y)) EXPECT_EQ(v, (std::vector<float>{2, -1, 4})[i++ % 3]);
    api().ReleaseValue(y);
  }
}

TEST(CAbiRun, Options) {
  OrtRunOptions* o = nullptr;
  ok(api().CreateRunOptions(&o));
  const auto keep = own(o);
  int level = 0;
  ok(api().RunOptionsSetRunLogVerbosityLevel(o, 5));
  ok(api().RunOptionsGetRunLogVerbosityLevel(o, &level));
  EXPECT_EQ(level, 5);
  ok(api().RunOptionsSetRunLogSeverityLevel(o, 3));
  ok(api().RunOptionsGetRunLogSeverityLevel(o, &level));
  EXPECT_EQ(level, 3);
  const char* tag = nullptr;
  ok(api().RunOptionsSetRunTag(o, "tag"));
  ok(api().RunOptionsGetRunTag(o, &tag));
  EXPECT_STREQ(tag, "tag");
  ok(api().AddRunConfigEntry(o, "k", "v"));
  EXPECT_STREQ(api().GetRunConfigEntry(o, "k"), "v");
  EXPECT_EQ(api().GetRunConfigEntry(o, "q"), nullptr);
  refused(api().AddRunConfigEntry(o, "", "v"), ORT_INVALID_ARGUMENT);

  const auto s = load(tiny::add_relu());
  std::vector<float> data = kX;
  const auto x = tensor({2, 3}, data);
  OrtValue* y = nullptr;
  ok(api().RunOptionsSetTerminate(o));
  refused(run(s.get(), {"x"}, {x.get()}, {"sum"}, &y, o), ORT_FAIL, "terminate");
  EXPECT_EQ(y, nullptr);
  ok(api().RunOptionsUnsetTerminate(o));
  ok(run(s.get(), {"x"}, {x.get()}, {"sum"}, &y, o));
  api().ReleaseValue(y);
}

TEST(CAbiRun, AnotherThreadCanStopIt) {
  const auto s = load(tiny::swapping(64, 50));
  OrtRunOptions* o = nullptr;
  ok(api().CreateRunOptions(&o));
  const auto keep = own(o);
  std::vector<float> data(64 * 64, 1.f);
  const auto x = tensor({64, 64}, data);
  std::atomic<bool> started{false};
  std::thread stopper([&] {
    while (!started) std::this_thread::yield();
    ok(api().RunOptionsSetTerminate(o));
  });
  Outcome last{ORT_OK, ""};
  while (last.code == ORT_OK) {
    OrtValue* y = nullptr;
    last = outcome(run(s.get(), {"x"}, {x.get()}, {"y"}, &y, o));
    api().ReleaseValue(y);
    started = true;
  }
  stopper.join();
  EXPECT_EQ(last.code, ORT_FAIL);
  OrtValue* y = nullptr;
  ok(run(s.get(), {"x"}, {x.get()}, {"y"}, &y));
  api().ReleaseValue(y);
}

TEST(CAbiRun, BindingsRunAgainAndAgain) {
  const auto s = load(tiny::add_relu());
  OrtIoBinding* b = nullptr;
  ok(api().CreateIoBinding(s.get(), &b));
  const auto keep = own(b);
  std::vector<float> data = kX, room(6);
  const auto x = tensor({2, 3}, data), sum = tensor({2, 3}, room);
  refused(api().RunWithBinding(s.get(), nullptr, b), ORT_INVALID_ARGUMENT);
  refused(api().BindInput(b, "q", x.get()), ORT_FAIL, "'q'");
  ok(api().BindInput(b, "x", x.get()));
  ok(api().BindOutput(b, "sum", sum.get()));
  ok(api().BindOutputToDevice(b, "positive", host()));
  OrtValue* before = nullptr;
  for (int round = 0; round < 3; ++round) {
    data[0] = static_cast<float>(round);
    ok(api().SynchronizeBoundInputs(b));
    ok(api().RunWithBinding(s.get(), nullptr, b));
    ok(api().SynchronizeBoundOutputs(b));
    EXPECT_EQ(room[0], static_cast<float>(round + 1));
    OrtValue** list = nullptr;
    size_t count = 0;
    ok(api().GetBoundOutputValues(b, allocator(), &list, &count));
    ASSERT_EQ(count, 2u);
    EXPECT_EQ(values(list[1])[0], static_cast<float>(round + 1));
    if (before) {
      EXPECT_EQ(values(before)[0], static_cast<float>(round));  // not overwritten by the next run
    }
    api().ReleaseValue(before);
    api().ReleaseValue(list[0]);
    before = list[1];
    ok(api().AllocatorFree(allocator(), list));
  }
  api().ReleaseValue(before);
  char* names = nullptr;
  size_t *lengths = nullptr, count = 0;
  ok(api().GetBoundOutputNames(b, allocator(), &names, &lengths, &count));
  ASSERT_EQ(count, 2u);
  EXPECT_EQ(std::string(names, lengths[0] + lengths[1]), "sumpositive");
  ok(api().AllocatorFree(allocator(), names));
  ok(api().AllocatorFree(allocator(), lengths));
  const auto other = load(tiny::add_relu());
  refused(api().RunWithBinding(other.get(), nullptr, b), ORT_INVALID_ARGUMENT, "session");
  api().ClearBoundInputs(b);
  refused(api().RunWithBinding(s.get(), nullptr, b), ORT_INVALID_ARGUMENT, "'x'");
  api().ClearBoundOutputs(b);
  ok(api().GetBoundOutputNames(b, allocator(), &names, &lengths, &count));
  EXPECT_EQ(count, 0u);
}

// --- threads, processes, memory

// One run of swapping(size, 1) with rows of `n` and its check; true if right.
bool swap_once(OrtSession* s, int64_t size, int64_t n, float seed) {
  std::vector<float> data(static_cast<size_t>(n * size));
  std::iota(data.begin(), data.end(), seed);
  const auto x = tensor({n, size}, data);
  OrtValue* y = nullptr;
  ok(run(s, {"x"}, {x.get()}, {"y"}, &y));
  if (!y) return false;
  const std::vector<float> got = values(y);
  api().ReleaseValue(y);
  for (size_t i = 0; i < got.size(); ++i)
    if (got[i] != data[i ^ 1]) return false;
  return got.size() == data.size();
}

TEST(CAbiThreads, SixteenThreadsOnOneSession) {
  const auto o = options();
  ok(api().SetIntraOpNumThreads(o.get(), 2));
  const auto s = load(tiny::swapping(32, 1), o.get());
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      for (int round = 0; round < 20; ++round)
        if (!swap_once(s.get(), 32, 1 + (t + round) % 5, static_cast<float>(t * 100 + round))) ++wrong;
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(CAbiThreads, SessionsComeAndGoInManyThreads) {
  const std::string model = tiny::add_relu();
  std::vector<std::thread> threads;
  for (int t = 0; t < 8; ++t)
    threads.emplace_back([&] {
      for (int round = 0; round < 5; ++round) expect_sums(load(model).get());
    });
  for (std::thread& t : threads) t.join();
}

TEST(CAbiFork, TheChildAnswers) {
  const auto o = options();
  ok(api().SetIntraOpNumThreads(o.get(), 2));
  const auto s = load(tiny::swapping(128, 1), o.get());
  ASSERT_TRUE(swap_once(s.get(), 128, 64, 0));
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    _exit(swap_once(s.get(), 128, 64, 1) && swap_once(s.get(), 128, 3, 2) ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_TRUE(swap_once(s.get(), 128, 64, 3));
}

TEST(CAbiMemory, MakingAndReleasingDoesNotGrow) {
  const std::string model = tiny::swapping(64, 3), broken = model.substr(0, model.size() / 2);
  const auto round = [&] {
    const auto s = load(model);
    ASSERT_TRUE(swap_once(s.get(), 64, 4, 0));
    api().ReleaseStatus(try_load(broken));
    std::vector<float> data = kX;
    const auto x = tensor({2, 3}, data);
    OrtValue* y = nullptr;
    api().ReleaseStatus(run(s.get(), {"x"}, {x.get()}, {"y"}, &y));
  };
  for (int i = 0; i < 20; ++i) round();
  const size_t before = mallinfo2().uordblks;
  for (int i = 0; i < 100; ++i) round();
  EXPECT_LT(mallinfo2().uordblks, before + 64 * 1024);
}

// --- the extension table

TEST(Extension, IsFoundBothWays) {
  const TesseraApi* t = TesseraGetApi(TESSERA_API_VERSION);
  ASSERT_NE(t, nullptr);
  EXPECT_EQ(t->version, TESSERA_API_VERSION);
  EXPECT_EQ(t->size, sizeof(TesseraApi));
  EXPECT_EQ(TesseraGetApi(0), nullptr);
  EXPECT_EQ(TesseraGetApi(TESSERA_API_VERSION + 1), nullptr);
  const OrtExperimentalFnPtr f = api().GetExperimentalFunction("TesseraGetApi");
  ASSERT_NE(f, nullptr);
  EXPECT_EQ(reinterpret_cast<TesseraGetApiFn>(f)(1), t);
  EXPECT_EQ(api().GetExperimentalFunction("SomethingElse"), nullptr);
}

TEST(Extension, TellsOfMemory) {
  const TesseraApi* t = TesseraGetApi(1);
  const auto s = load(tiny::swapping(64, 3));
  int64_t peak = -1;
  ok(t->SessionGetPlannedPeak(s.get(), &peak));
  EXPECT_GT(peak, 0);
  ASSERT_TRUE(swap_once(s.get(), 64, 8, 0));
  TesseraMemory m{};
  m.size = sizeof m;
  ok(t->SessionGetMemory(s.get(), &m));
  EXPECT_GE(m.weights, 64 * 64 * 4);
  EXPECT_GE(m.slab, m.planned_peak);
  EXPECT_EQ(m.size, sizeof m);
  TesseraMemory old{};
  old.size = offsetof(TesseraMemory, mapped);
  old.idle = -7;
  ok(t->SessionGetMemory(s.get(), &old));
  EXPECT_EQ(old.weights, m.weights);
  EXPECT_EQ(old.idle, -7);
  old.size = 0;
  refused(t->SessionGetMemory(s.get(), &old), ORT_INVALID_ARGUMENT);
  char* text = nullptr;
  ok(t->SessionExplain(s.get(), allocator(), &text));
  const std::string explained = taken(text);
  EXPECT_NE(explained.find("3 'MatMul'"), std::string::npos) << explained;
  EXPECT_NE(explained.find("'x': float[n,64]"), std::string::npos) << explained;
}

// --- the same client with our library and with ONNX Runtime

struct Library {
  explicit Library(const std::string& path) : handle(dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) {
    if (!handle) return;
    const auto base = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(handle, "OrtGetApiBase"));
    if (base) api = base()->GetApi(ORT_API_VERSION);
  }
  void* handle;
  const OrtApi* api = nullptr;
};

std::string onnxruntime_path() {
  if (const char* named = std::getenv("TESSERA_ORT_LIBRARY")) return named;
  glob_t found{};
  const std::string pattern =
      TESSERA_SOURCE_DIR "/build/venv/lib/python3*/site-packages/onnxruntime/capi/libonnxruntime.so.1*";
  std::string path;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) path = found.gl_pathv[0];
  globfree(&found);
  return path;
}

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Everything a small client does: load, ask for names, run, read; with whatever table it is given.
std::vector<float> first_output(const OrtApi& c, const std::string& model, std::vector<int64_t> shape,
                                std::vector<float> data) {
  setenv("ORT_DISABLE_TELEMETRY", "1", 1);
  OrtEnv* e = nullptr;
  ok(c.CreateEnv(ORT_LOGGING_LEVEL_ERROR, "both", &e), c);
  const auto keep_env = own(e, c);
  OrtSessionOptions* o = nullptr;
  ok(c.CreateSessionOptions(&o), c);
  const auto keep_options = own(o, c);
  ok(c.SetIntraOpNumThreads(o, 1), c);
  OrtSession* s = nullptr;
  ok(c.CreateSessionFromArray(e, model.data(), model.size(), o, &s), c);
  if (!s) return {};
  const auto keep_session = own(s, c);
  char *in = nullptr, *out = nullptr;
  ok(c.SessionGetInputName(s, 0, allocator(c), &in), c);
  ok(c.SessionGetOutputName(s, 0, allocator(c), &out), c);
  const auto x = tensor(shape, data, c);
  OrtValue* y = nullptr;
  ok(run(s, {in}, {x.get()}, {out}, &y, nullptr, c), c);
  const auto result = own(y, c);
  ok(c.AllocatorFree(allocator(c), in), c);
  ok(c.AllocatorFree(allocator(c), out), c);
  return y ? values(y, c) : std::vector<float>{};
}

void expect_same_from_both(const std::string& model, const std::vector<int64_t>& shape,
                           const std::vector<float>& data) {
  const Library ours(TESSERA_BINARY_DIR "/lib/libtessera.so"), theirs(kSanitized ? "" : onnxruntime_path());
  ASSERT_NE(ours.api, nullptr) << "libtessera.so cannot be opened";
  const std::vector<float> got = first_output(*ours.api, model, shape, data);
  EXPECT_EQ(got, first_output(api(), model, shape, data));
  if (kSanitized) return;  // a library built without the sanitizer cannot be compared under it
  ASSERT_NE(theirs.api, nullptr) << "no onnxruntime package; ./dev setup brings one";
  const std::vector<float> want = first_output(*theirs.api, model, shape, data);
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], want[i], 1e-5 * (1 + std::fabs(want[i]))) << i;
}

TEST(BothLibraries, AgreeOnATinyModel) { expect_same_from_both(tiny::add_relu(), {2, 3}, kX); }

TEST(BothLibraries, AgreeOnTheDemo) {
  const std::string folder = TESSERA_SOURCE_DIR "/tests/models/demo/", model = read_file(folder + "digits.onnx");
  for (int digit = 0; digit < 10; ++digit) {
    const std::string npy = read_file(folder + "sample_" + std::to_string(digit) + ".npy");
    std::vector<float> image(64);
    ASSERT_GE(npy.size(), 64 * sizeof(float));
    std::memcpy(image.data(), npy.data() + npy.size() - 64 * sizeof(float), 64 * sizeof(float));
    expect_same_from_both(model, {1, 1, 8, 8}, image);
  }
}

TEST(BothLibraries, OursShowsItsThreeSymbolsOnly) {
  const Library ours(TESSERA_BINARY_DIR "/lib/libtessera.so");
  ASSERT_NE(ours.handle, nullptr) << "libtessera.so cannot be opened";
  EXPECT_NE(dlsym(ours.handle, "TesseraGetApi"), nullptr);
  EXPECT_NE(dlsym(ours.handle, "OrtSessionOptionsAppendExecutionProvider_CPU"), nullptr);
  EXPECT_EQ(dlsym(ours.handle, "_ZN7tessera12parallel_forEilNS_11FunctionRefIFvliEEE"), nullptr);
}

}  // namespace
