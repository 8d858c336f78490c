// labels: robust threads
// The C ABI as a client uses it: environment, options, sessions, values, allocators.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "c_client.h"
#include "capi/not_implemented.h"

namespace {

using namespace client;

// --- tables

template <class R, class... A>
void call_with_zeros(R (*f)(A...)) {
  if constexpr (std::is_same_v<R, OrtStatus*>)
    api().ReleaseStatus(f(A{}...));
  else
    f(A{}...);
}

template <class T, class F>
T struct_of(F T::*);

// A line of c_abi_slots.inc: calls the slot with null pointers and zeros.
template <auto Member, tessera::capi::Name name>
int slot(size_t) {
  if constexpr (std::is_same_v<decltype(struct_of(Member)), OrtApi>) call_with_zeros(api().*Member);
  return 0;
}

TEST(CAbi, NoSlotMindsNullPointersAndZeros) {
  const std::vector<int> all = {
#include "c_abi_slots.inc"
  };
  EXPECT_GT(all.size(), 400u);
}

// --- environment and options

struct Message {
  OrtLoggingLevel level;
  std::string id, text;
};
void collect(void* list, OrtLoggingLevel level, const char*, const char* id, const char*, const char* text) {
  static_cast<std::vector<Message>*>(list)->push_back({level, id, text});
}

TEST(CAbiEnv, MessagesGoToTheClientsFunction) {
  std::vector<Message> seen;
  OrtEnv* made = nullptr;
  ok(api().CreateEnvWithCustomLogger(collect, &seen, ORT_LOGGING_LEVEL_INFO, "mine", &made));
  auto e = own(made);
  const std::string model = tiny::add_relu();
  OrtSession* s = nullptr;
  ok(api().CreateSessionFromArray(made, model.data(), model.size(), nullptr, &s));
  ASSERT_EQ(seen.size(), 1u);
  EXPECT_EQ(seen[0].level, ORT_LOGGING_LEVEL_INFO);
  EXPECT_EQ(seen[0].id, "mine");

  ok(api().UpdateEnvWithCustomLogLevel(made, ORT_LOGGING_LEVEL_ERROR));
  e.reset();  // the session lives on, and still reports
  std::vector<float> data = kX;
  const auto x = tensor({2, 3}, data);
  OrtValue* y = nullptr;
  refused(run(s, {"x"}, {x.get()}, {"nothing"}, &y), ORT_INVALID_ARGUMENT, "'nothing'");
  ASSERT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1].level, ORT_LOGGING_LEVEL_ERROR);
  api().ReleaseSession(s);
}

TEST(CAbiEnv, OptionsAndThreads) {
  OrtThreadingOptions* t = nullptr;
  ok(api().CreateThreadingOptions(&t));
  ok(api().SetGlobalIntraOpNumThreads(t, 1));
  ok(api().SetGlobalInterOpNumThreads(t, 1));
  ok(api().SetGlobalSpinControl(t, 0));
  OrtEnv *a = nullptr, *b = nullptr;
  ok(api().CreateEnvWithGlobalThreadPools(ORT_LOGGING_LEVEL_WARNING, "a", t, &a));
  OrtEnvCreationOptions all{};
  all.version = ORT_API_VERSION;
  all.log_id = "b";
  all.logging_severity_level = ORT_LOGGING_LEVEL_WARNING;
  all.threading_options = t;
  ok(api().CreateEnvWithOptions(&all, &b));
  ok(api().DisableTelemetryEvents(a));
  ok(api().EnableTelemetryEvents(a));
  ok(api().SetLanguageProjection(a, ORT_PROJECTION_C));
  api().ReleaseThreadingOptions(t);
  const auto o = options();
  ok(api().DisablePerSessionThreads(o.get()));
  const std::string model = tiny::add_relu();
  OrtSession* s = nullptr;
  ok(api().CreateSessionFromArray(a, model.data(), model.size(), o.get(), &s));
  api().ReleaseEnv(a);
  expect_sums(s);
  api().ReleaseSession(s);
  api().ReleaseEnv(b);
  refused(api().CreateEnv(ORT_LOGGING_LEVEL_WARNING, nullptr, &a), ORT_INVALID_ARGUMENT, "logid");
}

TEST(CAbiEnv, HasTheCpuProvider) {
  char** names = nullptr;
  int count = 0;
  ok(api().GetAvailableProviders(&names, &count));
  ASSERT_EQ(count, 1);
  EXPECT_STREQ(names[0], "CPUExecutionProvider");
  ok(api().ReleaseAvailableProviders(names, count));
  const auto o = options();
  ok(OrtSessionOptionsAppendExecutionProvider_CPU(o.get(), 1));
  ok(api().SessionOptionsAppendExecutionProvider(o.get(), "CPU", nullptr, nullptr, 0));
  refused(api().SessionOptionsAppendExecutionProvider(o.get(), "Abacus", nullptr, nullptr, 0), ORT_INVALID_ARGUMENT,
          "'Abacus'");
}

