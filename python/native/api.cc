#include "api.h"

#include <dlfcn.h>

#include <exception>

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

struct ErrorClass {
  OrtErrorCode code;
  const char* name;
  const char* label;
};
constexpr ErrorClass kErrors[] = {
    {ORT_FAIL, "Fail", "FAIL"},
    {ORT_INVALID_ARGUMENT, "InvalidArgument", "INVALID_ARGUMENT"},
    {ORT_NO_SUCHFILE, "NoSuchFile", "NO_SUCHFILE"},
    {ORT_NO_MODEL, "NoModel", "NO_MODEL"},
    {ORT_ENGINE_ERROR, "EngineError", "ENGINE_ERROR"},
    {ORT_RUNTIME_EXCEPTION, "RuntimeException", "RUNTIME_EXCEPTION"},
    {ORT_INVALID_PROTOBUF, "InvalidProtobuf", "INVALID_PROTOBUF"},
    {ORT_MODEL_LOADED, "ModelLoaded", "MODEL_LOADED"},
    {ORT_NOT_IMPLEMENTED, "NotImplemented", "NOT_IMPLEMENTED"},
    {ORT_INVALID_GRAPH, "InvalidGraph", "INVALID_GRAPH"},
    {ORT_EP_FAIL, "EPFail", "EP_FAIL"},
    {ORT_MODEL_LOAD_CANCELED, "ModelLoadCanceled", "MODEL_LOAD_CANCELED"},
    {ORT_MODEL_REQUIRES_COMPILATION, "ModelRequiresCompilation", "MODEL_REQUIRES_COMPILATION"},
    {ORT_NOT_FOUND, "NotFound", "NOT_FOUND"},
    {ORT_DEVICE_RESET, "DeviceReset", "DEVICE_RESET"},
};
PyObject* error_classes[std::size(kErrors)];

struct Error {
  OrtErrorCode code;
  std::string message;
};

void raise(const Error& error) {
  size_t i = 0;
  for (size_t k = 0; k < std::size(kErrors); ++k)
    if (kErrors[k].code == error.code) i = k;
  const std::string text =
      "[ONNXRuntimeError] : " + std::to_string(error.code) + " : " + kErrors[i].label + " : " + error.message;
  PyErr_SetString(error_classes[i], text.c_str());
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
  nb::list names;
  for (size_t i = 0; i < std::size(kErrors); ++i) {
    const std::string full = std::string("tessera.") + kErrors[i].name;
    error_classes[i] = PyErr_NewException(full.c_str(), nullptr, nullptr);
    if (!error_classes[i]) throw nb::python_error();
    module.attr(kErrors[i].name) = nb::handle(error_classes[i]);
    names.append(kErrors[i].name);
  }
  module.attr("ERRORS") = names;
  nb::register_exception_translator([](const std::exception_ptr& p, void*) {
    try {
      std::rethrow_exception(p);
    } catch (const Error& error) {
      raise(error);
    }
  });
}

}  // namespace tessera::python
