// Tessera for C++17 programs: load a model, run it.
//
//   #include <tessera/tessera.h>
//
//   tessera::Session session("model.onnx");
//   tessera::Tensor x({1, 3}, {0.1f, 0.2f, 0.7f});
//   tessera::Outputs y = session.run({{"x", x}});
//   for (float p : y["probabilities"].as<float>()) std::printf("%g\n", p);
//
// Header only, over the C ABI of tessera/c_api.h: link libtessera, or any library with that ABI (memory() and explain()
// then say that they are not available).
//
// Errors: every function may throw tessera::Error; an object whose constructor threw was never made. Threads: one
// Session may be run from many threads at once; every other object belongs to one thread at a time, except where its
// comment says otherwise. Ownership: objects own what they show; they can be moved, and not copied by accident.
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/c_api.h"
#include "tessera/extension.h"

namespace tessera {
inline namespace api {

// What went wrong, in words, and the code of the C ABI: ORT_NO_SUCHFILE, ORT_INVALID_ARGUMENT, ORT_INVALID_PROTOBUF ...
class Error : public std::runtime_error {
 public:
  Error(OrtErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  OrtErrorCode code() const noexcept { return code_; }

 private:
  OrtErrorCode code_;
};

// The sizes of a tensor, outermost first; {} is a single number. In descriptions, -1 is a size that is not fixed.
using Shape = std::vector<int64_t>;

// The numbers of ONNXTensorElementDataType. Types that C++ lacks are read as raw bits through Value::bytes().
enum class ElementType {
  undefined = 0,
  f32 = 1,
  u8 = 2,
  i8 = 3,
  u16 = 4,
  i16 = 5,
  i32 = 6,
  i64 = 7,
  string = 8,
  boolean = 9,
  f16 = 10,
  f64 = 11,
  u32 = 12,
  u64 = 13,
  c64 = 14,
  c128 = 15,
  bf16 = 16,
  f8e4m3fn = 17,
  f8e4m3fnuz = 18,
  f8e5m2 = 19,
  f8e5m2fnuz = 20,
  u4 = 21,
  i4 = 22,
  f4e2m1 = 23,
  u2 = 24,
  i2 = 25,
  f8e8m0 = 26,
};

// "float", "int64" ...: the word ONNX uses.
inline const char* name_of(ElementType type) {
  constexpr const char* kNames[] = {
      "undefined", "float",      "uint8",      "int8",         "uint16",         "int16",      "int32",
      "int64",     "string",     "bool",       "float16",      "double",         "uint32",     "uint64",
      "complex64", "complex128", "bfloat16",   "float8e4m3fn", "float8e4m3fnuz", "float8e5m2", "float8e5m2fnuz",
      "uint4",     "int4",       "float4e2m1", "uint2",        "int2",           "float8e8m0"};
  const auto index = static_cast<size_t>(type);
  return index < std::size(kNames) ? kNames[index] : "undefined";
}

// The element type of a C++ type: element_type<float>. Not defined for types that tensors cannot hold.
template <class T>
struct ElementTypeOf;
template <ElementType type>
using ElementConstant = std::integral_constant<ElementType, type>;
// clang-format off
template <> struct ElementTypeOf<float> : ElementConstant<ElementType::f32> {};
template <> struct ElementTypeOf<double> : ElementConstant<ElementType::f64> {};
template <> struct ElementTypeOf<bool> : ElementConstant<ElementType::boolean> {};
template <> struct ElementTypeOf<int8_t> : ElementConstant<ElementType::i8> {};
template <> struct ElementTypeOf<int16_t> : ElementConstant<ElementType::i16> {};
template <> struct ElementTypeOf<int32_t> : ElementConstant<ElementType::i32> {};
template <> struct ElementTypeOf<int64_t> : ElementConstant<ElementType::i64> {};
template <> struct ElementTypeOf<uint8_t> : ElementConstant<ElementType::u8> {};
template <> struct ElementTypeOf<uint16_t> : ElementConstant<ElementType::u16> {};
template <> struct ElementTypeOf<uint32_t> : ElementConstant<ElementType::u32> {};
template <> struct ElementTypeOf<uint64_t> : ElementConstant<ElementType::u64> {};
// clang-format on
template <class T>
inline constexpr ElementType element_type = ElementTypeOf<T>::value;

// A view of elements that somebody else owns; valid while the Value it came from lives.
template <class T>
class View {
 public:
  View(T* data, size_t size) : data_(data), size_(size) {}
  T* data() const { return data_; }
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* begin() const { return data_; }
  T* end() const { return data_ + size_; }
  // Not checked: index < size().
  T& operator[](size_t index) const { return data_[index]; }

 private:
  T* data_;
  size_t size_;
};

namespace detail {

// The oldest table that has all this header calls; the newest that is used when it is there.
inline constexpr uint32_t kApiVersion = 17, kExperimentalVersion = 28;

[[noreturn]] inline void fail(OrtErrorCode code, const std::string& message) { throw Error(code, message); }

inline const OrtApi& c() {
  static const OrtApi* const table = OrtGetApiBase()->GetApi(kApiVersion);
  if (!table) fail(ORT_NOT_IMPLEMENTED, "the library that was loaded is too old for tessera/tessera.h");
  return *table;
}

inline void check(OrtStatusPtr status) {
  if (!status) return;
  const std::unique_ptr<OrtStatus, decltype(c().ReleaseStatus)> owned(status, c().ReleaseStatus);
  fail(c().GetErrorCode(status), c().GetErrorMessage(status));
}

// Null where the library is not Tessera.
inline const TesseraApi* extension() {
  static const TesseraApi* const table = []() -> const TesseraApi* {
    const OrtApi* api = OrtGetApiBase()->GetApi(kExperimentalVersion);
    const OrtExperimentalFnPtr found = api ? api->GetExperimentalFunction("TesseraGetApi") : nullptr;
    return found ? reinterpret_cast<TesseraGetApiFn>(found)(TESSERA_API_VERSION) : nullptr;
  }();
  return table;
}

inline const TesseraApi& need_extension() {
  if (!extension()) fail(ORT_NOT_IMPLEMENTED, "the library that was loaded is not Tessera");
  return *extension();
}

inline OrtAllocator* allocator() {
  static OrtAllocator* const found = [] {
    OrtAllocator* a = nullptr;
    check(c().GetAllocatorWithDefaultOptions(&a));
    return a;
  }();
  return found;
}

// Text the library allocated, taken over.
inline std::string take_text(char* text) {
  std::string out = text ? text : "";
  check(c().AllocatorFree(allocator(), text));
  return out;
}

// One environment for the process, made at first use and kept until its end.
inline OrtEnv* environment() {
  static OrtEnv* const env = [] {
    OrtEnv* e = nullptr;
    check(c().CreateEnv(ORT_LOGGING_LEVEL_WARNING, "tessera", &e));
    return e;
  }();
  return env;
}

inline const OrtMemoryInfo* host_memory() {
  static OrtMemoryInfo* const info = [] {
    OrtMemoryInfo* i = nullptr;
    check(c().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &i));
    return i;
  }();
  return info;
}

// An owned object of the C ABI.
template <class T>
using Handle = std::unique_ptr<T, void (*)(T*)>;

inline Handle<OrtValue> own(OrtValue* v) {
  return {v, [](OrtValue* x) { c().ReleaseValue(x); }};
}
inline Handle<OrtTypeInfo> own(OrtTypeInfo* v) {
  return {v, [](OrtTypeInfo* x) { c().ReleaseTypeInfo(x); }};
}
inline Handle<OrtTensorTypeAndShapeInfo> own(OrtTensorTypeAndShapeInfo* v) {
  return {v, [](OrtTensorTypeAndShapeInfo* x) { c().ReleaseTensorTypeAndShapeInfo(x); }};
}
inline Handle<OrtSessionOptions> own(OrtSessionOptions* v) {
  return {v, [](OrtSessionOptions* x) { c().ReleaseSessionOptions(x); }};
}
inline Handle<OrtRunOptions> own(OrtRunOptions* v) {
  return {v, [](OrtRunOptions* x) { c().ReleaseRunOptions(x); }};
}
inline Handle<OrtSession> own(OrtSession* v) {
  return {v, [](OrtSession* x) { c().ReleaseSession(x); }};
}

inline Shape shape_of(const OrtTensorTypeAndShapeInfo* info) {
  size_t rank = 0;
  check(c().GetDimensionsCount(info, &rank));
  Shape shape(rank);
  check(c().GetDimensions(info, shape.data(), rank));
  return shape;
}

inline ElementType type_of(const OrtTensorTypeAndShapeInfo* info) {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check(c().GetTensorElementType(info, &type));
  return static_cast<ElementType>(type);
}

inline std::string text_of(ElementType type, const Shape& shape, const std::vector<std::string>& names = {}) {
  std::string out = std::string(name_of(type)) + '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    if (i) out += ',';
    const bool named = shape[i] < 0 && i < names.size() && !names[i].empty();
    out += named ? names[i] : shape[i] < 0 ? std::string("?") : std::to_string(shape[i]);
  }
  return out + ']';
}

}  // namespace detail

// Something a model takes or gives: a tensor, or a sequence or map of values. Owned here.
class Value {
 public:
  // Takes over a value of the C ABI; null is an empty Value, good only for being assigned to.
  explicit Value(OrtValue* taken = nullptr) : handle_(detail::own(taken)) {}