TEST(CAbiOptions, AreKeptChecked) {
  const auto o = options();
  OrtSessionOptions* p = o.get();
  ok(api().SetSessionExecutionMode(p, ORT_PARALLEL));
  refused(api().SetSessionExecutionMode(p, static_cast<ExecutionMode>(7)), ORT_INVALID_ARGUMENT, "7");
  ExecutionMode mode;
  ok(api().GetSessionExecutionMode(p, &mode));
  EXPECT_EQ(mode, ORT_PARALLEL);
  int pattern = -1;
  ok(api().DisableMemPattern(p));
  ok(api().GetMemPatternEnabled(p, &pattern));
  EXPECT_EQ(pattern, 0);
  ok(api().EnableMemPattern(p));
  ok(api().EnableCpuMemArena(p));
  ok(api().DisableCpuMemArena(p));
  ok(api().SetSessionLogId(p, "id"));
  ok(api().SetSessionLogVerbosityLevel(p, 1));
  ok(api().SetSessionLogSeverityLevel(p, 3));
  ok(api().SetSessionGraphOptimizationLevel(p, ORT_ENABLE_BASIC));
  refused(api().SetSessionGraphOptimizationLevel(p, static_cast<GraphOptimizationLevel>(50)), ORT_INVALID_ARGUMENT);
  ok(api().SetIntraOpNumThreads(p, 2));
  ok(api().SetInterOpNumThreads(p, 2));
  ok(api().SetDeterministicCompute(p, true));
  ok(api().AddFreeDimensionOverride(p, "batch", 2));
  ok(api().AddFreeDimensionOverrideByName(p, "n", 2));
  ok(api().DisableProfiling(p));
  OrtSessionOptions* copy = nullptr;
  ok(api().CloneSessionOptions(p, &copy));
  expect_sums(load(tiny::add_relu(), own(copy).get()).get());
}

TEST(CAbiOptions, ConfigEntries) {
  const auto o = options({{"a", "1"}, {"b", "two"}});
  OrtSessionOptions* p = o.get();
  int has = -1;
  ok(api().HasSessionConfigEntry(p, "a", &has));
  EXPECT_EQ(has, 1);
  ok(api().HasSessionConfigEntry(p, "c", &has));
  EXPECT_EQ(has, 0);
  char text[8] = "?";
  size_t size = 0;
  ok(api().GetSessionConfigEntry(p, "b", nullptr, &size));
  EXPECT_EQ(size, 4u);
  size = 3;
  refused(api().GetSessionConfigEntry(p, "b", text, &size), ORT_INVALID_ARGUMENT, "4");
  EXPECT_STREQ(text, "?");
  ok(api().GetSessionConfigEntry(p, "b", text, &size));
  EXPECT_STREQ(text, "two");
  refused(api().GetSessionConfigEntry(p, "c", text, &size), ORT_INVALID_ARGUMENT, "'c'");
  refused(api().AddSessionConfigEntry(p, "", "x"), ORT_INVALID_ARGUMENT);
  refused(api().AddSessionConfigEntry(p, std::string(1025, 'k').c_str(), "x"), ORT_INVALID_ARGUMENT);
  refused(api().AddSessionConfigEntry(p, "k", std::string(8193, 'v').c_str()), ORT_INVALID_ARGUMENT);
  refused(api().AddSessionConfigEntry(p, "session.execution_order", "sideways"), ORT_INVALID_ARGUMENT, "sideways");
  OrtKeyValuePairs* pairs = nullptr;
  ok(api().GetSessionOptionsConfigEntries(p, &pairs));
  EXPECT_STREQ(api().GetKeyValue(pairs, "b"), "two");
  api().AddKeyValuePair(pairs, "c", "3");
  api().RemoveKeyValuePair(pairs, "a");
  const char *const *keys = nullptr, *const *texts = nullptr;
  size_t count = 0;
  api().GetKeyValuePairs(pairs, &keys, &texts, &count);
  ASSERT_EQ(count, 2u);
  EXPECT_STREQ(keys[1], "c");
  EXPECT_STREQ(texts[1], "3");
  api().ReleaseKeyValuePairs(pairs);
}

// --- sessions

TEST(CAbiSession, RefusesWhatIsNoModel) {
  OrtSession* s = nullptr;
  refused(api().CreateSession(env(), "no/such/file.onnx", nullptr, &s), ORT_NO_SUCHFILE, "no/such/file.onnx");
  refused(api().CreateSessionFromArray(env(), nullptr, 8, nullptr, &s), ORT_INVALID_ARGUMENT);
  refused(try_load(""), ORT_INVALID_ARGUMENT);
  refused(try_load("this is not a model"), ORT_INVALID_PROTOBUF);
  const std::string model = tiny::add_relu();
  // Cut or damaged anywhere: a session or a status, whichever; never a crash.
  for (size_t i = 1; i < model.size(); ++i) {
    api().ReleaseStatus(try_load(model.substr(0, i)));
    std::string damaged = model;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x55);
    api().ReleaseStatus(try_load(damaged));
  }
}

