// labels: robust threads
// The C ABI beside plain runs: runs in the background, adapters, devices, arenas, threads.
#include <gtest/gtest.h>

#include <condition_variable>
#include <cstring>
#include <mutex>
#include <utility>

#include "c_client.h"

namespace {

using namespace client;

// --- runs in the background

struct Done {
  std::mutex mutex;
  std::condition_variable changed;
  bool called = false;
  size_t outputs = 0;
  OrtStatus* status = nullptr;

  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return called; });
  }
};

void finished(void* user_data, OrtValue**, size_t outputs, OrtStatusPtr status) {
  auto* done = static_cast<Done*>(user_data);
  std::lock_guard lock(done->mutex);
  done->outputs = outputs;
  done->status = status;
  done->called = true;
  done->changed.notify_one();
}

TEST(CAbiAsync, GivesTheResultToTheFunction) {
  const auto s = load(tiny::add_relu());
  std::vector<float> data = kX;
  auto x = tensor({2, 3}, data);
  const char *in[] = {"x"}, *out[] = {"sum"};
  const OrtValue* inputs[] = {x.get()};
  OrtValue* y = nullptr;
  Done done;
  ok(api().RunAsync(s.get(), nullptr, in, inputs, 1, out, 1, &y, finished, &done));
  x.reset();  // the run holds on to the value
  done.wait();
  ok(done.status);
  EXPECT_EQ(done.outputs, 1u);
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(values(y), kSum);
  api().ReleaseValue(y);
}

TEST(CAbiAsync, GivesErrorsToTheFunction) {
  const auto s = load(tiny::add_relu());
  std::vector<float> data = kX;
  const auto x = tensor({2, 3}, data);
  const char *in[] = {"x"}, *out[] = {"nothing"};
  const OrtValue* inputs[] = {x.get()};
  OrtValue* y = nullptr;
  Done done;
  ok(api().RunAsync(s.get(), nullptr, in, inputs, 1, out, 1, &y, finished, &done));
  done.wait();
  refused(done.status, ORT_INVALID_ARGUMENT, "'nothing'");
  EXPECT_EQ(done.outputs, 0u);
  EXPECT_EQ(y, nullptr);
  refused(api().RunAsync(s.get(), nullptr, in, inputs, 1, out, 1, &y, nullptr, &done), ORT_INVALID_ARGUMENT,
          "run_async_callback");
  refused(api().RunAsync(s.get(), nullptr, in, inputs, 1, out, 1, nullptr, finished, &done), ORT_INVALID_ARGUMENT);
}

// --- adapters

// The bytes of an adapter with one float parameter "x" of shape [2,3] that holds kX.
std::string adapter() {
  std::vector<uint32_t> words = {20, 0x54524f54};  // where the root is; the identifier
  const auto add = [&](std::initializer_list<uint32_t> more) { words.insert(words.end(), more); };
  add({0x0014000c, 0x00080004, 0x0010000c});  // both tables have fields at 4, 8, 12 and 16
  add({12, 1, 3, 7, 4});                      // the root: format 1, two versions, the list that follows
  add({1, 4});                                // of one parameter, which follows
  add({40, 64, 40, 1, 4, 24});                // its name and dimensions, float, and 24 bytes
  words.resize(words.size() + 6);
  std::memcpy(words.data() + words.size() - 6, kX.data(), 24);
  add({2, 2, 0, 3, 0});  // dimensions
  add({1, 'x'});         // name
  return {reinterpret_cast<const char*>(words.data()), words.size() * 4};
}

TEST(CAbiLora, ActiveAdaptersAreInputs) {
  const std::string bytes = adapter();
  OrtLoraAdapter* made = nullptr;
  ok(api().CreateLoraAdapterFromArray(bytes.data(), bytes.size(), nullptr, &made));
  ASSERT_NE(made, nullptr);
  OrtRunOptions* o = nullptr;
  ok(api().CreateRunOptions(&o));
  const auto keep = own(o);
  ok(api().RunOptionsAddActiveLoraAdapter(o, made));
  api().ReleaseLoraAdapter(made);  // the options keep the weights
  const auto s = load(tiny::add_relu());
  OrtValue* y = nullptr;
  ok(run(s.get(), {}, {}, {"sum"}, &y, o));
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(values(y), kSum);
  api().ReleaseValue(y);
}

