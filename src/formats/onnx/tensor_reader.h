// TensorProto, SparseTensorProto and TypeProto.
#pragma once
#include <string_view>

#include "core/weight.h"
#include "formats/external.h"
#include "ir/fact.h"

namespace tessera::onnx {

// What the readers of a file share.
struct Source {
  BytesPtr bytes;  // ranges of which weights refer to
  ExternalData* external;
  bool takes_given = false;  // tensors may be replaced by what the client gave for their names
  ByteRange range_of(std::string_view part) const {
    return {bytes, static_cast<uint64_t>(part.data() - reinterpret_cast<const char*>(bytes->data())), part.size()};
  }
};

struct NamedWeight {
  std::string name;
  Weight weight;
};
struct NamedSparseWeight {
  std::string name;
  SparseWeight weight;
};

Result<NamedWeight> read_tensor_proto(std::string_view message, const Source& source);
Result<NamedSparseWeight> read_sparse_tensor_proto(std::string_view message, const Source& source);
Result<Fact> read_type_proto(std::string_view message, DimPool& dims, int depth = 0);

// Deeper nesting of messages than this is refused, as protobuf's own readers do.
inline constexpr int kMaxNesting = 100;

}  // namespace tessera::onnx