TEST(CAbiSession, TheModelsBytesMayBeFreed) {
  std::string model = tiny::add_relu();
  const auto s = load(model);
  std::fill(model.begin(), model.end(), '\xff');
  expect_sums(s.get());
}

TEST(CAbiSession, TheModelsBytesAreUsedInPlaceOnRequest) {
  const std::string model = tiny::add_relu();
  const auto o = options({{"session.use_ort_model_bytes_directly", "1"}});
  expect_sums(load(model, o.get()).get());
}

TEST(CAbiSession, ExternalDataFromMemory) {
  const std::string model = tiny::add_relu("weights.bin");
  refused(try_load(model), ORT_FAIL, "weights.bin");
  std::vector<float> w = {1, -2, 3};
  const char* names[] = {"weights.bin"};
  char* buffers[] = {reinterpret_cast<char*>(w.data())};
  const size_t sizes[] = {w.size() * sizeof(float)}, too_small[] = {8};
  const auto add = [&](OrtSessionOptions* o, const size_t* size) {
    return api().AddExternalInitializersFromFilesInMemory(o, names, buffers, size, 1);
  };
  auto o = options();
  ok(add(o.get(), too_small));
  EXPECT_NE(outcome(try_load(model, o.get())).code, ORT_OK);

  o = options();
  ok(add(o.get(), sizes));
  refused(add(o.get(), sizes), ORT_INVALID_ARGUMENT, "twice");
  const auto copied = load(model, o.get());
  o = options({{"session.borrow_external_buffers", "1"}});
  ok(add(o.get(), sizes));
  {
    const auto borrowed = load(model, o.get());
    expect_sums(borrowed.get());
  }
  std::fill(w.begin(), w.end(), 99.f);
  expect_sums(copied.get());
}

TEST(CAbiSession, LoadingCanBeCancelled) {
  const auto o = options();
  ok(api().SessionOptionsSetLoadCancellationFlag(o.get(), true));
  refused(try_load(tiny::add_relu(), o.get()), ORT_MODEL_LOAD_CANCELED);
  ok(api().SessionOptionsSetLoadCancellationFlag(o.get(), false));
  expect_sums(load(tiny::add_relu(), o.get()).get());
}

TEST(CAbiSession, SaysWhatItTakesAndGives) {
  const auto s = load(tiny::add_relu());
  size_t inputs = 0, outputs = 0, overridable = 9;
  ok(api().SessionGetInputCount(s.get(), &inputs));
  ok(api().SessionGetOutputCount(s.get(), &outputs));
  ok(api().SessionGetOverridableInitializerCount(s.get(), &overridable));
  EXPECT_EQ(inputs, 1u);
  EXPECT_EQ(outputs, 2u);
  EXPECT_EQ(overridable, 0u);
  char* name = nullptr;
  ok(api().SessionGetInputName(s.get(), 0, allocator(), &name));
  EXPECT_EQ(taken(name), "x");
  ok(api().SessionGetOutputName(s.get(), 1, allocator(), &name));
  EXPECT_EQ(taken(name), "positive");
  refused(api().SessionGetInputName(s.get(), 1, allocator(), &name), ORT_FAIL);
  refused(api().SessionGetOverridableInitializerName(s.get(), 0, allocator(), &name), ORT_FAIL);
  OrtTypeInfo* made = nullptr;
  refused(api().SessionGetOutputTypeInfo(s.get(), 2, &made), ORT_FAIL);
  refused(api().SessionGetOverridableInitializerTypeInfo(s.get(), 0, &made), ORT_FAIL);
  ok(api().SessionGetOutputTypeInfo(s.get(), 1, &made));
  api().ReleaseTypeInfo(made);
  ok(api().SessionGetInputTypeInfo(s.get(), 0, &made));
  const auto info = own(made);
  ONNXType kind;
  ok(api().GetOnnxTypeFromTypeInfo(made, &kind));
  EXPECT_EQ(kind, ONNX_TYPE_TENSOR);
  const OrtTensorTypeAndShapeInfo* t = nullptr;
  ok(api().CastTypeInfoToTensorInfo(made, &t));
  int64_t dims[2];
  const char* symbols[2];
  ok(api().GetDimensions(t, dims, 2));
  ok(api().GetSymbolicDimensions(t, symbols, 2));
  EXPECT_EQ(dims[0], -1);
  EXPECT_EQ(dims[1], 3);
  EXPECT_STREQ(symbols[0], "n");
  EXPECT_STREQ(symbols[1], "");
  size_t count = 0;
  refused(api().GetTensorShapeElementCount(t, &count), ORT_FAIL);
  EXPECT_TRUE(api().TensorTypeAndShape_HasShape(t));
  const OrtSequenceTypeInfo* sequence = nullptr;
  ok(api().CastTypeInfoToSequenceTypeInfo(made, &sequence));
  EXPECT_EQ(sequence, nullptr);
  const OrtMemoryInfo* where[1] = {};
  ok(api().SessionGetMemoryInfoForInputs(s.get(), where, 1));
  EXPECT_EQ(where[0], host());
}

