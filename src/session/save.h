// What a session can leave behind for the next one. Full libraries only.
#pragma once
#include <string>

#include "session/session.h"

namespace tessera {

struct SavedPacks {
  int64_t packs = 0, bytes = 0;
};

// Writes the packed weights of a session to `path`, atomically. Weights that no run has packed yet are packed one at a
// time. With `record_files`, weights are known again by size and time of their file; without, the bytes written depend
// on nothing but the weights, which are known by the checksums the model states, or else by their content.
Result<SavedPacks> save_packs(const Session& session, const std::string& path, bool record_files = true,
                              const std::atomic<bool>* cancel = nullptr);

struct SaveOptions {
  std::string data_file;            // name of the file of external data, beside the model; empty: none
  int64_t smallest_outside = 1024;  // bytes of an initializer that goes there
  bool packs = false;               // also write MODEL.pack
  bool as_ort = false;              // in ONNX Runtime's format instead of .onnx
};

// Writes the optimised model to options.optimized_model_path, as standard .onnx or .ort: the data first, the model
// last, each atomically. What no standard operator set can say is left as the model had it. `folder` is that of the
// model, empty if there is none.
Status save_optimised(const BytesPtr& bytes, ExternalData& external, const std::string& folder,
                      const SessionOptions& options, const SaveOptions& save);

}  // namespace tessera
