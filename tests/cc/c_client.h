// What tests of the C ABI share: a client's everyday calls, with the errors turned into test failures. Functions that
// take a table work with any library of that ABI.
#pragma once
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tessera/c_api.h"
#include "tiny_model.h"

namespace client {

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

inline const OrtApi& api() { return *OrtGetApiBase()->GetApi(ORT_API_VERSION); }

struct Outcome {
  OrtErrorCode code;
  std::string message;
};

inline Outcome outcome(OrtStatus* status, const OrtApi& c = api()) {
  const Outcome o{c.GetErrorCode(status), status ? c.GetErrorMessage(status) : ""};
  c.ReleaseStatus(status);
  return o;
}

inline void ok(OrtStatus* status, const OrtApi& c = api()) {
  if (!status) return;
  const Outcome o = outcome(status, c);
  FAIL() << o.code << ": " << o.message;
}

// Refused with `code`, in words that contain `part`.
inline void refused(OrtStatus* status, OrtErrorCode code, const std::string& part = {}) {
  const Outcome o = outcome(status);
  EXPECT_EQ(o.code, code) << o.message;
  EXPECT_NE(o.message.find(part), std::string::npos) << o.message;
  EXPECT_FALSE(o.message.empty());
}

// Owners for the handles of a test, of any library's table.
template <class T>
struct Owner {
  void operator()(T* p) const { release(p); }
  void (*release)(T*);
};
template <class T>
using Owned = std::unique_ptr<T, Owner<T>>;
inline Owned<OrtValue> own(OrtValue* v, const OrtApi& c = api()) { return {v, {c.ReleaseValue}}; }
inline Owned<OrtSession> own(OrtSession* v, const OrtApi& c = api()) { return {v, {c.ReleaseSession}}; }
inline Owned<OrtSessionOptions> own(OrtSessionOptions* v, const OrtApi& c = api()) {
  return {v, {c.ReleaseSessionOptions}};
}
inline Owned<OrtRunOptions> own(OrtRunOptions* v, const OrtApi& c = api()) { return {v, {c.ReleaseRunOptions}}; }
inline Owned<OrtIoBinding> own(OrtIoBinding* v, const OrtApi& c = api()) { return {v, {c.ReleaseIoBinding}}; }
inline Owned<OrtTypeInfo> own(OrtTypeInfo* v, const OrtApi& c = api()) { return {v, {c.ReleaseTypeInfo}}; }
inline Owned<OrtEnv> own(OrtEnv* v, const OrtApi& c = api()) { return {v, {c.ReleaseEnv}}; }
inline Owned<OrtTensorTypeAndShapeInfo> own(OrtTensorTypeAndShapeInfo* v, const OrtApi& c = api()) {
  return {v, {c.ReleaseTensorTypeAndShapeInfo}};
}

inline OrtAllocator* allocator(const OrtApi& c = api()) {
  OrtAllocator* a = nullptr;
  ok(c.GetAllocatorWithDefaultOptions(&a), c);
  return a;
}

inline std::string taken(char* text) {
  std::string out = text;
  ok(api().AllocatorFree(allocator(), text));
  return out;
}

inline OrtEnv* env() {
  static OrtEnv* const e = [] {
    OrtEnv* made = nullptr;
    ok(api().CreateEnv(ORT_LOGGING_LEVEL_WARNING, "test", &made));
    return made;
  }();
  return e;
}

inline Owned<OrtSessionOptions> options(std::initializer_list<std::pair<const char*, const char*>> config = {}) {
  OrtSessionOptions* o = nullptr;
  ok(api().CreateSessionOptions(&o));
  for (const auto& [key, value] : config) ok(api().AddSessionConfigEntry(o, key, value));
  return own(o);
}

inline Owned<OrtSession> load(const std::string& model, const OrtSessionOptions* o = nullptr) {
  OrtSession* s = nullptr;
  ok(api().CreateSessionFromArray(env(), model.data(), model.size(), o, &s));
  return own(s);
}

inline OrtStatus* try_load(const std::string& model, const OrtSessionOptions* o = nullptr) {
  OrtSession* s = nullptr;
  OrtStatus* status = api().CreateSessionFromArray(env(), model.data(), model.size(), o, &s);
  EXPECT_EQ(s == nullptr, status != nullptr);
  api().ReleaseSession(s);
  return status;
}

inline const OrtMemoryInfo* host() {
  const OrtMemoryInfo* info = nullptr;
  ok(api().AllocatorGetInfo(allocator(), &info));
  return info;
}

template <class T>
inline constexpr ONNXTensorElementDataType kType = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
template <>
inline constexpr ONNXTensorElementDataType kType<float> = ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
template <>
inline constexpr ONNXTensorElementDataType kType<int64_t> = ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;

// Borrows `data`.
template <class T>
Owned<OrtValue> tensor(std::vector<int64_t> shape, std::vector<T>& data, const OrtApi& c = api()) {
  OrtValue* v = nullptr;
  OrtMemoryInfo* info = nullptr;
  ok(c.CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &info), c);
  ok(c.CreateTensorWithDataAsOrtValue(info, data.data(), data.size() * sizeof(T), shape.data(), shape.size(), kType<T>,
                                      &v),
     c);
  c.ReleaseMemoryInfo(info);
  return own(v, c);
}

inline Owned<OrtValue> new_tensor(std::vector<int64_t> shape, ONNXTensorElementDataType type) {
  OrtValue* v = nullptr;
  ok(api().CreateTensorAsOrtValue(allocator(), shape.data(), shape.size(), type, &v));
  return own(v);
}

inline std::vector<int64_t> shape_of(const OrtValue* v, const OrtApi& c = api()) {
  OrtTensorTypeAndShapeInfo* made = nullptr;
  ok(c.GetTensorTypeAndShape(v, &made), c);
  const auto info = own(made, c);
  size_t rank = 0;
  ok(c.GetDimensionsCount(made, &rank), c);
  std::vector<int64_t> dims(rank);
  ok(c.GetDimensions(made, dims.data(), rank), c);
  return dims;
}

template <class T = float>
std::vector<T> values(OrtValue* v, const OrtApi& c = api()) {
  void* data = nullptr;
  ok(c.GetTensorMutableData(v, &data), c);
  int64_t n = 1;
  for (const int64_t d : shape_of(v, c)) n *= d;
  return {static_cast<T*>(data), static_cast<T*>(data) + n};
}

inline OrtStatus* run(OrtSession* s, std::vector<const char*> in, std::vector<const OrtValue*> inputs,
                      std::vector<const char*> out, OrtValue** outputs, const OrtRunOptions* o = nullptr,
                      const OrtApi& c = api()) {
  return c.Run(s, o, in.data(), inputs.data(), inputs.size(), out.data(), out.size(), outputs);
}

inline const std::vector<float> kX = {1, 2, 3, 4, 5, 6}, kSum = {2, 0, 6, 5, 3, 9};

// Runs add_relu and expects the sums.
inline void expect_sums(OrtSession* s) {
  std::vector<float> data = kX;
  const auto x = tensor({2, 3}, data);
  OrtValue* y = nullptr;
  ok(run(s, {"x"}, {x.get()}, {"sum"}, &y));
  ASSERT_NE(y, nullptr);
  EXPECT_EQ(values(y), kSum);
  api().ReleaseValue(y);
}

}  // namespace client
