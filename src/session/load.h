// From bytes to a plan. load_full.cc and load_minimal.cc each define load_model; a library links one of them.
#pragma once
#include "base/counters.h"
#include "formats/external.h"
#include "ir/graph.h"
#include "runtime/plan.h"
#include "session/options.h"

namespace tessera {

struct LoadedModel {
  Model model;  // graph() resolved, and in full builds inferred
  std::shared_ptr<const Plan> plan;
  Counters counters;
  std::map<std::string, int64_t> rewrites;  // how often each rule was applied
  const char* order_chosen_by = "file order";
  int64_t planned_peak = 0;  // of the chosen order, with assumed sizes where shapes are symbolic
  struct {
    int64_t parse = 0, resolve = 0, infer = 0, rewrite = 0, order = 0, plan = 0;
  } phase_ns;
};

// Writes the optimised model where the options ask for it. `folder` is that of the model, empty if there is none.
Status save_as_asked(const BytesPtr& bytes, ExternalData& external, const std::string& folder,
                     const SessionOptions& options, std::vector<std::string>& warnings);
// Writes the packed weights of a plan to a pack file.
Status write_packs_of(const Plan& plan, const std::string& path, const Workers& workers);

// packs may be null.
Result<LoadedModel> load_model(BytesPtr bytes, ExternalData& external, const PackFile* packs,
                               const SessionOptions& options);

}  // namespace tessera
