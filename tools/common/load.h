// Opening models and values by file name, whatever form they have.
#pragma once
#include <memory>
#include <string>

#include "core/value.h"
#include "ir/graph.h"
#include "session/session.h"

namespace tessera::cli {

// A file in ONNX's textual syntax, by its name: .onnxtxt or .onnx.txt.
bool is_text_model(const std::string& path);

// What the file says, without rewriting or checking operators.
Result<Model> load_model_file(const std::string& path);
// The model ready to run.
Result<std::shared_ptr<Session>> open_session(const std::string& path, const SessionOptions& options);
// .npy, or a serialized TensorProto, SequenceProto, OptionalProto or MapProto, as `fact` says.
Result<Value> load_value(const std::string& path, const Fact& fact);

// Refuses to write a model over the one it is made of.
Status check_output(const std::string& model, const std::string& output);

// What a user can do about a model that does not load.
std::string advice(const Status& status);

}  // namespace tessera::cli
