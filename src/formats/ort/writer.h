// Writes a Model in ONNX Runtime's format (.ort), as ONNX Runtime reads it.
#pragma once
#include <atomic>
#include <functional>
#include <string>

#include "base/file.h"
#include "ir/graph.h"

namespace tessera::ort {

struct WriteOptions {
  // Also write what only Tessera reads: element types beyond float8, optional and sparse types, attributes that hold
  // types or sparse tensors, external data, files of 2 GiB and more. Refused otherwise.
  bool extensions = false;
  // Weights of at least this many bytes go into a file of this name beside the model, if a name is given.
  std::string external_file;
  int64_t external_least = 1024;
  bool external_is_there = false;  // that file has been written before, by the same model and numbers
  // Told now and then how many of how many bytes are written.
  std::function<void(int64_t done, int64_t total)> progress;
  const std::atomic<bool>* cancel = nullptr;  // ends the writing of files with an error
};

// The whole model in one string; external weights are taken in. The graph must be without function calls, and know the
// types of all its values (ir::inline_functions, infer). Constant nodes become initializers, CastLike becomes Cast;
// initializers that nobody reads are left out.
Result<std::string> write_model(const Model& model, const WriteOptions& options = {});
// Weight by weight into a file that the caller finishes; the one of external weights goes into `folder`.
Status write_model(const Model& model, AtomicFile& file, const std::string& folder, const WriteOptions& options = {});
// Atomically, weight by weight: the old file stays until the new one is complete.
Status save_model(const Model& model, const std::string& path, const WriteOptions& options = {});

}  // namespace tessera::ort
