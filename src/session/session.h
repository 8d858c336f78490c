// Session: a loaded model that can be run, by any number of threads at once.
#pragma once
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "runtime/context.h"
#include "session/load.h"
#include "session/options.h"

namespace tessera {

struct RunOptions {
  std::atomic<bool> cancel{false};
  std::string tag;
  std::map<std::string, std::string> config;
};

struct ValueSpec {
  std::string name;
  Fact fact;
};

struct MemoryStats {
  Counters counters;
  int64_t weight_bytes = 0;  // of constants, wherever they lie
  int64_t planned_peak = 0;  // live activation bytes of the last run
  int64_t slab_bytes = 0;    // memory the last run used for activations
  int64_t idle_bytes = 0;    // kept for the next run
};

class Session {
 public:
  // Opens a file; external data is looked for in its folder only.
  static Result<std::shared_ptr<Session>> open(const std::string& path, const SessionOptions& options = {});
  // Uses bytes the caller keeps alive (borrow_bytes) or hands over. External data must be among the options' buffers.
  static Result<std::shared_ptr<Session>> from_bytes(BytesPtr bytes, const SessionOptions& options = {});

  // Where the external data of a model comes from. The folder may be null.
  static Result<ExternalData> external_data(const SessionOptions& options, std::shared_ptr<Folder> folder);

  const std::vector<ValueSpec>& inputs() const { return inputs_; }
  const std::vector<ValueSpec>& overridable() const { return overridable_; }  // initializers that are also inputs
  const std::vector<ValueSpec>& outputs() const { return outputs_; }
  const Model& model() const { return loaded_.model; }
  const LoadedModel& loaded() const { return loaded_; }
  const SessionOptions& options() const { return options_; }

  // Values by position: all inputs() in order, then optionally overridable ones by name through run_named. `outputs`
  // has one entry per output; tensors of the right type and shape given there are written in place.
  Status run(std::span<const Value> inputs, std::span<Value> outputs, const RunOptions* options = nullptr,
             Profile* profile = nullptr);
  // Any subset of outputs, by name.
  Status run_named(std::span<const std::string_view> input_names, std::span<const Value> inputs,
                   std::span<const std::string_view> output_names, std::span<Value> outputs,
                   const RunOptions* options = nullptr, Profile* profile = nullptr);
  MemoryStats memory() const;
  int threads() const { return threads_; }
  // What the user should know of how the session was made.
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  Session() = default;
  // Where a model comes from: the folder it was named in, and the one where it lies if that is a link. Both are empty
  // for one from memory.
  struct Source {
    BytesPtr bytes;
    std::string folder, home, name;
  };
  static Result<std::shared_ptr<Session>> create(const Source& source, const SessionOptions& options);
  // Loads the model, and keeps its packs in the cache if the options want that.
  Status load(const Source& source, ExternalData& external, std::shared_ptr<const PackFile> packs,
              const SessionOptions& options);
  Status check_input(const ValueSpec& spec, const Value& value) const;
  Status run_plan(std::span<const Value> inputs, std::span<Value> outputs, const RunOptions* options, Profile* profile);
  std::unique_ptr<Context> acquire(std::span<const Value> inputs);
  void release(std::unique_ptr<Context> context);

  static constexpr size_t kMostIdle = 4;
  SessionOptions options_;
  LoadedModel loaded_;
  std::vector<ValueSpec> inputs_, overridable_, outputs_;
  std::vector<size_t> input_slot_;        // inputs_[i] is plan input input_slot_[i]
  std::vector<size_t> overridable_slot_;  // likewise
  int threads_ = 1;
  SlabPool slabs_;
  mutable std::mutex mutex_;
  std::vector<std::string> warnings_;
  std::vector<BytesPtr> files_;                 // mapped files that runs read
  std::vector<std::unique_ptr<Context>> idle_;  // most recently used last
  RunStats last_stats_;
  std::atomic<uint64_t> runs_{0};
};

}  // namespace tessera