TEST(CAbiSession, Metadata) {
  const auto s = load(tiny::add_relu());
  OrtModelMetadata* m = nullptr;
  ok(api().SessionGetModelMetadata(s.get(), &m));
  char* text = nullptr;
  const auto get = [&](auto function) {
    ok(function(m, allocator(), &text));
    return taken(text);
  };
  EXPECT_EQ(get(api().ModelMetadataGetProducerName), "hand");
  EXPECT_EQ(get(api().ModelMetadataGetGraphName), "tiny");
  EXPECT_EQ(get(api().ModelMetadataGetDomain), "example.org");
  EXPECT_EQ(get(api().ModelMetadataGetDescription), "for tests");
  EXPECT_EQ(get(api().ModelMetadataGetGraphDescription), "of few nodes");
  int64_t version = 0;
  ok(api().ModelMetadataGetVersion(m, &version));
  EXPECT_EQ(version, 42);
  ok(api().ModelMetadataLookupCustomMetadataMap(m, allocator(), "colour", &text));
  EXPECT_EQ(taken(text), "blue");
  ok(api().ModelMetadataLookupCustomMetadataMap(m, allocator(), "shape", &text));
  EXPECT_EQ(text, nullptr);
  char** keys = nullptr;
  int64_t count = 0;
  ok(api().ModelMetadataGetCustomMetadataMapKeys(m, allocator(), &keys, &count));
  ASSERT_EQ(count, 1);
  EXPECT_EQ(taken(keys[0]), "colour");
  ok(api().AllocatorFree(allocator(), keys));
  api().ReleaseModelMetadata(m);
}

TEST(CAbiSession, ProfilesToAFile) {
  const std::string prefix = testing::TempDir() + "tessera_profile";
  const auto o = options();
  ok(api().EnableProfiling(o.get(), prefix.c_str()));
  const auto s = load(tiny::add_relu(), o.get());
  expect_sums(s.get());
  uint64_t start = 0;
  ok(api().SessionGetProfilingStartTimeNs(s.get(), &start));
  EXPECT_GT(start, 0u);
  char* name = nullptr;
  ok(api().SessionEndProfiling(s.get(), allocator(), &name));
  const std::string path = taken(name);
  EXPECT_EQ(path.rfind(prefix, 0), 0u);
  std::ifstream file(path);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(text.find("\"op_name\":\"Relu\""), std::string::npos) << text;
  std::filesystem::remove(path);
  ok(api().SessionEndProfiling(load(tiny::add_relu()).get(), allocator(), &name));
  EXPECT_EQ(taken(name), "");
}

TEST(CAbiSession, WritesTheProfileWhenItIsReleased) {
  const std::filesystem::path folder = testing::TempDir() + "tessera_profile_folder";
  std::filesystem::create_directory(folder);
  const auto o = options();
  ok(api().EnableProfiling(o.get(), (folder / "p").c_str()));
  expect_sums(load(tiny::add_relu(), o.get()).get());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  std::filesystem::remove_all(folder);
}

TEST(CAbiMemory, NamesOfDevicesThatClientsUseAtTheirStart) {
  for (const char* name : {"Cpu", "Cuda", "CudaPinned", "Hip", "HipPinned", "DML", "WebGPU_Buffer", "WebGPU_Buf",
                           "WebNN_Tensor", "WebNN_Ten", "OpenVINO_GPU", "OpenVINO_RT_NPU", "QnnHtpShared"}) {
    SCOPED_TRACE(name);
    OrtMemoryInfo* info = nullptr;
    ok(api().CreateMemoryInfo(name, OrtDeviceAllocator, 0, OrtMemTypeDefault, &info));
    const char* got = nullptr;
    ok(api().MemoryInfoGetName(info, &got));
    EXPECT_STREQ(got, name);
    api().ReleaseMemoryInfo(info);
  }
  OrtMemoryInfo* info = nullptr;
  OrtStatus* status = api().CreateMemoryInfo("nope", OrtDeviceAllocator, 0, OrtMemTypeDefault, &info);
  ASSERT_NE(status, nullptr);
  EXPECT_EQ(api().GetErrorCode(status), ORT_INVALID_ARGUMENT);
  api().ReleaseStatus(status);
}

// --- values

