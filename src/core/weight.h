// Weight: a constant of the model, as a reference to bytes that stay where they are: a range of the model's own bytes,
// of a mapped external file, or of a buffer the caller handed over. Nothing is read before somebody asks for the
// tensor.
#pragma once
#include <string>

#include "core/tensor.h"

namespace tessera {

struct Weight {
  DType dtype = DType::undefined;
  Shape shape;
  ByteRange range;       // little-endian elements as ONNX stores raw data; alignment is never assumed
  Tensor decoded;        // instead of range: string_data, varint fields, constants made by rewrites
  std::string location;  // file name of external data, as the model spells it
  uint64_t location_offset = 0;

  static Weight from(Tensor t);
  int64_t bytes() const { return bytes_for(dtype, shape.count()).value_or(0); }
  // The elements. Shares the source where alignment allows, else copies; *copied grows by what was copied.
  Result<Tensor> tensor(int64_t* copied = nullptr) const;
};

// A sparse constant: values [nnz]; indices [nnz] (flat) or [nnz, rank].
struct SparseWeight {
  Weight values, indices;
  Shape shape;
  // The dense tensor, refused when it is larger than `limit` bytes or an index is out of range.
  Result<Tensor> dense(int64_t limit) const;
};

}  // namespace tessera
