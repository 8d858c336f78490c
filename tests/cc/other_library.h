// A library with the C ABI, opened from a file as a client opens it, that runs models on values of this program.
#pragma once
#include <string>
#include <vector>

#include "base/status.h"
#include "core/value.h"
#include "tessera/c_api.h"

namespace tessera::testing {

class OtherLibrary {
 public:
  // Ends the program with a message if there is no such library.
  explicit OtherLibrary(const std::string& path);
  OtherLibrary(const OtherLibrary&) = delete;
  OtherLibrary& operator=(const OtherLibrary&) = delete;

  // How the message starts if the C ABI has no number for an element type of an input or output.
  static constexpr char kNoSuchType[] = "the C ABI has no element type";

  // All outputs of a model for its inputs in their order; tensors alone.
  Result<std::vector<Value>> run(const std::string& model, const std::vector<Value>& inputs) const;

 private:
  class Run;
  const OrtApi* api_;
  OrtEnv* env_ = nullptr;
};

}  // namespace tessera::testing
