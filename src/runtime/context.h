// Context: everything that changes while a plan runs. One run at a time uses a Context; concurrent runs have one each.
//
// Binding computes shapes and memory for the inputs at hand. It is incremental: a step whose inputs have the same
// shapes as last time costs a few comparisons, and offsets are kept while every value fits where it was.
#pragma once
#include <memory>
#include <span>
#include <vector>

#include "runtime/plan.h"
#include "runtime/profile.h"

namespace tessera {

// Memory for activations, handed from run to run. Thread-safe.
class SlabPool {
 public:
  // At least `size` bytes, the most recently returned one that fits first.
  Result<std::shared_ptr<Bytes>> acquire(int64_t size);
  void release(std::shared_ptr<Bytes> slab);
  // Gives all idle memory back to the system.
  void trim();
  int64_t idle_bytes() const;

 private:
  static constexpr size_t kMostIdle = 4;
  mutable std::mutex mutex_;
  std::vector<std::shared_ptr<Bytes>> idle_;
};

struct RunStats {
  int64_t planned_peak = 0;  // largest sum of live slab bytes
  int64_t slab_bytes = 0;    // memory held for activations
  int64_t binds = 0, replans = 0;
};

class Context {
 public:
  Context(std::shared_ptr<const Plan> plan, SlabPool& slabs);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Runs the plan. `inputs` has one value per plan input (empty: the initializer's default, or absent). `outputs` has
  // one entry per plan output; a tensor of the right type and shape given there is written in place, anything else is
  // replaced. After an error the context can be used again.
  Status run(std::span<const Value> inputs, std::span<Value> outputs, const RunScope& scope,
             Profile* profile = nullptr);
  // For bodies: captured values are read from the enclosing run, inputs are taken, and outputs may share memory with
  // inputs and constants. Activations live in `lent`, a part of the enclosing run's slab, as far as they fit.
  Status run_body(const Context& outer, std::span<Value> inputs, std::span<Value> outputs, const RunScope& scope,
                  std::span<std::byte> lent);
  // Bytes that all activations took in the last run.
  int64_t slab_bytes() const { return stats_.slab_bytes; }
  const RunStats& stats() const { return stats_; }
  // True if the shapes of `inputs` are those of the last run.
  bool bound_for(std::span<const Value> inputs) const;

 private:
  class BodyRunner;
  struct Takeover {
    uint32_t in, out;  // slots
  };
  // Memory of one step beside its values: for its kernel, and for the activations of its bodies behind that.
  struct Scratch {
    int64_t offset = 0;
    int64_t bytes = 0;  // of the kernel, per lane
    int64_t body_offset = 0;
    int64_t body_bytes = 0;
  };
  struct Segment {
    bool bound = false;
    std::vector<uint32_t> owners;   // slots that own a piece of the slab, in plan order
    std::vector<int64_t> reserved;  // bytes kept for owners[i]
    std::vector<int64_t> offset;
    std::vector<Takeover> takeovers;     // outputs that were given their input's memory
    std::vector<Scratch> scratch;        // per step of the segment
    std::vector<uint32_t> with_scratch;  // those of them that want any
    std::shared_ptr<Bytes> slab;         // of this run, unless the memory is lent
    std::byte* base = nullptr;           // of this run
    const std::byte* pointed = nullptr;  // the base that the slots point into
    int64_t bytes = 0;
  };

  Status run_segments(std::span<Value> outputs, Profile* profile);
  void finish_run(bool ok);
  Status set_inputs(std::span<const Value> inputs, std::span<Value> taken);
  Status set_captures();
  Status set_input_slot(uint32_t slot, Value value);
  Status check_type(uint32_t slot, const Value& value) const;
  void set_scope(const RunScope& scope);
  Status ready_packs();
  Status bind(int segment, std::span<Value> outputs, bool body_grew);
  Status bind_step(const Step& step);
  Status run_at_bind(const Step& step);
  bool fits(const Segment& s, int segment) const;
  Status assign_memory(int segment);
  Status point_slots(int segment);
  Status place_outputs(int segment, std::span<Value> outputs);
  Status execute(int segment, Profile* profile);
  Status run_step(const Step& step, const std::byte* slab, const Scratch& scratch);
  Status collect_outputs(std::span<Value> outputs);
  Result<Value> output_of(uint32_t slot);
  void release_slabs();
  Result<std::byte*> memory_for(Segment& s);
  Call::Frame frame_of(const Step& step);
  int64_t bytes_of(uint32_t slot) const;
  int64_t scratch_of(const Step& step) const;
  int64_t body_bytes_of(const Step& step) const;
  uint32_t view_source(uint32_t slot) const;

  std::shared_ptr<const Plan> plan_;
  SlabPool& slabs_;
  std::vector<Slot> slots_;
  std::vector<int64_t> bytes_;  // per slot, kept up to date by binding
  std::vector<Value> held_;
  std::vector<Segment> segments_;
  std::vector<std::unique_ptr<BodyRunner>> bodies_;
  std::vector<Body*> body_pointers_;
  std::vector<const void*> packed_;  // per Step::packed entry, flattened in step order
  std::vector<uint32_t> packed_begin_;
  std::vector<std::vector<std::byte>> bound_content_;  // per plan slot with content_bound: what it was
  std::vector<uint32_t> of_one_run_;                   // slots whose held value ends with the run
  RunScope scope_;
  RunStats stats_;
  const Context* outer_ = nullptr;
  std::span<std::byte> lent_;  // what is left of it
  bool anything_changed_ = true;
  bool body_grew_ = false;  // the last run of a body took more than it was lent
  bool packs_ready_ = false;
};

}  // namespace tessera