TEST(CAbiValue, RefusesImpossibleTensors) {
  float data[6] = {};
  const int64_t good[] = {2, 3}, negative[] = {-1, 3}, huge[] = {INT64_MAX, 3}, large[] = {INT64_MAX / 2};
  const auto wrap = [&](size_t size, const int64_t* shape, size_t rank, int type, void* at) {
    OrtValue* v = nullptr;
    OrtStatus* status = api().CreateTensorWithDataAsOrtValue(host(), at, size, shape, rank,
                                                             static_cast<ONNXTensorElementDataType>(type), &v);
    EXPECT_EQ(v == nullptr, status != nullptr);
    api().ReleaseValue(v);
    return status;
  };
  ok(wrap(24, good, 2, 1, data));
  refused(wrap(23, good, 2, 1, data), ORT_INVALID_ARGUMENT, "24");
  refused(wrap(24, negative, 2, 1, data), ORT_INVALID_ARGUMENT, "negative");
  refused(wrap(24, huge, 2, 1, data), ORT_FAIL);
  refused(wrap(24, large, 1, 1, data), ORT_FAIL);
  refused(wrap(24, good, 2, 0, data), ORT_NOT_IMPLEMENTED);
  refused(wrap(24, good, 2, 77, data), ORT_NOT_IMPLEMENTED, "77");
  refused(wrap(24, good, 2, -1, data), ORT_NOT_IMPLEMENTED);
  refused(wrap(24, good, 2, 1, nullptr), ORT_INVALID_ARGUMENT);
  refused(wrap(24, nullptr, 2, 1, data), ORT_INVALID_ARGUMENT);
  refused(wrap(24, good, 2, 8, data), ORT_INVALID_ARGUMENT);
  const std::vector<int64_t> ones(65, 1);
  refused(wrap(24, ones.data(), 65, 1, data), ORT_FAIL);
  ok(wrap(4, nullptr, 0, 1, data));
  OrtValue* v = nullptr;
  const auto make = [&](const int64_t* shape, int type) {
    return api().CreateTensorAsOrtValue(allocator(), shape, 2, static_cast<ONNXTensorElementDataType>(type), &v);
  };
  refused(make(negative, 1), ORT_FAIL);
  refused(make(huge, 1), ORT_FAIL);
  refused(make(good, 77), ORT_NOT_IMPLEMENTED);
  OrtMemoryInfo* gpu = nullptr;
  ok(api().CreateMemoryInfo("Cuda", OrtDeviceAllocator, 0, OrtMemTypeDefault, &gpu));
  refused(api().CreateTensorWithDataAsOrtValue(gpu, data, 24, good, 2, kType<float>, &v), ORT_INVALID_ARGUMENT, "Cuda");
  api().ReleaseMemoryInfo(gpu);
}

TEST(CAbiValue, EveryElementTypeKeepsItsNumberAndSize) {
  const int bits[] = {0, 32, 8, 8, 16, 16, 32, 64, 0, 8, 16, 64, 32, 64, 64, 128, 16, 8, 8, 8, 8, 4, 4, 4, 2, 2, 8};
  for (int type = 1; type < 27; ++type) {
    const auto v = new_tensor({5}, static_cast<ONNXTensorElementDataType>(type));
    ASSERT_TRUE(v) << type;
    OrtTensorTypeAndShapeInfo* made = nullptr;
    ok(api().GetTensorTypeAndShape(v.get(), &made));
    ONNXTensorElementDataType got;
    ok(api().GetTensorElementType(made, &got));
    EXPECT_EQ(got, type);
    api().ReleaseTensorTypeAndShapeInfo(made);
    size_t size = 0;
    if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) {
      refused(api().GetTensorSizeInBytes(v.get(), &size), ORT_INVALID_ARGUMENT);
      continue;
    }
    ok(api().GetTensorSizeInBytes(v.get(), &size));
    EXPECT_EQ(size, static_cast<size_t>((5 * bits[type] + 7) / 8)) << type;
  }
}

TEST(CAbiValue, Accessors) {
  std::vector<float> data = kX;
  const auto x = tensor({2, 3}, data);
  int yes = 0;
  ok(api().IsTensor(x.get(), &yes));
  EXPECT_EQ(yes, 1);
  ok(api().IsSparseTensor(x.get(), &yes));
  EXPECT_EQ(yes, 0);
  ok(api().HasValue(x.get(), &yes));
  EXPECT_EQ(yes, 1);
  void* at = nullptr;
  ok(api().GetTensorMutableData(x.get(), &at));
  EXPECT_EQ(at, data.data());
  const void* read = nullptr;
  ok(api().GetTensorData(x.get(), &read));
  EXPECT_EQ(read, data.data());
  const int64_t place[] = {1, 2}, outside[] = {1, 3}, before[] = {-1, 0};
  ok(api().TensorAt(x.get(), place, 2, &at));
  EXPECT_EQ(at, &data[5]);
  refused(api().TensorAt(x.get(), outside, 2, &at), ORT_INVALID_ARGUMENT);
  refused(api().TensorAt(x.get(), before, 2, &at), ORT_INVALID_ARGUMENT);
  refused(api().TensorAt(x.get(), place, 1, &at), ORT_INVALID_ARGUMENT);
  const OrtMemoryInfo* info = nullptr;
  ok(api().GetTensorMemoryInfo(x.get(), &info));
  EXPECT_EQ(info, host());
  ONNXTensorElementDataType type;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  ok(api().GetTensorElementTypeAndShapeDataReference(x.get(), &type, &dims, &rank));
  EXPECT_EQ(type, kType<float>);
  EXPECT_EQ(std::vector<int64_t>(dims, dims + rank), (std::vector<int64_t>{2, 3}));
  OrtTensorTypeAndShapeInfo* made = nullptr;
  ok(api().CreateTensorTypeAndShapeInfo(&made));
  const auto mine = own(made);
  ok(api().SetTensorElementType(made, kType<float>));
  ok(api().SetDimensions(made, dims, rank));
  const char* names[] = {"rows", "columns"};
  ok(api().SetSymbolicDimensions(made, names, 2));
  size_t count = 0;
  ok(api().GetTensorShapeElementCount(made, &count));
  EXPECT_EQ(count, 6u);
}

