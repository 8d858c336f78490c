#include "capi/value.h"

#include <cstring>

#include "capi/allocator.h"
#include "capi/guard.h"
#include "capi/topics.h"

namespace tessera::capi {

DType dtype_of_onnx(ONNXTensorElementDataType type) {
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2: return DType::u2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2: return DType::i2;
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0: return DType::f8e8m0;
    default: break;
  }
  if (type < 0 || type > ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT4E2M1) return DType::undefined;
  return static_cast<DType>(type);
}

ONNXTensorElementDataType onnx_of_dtype(DType type) {
  switch (type) {
    case DType::u2: return ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT2;
    case DType::i2: return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT2;
    case DType::f8e8m0: return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E8M0;
    default: break;
  }
  if (type > DType::f4e2m1) return ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  return static_cast<ONNXTensorElementDataType>(type);
}

void copy_elements(const Tensor& from, Tensor& to) {
  if (from.dtype() == DType::string) {
    const auto strings = from.values<std::string>();
    std::copy(strings.begin(), strings.end(), static_cast<std::string*>(to.mutable_data()));
  } else if (from.bytes()) {
    std::memmove(to.mutable_data(), from.data(), static_cast<size_t>(from.bytes()));
  }
}

Result<Tensor> copy_of(const Tensor& tensor) {
  TRY_ASSIGN(copy, Tensor::allocate(tensor.dtype(), tensor.shape()));
  copy_elements(tensor, copy);
  return std::move(copy);
}

Result<const Tensor*> tensor_in(const OrtValue* value) {
  if (const Tensor* tensor = value->value.tensor()) return tensor;
  return error(Code::fail, "the value is {}, wanted a tensor", value->value.describe());
}

