// Plan: a graph made ready to run. Immutable, shared by every run of a session; what changes during a run is in a
// Context.
//
// Values become slots (slot 0 is "absent"), nodes become steps in execution order. Steps are grouped into segments: all
// shapes of a segment can be computed before its first step runs.
#pragma once
#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/counters.h"
#include "base/workers.h"
#include "ops/op.h"
#include "runtime/pack_file.h"
#include "runtime/packs.h"

namespace tessera {

// An argument whose type the kernel does not take: converted to a temporary slot before, or from one after the step.
struct Conversion {
  uint32_t from, to;  // slots
};

struct Step {
  const ir::Node* node = nullptr;
  const Op* op = nullptr;
  ComputeFn* compute = nullptr;
  uint32_t in = 0, in_count = 0;    // range of Plan::args
  uint32_t out = 0, out_count = 0;  // likewise
  uint32_t result = 0;  // range start of the outputs as the graph has them (differs from out when converted)
  int segment = 0;
  int inplace = -1;  // input whose memory output 0 may take over
  bool planned =
      false;          // its shape function gives its outputs their shapes; else the kernel does, or they are no tensors
  bool view = false;  // output 0 is input op->view under another shape
  bool at_bind = false;  // runs while shapes are bound: somebody needs its content for a shape
  std::vector<Conversion> widen, narrow;
  std::vector<uint32_t> packed;  // per input: index into Plan::packs + 1, or 0; empty: none
  std::vector<std::shared_ptr<const class Plan>> bodies;
  uint32_t first_body = 0;  // index of its first body in a Context
  std::shared_ptr<const void> prepared;
  std::unique_ptr<bool[]> last_use;  // per input: nobody reads the value later
};

// Where the memory of a slot comes from.
enum class Place : uint8_t { absent, input, captured, constant, slab, view, output, held };

struct SlotPlan {
  TypeDesc type;
  Place place = Place::absent;
  int segment = 0;
  uint32_t first = 0, last = 0;  // steps between which a slab value lives
  bool content_bound = false;    // input: its content takes part in shapes
};

// A constant as the plan uses it. `weight` is where it comes from: null for constants that the plan made itself.
struct PlanConstant {
  uint32_t slot;
  Tensor tensor;
  const Weight* weight;
};

// A packed weight, found or made at first use.
struct Pack {
  std::vector<int> constants;  // per input of the node: index into Plan::constants, or -1
  const Packing* packing;
  std::shared_ptr<const void> params;
  int64_t bytes;  // of the packed form
  std::shared_ptr<PackedWeight> packed;
  // Of weights that are gone once the plan is made: what the pack file needs to know of them.
  struct Name {
    Digest key, source;
  };
  std::optional<Name> name = {};
};

// Copies of constants that would be gone, one for all who read them.
using KeptConstants = std::map<std::pair<const void*, int64_t>, BytesPtr>;

struct PlanOptions {
  std::span<const ir::NodeId> order;                          // execution order; must be topological
  std::span<const TypeDesc> outer_types = {};                 // of the enclosing plan's slots, for bodies
  std::span<const PlanConstant* const> outer_constants = {};  // likewise; null where a slot is none
  std::span<const TypeDesc> input_types = {};                 // fallback for untyped inputs of a body
  const PackFile* packs = nullptr;                            // packed weights to use
  bool keep_wide = true;  // values between operators that compute in a wider type are not rounded
  bool pack = true;       // kernels get constants in their own layout
  int threads = 1;        // for packing what must be packed at once
  const std::atomic<bool>* cancel = nullptr;
  KeptConstants* kept = nullptr;  // of the enclosing plan
};

class Plan {
 public:
  // The plan keeps the graph alive.
  static Result<std::shared_ptr<const Plan>> build(std::shared_ptr<const ir::Graph> graph, const PlanOptions& options,
                                                   Counters& counters);

  const ir::Graph& graph() const { return *graph_; }
  std::span<const Step> steps() const { return steps_; }
  std::span<const SlotPlan> slots() const { return slots_; }
  std::span<const uint32_t> args(uint32_t begin, uint32_t count) const { return {args_.data() + begin, count}; }
  std::span<const uint32_t> inputs() const { return inputs_; }
  std::span<const uint32_t> outputs() const { return outputs_; }
  const std::vector<std::pair<uint32_t, uint32_t>>& captures() const { return captures_; }  // own slot, outer slot
  const std::vector<PlanConstant>& constants() const { return constants_; }
  int segments() const { return segments_; }
  std::span<const uint32_t> segment_begin() const { return segment_begin_; }
  // Slots whose content a segment needs for its shapes and that earlier segments compute.
  const std::vector<std::vector<uint32_t>>& segment_content() const { return segment_content_; }
  uint32_t body_count() const { return body_count_; }
  // The packed form of Step::packed entry `index`; made at the first call.
  Result<const void*> packed(uint32_t index, const Workers& workers) const;
  // The files whose pages this plan and its bodies read, each once.
  std::vector<BytesPtr> mapped_files() const;
  // The packed weights of this plan and its bodies, and the memory they were made of where that stays.
  void hold_packs(std::vector<std::shared_ptr<const void>>& out) const;
  bool has_packs() const;
  // All packed weights of this plan and its bodies, to be written to a pack file.
  void list_packs(std::vector<PackItem>& out, const Workers& workers) const;
  Counters counters() const;

 private:
  friend class PlanBuilder;
  Plan() = default;

  std::shared_ptr<const ir::Graph> graph_;
  std::vector<Step> steps_;
  std::vector<SlotPlan> slots_;
  std::vector<uint32_t> args_, inputs_, outputs_, segment_begin_;
  std::vector<std::pair<uint32_t, uint32_t>> captures_;
  std::vector<PlanConstant> constants_;
  std::vector<std::vector<uint32_t>> segment_content_;
  int segments_ = 1;
  uint32_t body_count_ = 0;

  void add_mapped_files(std::vector<BytesPtr>& out) const;
  // What a pack is made of.
  PackForm form_of(const Pack& pack) const;
  PackWeights weights_of(const Pack& pack) const;
  std::vector<const Tensor*> tensors_of(const Pack& pack) const;
  Result<std::shared_ptr<Bytes>> make_pack(const Pack& pack, const Workers& workers) const;

  std::vector<Pack> packs_;
  mutable std::mutex counters_mutex_;
  mutable Counters pack_counters_;  // guarded by counters_mutex_
};

}  // namespace tessera