TEST(CAbiValue, Strings) {
  const auto v = new_tensor({3}, ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING);
  const char* texts[] = {"one", "", "three"};
  refused(api().FillStringTensor(v.get(), texts, 2), ORT_INVALID_ARGUMENT);
  ok(api().FillStringTensor(v.get(), texts, 3));
  size_t length = 0;
  ok(api().GetStringTensorDataLength(v.get(), &length));
  EXPECT_EQ(length, 8u);
  char text[9] = {};
  size_t offsets[3];
  refused(api().GetStringTensorContent(v.get(), text, 7, offsets, 3), ORT_FAIL);
  refused(api().GetStringTensorContent(v.get(), text, 8, offsets, 2), ORT_FAIL);
  ok(api().GetStringTensorContent(v.get(), text, 8, offsets, 3));
  EXPECT_STREQ(text, "onethree");
  EXPECT_EQ(offsets[2], 3u);
  ok(api().FillStringTensorElement(v.get(), "2", 1));
  ok(api().GetStringTensorElementLength(v.get(), 1, &length));
  EXPECT_EQ(length, 1u);
  ok(api().GetStringTensorElement(v.get(), 1, 1, text));
  EXPECT_EQ(text[0], '2');
  refused(api().GetStringTensorElement(v.get(), 2, 0, text), ORT_FAIL);
  refused(api().GetStringTensorElement(v.get(), 9, 3, text), ORT_INVALID_ARGUMENT);
  refused(api().GetStringTensorElementLength(v.get(), 3, &length), ORT_INVALID_ARGUMENT);
  refused(api().FillStringTensorElement(v.get(), "x", 3), ORT_INVALID_ARGUMENT);
  char* buffer = nullptr;
  ok(api().GetResizedStringTensorElementBuffer(v.get(), 0, 100, &buffer));
  std::memset(buffer, 'z', 100);
  refused(api().GetResizedStringTensorElementBuffer(v.get(), 0, SIZE_MAX, &buffer), ORT_INVALID_ARGUMENT);
  const auto number = new_tensor({3}, kType<float>);
  refused(api().FillStringTensor(number.get(), texts, 3), ORT_FAIL);
  refused(api().GetStringTensorDataLength(number.get(), &length), ORT_FAIL);

  const auto s = load(tiny::identity(tiny::tensor_type(tiny::kString, {"n"})));
  OrtValue* y = nullptr;
  ok(run(s.get(), {"x"}, {v.get()}, {"y"}, &y));
  const auto result = own(y);
  ok(api().GetStringTensorDataLength(y, &length));
  EXPECT_EQ(length, 106u);
  ok(run(s.get(), {"x"}, {result.get()}, {"y"}, &y));  // in place, over what is being read
  ok(api().GetStringTensorElementLength(y, 2, &length));
  EXPECT_EQ(length, 5u);
}

