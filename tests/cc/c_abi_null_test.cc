// labels: robust
// Every slot of every table, called in a child process with null and with wrong arguments: a status or nothing comes
// back, and the child lives.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <tuple>
#include <type_traits>

#include "c_client.h"
#include "capi/not_implemented.h"

namespace {

using namespace client;

// Handles that are good, for the arguments that are not wrong.
using Handles =
    std::tuple<OrtEnv*, OrtSession*, OrtSessionOptions*, OrtRunOptions*, OrtValue*, OrtMemoryInfo*, OrtAllocator*,
               OrtTensorTypeAndShapeInfo*, OrtTypeInfo*, OrtIoBinding*, OrtThreadingOptions*, OrtKeyValuePairs*,
               OrtModelMetadata*, OrtOpAttr*, OrtCustomOpDomain*, OrtArenaCfg*, OrtPrepackedWeightsContainer*,
               OrtValueInfo*, OrtNode*, OrtGraph*, OrtModel*, OrtModelCompilationOptions*, OrtExternalInitializerInfo*>;

template <class T>
T& handle() {
  static Handles all{};
  return std::get<T>(all);
}

void make_model_parts() {
  const OrtModelEditorApi* editor = api().GetModelEditorApi();
  const auto drop = [](OrtStatus* status) { api().ReleaseStatus(status); };
  const char* names[] = {"x", ""};
  const int versions[] = {17};
  drop(editor->CreateValueInfo("x", handle<OrtTypeInfo*>(), &handle<OrtValueInfo*>()));
  drop(editor->CreateNode("Relu", "", "n", names, 1, names, 1, nullptr, 0, &handle<OrtNode*>()));
  drop(editor->CreateGraph(&handle<OrtGraph*>()));
  drop(editor->CreateModel(names + 1, versions, 1, &handle<OrtModel*>()));
  drop(api().GetCompileApi()->CreateModelCompilationOptionsFromSessionOptions(
      handle<OrtEnv*>(), handle<OrtSessionOptions*>(), &handle<OrtModelCompilationOptions*>()));
  drop(api().CreateExternalInitializerInfo("file", 0, 1, &handle<OrtExternalInitializerInfo*>()));
  drop(api().CreateArenaCfg(0, -1, -1, -1, &handle<OrtArenaCfg*>()));
}

// Once; they are there until the end, for every slot is called with them.
void make_handles() {
  if (handle<OrtEnv*>()) return;
  handle<OrtEnv*>() = env();
  handle<OrtAllocator*>() = allocator();
  ok(api().CreateSessionOptions(&handle<OrtSessionOptions*>()));
  ok(api().SetIntraOpNumThreads(handle<OrtSessionOptions*>(), 1));
  handle<OrtSession*>() = load(tiny::add_relu(), handle<OrtSessionOptions*>()).release();
  ok(api().CreateRunOptions(&handle<OrtRunOptions*>()));
  handle<OrtValue*>() = new_tensor({2, 3}, kType<float>).release();
  ok(api().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &handle<OrtMemoryInfo*>()));
  ok(api().GetTensorTypeAndShape(handle<OrtValue*>(), &handle<OrtTensorTypeAndShapeInfo*>()));
  ok(api().GetTypeInfo(handle<OrtValue*>(), &handle<OrtTypeInfo*>()));
  ok(api().CreateIoBinding(handle<OrtSession*>(), &handle<OrtIoBinding*>()));
  ok(api().CreateThreadingOptions(&handle<OrtThreadingOptions*>()));
  api().CreateKeyValuePairs(&handle<OrtKeyValuePairs*>());
  ok(api().SessionGetModelMetadata(handle<OrtSession*>(), &handle<OrtModelMetadata*>()));
  const int64_t one = 1;
  ok(api().CreateOpAttr("a", &one, 1, ORT_OP_ATTR_INT, &handle<OrtOpAttr*>()));
  ok(api().CreateCustomOpDomain("test", &handle<OrtCustomOpDomain*>()));
  ok(api().CreatePrepackedWeightsContainer(&handle<OrtPrepackedWeightsContainer*>()));
  make_model_parts();
}

template <class T, class Tuple>
inline constexpr bool is_in = false;
template <class T, class... U>
inline constexpr bool is_in<T, std::tuple<U...>> = (std::is_same_v<T, U> || ...);

