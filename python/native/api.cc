#include "api.h"

#include <dlfcn.h>
#include <nanobind/stl/string.h>

#include <exception>
#include <map>

namespace tessera::python {
namespace {

const OrtApiBase* find_api_base() {
  Dl_info info{};
  using Get = const OrtApiBase*(ORT_API_CALL*)(void);
  Get get = nullptr;
  if (dladdr(reinterpret_cast<void*>(&TesseraGetApi), &info) && info.dli_fname)
    if (void* library = dlopen(info.dli_fname, RTLD_NOW | RTLD_NOLOAD))
      get = reinterpret_cast<Get>(dlsym(library, "OrtGetApiBase"));
  return get ? get() : OrtGetApiBase();
}

// The exception of a code, and what its text begins with. They live as long as the process.
struct ErrorClass {
  std::string prefix;
  PyObject* type;
};
std::map<int, ErrorClass> error_classes;

struct Error {
  OrtErrorCode code;
  std::string message;
};

void raise(const Error& error) {
  auto found = error_classes.find(error.code);
  if (found == error_classes.end()) found = error_classes.find(ORT_FAIL);
  if (found == error_classes.end())
    PyErr_SetString(PyExc_RuntimeError, error.message.c_str());
  else
    PyErr_SetString(found->second.type, (found->second.prefix + error.message).c_str());
}

void add_error(int code, const std::string& prefix, nb::object type) {
  error_classes[code] = {prefix, type.release().ptr()};
}

nb::object dimensions(const OrtTensorTypeAndShapeInfo* tensor) {
  size_t rank = 0;
  check(api().GetDimensionsCount(tensor, &rank));
  std::vector<int64_t> dims(rank);
  std::vector<const char*> names(rank, nullptr);
  check(api().GetDimensions(tensor, dims.data(), rank));
  check(api().GetSymbolicDimensions(tensor, names.data(), rank));
  nb::list out;
  for (size_t i = 0; i < rank; ++i) {
    if (dims[i] >= 0)
      out.append(dims[i]);
    else if (names[i] && *names[i])
      out.append(names[i]);
    else
      out.append(nb::none());
  }
  return out;
}

nb::tuple describe_and_release(const char* kind, OrtTypeInfo* inner) {
  const Handle<OrtTypeInfo> held(inner);
  return nb::make_tuple(kind, describe(inner));
}

}  // namespace

const OrtApiBase& api_base() {
  static const OrtApiBase* const base = find_api_base();
  return *base;
}

const OrtApi& api() {
  static const OrtApi* const table = api_base().GetApi(ORT_API_VERSION);
  return *table;
}

const TesseraApi& extension() {
  static const TesseraApi* const table = TesseraGetApi(TESSERA_API_VERSION);
  return *table;
}

OrtEnv* environment() {
  static OrtEnv* const env = [] {
    OrtEnv* made = nullptr;
    check(api().CreateEnv(ORT_LOGGING_LEVEL_WARNING, "Default", &made));
    return made;
  }();
  return env;
}

OrtAllocator* allocator() {
  static OrtAllocator* const the = [] {
    OrtAllocator* found = nullptr;
    check(api().GetAllocatorWithDefaultOptions(&found));
    return found;
  }();
  return the;
}

const OrtMemoryInfo* cpu_memory() {
  static const OrtMemoryInfo* const info = [] {
    OrtMemoryInfo* made = nullptr;
    check(api().CreateCpuMemoryInfo(OrtArenaAllocator, OrtMemTypeDefault, &made));
    return made;
  }();
  return info;
}

void check(OrtStatus* status) {
  if (!status) return;
  Error error{api().GetErrorCode(status), api().GetErrorMessage(status)};
  api().ReleaseStatus(status);
  throw error;
}

void fail(OrtErrorCode code, std::string message) { throw Error{code, std::move(message)}; }

std::string take_text(char* text) {
  std::string out = text ? text : "";
  if (text) check(api().AllocatorFree(allocator(), text));
  return out;
}

nb::tuple describe(const OrtTypeInfo* info) {
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  check(api().GetOnnxTypeFromTypeInfo(info, &kind));
  OrtTypeInfo* inner = nullptr;
  if (kind == ONNX_TYPE_TENSOR || kind == ONNX_TYPE_SPARSETENSOR) {
    const OrtTensorTypeAndShapeInfo* tensor = nullptr;
    ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    check(api().CastTypeInfoToTensorInfo(info, &tensor));
    check(api().GetTensorElementType(tensor, &type));
    return nb::make_tuple(kind == ONNX_TYPE_TENSOR ? "tensor" : "sparse_tensor", static_cast<int>(type),
                          dimensions(tensor));
  }
  if (kind == ONNX_TYPE_SEQUENCE) {
    const OrtSequenceTypeInfo* sequence = nullptr;
    check(api().CastTypeInfoToSequenceTypeInfo(info, &sequence));
    check(api().GetSequenceElementType(sequence, &inner));
    return describe_and_release("sequence", inner);
  }
  if (kind == ONNX_TYPE_OPTIONAL) {
    const OrtOptionalTypeInfo* optional = nullptr;
    check(api().CastTypeInfoToOptionalTypeInfo(info, &optional));
    check(api().GetOptionalContainedTypeInfo(optional, &inner));
    return describe_and_release("optional", inner);
  }
  if (kind == ONNX_TYPE_MAP) {
    const OrtMapTypeInfo* map = nullptr;
    ONNXTensorElementDataType key = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    check(api().CastTypeInfoToMapTypeInfo(info, &map));
    check(api().GetMapKeyType(map, &key));
    check(api().GetMapValueType(map, &inner));
    const Handle<OrtTypeInfo> held(inner);
    return nb::make_tuple("map", static_cast<int>(key), describe(inner));
  }
  return nb::make_tuple(static_cast<int>(kind));
}

void add_errors(nb::module_& module) {
  module.def("add_error", add_error);
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace tessera::python