  bool is_tensor() const { return kind() == ONNX_TYPE_TENSOR; }
  bool is_sequence() const { return kind() == ONNX_TYPE_SEQUENCE; }
  bool is_map() const { return kind() == ONNX_TYPE_MAP; }

  // Of tensors.
  Shape shape() const { return detail::shape_of(info().get()); }
  ElementType type() const { return detail::type_of(info().get()); }
  // The number of elements.
  size_t size() const {
    size_t count = 0;
    detail::check(detail::c().GetTensorShapeElementCount(info().get(), &count));
    return count;
  }
  // "float[1,10]": for messages.
  std::string str() const { return is_tensor() ? detail::text_of(type(), shape()) : is_map() ? "map" : "sequence"; }

  // The elements; an Error if the tensor has another type. as<const float>() reads without claiming to write.
  template <class T>
  View<T> as() {
    return {static_cast<T*>(elements(element_type<std::remove_const_t<T>>)), size()};
  }
  template <class T>
  View<const T> as() const {
    return {static_cast<const T*>(const_cast<Value*>(this)->elements(element_type<std::remove_const_t<T>>)), size()};
  }
  // A copy of the elements of a string tensor.
  std::vector<std::string> strings() const {
    std::vector<std::string> out(size());
    for (size_t i = 0; i < out.size(); ++i) {
      size_t length = 0;
      detail::check(detail::c().GetStringTensorElementLength(handle_.get(), i, &length));
      out[i].resize(length);
      detail::check(detail::c().GetStringTensorElement(handle_.get(), length, i, out[i].data()));
    }
    return out;
  }
  // The memory of a tensor of any type but string; how many bytes it has follows from type and shape.
  void* bytes() {
    if (type() == ElementType::string) detail::fail(ORT_INVALID_ARGUMENT, "strings have no bytes; use strings()");
    return raw();
  }

