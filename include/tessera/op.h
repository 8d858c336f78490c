// Operators of your own, for C++17 programs: one class per operator, one object of it per node of a model.
//
//   struct Scale {
//     static constexpr tessera::op::About kAbout{"my.domain", "Scale"};
//     explicit Scale(const tessera::op::Attributes& a) : factor(a.get("factor", 1.0f)) {}
//     void types(tessera::op::Types& t) const {
//       t.expect<float>(0);
//       t.give(0, t.input(0));
//     }
//     void shape(tessera::op::Shapes& s) const { s.set(0, s.input(0)); }
//     void compute(tessera::op::Call& c) const {
//       const auto x = c.input<float>(0);
//       const auto y = c.output<float>(0);
//       for (size_t i = 0; i < x.size(); ++i) y[i] = factor * x[i];
//     }
//     float factor;
//   };
//   tessera::Options options;
//   options.configure = tessera::op::add<Scale>;
//   tessera::Session session("model.onnx", options);
//
// shape() is called when a model is loaded, with symbols where sizes are not known yet, and when it runs, with numbers:
// write it over Dim and it serves both. It may be left out: compute() then gives each output its shape with
// Call::allocate. Sizes that depend on the elements of an integer input are read with Shapes::content; name such inputs
// in About::content_inputs.
//
// A constant input that compute() wants in another layout is packed once, however many sessions of a model file use it:
//   static constexpr tessera::op::Packing kPacking{/*input*/ 1, tessera::ElementType::f32, "columns of 8"};
//   int64_t packed_bytes(const tessera::Shape& weight) const noexcept;             // 0: used as it is
//   void pack(const tessera::Shape& shape, const void* weight, void* packed) const noexcept;
// and read with Call::packed<T>(1), null where the input is no constant.
//
// Errors: what the constructor, types(), shape() or compute() throw becomes the error of loading or running, which
// names the node. Threads: all functions are const; compute() may run in several threads at once.
#pragma once
#include <algorithm>
#include <exception>
#include <limits>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "tessera/tessera.h"

