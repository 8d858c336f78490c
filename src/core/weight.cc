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

Weight Weight::from(SparseWeight s) {
  Weight w;
  w.dtype = s.values.dtype;
  w.shape = s.shape;
  w.sparse = std::make_shared<const SparseWeight>(std::move(s));
  return w;
}

bool Weight::is_passing() const {
  const auto passing = [](const BytesPtr& b) { return b && b->origin() == Bytes::Origin::passing; };
  if (sparse) return sparse->values.is_passing() || sparse->indices.is_passing();
  return passing(range.source) || passing(decoded.storage());
}

Status Weight::keep() {
  if (!range.source || range.source->origin() != Bytes::Origin::passing) return {};
  TRY_ASSIGN(own, allocate_bytes(static_cast<size_t>(range.length)));
  if (range.length) std::memcpy(own->data(), range.data(), static_cast<size_t>(range.length));
  range = {std::move(own), 0, range.length};
  return {};
}

Result<Tensor> Weight::tensor(int64_t* copied) const {
  if (sparse) {
    TRY_ASSIGN(t, sparse->dense());
    if (copied) *copied += t.bytes();
    return std::move(t);
  }
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

namespace {

// Where element i lies in the dense tensor; -1: outside of it.
int64_t place_of(const Tensor& indices, const Shape& shape, int64_t i) {
  const int64_t* index = indices.values<int64_t>().data();
  if (indices.shape().rank() == 1) return index[i] < shape.count() ? index[i] : -1;
  int64_t at = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    const int64_t k = index[i * shape.rank() + d];
    if (k < 0 || k >= shape[d]) return -1;
    at = at * shape[d] + k;
  }
  return at;
}

}  // namespace

Status SparseWeight::check() const {
  const int64_t size = bytes_for(values.dtype, shape.count()).value_or(INT64_MAX);
  if (size > limit)
    return invalid("a sparse tensor of shape {} would take {} bytes dense, more than the {} that may be spent on it",
                   shape.dims(), size, limit);
  if (is_sub_byte(values.dtype))
    return not_implemented("sparse tensors of {} are not supported", name_of(values.dtype));
  TRY_ASSIGN(ix, indices.tensor());
  const bool flat = ix.shape().rank() == 1;
  if (values.shape.rank() != 1) return invalid("sparse values have the shape {}, wanted a list", values.shape.dims());
  const int64_t nnz = values.shape[0];
  if (ix.dtype() != DType::i64 || ix.shape().rank() < 1 || ix.shape().rank() > 2 || ix.shape()[0] != nnz ||
      (!flat && ix.shape()[1] != shape.rank()))
    return invalid("sparse indices are {}{}, wanted int64 [{}] or [{},{}]", name_of(ix.dtype()), ix.shape().dims(), nnz,
                   nnz, shape.rank());
  for (int64_t i = 0; i < nnz; ++i)
    if (place_of(ix, shape, i) < 0) {
      if (flat)
        return invalid("sparse index {} is outside [0,{})", ix.values<int64_t>()[static_cast<size_t>(i)],
                       shape.count());
      const auto rank = static_cast<size_t>(shape.rank());
      return invalid("sparse index {} is outside {}", ix.values<int64_t>().subspan(static_cast<size_t>(i) * rank, rank),
                     shape.dims());
    }
  return {};
}

Result<Tensor> SparseWeight::dense() const {
  TRY(check());
  TRY_ASSIGN(v, values.tensor());
  TRY_ASSIGN(ix, indices.tensor());
  TRY_ASSIGN(out, Tensor::allocate(values.dtype, shape));
  const size_t element = static_cast<size_t>(bits_of(values.dtype) / 8);
  const bool text = values.dtype == DType::string;
  if (!text) std::memset(out.mutable_data(), 0, static_cast<size_t>(out.bytes()));
  for (int64_t i = 0; i < v.count(); ++i) {
    const int64_t at = place_of(ix, shape, i);
    if (text)
      static_cast<std::string*>(out.mutable_data())[at] = v.values<std::string>()[static_cast<size_t>(i)];
    else
      std::memcpy(static_cast<char*>(out.mutable_data()) + static_cast<size_t>(at) * element,
                  static_cast<const char*>(v.data()) + static_cast<size_t>(i) * element, element);
  }
  return std::move(out);
}

}  // namespace tessera
