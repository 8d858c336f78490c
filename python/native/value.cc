#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <string_view>

#include "api.h"
#include "numpy.h"

namespace tessera::python {
namespace {

using Shape = std::vector<int64_t>;

// Holds a buffer of another Python object for as long as a value reads it.
struct Pin {
  Py_buffer view{};
  ~Pin() { PyBuffer_Release(&view); }
};

Value with_data(int type, const Shape& shape, void* data, size_t bytes, nb::object keeper) {
  static char nothing;
  OrtValue* made = nullptr;
  check(api().CreateTensorWithDataAsOrtValue(cpu_memory(), data ? data : &nothing, bytes, shape.data(), shape.size(),
                                             static_cast<ONNXTensorElementDataType>(type), &made));
  return {Handle<OrtValue>(made), std::move(keeper)};
}

// A tensor over the memory of an object with the buffer protocol, contiguous.
Value tensor(int type, const Shape& shape, nb::object source) {
  auto pin = std::make_unique<Pin>();
  if (PyObject_GetBuffer(source.ptr(), &pin->view, PyBUF_SIMPLE)) throw nb::python_error();
  Pin* held = pin.get();
  nb::capsule keeper(pin.release(), [](void* p) noexcept { delete static_cast<Pin*>(p); });
  return with_data(type, shape, held->view.buf, static_cast<size_t>(held->view.len), std::move(keeper));
}

// None where the array cannot be read in place.
nb::object of_array(nb::object array) {
  Handle<OrtValue> tensor = tensor_over(array);
  if (!tensor) return nb::none();
  return nb::cast(Value{std::move(tensor), std::move(array)});
}

Value tensor_at(int type, const Shape& shape, uintptr_t address, size_t bytes, nb::object keeper) {
  return with_data(type, shape, reinterpret_cast<void*>(address), bytes, std::move(keeper));
}

Value empty_tensor(int type, const Shape& shape) {
  OrtValue* made = nullptr;
  check(api().CreateTensorAsOrtValue(allocator(), shape.data(), shape.size(),
                                     static_cast<ONNXTensorElementDataType>(type), &made));
  return {Handle<OrtValue>(made), {}};
}

std::string_view text_of(nb::handle text) {
  Py_ssize_t size = 0;
  if (PyBytes_Check(text.ptr())) {
    char* data = nullptr;
    if (PyBytes_AsStringAndSize(text.ptr(), &data, &size)) throw nb::python_error();
    return {data, static_cast<size_t>(size)};
  }
  const char* data = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
  if (!data) throw nb::python_error();
  return {data, static_cast<size_t>(size)};
}

size_t element_count(const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* info = nullptr;
  check(api().GetTensorTypeAndShape(value, &info));
  size_t count = 0;
  OrtStatus* const status = api().GetTensorShapeElementCount(info, &count);
  api().ReleaseTensorTypeAndShapeInfo(info);
  check(status);
  return count;
}

// Elements are str, or bytes of UTF-8.
Value string_tensor(const Shape& shape, nb::list elements) {
  Value out = empty_tensor(ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, shape);
  if (element_count(out.handle.get()) != elements.size()) throw nb::value_error("as many strings as the shape says");
  size_t i = 0;
  for (nb::handle element : elements) {
    const std::string_view text = text_of(element);
    char* to = nullptr;
    check(api().GetResizedStringTensorElementBuffer(out.handle.get(), i++, text.size(), &to));
    std::memcpy(to, text.data(), text.size());
  }
  return out;
}

nb::list strings(const Value& value) {
  const size_t count = element_count(value.handle.get());
  size_t bytes = 0;
  check(api().GetStringTensorDataLength(value.handle.get(), &bytes));
  std::string text(bytes, '\0');
  std::vector<size_t> starts(count + 1, bytes);
  check(api().GetStringTensorContent(value.handle.get(), text.data(), bytes, starts.data(), count));
  starts[count] = bytes;
  nb::list out;
  for (size_t i = 0; i < count; ++i) {
    PyObject* made = PyUnicode_DecodeUTF8(text.data() + starts[i], static_cast<Py_ssize_t>(starts[i + 1] - starts[i]),
                                          "surrogateescape");
    if (!made) throw nb::python_error();
    out.append(nb::steal(made));
  }
  return out;
}

// A sequence of values, or a map of a tensor of keys and one of values.
Value container(int kind, nb::list parts) {
  std::vector<const OrtValue*> handles;
  for (nb::handle part : parts) handles.push_back(nb::cast<const Value&>(part).handle.get());
  OrtValue* made = nullptr;
  check(api().CreateValue(handles.data(), handles.size(), static_cast<ONNXType>(kind), &made));
  return {Handle<OrtValue>(made), std::move(parts)};
}

nb::list parts(const Value& value) {
  size_t count = 0;
  check(api().GetValueCount(value.handle.get(), &count));
  nb::list out;
  for (size_t i = 0; i < count; ++i) {
    OrtValue* part = nullptr;
    check(api().GetValue(value.handle.get(), static_cast<int>(i), allocator(), &part));
    out.append(nb::cast(Value{Handle<OrtValue>(part), {}}));
  }
  return out;
}

int kind(const Value& value) {
  ONNXType type = ONNX_TYPE_UNKNOWN;
  check(api().GetValueType(value.handle.get(), &type));
  return type;
}

bool has_value(const Value& value) {
  int has = 0;
  check(api().HasValue(value.handle.get(), &has));
  return has != 0;
}

nb::tuple type_and_shape(const Value& value) {
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  check(api().GetTensorElementTypeAndShapeDataReference(value.handle.get(), &type, &dims, &rank));
  nb::list shape;
  for (size_t i = 0; i < rank; ++i) shape.append(dims[i]);
  return nb::make_tuple(static_cast<int>(type), shape);
}

nb::tuple type(const Value& value) {
  OrtTypeInfo* made = nullptr;
  check(api().GetTypeInfo(value.handle.get(), &made));
  const Handle<OrtTypeInfo> info(made);
  return describe(made);
}

uintptr_t address(const Value& value) {
  void* data = nullptr;
  check(api().GetTensorMutableData(value.handle.get(), &data));
  return reinterpret_cast<uintptr_t>(data);
}

size_t byte_count(const Value& value) {
  size_t bytes = 0;
  check(api().GetTensorSizeInBytes(value.handle.get(), &bytes));
  return bytes;
}

int get_buffer(PyObject* self, Py_buffer* view, int flags) {
  static char nothing;
  const Value& value = nb::cast<const Value&>(nb::handle(self));
  void* data = nullptr;
  size_t bytes = 0;
  OrtStatus* status = api().GetTensorMutableData(value.handle.get(), &data);
  if (!status) status = api().GetTensorSizeInBytes(value.handle.get(), &bytes);
  if (status) {
    PyErr_SetString(PyExc_BufferError, api().GetErrorMessage(status));
    api().ReleaseStatus(status);
    return -1;
  }
  return PyBuffer_FillInfo(view, self, data ? data : &nothing, static_cast<Py_ssize_t>(bytes), 0, flags);
}

PyType_Slot kBufferSlots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

void add_values(nb::module_& module) {
  nb::class_<Value>(module, "Value", nb::type_slots(kBufferSlots))
      .def_static("tensor", tensor)
      .def_static("of_array", of_array)
      .def_static("tensor_at", tensor_at, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def_static("empty_tensor", empty_tensor)
      .def_static("string_tensor", string_tensor)
      .def_static("container", container)
      .def("strings", strings)
      .def("parts", parts)
      .def("kind", kind)
      .def("has_value", has_value)
      .def("type_and_shape", type_and_shape)
      .def("type", type)
      .def("address", address)
      .def("byte_count", byte_count);
}

}  // namespace tessera::python