TEST(CAbiLora, RefusesWhatIsNoAdapter) {
  const std::string bytes = adapter();
  OrtLoraAdapter* made = nullptr;
  refused(api().CreateLoraAdapterFromArray("something", 9, nullptr, &made), ORT_INVALID_ARGUMENT, "TORT");
  refused(api().CreateLoraAdapter("no_such_file", nullptr, &made), ORT_NO_SUCHFILE);
  // Cut anywhere or with any byte changed: refused or read, never worse.
  for (size_t size = 1; size < bytes.size(); ++size) {
    const std::string part(bytes.data(), size);
    api().ReleaseStatus(api().CreateLoraAdapterFromArray(part.data(), size, nullptr, &made));
    api().ReleaseLoraAdapter(std::exchange(made, nullptr));
    std::string changed = bytes;
    changed[size] = static_cast<char>(changed[size] ^ 0xff);
    api().ReleaseStatus(api().CreateLoraAdapterFromArray(changed.data(), changed.size(), nullptr, &made));
    api().ReleaseLoraAdapter(std::exchange(made, nullptr));
  }
}

// --- devices

TEST(CAbiDevice, ListsTheCpu) {
  const OrtEpDevice* const* devices = nullptr;
  size_t count = 0;
  ok(api().GetEpDevices(env(), &devices, &count));
  ASSERT_EQ(count, 1u);
  EXPECT_STREQ(api().EpDevice_EpName(devices[0]), "CPUExecutionProvider");
  const OrtHardwareDevice* device = api().EpDevice_Device(devices[0]);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(api().HardwareDevice_Type(device), OrtHardwareDeviceType_CPU);
  EXPECT_NE(api().EpDevice_EpMetadata(devices[0]), nullptr);
  const auto o = options();
  ok(api().SessionOptionsAppendExecutionProvider_V2(o.get(), env(), devices, 1, nullptr, nullptr, 0));
  ok(api().SessionOptionsSetEpSelectionPolicy(o.get(), OrtExecutionProviderDevicePolicy_PREFER_CPU));
  const auto s = load(tiny::add_relu(), o.get());
  const OrtEpDevice* of_input = nullptr;
  ok(api().SessionGetEpDeviceForInputs(s.get(), &of_input, 1));
  EXPECT_EQ(of_input, devices[0]);
  const char *key[] = {"ep.dynamic.workload_type"}, *value[] = {"Efficient"};
  ok(api().SetEpDynamicOptions(s.get(), key, value, 1));
  refused(api().RegisterExecutionProviderLibrary(env(), "a", "b"), ORT_NOT_IMPLEMENTED, "RegisterCustomOpsLibrary");
  refused(api().SessionOptionsAppendExecutionProvider_CUDA(o.get(), nullptr), ORT_NOT_IMPLEMENTED, "CPU");
}

TEST(CAbiDevice, CopiesTensors) {
  std::vector<float> from = kX, to(6);
  const auto a = tensor({2, 3}, from), b = tensor({2, 3}, to), c = tensor({6}, to);
  const OrtValue* source = a.get();
  OrtValue *target = b.get(), *other = c.get();
  ok(api().CopyTensors(env(), &source, &target, nullptr, 1));
  EXPECT_EQ(to, kX);
  refused(api().CopyTensors(env(), &source, &other, nullptr, 1), ORT_INVALID_ARGUMENT, "[6]");
}

TEST(CAbiArena, IsAcceptedAndChecked) {
  OrtArenaCfg* cfg = nullptr;
  const char *good[] = {"max_mem"}, *bad[] = {"colour"};
  const size_t number[] = {1 << 20};
  ok(api().CreateArenaCfgV2(good, number, 1, &cfg));
  ok(api().CreateAndRegisterAllocator(env(), host(), cfg));
  ok(api().UnregisterAllocator(env(), host()));
  api().ReleaseArenaCfg(cfg);
  refused(api().CreateArenaCfgV2(bad, number, 1, &cfg), ORT_INVALID_ARGUMENT, "'colour'");
  OrtAllocator* shared = nullptr;
  ok(api().GetSharedAllocator(env(), host(), &shared));
  EXPECT_EQ(shared, allocator());
}

TEST(CAbiThreads, SettingsAreAccepted) {
  OrtThreadingOptions* t = nullptr;
  ok(api().CreateThreadingOptions(&t));
  ok(api().SetGlobalDenormalAsZero(t));
  ok(api().SetGlobalIntraOpThreadAffinity(t, "1;2"));
  refused(api().SetGlobalIntraOpThreadAffinity(t, ""), ORT_INVALID_ARGUMENT);
  api().ReleaseThreadingOptions(t);
  const auto o = options();
  ok(api().SessionOptionsSetCustomCreateThreadFn(o.get(), nullptr));
}

}  // namespace