  // Of sequences: the elements. Of maps: two tensors, keys and values. The parts are copies.
  std::vector<Value> parts() const {
    size_t count = 0;
    detail::check(detail::c().GetValueCount(handle_.get(), &count));
    std::vector<Value> out;
    for (size_t i = 0; i < count; ++i) {
      OrtValue* part = nullptr;
      detail::check(detail::c().GetValue(handle_.get(), static_cast<int>(i), detail::allocator(), &part));
      out.emplace_back(part);
    }
    return out;
  }

  // For calls of the C ABI. get() stays owned here.
  OrtValue* get() const { return handle_.get(); }
  OrtValue* release() { return handle_.release(); }

 private:
  ONNXType kind() const {
    ONNXType kind = ONNX_TYPE_UNKNOWN;
    if (handle_) detail::check(detail::c().GetValueType(handle_.get(), &kind));
    return kind;
  }
  detail::Handle<OrtTensorTypeAndShapeInfo> info() const {
    if (!handle_) detail::fail(ORT_INVALID_ARGUMENT, "the value is empty");
    OrtTensorTypeAndShapeInfo* info = nullptr;
    detail::check(detail::c().GetTensorTypeAndShape(handle_.get(), &info));
    return detail::own(info);
  }
  void* raw() {
    void* data = nullptr;
    detail::check(detail::c().GetTensorMutableData(handle_.get(), &data));
    return data;
  }
  void* elements(ElementType wanted) {
    if (type() != wanted)
      detail::fail(ORT_INVALID_ARGUMENT, "the tensor is " + str() + ", it cannot be read as " + name_of(wanted));
    return raw();
  }

