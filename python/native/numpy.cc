#include "numpy.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_1_22_API_VERSION
#include <numpy/arrayobject.h>

namespace tessera::python {
namespace {

static_assert(sizeof(npy_intp) == sizeof(int64_t), "shapes are passed as they are");

constexpr int kElements = 32;  // more than the C ABI has types

struct Types {
  int element[NPY_VSTRING + 256] = {};   // by numpy's type number; 0: none
  PyArray_Descr* descr[kElements] = {};  // by the C ABI's number
};
Types types;

void add(int number, int element) {
  if (number >= 0 && number < static_cast<int>(std::size(types.element))) types.element[number] = element;
}

void add_own(int number, int element) {
  add(number, element);
  if (!types.descr[element]) types.descr[element] = PyArray_DescrFromType(number);
}

void add_integers(int number, size_t size, bool is_signed) {
  const int element =
      size == 8   ? (is_signed ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64 : ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64)
      : size == 4 ? (is_signed ? ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32 : ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32)
                  : ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  if (element) add_own(number, element);
}

void release_value(PyObject* capsule) {
  api().ReleaseValue(static_cast<OrtValue*>(PyCapsule_GetPointer(capsule, nullptr)));
}

}  // namespace

void import_numpy() {
  if (PyArray_ImportNumPyAPI() < 0) throw nb::python_error();
  add_own(NPY_FLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT);
  add_own(NPY_DOUBLE, ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE);
  add_own(NPY_HALF, ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16);
  add_own(NPY_CFLOAT, ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64);
  add_own(NPY_CDOUBLE, ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128);
  add_own(NPY_BOOL, ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL);
  add_own(NPY_BYTE, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8);
  add_own(NPY_UBYTE, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8);
  add_own(NPY_SHORT, ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16);
  add_own(NPY_USHORT, ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16);
  add_integers(NPY_INT, sizeof(int), true);
  add_integers(NPY_UINT, sizeof(int), false);
  add_integers(NPY_LONG, sizeof(long), true);
  add_integers(NPY_ULONG, sizeof(long), false);
  add_integers(NPY_LONGLONG, sizeof(long long), true);
  add_integers(NPY_ULONGLONG, sizeof(long long), false);
}

void add_element_type(nb::handle dtype, int element) {
  if (element <= 0 || element >= kElements || !PyArray_DescrCheck(dtype.ptr()))
    throw nb::value_error("a numpy type and a number of the C ABI are wanted");
  auto* const descr = reinterpret_cast<PyArray_Descr*>(dtype.ptr());
  if (descr->type_num >= NPY_USERDEF) add(descr->type_num, element);
  Py_INCREF(dtype.ptr());
  types.descr[element] = descr;
}

Handle<OrtValue> tensor_over(nb::handle object, int wanted) {
  static char nothing;
  if (!PyArray_Check(object.ptr())) return {};
  auto* const array = reinterpret_cast<PyArrayObject*>(object.ptr());
  const int number = PyArray_TYPE(array);
  const int element = number >= 0 && number < static_cast<int>(std::size(types.element)) ? types.element[number] : 0;
  if (!element || (wanted && element != wanted) || !PyArray_ISCARRAY_RO(array)) return {};
  void* const data = PyArray_DATA(array);
  OrtValue* made = nullptr;
  check(api().CreateTensorWithDataAsOrtValue(
      cpu_memory(), data ? data : &nothing, static_cast<size_t>(PyArray_NBYTES(array)),
      reinterpret_cast<const int64_t*>(PyArray_DIMS(array)), static_cast<size_t>(PyArray_NDIM(array)),
      static_cast<ONNXTensorElementDataType>(element), &made));
  return Handle<OrtValue>(made);
}

nb::object array_over(Handle<OrtValue>& tensor) {
  static char nothing;
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  const int64_t* dims = nullptr;
  size_t rank = 0;
  check(api().GetTensorElementTypeAndShapeDataReference(tensor.get(), &element, &dims, &rank));
  PyArray_Descr* const descr = element < kElements ? types.descr[element] : nullptr;
  if (!descr || rank > NPY_MAXDIMS_LEGACY_ITERS) return {};
  void* data = nullptr;
  check(api().GetTensorMutableData(tensor.get(), &data));
  Py_INCREF(reinterpret_cast<PyObject*>(descr));
  nb::object array = nb::steal(PyArray_NewFromDescr(&PyArray_Type, descr, static_cast<int>(rank),
                                                    reinterpret_cast<const npy_intp*>(dims), nullptr,
                                                    data ? data : &nothing, NPY_ARRAY_CARRAY, nullptr));
  if (!array.is_valid()) throw nb::python_error();
  PyObject* const owner = PyCapsule_New(tensor.get(), nullptr, release_value);
  if (!owner) throw nb::python_error();
  (void)tensor.release();
  if (PyArray_SetBaseObject(reinterpret_cast<PyArrayObject*>(array.ptr()), owner) < 0) throw nb::python_error();
  return array;
}

}  // namespace tessera::python
