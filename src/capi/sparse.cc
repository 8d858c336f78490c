// Sparse tensors in the client's hands: coordinates, compressed rows and blocks. The library computes with coordinates.
#include <algorithm>

#include "capi/allocator.h"
#include "capi/guard.h"
#include "capi/topics.h"
#include "capi/type_info.h"
#include "capi/value.h"

namespace tessera::capi {
namespace {

Result<const SparseTensor*> sparse_in(const OrtValue* value) {
  if (const SparseTensor* sparse = value->value.sparse()) return sparse;
  return invalid("the value is {}, wanted a sparse tensor", value->value.describe());
}

// A value that has no indices yet.
Result<const SparseTensor*> unfilled_in(const OrtValue* value) {
  TRY_ASSIGN(sparse, sparse_in(value));
  if (value->layout.format != ORT_SPARSE_UNDEFINED) return invalid("the sparse tensor has its content already");
  return sparse;
}

Result<Shape> checked_shape(const char* what, const int64_t* dims, size_t rank) {
  if (rank) TRY(not_null({{what, dims}}));
  auto shape = Shape::checked({dims, rank});
  if (!shape.ok()) return shape.take_status().in(what);
  return shape;
}

Result<DType> element_type(ONNXTensorElementDataType type) {
  const DType dtype = dtype_of_onnx(type);
  if (dtype == DType::undefined) return not_implemented("tensor type {} is not supported", static_cast<int>(type));
  return dtype;
}

Status create(OrtAllocator* allocator, const int64_t* dims, size_t rank, ONNXTensorElementDataType type,
              OrtValue** out) {
  TRY(not_null({{"allocator", allocator}, {"out", out}}));
  TRY_ASSIGN(dtype, element_type(type));
  TRY_ASSIGN(shape, checked_shape("dense_shape", dims, rank));
  TRY_ASSIGN(values, Tensor::allocate(dtype, Shape{0}));
  auto sparse = std::make_shared<SparseTensor>(SparseTensor{std::move(shape), std::move(values), {}});
  *out = new OrtValue{std::move(sparse), {ORT_SPARSE_UNDEFINED, {}}};
  return {};
}

// A tensor over the client's memory.
Result<Tensor> borrowed(DType dtype, Shape shape, const void* data) {
  const auto bytes = bytes_for(dtype, shape.count());
  if (!bytes) return invalid("shape {} has too many elements", shape.dims());
  if (*bytes) TRY(not_null({{"the data", data}}));
  return Tensor(dtype, std::move(shape), borrow_bytes(data, static_cast<size_t>(*bytes)));
}

Status create_with_values(const OrtMemoryInfo* info, void* data, const int64_t* dims, size_t rank,
                          const int64_t* value_dims, size_t value_rank, ONNXTensorElementDataType type,
                          OrtValue** out) {
  TRY(not_null({{"info", info}, {"out", out}}));
  if (!is_host_memory(*info)) return invalid("{} memory cannot be read by this library", quote(info->name));
  TRY_ASSIGN(dtype, element_type(type));
  if (dtype == DType::string) return invalid("strings cannot be borrowed; fill them with FillSparseTensorCoo");
  TRY_ASSIGN(shape, checked_shape("dense_shape", dims, rank));
  TRY_ASSIGN(value_shape, checked_shape("values_shape", value_dims, value_rank));
  TRY_ASSIGN(values, borrowed(dtype, std::move(value_shape), data));
  auto sparse = std::make_shared<SparseTensor>(SparseTensor{std::move(shape), std::move(values), {}});
  *out = new OrtValue{std::move(sparse), {ORT_SPARSE_UNDEFINED, {}}};
  return {};
}

Result<Tensor> copied_strings(const Shape& shape, const void* data) {
  TRY_ASSIGN(tensor, Tensor::allocate(DType::string, shape));
  auto* to = static_cast<std::string*>(tensor.mutable_data());
  const auto* from = static_cast<const char* const*>(data);
  for (int64_t i = 0; i < shape.count(); ++i) {
    TRY(not_null({{"a string", from[i]}}));
    to[i] = from[i];
  }
  return tensor;
}

Result<Tensor> copied(DType dtype, const Shape& shape, const void* data) {
  if (shape.count()) TRY(not_null({{"values", data}}));
  if (dtype == DType::string) return copied_strings(shape, data);
  TRY_ASSIGN(view, borrowed(dtype, shape, data));
  return copy_of(view);
}

// Indices of each format, as the client gives them.
struct Indices {
  OrtSparseFormat format;
  Tensor first, outer;  // outer: of compressed rows only
};

Result<Indices> coo_indices(const SparseTensor& sparse, const Shape& values, const int64_t* data, size_t count) {
  if (values.rank() != 1) return invalid("values have shape {}, wanted one dimension", values.dims());
  const auto stored = static_cast<size_t>(values.count());
  const bool pairs = stored && count == 2 * stored;
  if (count != stored && !pairs)
    return invalid("{} indices for {} values, wanted as many or twice as many", count, stored);
  if (pairs && sparse.shape.rank() != 2)
    return invalid("pairs of indices for a dense shape {}, wanted two dimensions", sparse.shape.dims());
  const Shape shape = pairs ? Shape{static_cast<int64_t>(stored), 2} : Shape{static_cast<int64_t>(stored)};
  TRY_ASSIGN(indices, borrowed(DType::i64, shape, data));
  return Indices{ORT_SPARSE_COO, std::move(indices), {}};
}

Result<Indices> csr_indices(const SparseTensor& sparse, const Shape& values, const int64_t* inner, size_t inner_count,
                            const int64_t* outer, size_t outer_count) {
  if (sparse.shape.rank() != 2) return invalid("dense shape {}, wanted two dimensions", sparse.shape.dims());
  const int64_t stored = values.count(), rows = sparse.shape[0];
  if (inner_count != static_cast<size_t>(stored)) return invalid("{} inner indices for {} values", inner_count, stored);
  const bool empty = stored == 0 && outer_count == 0;
  if (!empty && outer_count != static_cast<size_t>(rows) + 1)
    return invalid("{} outer indices for {} rows, wanted one more than rows", outer_count, rows);
  TRY_ASSIGN(first, borrowed(DType::i64, Shape{stored}, inner));
  TRY_ASSIGN(second, borrowed(DType::i64, Shape{static_cast<int64_t>(outer_count)}, outer));
  return Indices{ORT_SPARSE_CSRC, std::move(first), std::move(second)};
}

Result<Indices> block_indices(const Shape& values, const int64_t* dims, size_t rank, const int32_t* data) {
  TRY_ASSIGN(shape, checked_shape("indices_shape", dims, rank));
  const bool empty = values.count() == 0 && shape.count() == 0;
  if (!empty && values.rank() < 3)
    return invalid("values have shape {}, wanted blocks of two dimensions", values.dims());
  if (!empty && (shape.rank() != 2 || shape[0] != 2 || shape[1] != values[0]))
    return invalid("indices have shape {}, wanted 2 rows and {} columns", shape.dims(), values[0]);
  TRY_ASSIGN(indices, borrowed(DType::i32, std::move(shape), data));
  return Indices{ORT_SPARSE_BLOCK_SPARSE, std::move(indices), {}};
}

bool all_below(const Tensor& indices, int64_t end) {
  const auto all = indices.values<int64_t>();
  return std::all_of(all.begin(), all.end(), [&](int64_t i) { return i >= 0 && i < end; });
}

// Every index must be inside the dense shape; rows begin in order and end with the last value.
Status check_indices(const SparseTensor& sparse, const Indices& indices) {
  const Shape& shape = sparse.shape;
  if (indices.format == ORT_SPARSE_BLOCK_SPARSE) return {};
  if (indices.format == ORT_SPARSE_COO && indices.first.shape().rank() == 1)
    return all_below(indices.first, shape.count()) ? Status() : invalid("an index is outside shape {}", shape.dims());
  if (indices.format == ORT_SPARSE_COO) {
    const auto all = indices.first.values<int64_t>();
    for (size_t i = 0; i < all.size(); ++i)
      if (all[i] < 0 || all[i] >= shape[static_cast<int>(i % 2)])
        return invalid("index {} is outside shape {}", all[i], shape.dims());
    return {};
  }
  if (!all_below(indices.first, shape[1])) return invalid("an inner index is outside shape {}", shape.dims());
  const auto outer = indices.outer.values<int64_t>();
  const bool sorted = std::is_sorted(outer.begin(), outer.end());
  if (!outer.empty() && (!sorted || outer.front() != 0 || outer.back() != indices.first.count()))
    return invalid("outer indices must rise from 0 to {}", indices.first.count());
  return {};
}

void put(OrtValue& value, const SparseTensor& old, Tensor values, Indices indices) {
  value.value = std::make_shared<SparseTensor>(SparseTensor{old.shape, std::move(values), std::move(indices.first)});
  value.layout = {indices.format, std::move(indices.outer)};
}

// Copies values and indices of the client. `make` makes the indices over its memory.
template <class Make>
Status fill(OrtValue* value, const OrtMemoryInfo* info, const int64_t* dims, size_t rank, const void* data,
            Make&& make) {
  TRY(not_null({{"ort_value", value}, {"data_mem_info", info}}));
  if (!is_host_memory(*info)) return invalid("{} memory cannot be read by this library", quote(info->name));
  TRY_ASSIGN(sparse, unfilled_in(value));
  if (sparse->values.count())
    return invalid("the sparse tensor has values already; give it indices with Use...Indices");
  TRY_ASSIGN(shape, checked_shape("values_shape", dims, rank));
  TRY_ASSIGN(indices, make(*sparse, shape));
  TRY(check_indices(*sparse, indices));
  TRY_ASSIGN(values, copied(sparse->values.dtype(), shape, data));
  for (Tensor* t : {&indices.first, &indices.outer}) {
    if (t->empty()) continue;
    TRY_ASSIGN(copy, copy_of(*t));
    *t = std::move(copy);
  }
  put(*value, *sparse, std::move(values), std::move(indices));
  return {};
}

Status fill_coo(OrtValue* value, const OrtMemoryInfo* info, const int64_t* dims, size_t rank, const void* data,
                const int64_t* indices, size_t count) {
  return fill(value, info, dims, rank, data, [&](const SparseTensor& sparse, const Shape& values) {
    return coo_indices(sparse, values, indices, count);
  });
}

Status fill_csr(OrtValue* value, const OrtMemoryInfo* info, const int64_t* dims, size_t rank, const void* data,
                const int64_t* inner, size_t inner_count, const int64_t* outer, size_t outer_count) {
  return fill(value, info, dims, rank, data, [&](const SparseTensor& sparse, const Shape& values) {
    return csr_indices(sparse, values, inner, inner_count, outer, outer_count);
  });
}

Status fill_blocks(OrtValue* value, const OrtMemoryInfo* info, const int64_t* dims, size_t rank, const void* data,
                   const int64_t* index_dims, size_t index_rank, const int32_t* indices) {
  return fill(value, info, dims, rank, data, [&](const SparseTensor&, const Shape& values) {
    return block_indices(values, index_dims, index_rank, indices);
  });
}

// Indices of the client over values of the client: nothing is copied.
template <class Make>
Status use(OrtValue* value, Make&& make) {
  TRY(not_null({{"ort_value", value}}));
  TRY_ASSIGN(sparse, unfilled_in(value));
  TRY_ASSIGN(indices, make(*sparse, sparse->values.shape()));
  TRY(check_indices(*sparse, indices));
  put(*value, *sparse, sparse->values, std::move(indices));
  return {};
}

Status use_coo(OrtValue* value, int64_t* indices, size_t count) {
  return use(value, [&](const SparseTensor& sparse, const Shape& values) {
    return coo_indices(sparse, values, indices, count);
  });
}
Status use_csr(OrtValue* value, int64_t* inner, size_t inner_count, int64_t* outer, size_t outer_count) {
  return use(value, [&](const SparseTensor& sparse, const Shape& values) {
    return csr_indices(sparse, values, inner, inner_count, outer, outer_count);
  });
}
Status use_blocks(OrtValue* value, const int64_t* dims, size_t rank, int32_t* indices) {
  return use(value,
             [&](const SparseTensor&, const Shape& values) { return block_indices(values, dims, rank, indices); });
}

Status format_of(const OrtValue* value, OrtSparseFormat* out) {
  TRY(not_null({{"ort_value", value}, {"out", out}}));
  TRY(sparse_in(value).take_status());
  *out = value->layout.format;
  return {};
}

OrtTensorTypeAndShapeInfo* describe(const Tensor& tensor) {
  return new OrtTensorTypeAndShapeInfo(type_info_of(Value(tensor)).tensor);
}

Status values_type(const OrtValue* value, OrtTensorTypeAndShapeInfo** out) {
  TRY(not_null({{"ort_value", value}, {"out", out}}));
  TRY_ASSIGN(sparse, sparse_in(value));
  *out = describe(sparse->values);
  return {};
}

Status values_of(const OrtValue* value, const void** out) {
  TRY(not_null({{"ort_value", value}, {"out", out}}));
  TRY_ASSIGN(sparse, sparse_in(value));
  if (sparse->values.dtype() == DType::string) return invalid("strings are read with GetStringTensorContent");
  *out = sparse->values.data();
  return {};
}

Result<const Tensor*> indices_in(const OrtValue* value, OrtSparseIndicesFormat wanted) {
  TRY_ASSIGN(sparse, sparse_in(value));
  const OrtSparseFormat has = value->layout.format;
  if (wanted == ORT_SPARSE_COO_INDICES && has == ORT_SPARSE_COO) return &sparse->indices;
  if (wanted == ORT_SPARSE_CSR_INNER_INDICES && has == ORT_SPARSE_CSRC) return &sparse->indices;
  if (wanted == ORT_SPARSE_CSR_OUTER_INDICES && has == ORT_SPARSE_CSRC) return &value->layout.outer;
  if (wanted == ORT_SPARSE_BLOCK_SPARSE_INDICES && has == ORT_SPARSE_BLOCK_SPARSE) return &sparse->indices;
  return invalid("indices of kind {} were asked of a sparse tensor of format {}", static_cast<int>(wanted),
                 static_cast<int>(has));
}

Status indices_type(const OrtValue* value, OrtSparseIndicesFormat format, OrtTensorTypeAndShapeInfo** out) {
  TRY(not_null({{"ort_value", value}, {"out", out}}));
  TRY_ASSIGN(indices, indices_in(value, format));
  *out = describe(*indices);
  return {};
}

Status indices_of(const OrtValue* value, OrtSparseIndicesFormat format, size_t* count, const void** out) {
  TRY(not_null({{"ort_value", value}, {"num_indices", count}, {"indices", out}}));
  TRY_ASSIGN(indices, indices_in(value, format));
  *count = static_cast<size_t>(indices->count());
  *out = indices->data();
  return {};
}

}  // namespace

void fill_sparse(OrtApi& api) {
  api.CreateSparseTensorAsOrtValue = slot<create>;
  api.CreateSparseTensorWithValuesAsOrtValue = slot<create_with_values>;
  api.FillSparseTensorCoo = slot<fill_coo>;
  api.FillSparseTensorCsr = slot<fill_csr>;
  api.FillSparseTensorBlockSparse = slot<fill_blocks>;
  api.UseCooIndices = slot<use_coo>;
  api.UseCsrIndices = slot<use_csr>;
  api.UseBlockSparseIndices = slot<use_blocks>;
  api.GetSparseTensorFormat = slot<format_of>;
  api.GetSparseTensorValuesTypeAndShape = slot<values_type>;
  api.GetSparseTensorValues = slot<values_of>;
  api.GetSparseTensorIndicesTypeShape = slot<indices_type>;
  api.GetSparseTensorIndices = slot<indices_of>;
}

}  // namespace tessera::capi
