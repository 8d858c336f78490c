// The steps that every way of loading shares.
#pragma once
#include "formats/ort/kernel_types.h"
#include "runtime/profile.h"
#include "session/load.h"

namespace tessera {

// Times consecutive phases.
class PhaseTimer {
 public:
  void lap(int64_t& phase) {
    const int64_t now = now_ns();
    phase = now - at_;
    at_ = now;
  }

 private:
  int64_t at_ = now_ns();
};

// The model, of the format that the options state or that it is by its first bytes.
Result<Model> read_either(BytesPtr bytes, ExternalData& external, const SessionOptions& options,
                          ort::KernelTypesOf* standard, std::shared_ptr<DimPool> dims);
// Reads the model, of either format, into out.model and puts the bodies of its functions in place of their calls.
// `standard` is null where the library does not know it.
Status read_graph(BytesPtr bytes, ExternalData& external, const SessionOptions& options, ort::KernelTypesOf* standard,
                  LoadedModel& out, PhaseTimer& timer);
// Makes out.plan for the nodes of out.model in this order.
Status make_plan(std::span<const ir::NodeId> order, const ExternalData& external, const PackFile* packs,
                 const SessionOptions& options, LoadedModel& out, PhaseTimer& timer);

}  // namespace tessera
