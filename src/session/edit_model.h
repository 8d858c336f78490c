// Models that a program puts together, or reads and extends, before they become sessions.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "session/session.h"

namespace tessera {

// What is added to a model.
struct ModelAddition {
  struct AddedNode {
    ir::Node node;
    std::vector<std::string> inputs, outputs;  // empty where absent
  };
  std::vector<std::pair<std::string, int64_t>> opsets;
  std::optional<std::vector<ValueSpec>> inputs, outputs;  // instead of those that are there
  std::vector<std::pair<std::string, Tensor>> initializers;
  std::vector<AddedNode> nodes;
  std::string graph_name;  // empty: as it is
};

class EditableModel {
 public:
  // An empty model.
  EditableModel();
  // Reads a model of either format. External data is looked for among the options' buffers and in `folder`, if that is
  // not empty; buffers must stay until the session is made.
  static Result<EditableModel> read(BytesPtr bytes, const std::string& folder, const SessionOptions& options);

  // All of it, or nothing when it is refused: names that are defined twice or never, versions of operator sets that
  // differ from the model's.
  Status add(const ModelAddition& addition);
  // A session of the model as it is now; full libraries only. Weights are shared, not copied.
  Result<std::shared_ptr<Session>> open(SessionOptions options) const;

  const Model& model() const { return model_; }
  // Where the dimensions of added values come from.
  DimPool& dims() const { return model_.graph->dims(); }
  const std::vector<ValueSpec>& inputs() const { return inputs_; }
  const std::vector<ValueSpec>& overridable() const { return overridable_; }
  const std::vector<ValueSpec>& outputs() const { return outputs_; }

 private:
  void list_values();

  Model model_;
  std::vector<ValueSpec> inputs_, overridable_, outputs_;
};

// The IR version of models made here.
inline constexpr int64_t kMadeIrVersion = 13;

// The version in which the operator that `opset` means was defined; 0 for one this library does not have.
int since_version(std::string_view domain, std::string_view op, int64_t opset);

// The model as .onnx bytes. Weights of some size stay where they are: `files` receives the memory that the bytes refer
// to as files of external data.
Result<BytesPtr> write_edited(const Model& model, std::map<std::string, BytesPtr>& files);

}  // namespace tessera
