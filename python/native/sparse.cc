// Sparse tensors over arrays of Python, and arrays over theirs.
#include <nanobind/stl/vector.h>

#include "api.h"

namespace tessera::python {
namespace {

struct Pin {
  explicit Pin(nb::handle source) {
    if (PyObject_GetBuffer(source.ptr(), &view, PyBUF_SIMPLE)) throw nb::python_error();
  }
  ~Pin() { PyBuffer_Release(&view); }
  Pin(const Pin&) = delete;
  Pin& operator=(const Pin&) = delete;
  template <class T>
  T* data() {
    return static_cast<T*>(view.buf);
  }
  template <class T>
  size_t count() const {
    return static_cast<size_t>(view.len) / sizeof(T);
  }
  Py_buffer view{};
};

using Shape = std::vector<int64_t>;

// Reads the values and indices in place: one array of them for coordinates and blocks, columns and rows for CSR. The
// arrays are contiguous; indices are of int64, those of blocks of int32.
Value sparse_tensor(int type, int format, const Shape& dense, const Shape& values_shape, nb::object values,
                    nb::list indices) {
  using Pins = std::vector<std::unique_ptr<Pin>>;
  auto pins = std::make_unique<Pins>();
  pins->push_back(std::make_unique<Pin>(values));
  for (nb::handle array : indices) pins->push_back(std::make_unique<Pin>(array));
  const auto wanted = static_cast<size_t>(format == ORT_SPARSE_CSRC ? 3 : 2);
  if (pins->size() != wanted) throw nb::value_error("another number of lists of indices is wanted");
  OrtValue* made = nullptr;
  check(api().CreateSparseTensorWithValuesAsOrtValue(cpu_memory(), pins->front()->view.buf, dense.data(), dense.size(),
                                                     values_shape.data(), values_shape.size(),
                                                     static_cast<ONNXTensorElementDataType>(type), &made));
  Handle<OrtValue> handle(made);
  Pin& first = *(*pins)[1];
  if (format == ORT_SPARSE_COO) {
    check(api().UseCooIndices(made, first.data<int64_t>(), first.count<int64_t>()));
  } else if (format == ORT_SPARSE_CSRC) {
    Pin& second = *(*pins)[2];
    check(api().UseCsrIndices(made, first.data<int64_t>(), first.count<int64_t>(), second.data<int64_t>(),
                              second.count<int64_t>()));
  } else {
    const Shape shape{2, static_cast<int64_t>(first.count<int32_t>() / 2)};
    check(api().UseBlockSparseIndices(made, shape.data(), shape.size(), first.data<int32_t>()));
  }
  nb::capsule keeper(pins.release(), [](void* p) noexcept { delete static_cast<Pins*>(p); });
  return {std::move(handle), std::move(keeper)};
}

nb::bytes indices_of(const OrtValue* value, OrtSparseIndicesFormat format, size_t element) {
  size_t count = 0;
  const void* data = nullptr;
  check(api().GetSparseTensorIndices(value, format, &count, &data));
  return nb::bytes(count ? data : "", count * element);
}

// Format, type, dense shape, shape of the values, their address and number, and the bytes of the lists of indices.
nb::tuple sparse_parts(const Value& value) {
  const OrtValue* const v = value.handle.get();
  OrtSparseFormat format = ORT_SPARSE_UNDEFINED;
  check(api().GetSparseTensorFormat(v, &format));
  OrtTensorTypeAndShapeInfo *dense = nullptr, *of_values = nullptr;
  const auto shape_of = [](const OrtTensorTypeAndShapeInfo* info) {
    size_t rank = 0;
    check(api().GetDimensionsCount(info, &rank));
    Shape shape(rank);
    check(api().GetDimensions(info, shape.data(), rank));
    return shape;
  };
  check(api().GetTensorTypeAndShape(v, &dense));
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(api().ReleaseTensorTypeAndShapeInfo)> held(
      dense, api().ReleaseTensorTypeAndShapeInfo);
  check(api().GetSparseTensorValuesTypeAndShape(v, &of_values));
  const std::unique_ptr<OrtTensorTypeAndShapeInfo, decltype(api().ReleaseTensorTypeAndShapeInfo)> held_too(
      of_values, api().ReleaseTensorTypeAndShapeInfo);
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check(api().GetTensorElementType(of_values, &type));
  size_t count = 0;
  check(api().GetTensorShapeElementCount(of_values, &count));
  const void* data = nullptr;
  check(api().GetSparseTensorValues(v, &data));
  nb::list indices;
  if (format == ORT_SPARSE_COO) {
    indices.append(indices_of(v, ORT_SPARSE_COO_INDICES, sizeof(int64_t)));
  } else if (format == ORT_SPARSE_CSRC) {
    indices.append(indices_of(v, ORT_SPARSE_CSR_INNER_INDICES, sizeof(int64_t)));
    indices.append(indices_of(v, ORT_SPARSE_CSR_OUTER_INDICES, sizeof(int64_t)));
  } else {
    indices.append(indices_of(v, ORT_SPARSE_BLOCK_SPARSE_INDICES, sizeof(int32_t)));
  }
  return nb::make_tuple(static_cast<int>(format), static_cast<int>(type), shape_of(dense), shape_of(of_values),
                        reinterpret_cast<uintptr_t>(data), count, indices);
}

}  // namespace

void add_sparse(nb::module_& module) {
  module.def("sparse_tensor", sparse_tensor);
  module.def("sparse_parts", sparse_parts);
}

}  // namespace tessera::python
