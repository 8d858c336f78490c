// Weight: a constant of the model, as a reference to bytes that stay where they are: a range of the model's own bytes,
// of a mapped external file, or of a buffer the caller handed over. Nothing is read before somebody asks for the
// tensor.
#pragma once
#include <memory>
#include <string>

#include "core/tensor.h"

namespace tessera {

struct SparseWeight;

struct Weight {
  DType dtype = DType::undefined;
  Shape shape;
  ByteRange range;  // little-endian elements as ONNX stores raw data; alignment is never assumed
  Tensor decoded;   // instead of range: string_data, varint fields, constants made by rewrites
  std::shared_ptr<const SparseWeight> sparse;  // instead of either: made dense when the tensor is asked for
  std::string location;                        // file name of external data, as the model spells it
  uint64_t location_offset = 0;
  std::string checksum;  // of the external data, as the model states it

  static Weight from(Tensor t);
  static Weight from(SparseWeight w);
  int64_t bytes() const { return bytes_for(dtype, shape.count()).value_or(0); }
  // True if the bytes go away once a session is created.
  bool is_passing() const;
  // Moves bytes that would go away into memory of our own.
  Status keep();
  // The elements. Shares the source where alignment allows, else copies; *copied grows by what was copied.
  Result<Tensor> tensor(int64_t* copied = nullptr) const;
};

// A sparse constant: values [nnz]; indices [nnz] (flat) or [nnz, rank].
struct SparseWeight {
  Weight values, indices;
  Shape shape;
  // The most bytes that its dense form may take; it comes from a file that may lie.
  int64_t limit = int64_t{64} << 20;
  // Refused when the dense tensor would be larger than the limit or an index is out of range.
  Status check() const;
  // The dense tensor, after check().
  Result<Tensor> dense() const;
};

}  // namespace tessera