  detail::Handle<OrtValue> handle_;
};

// A tensor made by the program.
class Tensor : public Value {
 public:
  // A copy of `values`, as many as the shape has elements: Tensor x({2, 2}, {1.f, 2.f, 3.f, 4.f}). Strings too.
  template <class T>
  Tensor(const Shape& shape, const std::vector<T>& values) : Tensor(shape, values.begin(), values.end()) {}
  template <class T>
  Tensor(const Shape& shape, std::initializer_list<T> values) : Tensor(shape, values.begin(), values.end()) {}

  // A single number, shape {}.
  template <class T>
  static Tensor scalar(T value) {
    return Tensor({}, {value});
  }
  // Memory of its own with unspecified content: somewhere to write to.
  template <class T>
  static Tensor empty(const Shape& shape) {
    return Tensor(allocate(shape, element_type<T>));
  }
  static Tensor empty(const Shape& shape, ElementType type) { return Tensor(allocate(shape, type)); }
  // Uses the program's memory in place: `size` elements at `data`, at least as many as the shape has. It must stay
  // where it is until the Tensor is destroyed.
  template <class T>
  static Tensor borrow(const Shape& shape, T* data, size_t size) {
    OrtValue* value = nullptr;
    detail::check(detail::c().CreateTensorWithDataAsOrtValue(
        detail::host_memory(), const_cast<std::remove_const_t<T>*>(data), size * sizeof(T), shape.data(), shape.size(),
        static_cast<ONNXTensorElementDataType>(element_type<std::remove_const_t<T>>), &value));
    return Tensor(value);
  }

 private:
  explicit Tensor(OrtValue* taken) : Value(taken) {}

  template <class It>
  Tensor(const Shape& shape, It begin, It end) : Value() {
    using T = std::remove_cv_t<std::remove_reference_t<decltype(*begin)>>;
    const auto count = static_cast<size_t>(std::distance(begin, end));
    if constexpr (std::is_same_v<T, std::string> || std::is_convertible_v<T, const char*>) {
      static_cast<Value&>(*this) = Value(allocate(shape, ElementType::string));
      check_count(count);
      for (size_t i = 0; begin != end; ++begin, ++i) set_string(i, *begin);
    } else {
      // vector<bool> gives a proxy, not a bool.
      using Element = std::conditional_t<std::is_same_v<T, std::vector<bool>::reference>, bool, T>;
      static_cast<Value&>(*this) = Value(allocate(shape, element_type<Element>));
      check_count(count);
      Element* to = as<Element>().data();
      for (; begin != end; ++begin) *to++ = *begin;
    }
  }

  static OrtValue* allocate(const Shape& shape, ElementType type) {
    OrtValue* value = nullptr;
    detail::check(detail::c().CreateTensorAsOrtValue(detail::allocator(), shape.data(), shape.size(),
                                                     static_cast<ONNXTensorElementDataType>(type), &value));
    return value;
  }
  void check_count(size_t given) const {
    if (given != size())
      detail::fail(ORT_INVALID_ARGUMENT,
                   "a tensor " + str() + " wants " + std::to_string(size()) + " values, got " + std::to_string(given));
  }
  void set_string(size_t index, std::string_view text) {
    char* to = nullptr;
    detail::check(detail::c().GetResizedStringTensorElementBuffer(get(), index, text.size(), &to));
    text.copy(to, text.size());
  }
};

// What a model wants or promises under a name.
struct Description {
  std::string name;
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  ElementType type = ElementType::undefined;  // of tensors
  Shape shape;                                // of tensors; -1 where any size will do
  std::vector<std::string> dimensions;        // names of such sizes, "" where there is none