TEST(CAbiValue, SequencesAndMaps) {
  std::vector<float> a = {1, 2}, b = {3};
  std::vector<int64_t> k = {7, 5};
  const auto x = tensor({2}, a), y = tensor({1}, b), keys = tensor({2}, k);
  const OrtValue *two[] = {x.get(), y.get()}, *mixed[] = {x.get(), keys.get()}, *null[] = {nullptr};
  OrtValue* made = nullptr;
  ok(api().CreateValue(two, 2, ONNX_TYPE_SEQUENCE, &made));
  const auto sequence = own(made);
  size_t count = 0;
  ok(api().GetValueCount(made, &count));
  EXPECT_EQ(count, 2u);
  ONNXType kind;
  ok(api().GetValueType(made, &kind));
  EXPECT_EQ(kind, ONNX_TYPE_SEQUENCE);
  OrtTypeInfo* type = nullptr;
  ok(api().GetTypeInfo(made, &type));
  const OrtSequenceTypeInfo* of = nullptr;
  ok(api().CastTypeInfoToSequenceTypeInfo(type, &of));
  OrtTypeInfo* element = nullptr;
  ok(api().GetSequenceElementType(of, &element));
  api().ReleaseTypeInfo(type);  // the element's type is a copy
  ok(api().GetOnnxTypeFromTypeInfo(element, &kind));
  EXPECT_EQ(kind, ONNX_TYPE_TENSOR);
  api().ReleaseTypeInfo(element);
  OrtValue* part = nullptr;
  ok(api().GetValue(made, 0, allocator(), &part));
  EXPECT_EQ(values(part), a);
  void* at = nullptr;
  ok(api().GetTensorMutableData(part, &at));
  *static_cast<float*>(at) = 100;  // a copy: the sequence does not change
  EXPECT_EQ(a[0], 1);
  api().ReleaseValue(part);
  refused(api().GetValue(made, 2, allocator(), &part), ORT_FAIL);
  refused(api().GetValue(made, -1, allocator(), &part), ORT_FAIL);
  refused(api().GetTensorMutableData(made, &at), ORT_FAIL);
  refused(api().CreateValue(mixed, 2, ONNX_TYPE_SEQUENCE, &part), ORT_FAIL);
  refused(api().CreateValue(two, 0, ONNX_TYPE_SEQUENCE, &part), ORT_FAIL);
  refused(api().CreateValue(two, 2, ONNX_TYPE_TENSOR, &part), ORT_FAIL);
  refused(api().CreateValue(null, 1, ONNX_TYPE_SEQUENCE, &part), ORT_INVALID_ARGUMENT);
  refused(api().GetValueCount(x.get(), &count), ORT_FAIL);

  const auto s = load(tiny::identity(tiny::sequence_type(tiny::kFloat)));
  OrtValue* out = nullptr;
  ok(run(s.get(), {"x"}, {sequence.get()}, {"y"}, &out));
  ok(api().GetValueCount(out, &count));
  EXPECT_EQ(count, 2u);
  api().ReleaseValue(out);
  refused(run(s.get(), {"x"}, {x.get()}, {"y"}, &(out = nullptr)), ORT_INVALID_ARGUMENT);

  const OrtValue *pair[] = {keys.get(), x.get()}, *uneven[] = {keys.get(), y.get()};
  ok(api().CreateValue(pair, 2, ONNX_TYPE_MAP, &made));
  const auto map = own(made);
  refused(api().CreateValue(uneven, 2, ONNX_TYPE_MAP, &part), ORT_FAIL);
  refused(api().CreateValue(two, 2, ONNX_TYPE_MAP, &part), ORT_FAIL);
  refused(api().CreateValue(pair, 1, ONNX_TYPE_MAP, &part), ORT_FAIL);
  ok(api().GetValue(made, 0, allocator(), &part));
  EXPECT_EQ(values<int64_t>(part), (std::vector<int64_t>{5, 7}));
  api().ReleaseValue(part);
  ok(api().GetValue(made, 1, allocator(), &part));
  EXPECT_EQ(values(part), (std::vector<float>{2, 1}));
  api().ReleaseValue(part);
  refused(api().GetValue(made, 2, allocator(), &part), ORT_FAIL);
  ok(api().GetTypeInfo(made, &type));
  const OrtMapTypeInfo* map_type = nullptr;
  ok(api().CastTypeInfoToMapTypeInfo(type, &map_type));
  ONNXTensorElementDataType key;
  ok(api().GetMapKeyType(map_type, &key));
  EXPECT_EQ(key, kType<int64_t>);
  ok(api().GetMapValueType(map_type, &element));
  api().ReleaseTypeInfo(element);
  api().ReleaseTypeInfo(type);
  const OrtValue* maps[] = {map.get(), map.get()};
  ok(api().CreateValue(maps, 2, ONNX_TYPE_SEQUENCE, &made));
  api().ReleaseValue(made);
}

// --- allocators

struct Counting : OrtAllocator {
  int alive = 0, made = 0;
};
void* counting_alloc(OrtAllocator* self, size_t size) {
  auto* c = static_cast<Counting*>(self);
  ++c->alive;
  ++c->made;
  return std::malloc(size);
}
void counting_free(OrtAllocator* self, void* p) {
  --static_cast<Counting*>(self)->alive;
  std::free(p);
}

