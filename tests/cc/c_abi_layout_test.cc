// The C ABI as programs in the field see it: where each slot is, and what a slot without an implementation does.
#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "capi/guard.h"
#include "capi/not_implemented.h"
#include "capi/status.h"
#include "tessera/c_api.h"
#include "tessera/c_api_training.h"

namespace tessera::capi {
namespace {

const OrtApi& api() { return *OrtGetApiBase()->GetApi(ORT_API_VERSION); }

std::string message_of(const OrtStatus* status) { return api().GetErrorMessage(status); }

// The table a client gets, or null where the library offers none.
template <class Table>
const Table* live_table();
template <>
const OrtApi* live_table() {
  return &api();
}
template <>
const OrtTrainingApi* live_table() {
  return api().GetTrainingApi(ORT_API_VERSION);
}
template <>
const OrtModelEditorApi* live_table() {
  return api().GetModelEditorApi();
}
template <>
const OrtCompileApi* live_table() {
  return api().GetCompileApi();
}
template <>
const OrtInteropApi* live_table() {
  return api().GetInteropApi();
}
template <>
const OrtModelPackageApi* live_table() {
  return api().GetModelPackageApi();
}
template <>
const OrtEpApi* live_table() {
  return api().GetEpApi();
}

// What came of calling a function with zeros: its status, if it returns one, or else whether the result is zero.
struct Outcome {
  bool has_status;
  OrtStatus* status;
  bool zero;
};

template <class R, class... A>
Outcome call_with_zeros(R (*function)(A...)) {
  if constexpr (std::is_void_v<R>) {
    function(A{}...);
    return {false, nullptr, true};
  } else if constexpr (std::is_same_v<R, OrtStatus*>) {
    return {true, function(A{}...), false};
  } else {
    return {false, nullptr, function(A{}...) == R{}};
  }
}

struct Table {
  const char* name;
  const void* live;
  const void* stand_ins;
};

struct Slot {
  const Table* table;
  const char* name;
  size_t index;
  size_t offset;
  Outcome (*call)(const void* table);
};

template <class T>
const Table* table_of() {
  static const Table table{kTableName<T>, live_table<T>(), &not_implemented_table<T>};
  return &table;
}

template <class T, class Function>
size_t offset_of(Function T::*member) {
  const T& table = not_implemented_table<T>;
  return static_cast<size_t>(reinterpret_cast<const char*>(&(table.*member)) - reinterpret_cast<const char*>(&table));
}

template <class T, class Function>
T struct_of(Function T::*);

// A line of c_abi_slots.inc.
template <auto Member, Name name>
Slot slot(size_t index) {
  using T = decltype(struct_of(Member));
  return {table_of<T>(), name.text, index, offset_of(Member),
          [](const void* table) { return call_with_zeros(static_cast<const T*>(table)->*Member); }};
}

void* pointer_in(const void* table, const Slot& slot) {
  void* pointer;
  std::memcpy(&pointer, static_cast<const char*>(table) + slot.offset, sizeof pointer);
  return pointer;
}

// Calls a slot that has no implementation and looks at what it says.
void expect_not_implemented(const void* table, const Slot& slot) {
  const std::string name = std::string(slot.table->name) + "::" + slot.name;
  const Outcome outcome = slot.call(table);
  if (!outcome.has_status) {
    EXPECT_TRUE(outcome.zero) << name;
    return;
  }
  EXPECT_EQ(api().GetErrorCode(outcome.status), ORT_NOT_IMPLEMENTED) << name;
  EXPECT_EQ(message_of(outcome.status).find(name + " is not available in this build; "), 0u) << name;
  api().ReleaseStatus(outcome.status);
}

const std::vector<Slot>& slots() {
  static const std::vector<Slot> all = {
#include "c_abi_slots.inc"
  };
  return all;
}

static_assert(sizeof(OrtApi) == 428 * sizeof(void*));
static_assert(sizeof(OrtTrainingApi) == 33 * sizeof(void*));
static_assert(sizeof(OrtModelEditorApi) == 20 * sizeof(void*));
static_assert(sizeof(OrtCompileApi) == 19 * sizeof(void*));
static_assert(sizeof(OrtInteropApi) == 13 * sizeof(void*));
static_assert(sizeof(OrtModelPackageApi) == 16 * sizeof(void*));
static_assert(sizeof(OrtEpApi) == 78 * sizeof(void*));

// Where each slot of the frozen order is in its table, as a compiler sees it.
namespace at_compile_time {

struct Place {
  const char* table;
  size_t index;
  const void* address;
};

template <auto Member, Name name>
constexpr Place slot(size_t index) {
  using T = decltype(struct_of(Member));
  return {kTableName<T>, index, &(not_implemented_table<T>.*Member)};
}

constexpr Place kPlaces[] = {
#include "c_abi_slots.inc"
};

// Slots follow one another without a gap in the index. With the sizes above, each is where it must be.
constexpr bool in_order() {
  for (size_t i = 0; i < std::size(kPlaces); ++i) {
    const bool first = i == 0 || kPlaces[i].table != kPlaces[i - 1].table;
    if (first && kPlaces[i].index != 0) return false;
    if (!first && kPlaces[i].index != kPlaces[i - 1].index + 1) return false;
    if (!first && !(kPlaces[i - 1].address < kPlaces[i].address)) return false;
  }
  return true;
}
static_assert(in_order());
static_assert(std::size(kPlaces) == 428 + 33 + 20 + 19 + 13 + 16 + 78);

}  // namespace at_compile_time

TEST(CAbiLayout, EverySlotIsAtItsPlace) {
  for (const Slot& slot : slots()) EXPECT_EQ(slot.offset, slot.index * sizeof(void*)) << slot.name;
}

TEST(CAbiLayout, StructsWrittenByClientsKeepTheirLayout) {
  static_assert(offsetof(OrtAllocator, Alloc) == sizeof(void*));
  static_assert(sizeof(OrtAllocator) == 8 * sizeof(void*));
  static_assert(offsetof(OrtCustomOp, CreateKernel) == sizeof(void*));
  static_assert(sizeof(OrtCustomOp) == 26 * sizeof(void*));
  static_assert(sizeof(OrtEp) == 26 * sizeof(void*));
  static_assert(sizeof(OrtEpFactory) == 21 * sizeof(void*));
  static_assert(sizeof(OrtNodeComputeInfo) == 4 * sizeof(void*));
  static_assert(sizeof(OrtResourceCount) == 56);
  static_assert(sizeof(OrtApiBase) == 2 * sizeof(void*));
}

TEST(CAbiNotImplemented, EveryStandInNamesItself) {
  for (const Slot& slot : slots()) expect_not_implemented(slot.table->stand_ins, slot);
}

TEST(CAbiNotImplemented, NoSlotOfALiveTableIsNull) {
  for (const Slot& slot : slots()) {
    const void* live = slot.table->live;
    if (!live) continue;
    EXPECT_NE(pointer_in(live, slot), nullptr) << slot.name;
    if (pointer_in(live, slot) == pointer_in(slot.table->stand_ins, slot)) expect_not_implemented(live, slot);
  }
}

TEST(CAbiNotImplemented, SaysWhatToUse) {
  const auto says = [](OrtStatus* status, const char* part) {
    EXPECT_NE(message_of(status).find(part), std::string::npos) << message_of(status);
    api().ReleaseStatus(status);
  };
  says(api().SessionOptionsAppendExecutionProvider_CUDA(nullptr, nullptr), "leave the provider out");
  says(api().CreateTensorRTProviderOptions(nullptr), "leave the provider out");
  says(api().GetEpApi()->CreateKernelRegistry(nullptr), "RegisterCustomOpsLibrary");
  says(api().GetInteropApi()->CanImportMemory(nullptr, {}, nullptr), "CreateTensorWithDataAsOrtValue");
  says(api().GetModelPackageApi()->CreateModelPackageContext(nullptr, nullptr), "CreateSession");
  says(api().CreateOpaqueValue(nullptr, nullptr, nullptr, 0, nullptr), "tensors");
}

TEST(CAbiNotImplemented, VoidFunctionsLeaveNoGarbage) {
  const OrtApi& table = not_implemented_table<OrtApi>;
  int target = 0;
  auto* pairs = reinterpret_cast<OrtKeyValuePairs*>(&target);
  table.CreateKeyValuePairs(&pairs);
  EXPECT_EQ(pairs, nullptr);

  const char* text = "x";
  const char* const* keys = &text;
  const char* const* values = &text;
  size_t count = 7;
  table.GetKeyValuePairs(nullptr, &keys, &values, &count);
  EXPECT_EQ(keys, nullptr);
  EXPECT_EQ(values, nullptr);
  EXPECT_EQ(count, 0u);
}

TEST(CAbiBase, ServesVersions1To31WithOneTable) {
  const OrtApiBase* base = OrtGetApiBase();
  ASSERT_NE(base, nullptr);
  EXPECT_STREQ(base->GetVersionString(), "1.31.1");
  for (uint32_t version = 1; version <= 31; ++version) EXPECT_EQ(base->GetApi(version), &api()) << version;
  EXPECT_STRNE(api().GetBuildInfoString(), nullptr);
}

TEST(CAbiBase, SaysWhichVersionsItServes) {
  for (uint32_t version : {0u, 32u, 4294967295u}) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(OrtGetApiBase()->GetApi(version), nullptr);
    const std::string said = testing::internal::GetCapturedStderr();
    EXPECT_NE(said.find(std::to_string(version)), std::string::npos) << said;
    EXPECT_NE(said.find("1 to 31"), std::string::npos) << said;
  }
}

TEST(CAbiStatus, KeepsCodeAndACopyOfTheMessage) {
  std::string text = "the door is closed";
  OrtStatus* status = api().CreateStatus(ORT_DEVICE_RESET, text.c_str());
  text = "?";
  EXPECT_EQ(api().GetErrorCode(status), ORT_DEVICE_RESET);
  EXPECT_EQ(message_of(status), "the door is closed");
  api().ReleaseStatus(status);
}

TEST(CAbiStatus, NullIsOk) {
  EXPECT_EQ(api().GetErrorCode(nullptr), ORT_OK);
  EXPECT_EQ(message_of(nullptr), "");
  api().ReleaseStatus(nullptr);
  OrtStatus* status = api().CreateStatus(ORT_FAIL, nullptr);
  EXPECT_EQ(message_of(status), "");
  api().ReleaseStatus(status);
}

TEST(CAbiStatus, TurnsBackIntoAStatus) {
  const Status back = from_ort(api().CreateStatus(ORT_INVALID_GRAPH, "a loop"));
  EXPECT_EQ(back.code(), Code::invalid_graph);
  EXPECT_EQ(back.message(), "a loop");
  EXPECT_TRUE(from_ort(nullptr).ok());
  EXPECT_TRUE(from_ort(api().CreateStatus(ORT_OK, "fine")).ok());
}

void expect_status(OrtStatus* status, OrtErrorCode code, const std::string& message) {
  EXPECT_EQ(api().GetErrorCode(status), code);
  EXPECT_EQ(message_of(status), message);
  api().ReleaseStatus(status);
}

TEST(CAbiGuard, TurnsEveryOutcomeIntoAStatus) {
  EXPECT_EQ(guarded([] { return Status(); }), nullptr);
  expect_status(guarded([] { return invalid("got {}, wanted {}", 1, 2); }), ORT_INVALID_ARGUMENT, "got 1, wanted 2");
  expect_status(guarded([]() -> Status { throw std::runtime_error("lost"); }), ORT_RUNTIME_EXCEPTION, "lost");
  expect_status(guarded([]() -> Status { throw 3; }), ORT_RUNTIME_EXCEPTION, "an exception of unknown type");
}

TEST(CAbiGuard, ReportsLackOfMemoryWithoutMemory) {
  const auto fail = []() -> Status { throw std::bad_alloc(); };
  OrtStatus* first = guarded(fail);
  OrtStatus* second = guarded(fail);
  EXPECT_EQ(first, second);
  expect_status(first, ORT_RUNTIME_EXCEPTION, "out of memory");
  expect_status(second, ORT_RUNTIME_EXCEPTION, "out of memory");
}

}  // namespace
}  // namespace tessera::capi
