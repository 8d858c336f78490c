#include "core/weight.h"

#include <cstring>

namespace tessera {

Weight Weight::from(Tensor t) {
  Weight w;
  w.dtype = t.dtype();
  w.shape = t.shape();
  w.decoded = std::move(t);
  return w;
}

Result<Tensor> Weight::tensor(int64_t* copied) const {
  if (!decoded.empty() || dtype == DType::undefined) return decoded;
  const auto size = static_cast<size_t>(bytes());
  if (range.length < size)
    return invalid("a {} tensor of shape {} wants {} bytes, got {}", name_of(dtype), shape.dims(), size, range.length);
  const size_t element = std::max(1, bits_of(dtype) / 8);
  const size_t alignment = std::min<size_t>(element, 16) / (dtype == DType::c64 || dtype == DType::c128 ? 2 : 1);
  if (reinterpret_cast<uintptr_t>(range.data()) % alignment == 0)
    return Tensor(dtype, shape, range.source, range.offset);
  TRY_ASSIGN(copy, Tensor::allocate(dtype, shape));
  if (size) std::memcpy(copy.mutable_data(), range.data(), size);
  if (copied) *copied += static_cast<int64_t>(size);
  return std::move(copy);
}

Result<Tensor> SparseWeight::dense(int64_t limit) const {
  const int64_t size = bytes_for(values.dtype, shape.count()).value_or(INT64_MAX);
  if (size > limit)
    return invalid("a sparse tensor of shape {} would take {} bytes dense, more than the {} that may be spent on it",
                   shape.dims(), size, limit);
  if (is_sub_byte(values.dtype))
    return not_implemented("sparse tensors of {} are not supported", name_of(values.dtype));
  TRY_ASSIGN(v, values.tensor());
  TRY_ASSIGN(ix, indices.tensor());
  const int64_t nnz = v.count();
  const bool flat = ix.shape().rank() == 1;
  if (ix.dtype() != DType::i64 || v.shape().rank() != 1 || ix.shape().rank() < 1 || ix.shape().rank() > 2 ||
      ix.shape()[0] != nnz || (!flat && ix.shape()[1] != shape.rank()))
    return invalid("sparse indices are {}{}, wanted int64 [{}] or [{},{}]", name_of(ix.dtype()), ix.shape().dims(), nnz,
                   nnz, shape.rank());
  TRY_ASSIGN(out, Tensor::allocate(values.dtype, shape));
  const size_t element = static_cast<size_t>(bits_of(values.dtype) / 8);
  if (values.dtype != DType::string) std::memset(out.mutable_data(), 0, static_cast<size_t>(size));
  int64_t strides[kMaxRank];
  strides_of(shape.dims(), strides);
  for (int64_t i = 0; i < nnz; ++i) {
    int64_t at = 0;
    for (int d = 0; d < (flat ? 1 : shape.rank()); ++d) {
      const int64_t index = ix.values<int64_t>()[static_cast<size_t>(flat ? i : i * shape.rank() + d)];
      const int64_t bound = flat ? shape.count() : shape[d];
      if (index < 0 || index >= bound) return invalid("sparse index {} is outside [0,{})", index, bound);
      at += index * (flat ? 1 : strides[d]);
    }
    if (values.dtype == DType::string)
      static_cast<std::string*>(out.mutable_data())[at] = v.values<std::string>()[static_cast<size_t>(i)];
    else
      std::memcpy(static_cast<char*>(out.mutable_data()) + static_cast<size_t>(at) * element,
                  static_cast<const char*>(v.data()) + static_cast<size_t>(i) * element, element);
  }
  return std::move(out);
}

}  // namespace tessera
