// Runs a model through a library of its own, as a client opens it, and through this one, and compares.
#pragma once
#include <memory>
#include <string>

#include "base/status.h"

struct OrtApi;

namespace tessera::cli {

class OtherLibrary {
 public:
  static Result<std::unique_ptr<OtherLibrary>> open(const std::string& path);
  ~OtherLibrary();

  // Runs the test data beside the model (test_data_set_*) or, without, random inputs. Says how often.
  Result<int> prove(const std::string& model) const;

 private:
  OtherLibrary(void* handle, const OrtApi* api) : handle_(handle), api_(api) {}
  void* handle_;
  const OrtApi* api_;
};

}  // namespace tessera::cli