  // "float[batch,3]".
  std::string str() const {
    if (kind == ONNX_TYPE_TENSOR) return detail::text_of(type, shape, dimensions);
    return kind == ONNX_TYPE_SEQUENCE ? "sequence" : kind == ONNX_TYPE_MAP ? "map" : "value";
  }
};

// Results of a run, by name or in the order they were asked for.
class Outputs {
 public:
  // An Error if there is no output of that name, or if index >= size().
  const Value& operator[](std::string_view name) const {
    for (const auto& [n, value] : values_)
      if (n == name) return value;
    std::string names;
    for (const auto& entry : values_) names += (names.empty() ? "" : ", ") + entry.first;
    detail::fail(ORT_INVALID_ARGUMENT, "no output '" + std::string(name) + "'; there are: " + names);
  }
  const Value& operator[](const char* name) const { return (*this)[std::string_view(name)]; }
  const Value& operator[](size_t index) const {
    if (index >= values_.size()) detail::fail(ORT_INVALID_ARGUMENT, "no output " + std::to_string(index));
    return values_[index].second;
  }
  const Value& operator[](int index) const { return (*this)[static_cast<size_t>(index)]; }
  template <class Key>
  Value& operator[](const Key& key) {
    return const_cast<Value&>(std::as_const(*this)[key]);
  }
  size_t size() const { return values_.size(); }
  // Pairs of name and Value.
  auto begin() { return values_.begin(); }
  auto end() { return values_.end(); }
  auto begin() const { return values_.begin(); }
  auto end() const { return values_.end(); }

 private:
  friend class Session;
  std::vector<std::pair<std::string, Value>> values_;
};

// One named value of a call; refers to it, so both must live until the call returns.
struct Named {
  Named(std::string_view n, const Value& v) : name(n), value(&v) {}
  std::string name;
  const Value* value;
};

// Stops runs from another thread. One object may be used for many runs.
class Cancellation {
 public:
  Cancellation() : handle_(nullptr, [](OrtRunOptions*) {}) {
    OrtRunOptions* options = nullptr;
    detail::check(detail::c().CreateRunOptions(&options));
    handle_ = detail::own(options);
  }
  // Any thread: the runs under way end soon with an Error, later ones at once.
  void cancel() { detail::check(detail::c().RunOptionsSetTerminate(handle_.get())); }
  // Makes it usable again; no run may be under way.
  void reset() { detail::check(detail::c().RunOptionsUnsetTerminate(handle_.get())); }
  const OrtRunOptions* get() const { return handle_.get(); }

 private:
  detail::Handle<OrtRunOptions> handle_;
};

// A file of external data that the program has: in memory, or where only it can read. What stands below `size` is for
// Tessera only.
struct ExternalFile {
  std::string name;            // as the model spells it
  const void* data = nullptr;  // may be freed once the session is made (but see Options::keep_buffers)
  size_t size = 0;
  std::shared_ptr<const void> keeper = {};  // not null: keeps `data` alive, which is then used in place
  // Instead of data: writes `length` bytes of the file, from `offset` on, to `to`. Called while the session is made.
  std::function<void(uint64_t offset, size_t length, void* to)> read = {};
  int descriptor =
      -1;  // instead of data: an open file, mapped from `offset` on; may be closed once the session is made
  uint64_t offset = 0;
};

// How a session is made. Change what you need and leave the rest.
struct Options {
  int threads = 0;  // 0: as many as this process may use
  GraphOptimizationLevel optimization = ORT_ENABLE_ALL;
  std::vector<ExternalFile> external_files;   // looked at before the model's folder
  std::map<std::string, int64_t> dimensions;  // sizes of named dimensions, where they are known beforehand
  std::map<std::string, std::string> config;  // keys of the C ABI, such as "session.execution_order"
  std::string profile;                        // not empty: times of all runs go to a file of this prefix
  bool keep_buffers = false;  // the program keeps the model's bytes and external files alive as long as the session,
                              // so they need not be copied
  std::function<void(OrtSessionOptions*)> configure;  // last of all: operators (tessera/op.h), what the C ABI offers
};

// Bytes; see TesseraMemory for what each means.
struct Memory {
  int64_t weights, mapped, copied, packed, planned_peak, slab, idle;
};

// A loaded model.
class Session {
 public:
  // Loads a file. External data is looked for beside it.
  explicit Session(const std::string& path, const Options& options = {}) : handle_(detail::own(open(path, options))) {
    describe();
  }
  // Loads from memory, which may be freed afterwards (but see Options::keep_buffers).
  Session(const void* data, size_t size, const Options& options = {})
      : handle_(detail::own(from_memory(data, size, options))) {
    describe();
  }

  // In the model's order. Inputs with a default are left out; they can be given all the same.
  const std::vector<Description>& inputs() const { return inputs_; }
  const std::vector<Description>& outputs() const { return outputs_; }

