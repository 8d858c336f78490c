// Writes a Model as .onnx bytes. What the reader kept of unknown fields is written back.
#pragma once
#include <string>

#include "core/value.h"
#include "ir/graph.h"

namespace tessera::onnx {

// The whole model in one string; weights that came from external files stay references to them.
Result<std::string> write_model(const Model& model);
// Atomically: the old file stays until the new one is complete.
Status save_model(const Model& model, const std::string& path);

// One tensor as a TensorProto, as in test_data_set folders.
Result<std::string> write_tensor(const Tensor& tensor, const std::string& name = {});

}  // namespace tessera::onnx
