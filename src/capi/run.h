// Running a session with values by name.
#pragma once
#include <span>
#include <string_view>

#include "capi/lora.h"
#include "capi/session.h"
#include "capi/value.h"

struct OrtRunOptions {
  tessera::RunOptions run;
  std::string profile_prefix;  // not empty: the run writes its times to a file
  int log_verbosity = 0, log_severity = -1;
  std::vector<std::shared_ptr<const tessera::capi::AdapterWeights>> adapters;  // active ones
};

namespace tessera::capi {

// Runs the session. `outputs` has one entry per output name: an empty one receives the result; a tensor given there
// must have the result's type and shape, and its elements are written. After an error the empty ones are still empty.
// The same output may be named twice. `options` may be null. The weights of active adapters are inputs too.
// `profile`, where not null, gets the times.
Status run(const OrtSession& session, const OrtRunOptions* options, std::span<const std::string_view> input_names,
           std::span<const Value> inputs, std::span<const std::string_view> output_names, std::span<Value> outputs,
           Profile* profile = nullptr);

// OrtApi::Run.
Status run_arrays(OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                  const OrtValue* const* inputs, size_t input_count, const char* const* output_names,
                  size_t output_count, OrtValue** outputs, Profile* profile = nullptr);

}  // namespace tessera::capi