namespace tessera {
inline namespace api {
namespace op {

struct About {
  const char* domain;
  const char* name;
  int since = 1;                // the version of the domain's operator set that brings it
  int until = 0;                // the last that has it; 0: all later ones do
  uint32_t content_inputs = 0;  // bit i: shape() reads the elements of input i
  bool random = false;          // two calls with the same inputs may differ
};

struct Packing {
  int input;
  ElementType type;    // inputs of other types are not packed
  const char* layout;  // another name for every change of what pack() writes
};

// Refuses what a node has or gets, in words.
[[noreturn]] inline void refuse(const std::string& why) { throw Error(ORT_INVALID_ARGUMENT, why); }

namespace detail {

using api::detail::c;
using api::detail::check;
using api::detail::need_extension;

// False if the node has no such attribute. Throws if it has one of another type.
inline bool was_there(OrtStatus* status) {
  if (!status) return true;
  if (c().GetErrorCode(status) != ORT_FAIL) check(status);
  c().ReleaseStatus(status);
  return false;
}

inline const OrtApi& newest() {
  constexpr uint32_t kSince = 30;  // the table with KernelContext_GetPreallocatedOutput
  static const OrtApi* const table = OrtGetApiBase()->GetApi(kSince);
  if (!table) api::detail::fail(ORT_NOT_IMPLEMENTED, "the library that was loaded is too old for tessera/op.h");
  return *table;
}

}  // namespace detail

// The attributes of a node. int64_t, float, bool (an integer), std::string, and std::vector of int64_t or float.
class Attributes {
 public:
  explicit Attributes(const OrtKernelInfo* info) : info_(info) {}

  // Refuses nodes without it; both refuse attributes of another type.
  template <class T>
  T get(const char* name) const {
    T out{};
    detail::check(read(name, out));
    return out;
  }
  template <class T>
  T get(const char* name, T otherwise) const {
    T out{};
    return detail::was_there(read(name, out)) ? out : otherwise;
  }
  std::string get(const char* name, const char* otherwise) const { return get(name, std::string(otherwise)); }
  // The name of the node, for messages.
  std::string node() const {
    size_t size = 0;
    detail::check(detail::c().KernelInfo_GetNodeName(info_, nullptr, &size));
    std::string out(size, '\0');
    detail::check(detail::c().KernelInfo_GetNodeName(info_, out.data(), &size));
    out.resize(size ? size - 1 : 0);
    return out;
  }

 private:
  OrtStatus* read(const char* name, int64_t& out) const {
    return detail::c().KernelInfoGetAttribute_int64(info_, name, &out);
  }
  OrtStatus* read(const char* name, float& out) const {
    return detail::c().KernelInfoGetAttribute_float(info_, name, &out);
  }
  OrtStatus* read(const char* name, int& out) const {
    int64_t wide = 0;
    OrtStatus* status = read(name, wide);
    if (!status && (wide < std::numeric_limits<int>::min() || wide > std::numeric_limits<int>::max()))
      refuse(std::string("attribute '") + name + "' is " + std::to_string(wide) + ", too large for an int");
    out = static_cast<int>(wide);
    return status;
  }
  OrtStatus* read(const char* name, bool& out) const {
    int64_t wide = 0;
    OrtStatus* status = read(name, wide);
    out = wide != 0;
    return status;
  }
  OrtStatus* read(const char* name, std::string& out) const {
    size_t size = 0;
    if (OrtStatus* status = detail::c().KernelInfoGetAttribute_string(info_, name, nullptr, &size)) return status;
    out.resize(size);
    OrtStatus* status = detail::c().KernelInfoGetAttribute_string(info_, name, out.data(), &size);
    out.resize(size ? size - 1 : 0);
    return status;
  }
  OrtStatus* read(const char* name, std::vector<int64_t>& out) const {
    return read_list(detail::c().KernelInfoGetAttributeArray_int64, name, out);
  }
  OrtStatus* read(const char* name, std::vector<float>& out) const {
    return read_list(detail::c().KernelInfoGetAttributeArray_float, name, out);
  }
  template <class F, class T>
  OrtStatus* read_list(F function, const char* name, std::vector<T>& out) const {
    size_t size = 0;
    if (OrtStatus* status = function(info_, name, nullptr, &size)) return status;
    out.resize(size);
    return size ? function(info_, name, out.data(), &size) : nullptr;
  }
  const OrtKernelInfo* info_;
};

// What types() sees.
class Types {
 public:
  Types(const ONNXTensorElementDataType* in, size_t inputs, ONNXTensorElementDataType* out, size_t outputs)
      : in_(in), out_(out), inputs_(inputs), outputs_(outputs) {}

  int inputs() const { return static_cast<int>(inputs_); }
  int outputs() const { return static_cast<int>(outputs_); }
  bool has(int i) const { return input(i) != ElementType::undefined; }
  // Undefined for an absent one.
  ElementType input(int i) const {
    return i >= 0 && i < inputs() ? static_cast<ElementType>(in_[i]) : ElementType::undefined;
  }
  // Refuses nodes with another number of arguments.
  void count(int least_inputs, int most_inputs, int most_outputs = 1) const {
    if (inputs() < least_inputs || inputs() > most_inputs)
      refuse("it has " + std::to_string(inputs()) + " inputs, wanted " + std::to_string(least_inputs) +
             (least_inputs == most_inputs ? "" : " to " + std::to_string(most_inputs)));
    if (outputs() > most_outputs)
      refuse("it has " + std::to_string(outputs()) + " outputs, wanted at most " + std::to_string(most_outputs));
  }
  // Refuses an input of none of these types, and an absent one.
  template <class... T>
  void expect(int i) const {
    expect(i, {element_type<T>...});
  }
  void expect(int i, std::initializer_list<ElementType> types) const {
    if (std::find(types.begin(), types.end(), input(i)) != types.end()) return;
    std::string names;
    for (const ElementType t : types) names += (names.empty() ? "" : " or ") + std::string(name_of(t));
    refuse("its input " + std::to_string(i) + " is " + (has(i) ? name_of(input(i)) : "absent") + ", wanted " + names);
  }
  // An output that the node leaves out is passed over.
  void give(int o, ElementType type) {
    if (o >= 0 && o < outputs()) out_[o] = static_cast<ONNXTensorElementDataType>(type);
  }
  template <class T>
  void give(int o) {
    give(o, element_type<T>);
  }

 private:
  const ONNXTensorElementDataType* in_;
  ONNXTensorElementDataType* out_;
  size_t inputs_, outputs_;
};

// A size: a number, or an expression over the model's symbols. Sums and products that 63 bits cannot hold are refused.
class Dim {
 public:
  Dim(int64_t number = 0) : dim_{number, nullptr} {}
  explicit Dim(const TesseraDim& dim) : dim_(dim) {}

  bool known() const { return !dim_.symbol; }
  // Of a known one; else -1.
  int64_t number() const { return known() ? dim_.number : -1; }
  const TesseraDim& get() const { return dim_; }

  friend Dim operator+(const Dim& a, const Dim& b) { return combine(TESSERA_DIM_ADD, a, b); }
  friend Dim operator-(const Dim& a, const Dim& b) { return combine(TESSERA_DIM_SUB, a, b); }
  friend Dim operator*(const Dim& a, const Dim& b) { return combine(TESSERA_DIM_MUL, a, b); }
  // Rounded towards minus infinity; a divisor of zero or less is refused.
  friend Dim operator/(const Dim& a, const Dim& b) { return combine(TESSERA_DIM_FLOOR_DIV, a, b); }
  friend Dim max(const Dim& a, const Dim& b) { return combine(TESSERA_DIM_MAX, a, b); }
  friend Dim min(const Dim& a, const Dim& b) { return combine(TESSERA_DIM_MIN, a, b); }
  // True if both are certainly the same size.
  friend bool operator==(const Dim& a, const Dim& b) {
    return a.dim_.symbol == b.dim_.symbol && (a.dim_.symbol || a.dim_.number == b.dim_.number);
  }
  // True if they are certainly different.
  friend bool differ(const Dim& a, const Dim& b) { return a.known() && b.known() && a.number() != b.number(); }

 private:
  static Dim combine(TesseraDimOp op, const Dim& a, const Dim& b) {
    TesseraDim out{};
    detail::check(detail::need_extension().DimCombine(op, &a.dim_, &b.dim_, &out));
    return Dim(out);
  }
  TesseraDim dim_;
};

using Dims = std::vector<Dim>;

// What shape() sees.
class Shapes {
 public:
  explicit Shapes(TesseraShapeCall* call) : call_(call) {
    detail::check(detail::need_extension().ShapeGetCounts(call, &inputs_, &outputs_));
  }

  int inputs() const { return static_cast<int>(inputs_); }
  int outputs() const { return static_cast<int>(outputs_); }
  bool has(int i) const { return look(i).present; }
  ElementType type(int i) const { return look(i).type; }
  // Empty for an absent one and for a single number.
  Dims input(int i) const { return look(i).dims; }
  // Likewise; refuses other ranks.
  Dims input(int i, size_t rank) const {
    Dims dims = input(i);
    if (!has(i) || dims.size() != rank)
      refuse("its input " + std::to_string(i) + (has(i) ? " has rank " + std::to_string(dims.size()) : " is absent") +
             ", wanted rank " + std::to_string(rank));
    return dims;
  }
  // The elements of an input named in About::content_inputs, if they are known: always when a model runs. See
  // unknown().
  bool content(int i, Dims& out) const {
    const TesseraDim* elements = nullptr;
    size_t count = 0;
    detail::check(detail::need_extension().ShapeGetContent(call_, static_cast<size_t>(i), &elements, &count));
    out = Dims(elements, elements + count);
    return elements != nullptr;
  }
  // A size that is not known before the model runs.
  Dim unknown() {
    TesseraDim out{};
    detail::check(detail::need_extension().ShapeGetUnknown(call_, &out));
    return Dim(out);
  }
  // An output that the node leaves out is passed over.
  void set(int o, const Dims& dims) {
    std::vector<TesseraDim> all;
    for (const Dim& d : dims) all.push_back(d.get());
    detail::check(detail::need_extension().ShapeSetOutput(call_, static_cast<size_t>(o), all.data(), all.size()));
  }

 private:
  struct Look {
    bool present;
    ElementType type;
    Dims dims;
  };
  Look look(int i) const {
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    const TesseraDim* dims = nullptr;
    size_t rank = 0;
    detail::check(detail::need_extension().ShapeGetInput(call_, static_cast<size_t>(i), &type, &dims, &rank));
    return {dims != nullptr, static_cast<ElementType>(type), Dims(dims, dims + rank)};
  }
  TesseraShapeCall* call_;
  size_t inputs_ = 0, outputs_ = 0;
};

// What compute() sees. Views are valid until it returns.
class Call {
 public:
  explicit Call(OrtKernelContext* context) : context_(context) {}

  int inputs() const {
    size_t count = 0;
    detail::check(detail::c().KernelContext_GetInputCount(context_, &count));
    return static_cast<int>(count);
  }
  bool has(int i) const { return find(i) != nullptr; }
  ElementType type(int i) const { return api::detail::type_of(info(need(i)).get()); }
  Shape shape(int i) const { return api::detail::shape_of(info(need(i)).get()); }

  // Refuses an absent input, and one of another type.
  template <class T>
  View<const T> input(int i) const {
    const OrtValue* value = need(i);
    return {static_cast<const T*>(data(value, i, element_type<T>, "input")), count(value)};
  }
  // Empty if it is absent.
  template <class T>
  View<const T> maybe(int i) const {
    return has(i) ? input<T>(i) : View<const T>(nullptr, 0);
  }
  std::vector<std::string> strings(int i) const {
    const OrtValue* value = need(i);
    std::vector<std::string> out(count(value));
    for (size_t k = 0; k < out.size(); ++k) {
      size_t length = 0;
      detail::check(detail::c().GetStringTensorElementLength(value, k, &length));
      out[k].resize(length);
      detail::check(detail::c().GetStringTensorElement(value, length, k, out[k].data()));
    }
    return out;
  }
  // What pack() made of a constant input; null if the input is none.
  template <class T>
  const T* packed(int i) const {
    const void* out = nullptr;
    detail::check(detail::need_extension().KernelContextGetPacked(context_, static_cast<size_t>(i), &out));
    return static_cast<const T*>(out);
  }

  // The memory of an output that shape() gave its shape. Empty if the node leaves it out.
  template <class T>
  View<T> output(int o) {
    return elements<T>(shaped(o), o);
  }
  // Likewise for operators without shape().
  template <class T>
  View<T> allocate(int o, const Shape& shape) {
    return elements<T>(given(o, shape), o);
  }
  // As many strings as the output has elements.
  void set_strings(int o, const std::vector<std::string>& strings) { fill(shaped(o), strings); }
  void set_strings(int o, const Shape& shape, const std::vector<std::string>& strings) {
    fill(given(o, shape), strings);
  }

  // Calls fn(i) for 0 <= i < count, in several threads. fn throws nothing.
  template <class F>
  void parallel(size_t count, const F& fn) const {
    static_assert(noexcept(fn(size_t{})), "mark the function noexcept: an exception cannot leave a thread");
    detail::check(detail::c().KernelContext_ParallelFor(
        context_, [](void* f, size_t i) { (*static_cast<const F*>(f))(i); }, count, 0,
        const_cast<void*>(static_cast<const void*>(&fn))));
  }

 private:
  const OrtValue* find(int i) const {
    const OrtValue* value = nullptr;
    if (i >= 0) detail::check(detail::c().KernelContext_GetInput(context_, static_cast<size_t>(i), &value));
    return value;
  }
  const OrtValue* need(int i) const {
    const OrtValue* value = find(i);
    if (!value) refuse("its input " + std::to_string(i) + " is absent");
    return value;
  }
  OrtValue* shaped(int o) {
    OrtValue* value = nullptr;
    detail::check(detail::newest().KernelContext_GetPreallocatedOutput(context_, static_cast<size_t>(o), &value));
    return value;
  }
  OrtValue* given(int o, const Shape& shape) {
    OrtValue* value = nullptr;
    detail::check(
        detail::c().KernelContext_GetOutput(context_, static_cast<size_t>(o), shape.data(), shape.size(), &value));
    return value;
  }
  static api::detail::Handle<OrtTensorTypeAndShapeInfo> info(const OrtValue* value) {
    OrtTensorTypeAndShapeInfo* out = nullptr;
    detail::check(detail::c().GetTensorTypeAndShape(value, &out));
    return api::detail::own(out);
  }
  static size_t count(const OrtValue* value) {
    size_t out = 0;
    detail::check(detail::c().GetTensorShapeElementCount(info(value).get(), &out));
    return out;
  }
  static void* data(const OrtValue* value, int index, ElementType want, const char* what) {
    const ElementType type = api::detail::type_of(info(value).get());
    if (type != want)
      refuse(std::string("its ") + what + ' ' + std::to_string(index) + " is " + name_of(type) + ", read as " +
             name_of(want));
    void* out = nullptr;
    detail::check(detail::c().GetTensorMutableData(const_cast<OrtValue*>(value), &out));
    return out;
  }
  template <class T>
  static View<T> elements(OrtValue* value, int o) {
    if (!value) return {nullptr, 0};
    return {static_cast<T*>(data(value, o, element_type<T>, "output")), count(value)};
  }
  static void fill(OrtValue* value, const std::vector<std::string>& strings) {
    if (!value) return;
    if (count(value) != strings.size())
      refuse(std::to_string(strings.size()) + " strings for an output with " + std::to_string(count(value)));
    for (size_t k = 0; k < strings.size(); ++k) {
      char* to = nullptr;
      detail::check(detail::c().GetResizedStringTensorElementBuffer(value, k, strings[k].size(), &to));
      std::copy(strings[k].begin(), strings[k].end(), to);
    }
  }
  OrtKernelContext* context_;
};

namespace detail {

// Nothing is thrown into the library.
template <class F>
OrtStatus* guarded(F&& fn) noexcept {
  try {
    fn();
    return nullptr;
  } catch (const Error& e) {
    return c().CreateStatus(e.code(), e.what());
  } catch (const std::exception& e) {
    return c().CreateStatus(ORT_FAIL, e.what());
  } catch (...) {
    return c().CreateStatus(ORT_FAIL, "an exception of unknown type");
  }
}

template <class T, class = void>
struct HasShape : std::false_type {};
template <class T>
struct HasShape<T, std::void_t<decltype(std::declval<const T&>().shape(std::declval<Shapes&>()))>> : std::true_type {};
template <class T, class = void>
struct HasPacking : std::false_type {};
template <class T>
struct HasPacking<T, std::void_t<decltype(T::kPacking)>> : std::true_type {};

// The functions of an operator, as the library calls them.
template <class T>
struct Functions {
  static const T& self(void* node) { return *static_cast<const T*>(node); }

  static OrtStatus* ORT_API_CALL open(void*, const OrtKernelInfo* info, void** node) {
    return guarded([&] { *node = new T(Attributes(info)); });
  }
  static void ORT_API_CALL close(void* node) { delete static_cast<T*>(node); }
  static OrtStatus* ORT_API_CALL types(void* node, const ONNXTensorElementDataType* in, size_t inputs,
                                       ONNXTensorElementDataType* out, size_t outputs) {
    return guarded([&] {
      Types all(in, inputs, out, outputs);
      self(node).types(all);
    });
  }
  static OrtStatus* ORT_API_CALL shape(void* node, TesseraShapeCall* call) {
    return guarded([&] {
      Shapes all(call);
      self(node).shape(all);
    });
  }
  static OrtStatus* ORT_API_CALL compute(void* node, OrtKernelContext* context) {
    return guarded([&] {
      Call call(context);
      self(node).compute(call);
    });
  }
  static int64_t ORT_API_CALL packed_bytes(void* node, const int64_t* dims, size_t rank) {
    static_assert(noexcept(std::declval<const T&>().packed_bytes(std::declval<const Shape&>())),
                  "mark packed_bytes() noexcept");
    return self(node).packed_bytes(Shape(dims, dims + rank));
  }
  static void ORT_API_CALL pack(void* node, const int64_t* dims, size_t rank, const void* weight, void* packed) {
    static_assert(noexcept(std::declval<const T&>().pack(std::declval<const Shape&>(), weight, packed)),
                  "mark pack() noexcept");
    self(node).pack(Shape(dims, dims + rank), weight, packed);
  }
};

}  // namespace detail

// The operator as the C ABI has it.
template <class T>
TesseraOperator make() {
  using F = detail::Functions<T>;
  TesseraOperator out{};
  out.size = sizeof out;
  out.domain = T::kAbout.domain;
  out.name = T::kAbout.name;
  out.since_version = T::kAbout.since;
  out.until_version = T::kAbout.until;
  out.random = T::kAbout.random;
  out.content_inputs = T::kAbout.content_inputs;
  out.packed_input = -1;
  out.Open = F::open;
  out.Close = F::close;
  out.Types = F::types;
  out.Compute = F::compute;
  if constexpr (detail::HasShape<T>::value) out.Shape = F::shape;
  if constexpr (detail::HasPacking<T>::value) {
    out.packed_input = T::kPacking.input;
    out.packed_type = static_cast<ONNXTensorElementDataType>(T::kPacking.type);
    out.packed_layout = T::kPacking.layout;
    out.PackedBytes = F::packed_bytes;
    out.Pack = F::pack;
  }
  return out;
}

// Adds the operators to the sessions that are made with the options: for Options::configure.
template <class... T>
void add(OrtSessionOptions* options) {
  (..., [&] {
    const TesseraOperator made = make<T>();
    detail::check(detail::need_extension().AddOperator(options, &made));
  }());
}

}  // namespace op
}  // namespace api
}  // namespace tessera