// An argument that points to something of its type, and a number that may or may not mean anything. What a pointer to
// pointers points to is null.
template <class T>
T plausible(int64_t number) {
  alignas(64) static char room[1 << 16];
  if constexpr (std::is_pointer_v<T>) {
    using Target = std::remove_pointer_t<T>;
    using Handle = std::remove_const_t<Target>*;
    if constexpr (std::is_function_v<Target>) {
      return nullptr;
    } else if constexpr (is_in<Handle, Handles>) {
      return handle<Handle>();
    } else if constexpr (std::is_same_v<T, const char*>) {
      return "text";
    } else if constexpr (std::is_scalar_v<Target> || std::is_void_v<Target>) {
      std::fill(std::begin(room), std::end(room), 0);
      return reinterpret_cast<T>(room);
    } else {
      return nullptr;
    }
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    return static_cast<T>(std::is_unsigned_v<T> ? std::max<int64_t>(number, 0) : number);
  } else {
    return T{};
  }
}

// Slots that take memory back, where a pointer that is not of their making is no mistake a library could see.
constexpr std::string_view kTakeMemory[] = {"AllocatorFree", "ReleaseAvailableProviders"};

template <class R, class... A, size_t... I>
void call(R (*f)(A...), size_t absent, int64_t number, std::index_sequence<I...>) {
  const auto argument = [&]<class T>(size_t i, T value) { return i == absent ? T{} : value; };
  if constexpr (std::is_same_v<R, OrtStatus*>)
    api().ReleaseStatus(f(argument(I, plausible<A>(number))...));
  else
    (void)f(argument(I, plausible<A>(number))...);
}

template <class R, class... A>
void call_wrongly(R (*f)(A...), bool nulls_only) {
  if constexpr (std::is_same_v<R, OrtStatus*>)
    api().ReleaseStatus(f(A{}...));
  else
    (void)f(A{}...);
  if (nulls_only) return;
  const bool releases = std::is_void_v<R> && sizeof...(A) == 1;  // once only
  const auto indexes = std::index_sequence_for<A...>();
  if (releases) return call(f, sizeof...(A), 0, indexes);
  for (const int64_t number : {-1, 0, 1, 7, 0x7fffffff}) {
    if (number > 7 && (std::is_same_v<A, size_t> || ...)) continue;  // the length of a list the client has not got
    for (size_t absent = 0; absent <= sizeof...(A); ++absent) call(f, absent, number, indexes);
  }
}

int failures = 0, called = 0;

template <class Table, class F>
void in_child(const Table* table, F Table::*member, const char* name) {
  ++called;
  std::fflush(nullptr);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    alarm(20);
    const bool nulls_only = std::find(std::begin(kTakeMemory), std::end(kTakeMemory), name) != std::end(kTakeMemory);
    call_wrongly(table->*member, nulls_only);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  const bool lived = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  failures += !lived;
  EXPECT_TRUE(lived) << tessera::capi::kTableName<Table> << "::" << name << " ended with wait status " << status;
}

template <class Table>
const Table* table() {
  if constexpr (std::is_same_v<Table, OrtApi>) return &api();
  if constexpr (std::is_same_v<Table, OrtModelEditorApi>) return api().GetModelEditorApi();
  if constexpr (std::is_same_v<Table, OrtCompileApi>) return api().GetCompileApi();
  if constexpr (std::is_same_v<Table, OrtInteropApi>) return api().GetInteropApi();
  if constexpr (std::is_same_v<Table, OrtModelPackageApi>) return api().GetModelPackageApi();
  if constexpr (std::is_same_v<Table, OrtEpApi>) return api().GetEpApi();
  return nullptr;
}

template <class T, class F>
T struct_of(F T::*);

// A line of c_abi_slots.inc.
template <auto Member, tessera::capi::Name name>
int slot(size_t) {
  using Table = decltype(struct_of(Member));
  if (const Table* t = table<Table>()) in_child(t, Member, name.text);
  return 0;
}

void call_all_slots() {
  const std::string folder = testing::TempDir();
  ASSERT_EQ(chdir(folder.c_str()), 0);
  called = 0;
  const int all[] = {
#include "c_abi_slots.inc"
  };
  EXPECT_GT(std::size(all), 400u);
  EXPECT_GT(called, 500);
  EXPECT_EQ(failures, 0);
}

TEST(CAbiNull, NoSlotDiesOfItsArguments) {
  make_handles();
  call_all_slots();
}

// A session whose model is being edited, and a sparse tensor without content.
TEST(CAbiNull, NorOfUnfinishedObjects) {
  make_handles();
  [[maybe_unused]] static const std::pair kept{handle<OrtSession*>(), handle<OrtValue*>()};  // others refer to them
  const std::string model = tiny::add_relu();
  ok(api().GetModelEditorApi()->CreateModelEditorSessionFromArray(env(), model.data(), model.size(), nullptr,
                                                                  &handle<OrtSession*>()));
  const int64_t shape[] = {2, 3};
  ok(api().CreateSparseTensorAsOrtValue(allocator(), shape, 2, kType<float>, &handle<OrtValue*>()));
  call_all_slots();
}

}  // namespace
