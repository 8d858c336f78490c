// Tensors to and from other libraries through DLPack, without copies. The structs are those of its ABI, version 0.
#include "api.h"

namespace tessera::python {
namespace {

struct Device {
  int32_t type, id;
};
constexpr int32_t kCpu = 1;

struct DataType {
  uint8_t code, bits;
  uint16_t lanes;
};

struct Tensor {
  void* data;
  Device device;
  int32_t rank;
  DataType type;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};

struct Managed {
  Tensor tensor;
  void* owner;
  void (*release)(Managed*);
};

struct TypePair {
  uint8_t code, bits;
  ONNXTensorElementDataType element;
};
constexpr TypePair kTypes[] = {
    {0, 8, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8},
    {0, 16, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16},
    {0, 32, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32},
    {0, 64, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64},
    {1, 8, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8},
    {1, 16, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16},
    {1, 32, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32},
    {1, 64, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64},
    {2, 16, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16},
    {2, 32, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT},
    {2, 64, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE},
    {4, 16, ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16},
    {5, 64, ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64},
    {5, 128, ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128},
    {6, 8, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL},
    {10, 8, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN},
    {11, 8, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ},
    {12, 8, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2},
    {13, 8, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ},
};
constexpr char kName[] = "dltensor", kUsed[] = "used_dltensor";

bool is_contiguous(const Tensor& t) {
  int64_t expected = 1;
  for (int32_t i = t.rank - 1; i >= 0 && t.strides; --i) {
    if (t.shape[i] != 1 && t.strides[i] != expected) return false;
    expected *= t.shape[i];
  }
  return true;
}

// The value reads the memory of the capsule's tensor, and owns it from then on. None where it is not contiguous; the
// capsule is then still to be used.
nb::object from_dlpack(nb::object capsule, bool is_bool) {
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule.ptr(), kName));
  if (!managed) throw nb::python_error();
  const Tensor& t = managed->tensor;
  if (t.device.type != kCpu) throw nb::value_error("the tensor is on another device, wanted the CPU");
  const TypePair* type = nullptr;
  for (const TypePair& p : kTypes)
    if (p.code == t.type.code && p.bits == t.type.bits && t.type.lanes == 1) type = &p;
  if (!type) throw nb::type_error("tensors of this element type are not supported");
  if (!is_contiguous(t)) return nb::none();
  size_t bytes = type->bits / 8;
  for (int32_t i = 0; i < t.rank; ++i) bytes *= static_cast<size_t>(t.shape[i]);
  const bool as_bool = is_bool && type->element == ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8;
  static char nothing;
  char* const data = static_cast<char*>(t.data);
  OrtValue* made = nullptr;
  check(api().CreateTensorWithDataAsOrtValue(cpu_memory(), data ? data + t.byte_offset : &nothing, bytes, t.shape,
                                             static_cast<size_t>(t.rank),
                                             as_bool ? ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL : type->element, &made));
  Handle<OrtValue> handle(made);
  if (PyCapsule_SetName(capsule.ptr(), kUsed)) throw nb::python_error();
  nb::capsule keeper(managed, [](void* p) noexcept {
    auto* const m = static_cast<Managed*>(p);
    if (m->release) m->release(m);
  });
  return nb::cast(Value{std::move(handle), std::move(keeper)});
}

// What a tensor given away needs: its shape, and the value, kept alive.
struct Given {
  Managed managed;
  std::vector<int64_t> shape, strides;
  PyObject* value;
};

void release_given(Managed* managed) {
  auto* const given = static_cast<Given*>(managed->owner);
  if (Py_IsInitialized()) {
    const nb::gil_scoped_acquire lock;
    Py_DECREF(given->value);
  }
  delete given;
}

void release_capsule(PyObject* capsule) {
  if (!PyCapsule_IsValid(capsule, kName)) return;  // somebody took the tensor
  auto* const managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, kName));
  managed->release(managed);
}

nb::object to_dlpack(nb::object self) {
  const OrtValue* const value = nb::cast<const Value&>(self).handle.get();
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  check(api().GetTensorElementTypeAndShapeDataReference(value, &element, &dims, &rank));
  const TypePair* type = nullptr;
  for (const TypePair& p : kTypes)
    if (p.element == element) type = &p;
  if (!type) throw nb::type_error("tensors of this element type cannot be given through DLPack");
  void* data = nullptr;
  check(api().GetTensorMutableData(const_cast<OrtValue*>(value), &data));
  auto given = std::make_unique<Given>();
  given->shape.assign(dims, dims + rank);
  given->strides.resize(rank, 1);
  for (size_t i = rank; i > 1; --i) given->strides[i - 2] = given->strides[i - 1] * given->shape[i - 1];
  given->managed = {{data,
                     {kCpu, 0},
                     static_cast<int32_t>(rank),
                     {type->code, type->bits, 1},
                     given->shape.data(),
                     given->strides.data(),
                     0},
                    given.get(),
                    release_given};
  given->value = self.ptr();
  nb::object capsule = nb::steal(PyCapsule_New(&given->managed, kName, release_capsule));
  if (!capsule.is_valid()) throw nb::python_error();
  self.inc_ref();
  (void)given.release();
  return capsule;
}

}  // namespace

void add_dlpack(nb::module_& module) {
  module.def("from_dlpack", from_dlpack);
  module.def("to_dlpack", to_dlpack);
}

}  // namespace tessera::python
