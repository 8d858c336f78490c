// Reads .onnx bytes into a Model without copying weights: they stay ranges of the model's bytes or of external data.
#pragma once
#include "core/value.h"
#include "formats/external.h"
#include "ir/graph.h"

namespace tessera::onnx {

// The model keeps `bytes` alive. Any bytes may be given; what is not a model comes back as a status. Symbols of `dims`
// that were fixed become those numbers.
Result<Model> read_model(BytesPtr bytes, ExternalData& external,
                         std::shared_ptr<DimPool> dims = std::make_shared<DimPool>());

// Files that hold one value, as in ONNX's test_data_set folders.
Result<Value> read_tensor(BytesPtr bytes);
Result<Value> read_sequence(BytesPtr bytes);
Result<Value> read_optional(BytesPtr bytes);
Result<Value> read_map(BytesPtr bytes);
// By declared type.
Result<Value> read_value(BytesPtr bytes, const Fact& fact);

}  // namespace tessera::onnx