namespace {

// The shape a client asks for. `negative` is the code for a negative dimension; too many elements are a failure.
Result<Shape> shape_of(const int64_t* dims, size_t rank, Code negative) {
  if (rank) TRY(not_null({{"shape", dims}}));
  const std::span<const int64_t> all(dims, rank);
  for (const int64_t d : all)
    if (d < 0) return error(negative, "shape {} has a negative dimension", all);
  Result<Shape> shape = Shape::checked(all);
  if (!shape.ok()) return Status(Code::fail, shape.status().message());
  return shape;
}

Result<DType> supported(ONNXTensorElementDataType type) {
  const DType dtype = dtype_of_onnx(type);
  if (dtype == DType::undefined) return not_implemented("tensor type {} is not supported", static_cast<int>(type));
  return dtype;
}

Result<int64_t> checked_bytes(DType dtype, const Shape& shape) {
  if (const auto bytes = bytes_for(dtype, shape.count())) return *bytes;
  return error(Code::fail, "a {} tensor of shape {} has more bytes than 63 bits can count", name_of(dtype),
               shape.dims());
}

void give_back(void* data, size_t, void* allocator) {
  auto* a = static_cast<OrtAllocator*>(allocator);
  if (data) a->Free(a, data);
}

// Strings are always ours: their objects must be constructed and destroyed.
Result<Tensor> allocate_tensor(OrtAllocator* allocator, DType dtype, const Shape& shape) {
  if (allocator == default_allocator() || dtype == DType::string) return Tensor::allocate(dtype, shape);
  TRY_ASSIGN(size, checked_bytes(dtype, shape));
  TRY_ASSIGN(memory, allocate_with(allocator, static_cast<size_t>(size)));
  auto bytes =
      std::make_shared<Bytes>(Bytes::Origin::borrowed, memory, static_cast<size_t>(size), give_back, allocator);
  return Tensor(dtype, shape, std::move(bytes));
}

Status create_tensor(OrtAllocator* allocator, const int64_t* dims, size_t rank, ONNXTensorElementDataType type,
                     OrtValue** out) {
  TRY(not_null({{"allocator", allocator}, {"out", out}}));
  TRY_ASSIGN(dtype, supported(type));
  TRY_ASSIGN(shape, shape_of(dims, rank, Code::fail));
  TRY_ASSIGN(tensor, allocate_tensor(allocator, dtype, shape));
  *out = new OrtValue{std::move(tensor)};
  return {};
}

// A tensor over the client's memory. `release` is called at the end, or not at all if an error is returned.
Status wrap(void* data, size_t size, const int64_t* dims, size_t rank, ONNXTensorElementDataType type,
            Bytes::Release* release, void* context, OrtValue** out) {
  TRY_ASSIGN(dtype, supported(type));
  TRY_ASSIGN(shape, shape_of(dims, rank, Code::invalid_argument));
  TRY_ASSIGN(wanted, checked_bytes(dtype, shape));
  if (static_cast<uint64_t>(wanted) > size)
    return invalid("a {} tensor of shape {} wants {} bytes, the buffer has {}", name_of(dtype), shape.dims(), wanted,
                   size);
  if (wanted) TRY(not_null({{"p_data", data}}));
  auto value = std::make_unique<OrtValue>();
  auto bytes = std::make_shared<Bytes>(Bytes::Origin::borrowed, data, size, release, context);
  value->value = Tensor(dtype, std::move(shape), std::move(bytes));
  *out = value.release();
  return {};
}

Status create_tensor_with_data(const OrtMemoryInfo* info, void* data, size_t size, const int64_t* dims, size_t rank,
                               ONNXTensorElementDataType type, OrtValue** out) {
  TRY(not_null({{"info", info}, {"out", out}}));
  if (!is_host_memory(*info)) return invalid("{} memory cannot be read by this library", quote(info->name));
  return wrap(data, size, dims, rank, type, nullptr, nullptr, out);
}

Status create_tensor_with_deleter(OrtAllocator* deleter, void* data, size_t size, const int64_t* dims, size_t rank,
                                  ONNXTensorElementDataType type, OrtValue** out) {
  TRY(not_null({{"deleter", deleter}, {"out", out}}));
  if (type == ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING) return invalid("strings cannot be handed over as a buffer");
  return wrap(data, size, dims, rank, type, give_back, deleter, out);
}

void release_value(OrtValue* value) { delete value; }

Status is_tensor(const OrtValue* value, int* out) {
  TRY(not_null({{"value", value}, {"out", out}}));
  *out = value->value.tensor() != nullptr;
  return {};
}

Status is_sparse(const OrtValue* value, int* out) {
  TRY(not_null({{"value", value}, {"out", out}}));
  *out = value->value.sparse() != nullptr;
  return {};
}

// An optional that holds nothing has no value.
Status has_value(const OrtValue* value, int* out) {
  TRY(not_null({{"value", value}, {"out", out}}));
  *out = !value->value.empty() && !value->value.is_none();
  return {};
}

Status mutable_data(OrtValue* value, void** out) {
  TRY(not_null({{"value", value}, {"out", out}}));
  TRY(tensor_in(value).take_status());
  *out = value->value.tensor()->mutable_data();
  return {};
}

Status const_data(const OrtValue* value, const void** out) {
  TRY(not_null({{"value", value}, {"out", out}}));
  TRY_ASSIGN(tensor, tensor_in(value));
  *out = tensor->data();
  return {};
}

Status size_in_bytes(const OrtValue* value, size_t* out) {
  TRY(not_null({{"ort_value", value}, {"size", out}}));
  TRY_ASSIGN(tensor, tensor_in(value));
  if (tensor->dtype() == DType::string) return invalid("a string tensor has no size in bytes");
  *out = static_cast<size_t>(tensor->bytes());
  return {};
}

Status memory_info(const OrtValue* value, const OrtMemoryInfo** out) {
  TRY(not_null({{"value", value}, {"mem_info", out}}));
  TRY(tensor_in(value).take_status());
  *out = &cpu_memory_info();
  return {};
}

Status tensor_at(OrtValue* value, const int64_t* location, size_t count, void** out) {
  TRY(not_null({{"value", value}, {"location_values", location}, {"out", out}}));
  TRY(tensor_in(value).take_status());
  Tensor& tensor = *value->value.tensor();
  if (tensor.dtype() == DType::string || is_sub_byte(tensor.dtype()))
    return invalid("an element of type {} has no address", name_of(tensor.dtype()));
  const Shape& shape = tensor.shape();
  if (count != static_cast<size_t>(shape.rank()))
    return invalid("a location of {} numbers in a tensor of rank {}", count, shape.rank());
  int64_t at = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    if (location[d] < 0 || location[d] >= shape[d])
      return invalid("location {} is outside shape {}", std::span(location, count), shape.dims());
    at = at * shape[d] + location[d];
  }
  *out = static_cast<char*>(tensor.mutable_data()) + at * (bits_of(tensor.dtype()) / 8);
  return {};
}

Status type_and_shape_reference(const OrtValue* value, ONNXTensorElementDataType* type, const int64_t** dims,
                                size_t* rank) {
  TRY(not_null({{"value", value}, {"elem_type", type}, {"shape_data", dims}, {"shape_data_count", rank}}));
  TRY_ASSIGN(tensor, tensor_in(value));
  *type = onnx_of_dtype(tensor->dtype());
  *dims = tensor->shape().dims().data();
  *rank = tensor->shape().dims().size();
  return {};
}

}  // namespace

void fill_value(OrtApi& api) {
  api.CreateTensorAsOrtValue = slot<create_tensor>;
  api.CreateTensorWithDataAsOrtValue = slot<create_tensor_with_data>;
  api.CreateTensorWithDataAndDeleterAsOrtValue = slot<create_tensor_with_deleter>;
  api.ReleaseValue = release_value;
  api.IsTensor = slot<is_tensor>;
  api.IsSparseTensor = slot<is_sparse>;
  api.HasValue = slot<has_value>;
  api.GetTensorMutableData = slot<mutable_data>;
  api.GetTensorData = slot<const_data>;
  api.GetTensorSizeInBytes = slot<size_in_bytes>;
  api.GetTensorMemoryInfo = slot<memory_info>;
  api.TensorAt = slot<tensor_at>;
  api.GetTensorElementTypeAndShapeDataReference = slot<type_and_shape_reference>;
}

}  // namespace tessera::capi
