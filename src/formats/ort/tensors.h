// Tensors and types of the .ort format.
#pragma once
#include "core/weight.h"
#include "formats/external.h"
#include "formats/ort/flat.h"
#include "ir/fact.h"

namespace tessera::ort {

// What the readers of a file share.
struct Source {
  BytesPtr bytes;
  ExternalData* external;
};

Result<Weight> read_tensor(const flat::Table& table, const Source& source);
Result<SparseWeight> read_sparse_tensor(const flat::Table& table, const Source& source);
Result<Fact> read_type(const flat::Table& table, DimPool& dims, int depth = 0);

// Graphs in graphs and types in types: deeper is refused.
inline constexpr int kMaxDepth = 32;

}  // namespace tessera::ort
