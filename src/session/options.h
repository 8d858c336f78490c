// Options of a session: the few we act on as fields, every other key kept as text.
#pragma once
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/cpu.h"
#include "base/status.h"
#include "core/tensor.h"
#include "ops/custom.h"
#include "passes/settings.h"
#include "runtime/order.h"

namespace tessera {

struct SessionOptions {
  int threads = 0;  // 0: as many as this process may use
  Target target = best_target();
  ExecutionOrder order = ExecutionOrder::planned;
  int optimization_level = 99;
  std::vector<std::string> disabled_rewrites;  // by name
  int64_t most_rewrites = INT64_MAX;           // to find a bad one by halving
  RewriteSettings rewrites;
  bool strict_external_data = false;  // only handed-over buffers, no links
  std::string pack_file = "auto";     // "off", or a file in the model's folder; auto: the model's name + ".pack"
  bool allow_newer_opsets = false;    // take operator sets newer than the newest we know for that one
  bool pack_verify = false;           // compare packed weights with their checksums when loading
  bool pack_strict = false;           // a missing, damaged or stale pack is an error, not packed anew
  std::map<std::string, BytesPtr> external_files;
  std::map<std::string, std::string> config;
  std::map<std::string, int64_t> free_dimensions;     // dimension names the user fixed
  std::map<std::string, int64_t> denoted_dimensions;  // the same by what dimensions denote
  std::string log_id, profile_prefix;
  CustomOps custom_ops;  // looked at before the library's own
  int64_t max_tensor_bytes = INT64_MAX, max_run_bytes = INT64_MAX;

  // Files of external data that are read piece by piece.
  struct Reader {
    uint64_t size;
    std::function<Status(uint64_t offset, size_t length, void* to)> read;
  };
  std::map<std::string, Reader> external_readers;
  // Take the place of initializers of the main graph. A required one must be in the model.
  struct Given {
    Tensor tensor;
    bool required;
  };
  std::map<std::string, Given> given_initializers;
  std::string optimized_model_path;  // not empty: the optimised model is written there
  std::string pack_cache_dir;        // not empty: packs of models without a pack file are kept there
  bool pack_weights = true;
  bool copy_mapped_files = false;  // files cannot hurt a run by being cut off, at the price of memory
  std::shared_ptr<const std::atomic<bool>> cancel_load;

  // Stores a config entry and acts on the keys we know; a bad value of such a key is refused.
  Status set(const std::string& key, const std::string& value);
};

}  // namespace tessera