  // Runs the model: session.run({{"x", x}, {"y", y}}). All outputs, or those named: session.run({{"x", x}}, {"p"}).
  Outputs run(const std::vector<Named>& inputs, const std::vector<std::string>& names = {},
              const Cancellation* cancellation = nullptr) {
    Outputs out;
    if (names.empty())
      for (const Description& d : outputs_) out.values_.emplace_back(d.name, Value());
    for (const std::string& name : names) out.values_.emplace_back(name, Value());
    std::vector<const char*> output_names;
    for (const auto& entry : out.values_) output_names.push_back(entry.first.c_str());
    std::vector<OrtValue*> results(output_names.size(), nullptr);
    call(inputs, output_names, results, cancellation);
    for (size_t i = 0; i < results.size(); ++i) out.values_[i].second = Value(results[i]);
    return out;
  }
  // Runs the model and writes results into tensors of the program, which must have the right type and shape:
  // session.run_into({{"x", x}}, {{"p", p}}).
  void run_into(const std::vector<Named>& inputs, const std::vector<Named>& outputs,
                const Cancellation* cancellation = nullptr) {
    std::vector<const char*> names;
    std::vector<OrtValue*> results;
    for (const Named& o : outputs) {
      names.push_back(o.name.c_str());
      results.push_back(o.value->get());
    }
    call(inputs, names, results, cancellation);
  }

  // Where memory is; numbers of a run are those of the last one. Tessera only.
  Memory memory() const {
    TesseraMemory m{};
    m.size = sizeof m;
    detail::check(detail::need_extension().SessionGetMemory(handle_.get(), &m));
    return {m.weights, m.mapped, m.copied, m.packed, m.planned_peak, m.slab, m.idle};
  }
  // What was loaded and how it will run, for people. Tessera only.
  std::string explain() const {
    char* text = nullptr;
    detail::check(detail::need_extension().SessionExplain(handle_.get(), detail::allocator(), &text));
    return detail::take_text(text);
  }
  // Ends profiling and gives the name of the file; empty if Options::profile was.
  std::string end_profiling() {
    char* path = nullptr;
    detail::check(detail::c().SessionEndProfiling(handle_.get(), detail::allocator(), &path));
    return detail::take_text(path);
  }

  // For calls of the C ABI; stays owned here.
  OrtSession* get() const { return handle_.get(); }

 private:
  static detail::Handle<OrtSessionOptions> make(const Options& from) {
    const OrtApi& c = detail::c();
    OrtSessionOptions* made = nullptr;
    detail::check(c.CreateSessionOptions(&made));
    detail::Handle<OrtSessionOptions> options = detail::own(made);
    detail::check(c.SetIntraOpNumThreads(made, from.threads));
    detail::check(c.SetSessionGraphOptimizationLevel(made, from.optimization));
    for (const auto& [name, size] : from.dimensions)
      detail::check(c.AddFreeDimensionOverrideByName(made, name.c_str(), size));
    if (from.keep_buffers) {
      detail::check(c.AddSessionConfigEntry(made, "session.use_ort_model_bytes_directly", "1"));
      detail::check(c.AddSessionConfigEntry(made, "session.borrow_external_buffers", "1"));
    }
    for (const auto& [key, value] : from.config)
      detail::check(c.AddSessionConfigEntry(made, key.c_str(), value.c_str()));
    if (!from.profile.empty()) detail::check(c.EnableProfiling(made, from.profile.c_str()));
    add_files(made, from.external_files);
    if (from.configure) from.configure(made);
    return options;
  }
  static void add_files(OrtSessionOptions* options, const std::vector<ExternalFile>& files) {
    if (files.empty()) return;
    constexpr uint32_t kSince = 18;
    const OrtApi* c = OrtGetApiBase()->GetApi(kSince);
    if (!c) detail::fail(ORT_NOT_IMPLEMENTED, "the library that was loaded takes no external files from memory");
    std::vector<const ORTCHAR_T*> names;
    std::vector<char*> buffers;
    std::vector<size_t> sizes;
    for (const ExternalFile& f : files) {
      if (add_special(options, f)) continue;
      names.push_back(f.name.c_str());
      buffers.push_back(static_cast<char*>(const_cast<void*>(f.data)));
      sizes.push_back(f.size);
    }
    detail::check(
        c->AddExternalInitializersFromFilesInMemory(options, names.data(), buffers.data(), sizes.data(), names.size()));
  }
  // True if the file is one that only the extension table takes.
  static bool add_special(OrtSessionOptions* options, const ExternalFile& f) {
    if (f.descriptor >= 0) {
      detail::check(
          detail::need_extension().AddExternalDescriptor(options, f.name.c_str(), f.descriptor, f.offset, f.size));
      return true;
    }
    if (f.keeper) {
      using Keeper = std::shared_ptr<const void>;
      auto held = std::make_unique<Keeper>(f.keeper);
      detail::check(detail::need_extension().AddExternalFile(
          options, f.name.c_str(), f.data, f.size, [](void* k) { delete static_cast<Keeper*>(k); }, held.get()));
      held.release();
      return true;
    }
    if (!f.read) return false;
    using Read = std::function<void(uint64_t, size_t, void*)>;
    auto held = std::make_unique<Read>(f.read);
    const auto call = [](void* read, uint64_t offset, size_t length, void* to) -> OrtStatus* {
      try {
        (*static_cast<Read*>(read))(offset, length, to);
        return nullptr;
      } catch (const std::exception& e) {
        return detail::c().CreateStatus(ORT_FAIL, e.what());
      } catch (...) {
        return detail::c().CreateStatus(ORT_FAIL, "reading external data failed");
      }
    };
    detail::check(detail::need_extension().AddExternalReader(
        options, f.name.c_str(), f.size, call, [](void* read) { delete static_cast<Read*>(read); }, held.get()));
    held.release();
    return true;
  }
  static OrtSession* open(const std::string& path, const Options& options) {
    OrtSession* session = nullptr;
    detail::check(detail::c().CreateSession(detail::environment(), path.c_str(), make(options).get(), &session));
    return session;
  }
  static OrtSession* from_memory(const void* data, size_t size, const Options& options) {
    OrtSession* session = nullptr;
    detail::check(detail::c().CreateSessionFromArray(detail::environment(), data, size, make(options).get(), &session));
    return session;
  }

