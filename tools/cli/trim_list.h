// Lists of operators: what models need, what a file in ONNX Runtime's reduced-operator syntax says, and where the
// sources of Tessera have each.
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/status.h"
#include "core/dtype.h"

namespace tessera::cli {

// What is needed of one operator. Sets of types are by argument.
struct Needed {
  std::set<int> opsets;
  std::map<int, std::set<std::string>> inputs, outputs;
};

// By domain ("" is ai.onnx) and name.
using OperatorKey = std::pair<std::string, std::string>;
using OperatorList = std::map<OperatorKey, Needed>;

// "ai.onnx:Conv"
std::string shown(const OperatorKey& key);

// Adds what a model needs: its own operators with the types that they see, and what composed ones unfold to.
Status add_model(const std::string& path, OperatorList& out);
// Adds what such a file says: lines "domain;opset,opset;Op1,Op2{types},...". Types are optional JSON.
Status add_config(const std::string& path, OperatorList& out);
// The same as text, so that the list can be read again, here or by ONNX Runtime's build.
std::string to_config(const OperatorList& list);

// Which file of a source tree defines an operator, as its src/ops/ops.txt says.
class OperatorFiles {
 public:
  static Result<OperatorFiles> read(const std::string& source);

  // Adds what operators unfold to that no model was seen of: every operator that their sources name.
  Status add_parts(OperatorList& list) const;
  // The list in the syntax of ops.txt; an error names what the tree does not have.
  Result<std::string> to_list(const OperatorList& list) const;

 private:
  std::string folder_;
  std::map<OperatorKey, std::string> files_;
};

}  // namespace tessera::cli