TEST(CAbiAllocator, TheClientsAllocatorIsUsed) {
  Counting mine{};
  mine.version = ORT_API_VERSION;
  mine.Alloc = counting_alloc;
  mine.Free = counting_free;
  mine.Info = [](const OrtAllocator*) { return host(); };
  const int64_t shape[] = {2, 3};
  OrtValue* v = nullptr;
  ok(api().CreateTensorAsOrtValue(&mine, shape, 2, kType<float>, &v));
  EXPECT_EQ(mine.alive, 1);
  api().ReleaseValue(v);
  EXPECT_EQ(mine.alive, 0);

  void* data = counting_alloc(&mine, 24);
  refused(api().CreateTensorWithDataAndDeleterAsOrtValue(&mine, data, 23, shape, 2, kType<float>, &v),
          ORT_INVALID_ARGUMENT);
  EXPECT_EQ(mine.alive, 1);
  ok(api().CreateTensorWithDataAndDeleterAsOrtValue(&mine, data, 24, shape, 2, kType<float>, &v));
  api().ReleaseValue(v);
  EXPECT_EQ(mine.alive, 0);

  const auto s = load(tiny::add_relu());
  char* name = nullptr;
  ok(api().SessionGetInputName(s.get(), 0, &mine, &name));
  EXPECT_EQ(mine.alive, 1);
  ok(api().AllocatorFree(&mine, name));
  EXPECT_EQ(mine.alive, 0);
  mine.Alloc = [](OrtAllocator*, size_t) -> void* { return nullptr; };
  refused(api().SessionGetInputName(s.get(), 0, &mine, &name), ORT_RUNTIME_EXCEPTION, "memory");
  refused(api().CreateTensorAsOrtValue(&mine, shape, 2, kType<float>, &v), ORT_RUNTIME_EXCEPTION, "memory");
}

TEST(CAbiAllocator, OursAndWhatTheySay) {
  void* p = nullptr;
  ok(api().AllocatorAlloc(allocator(), 100, &p));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(p) % 64, 0u);
  ok(api().AllocatorFree(allocator(), p));
  ok(api().AllocatorAlloc(allocator(), 0, &p));
  EXPECT_EQ(p, nullptr);
  ok(api().AllocatorFree(allocator(), nullptr));
  if (!kSanitized) refused(api().AllocatorAlloc(allocator(), SIZE_MAX / 2, &p), ORT_RUNTIME_EXCEPTION, "memory");
  refused(api().AllocatorAlloc(allocator(), SIZE_MAX, &p), ORT_RUNTIME_EXCEPTION, "memory");
  OrtKeyValuePairs* stats = nullptr;
  ok(api().AllocatorGetStats(allocator(), &stats));
  api().ReleaseKeyValuePairs(stats);
  api().ReleaseAllocator(allocator());  // the default one stays

  OrtMemoryInfo *a = nullptr, *b = nullptr, *gpu = nullptr, *any = nullptr;
  ok(api().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &a));
  ok(api().CreateMemoryInfo("Cpu", OrtArenaAllocator, 0, OrtMemTypeDefault, &b));
  ok(api().CreateMemoryInfo("Cuda", OrtDeviceAllocator, 3, OrtMemTypeCPUInput, &gpu));
  ok(api().CreateMemoryInfo_V2("Mine", OrtMemoryInfoDeviceType_NPU, 7, 1, OrtDeviceMemoryType_DEFAULT, 64,
                               OrtDeviceAllocator, &any));
  OrtMemoryInfo* none = nullptr;
  refused(api().CreateMemoryInfo("Abacus", OrtDeviceAllocator, 0, OrtMemTypeDefault, &none), ORT_INVALID_ARGUMENT);
  int equal = -1, id = 0;
  ok(api().CompareMemoryInfo(a, b, &equal));
  EXPECT_EQ(equal, 0);
  ok(api().CompareMemoryInfo(a, gpu, &equal));
  EXPECT_NE(equal, 0);
  const char* name = nullptr;
  ok(api().MemoryInfoGetName(gpu, &name));
  EXPECT_STREQ(name, "Cuda");
  ok(api().MemoryInfoGetId(gpu, &id));
  EXPECT_EQ(id, 3);
  OrtMemType mem_type;
  ok(api().MemoryInfoGetMemType(gpu, &mem_type));
  EXPECT_EQ(mem_type, OrtMemTypeCPUInput);
  OrtAllocatorType type;
  ok(api().MemoryInfoGetType(a, &type));
  EXPECT_EQ(type, OrtArenaAllocator);
  OrtMemoryInfoDeviceType device;
  api().MemoryInfoGetDeviceType(any, &device);
  EXPECT_EQ(device, OrtMemoryInfoDeviceType_NPU);
  EXPECT_EQ(api().MemoryInfoGetVendorId(any), 7u);
  EXPECT_EQ(api().MemoryInfoGetDeviceMemType(any), OrtDeviceMemoryType_DEFAULT);

  const auto s = load(tiny::add_relu());
  OrtAllocator* made = nullptr;
  ok(api().CreateAllocator(s.get(), a, &made));
  const OrtMemoryInfo* info = nullptr;
  ok(api().AllocatorGetInfo(made, &info));
  ok(api().CompareMemoryInfo(a, info, &equal));
  EXPECT_EQ(equal, 0);
  api().ReleaseAllocator(made);
  refused(api().CreateAllocator(s.get(), gpu, &made), ORT_INVALID_ARGUMENT, "Cuda");
  for (OrtMemoryInfo* i : {a, b, gpu, any}) api().ReleaseMemoryInfo(i);
}

}  // namespace