  void describe() {
    const OrtApi& c = detail::c();
    size_t inputs = 0, outputs = 0;
    detail::check(c.SessionGetInputCount(handle_.get(), &inputs));
    detail::check(c.SessionGetOutputCount(handle_.get(), &outputs));
    for (size_t i = 0; i < inputs; ++i)
      inputs_.push_back(describe(i, c.SessionGetInputName, c.SessionGetInputTypeInfo));
    for (size_t i = 0; i < outputs; ++i)
      outputs_.push_back(describe(i, c.SessionGetOutputName, c.SessionGetOutputTypeInfo));
  }
  template <class GetName, class GetType>
  Description describe(size_t index, GetName get_name, GetType get_type) const {
    const OrtApi& c = detail::c();
    Description d;
    char* name = nullptr;
    detail::check(get_name(handle_.get(), index, detail::allocator(), &name));
    d.name = detail::take_text(name);
    OrtTypeInfo* made = nullptr;
    detail::check(get_type(handle_.get(), index, &made));
    const detail::Handle<OrtTypeInfo> info = detail::own(made);
    detail::check(c.GetOnnxTypeFromTypeInfo(made, &d.kind));
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;
    detail::check(c.CastTypeInfoToTensorInfo(made, &tensor));
    if (!tensor) return d;
    d.type = detail::type_of(tensor);
    d.shape = detail::shape_of(tensor);
    std::vector<const char*> names(d.shape.size(), nullptr);
    detail::check(c.GetSymbolicDimensions(tensor, names.data(), names.size()));
    for (const char* n : names) d.dimensions.emplace_back(n ? n : "");
    return d;
  }

  void call(const std::vector<Named>& inputs, const std::vector<const char*>& output_names,
            std::vector<OrtValue*>& results, const Cancellation* cancellation) {
    std::vector<const char*> names;
    std::vector<const OrtValue*> values;
    for (const Named& i : inputs) {
      names.push_back(i.name.c_str());
      values.push_back(i.value->get());
    }
    detail::check(detail::c().Run(handle_.get(), cancellation ? cancellation->get() : nullptr, names.data(),
                                  values.data(), values.size(), output_names.data(), results.size(), results.data()));
  }

  detail::Handle<OrtSession> handle_;
  std::vector<Description> inputs_, outputs_;
};

}  // namespace api
}  // namespace tessera
