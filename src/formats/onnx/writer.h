// Writes a Model as .onnx bytes. What the reader kept of unknown fields is written back.
#pragma once
#include <string>
#include <unordered_map>

#include "core/value.h"
#include "ir/graph.h"

namespace tessera::onnx {

// A range of a file of external data, as a model states it.
struct ExternalPlace {
  std::string location;
  uint64_t offset = 0;
  std::string checksum;
};

struct WriteOptions {
  std::unordered_map<const Weight*, ExternalPlace> places;  // weights that were written to a file of external data
  bool keep_references = true;  // other weights that came from external files stay there, else they go into the model
  bool used_only = false;       // leave out initializers that nobody reads
};

// The whole model in one string.
Result<std::string> write_model(const Model& model, const WriteOptions& options = {});
// Atomically: the old file stays until the new one is complete.
Status save_model(const Model& model, const std::string& path);

// One tensor as a TensorProto, as in test_data_set folders.
Result<std::string> write_tensor(const Tensor& tensor, const std::string& name = {});

}  // namespace tessera::onnx
