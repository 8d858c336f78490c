// Running a session with values by name.
#pragma once
#include <span>
#include <string_view>

#include "capi/session.h"
#include "capi/value.h"

struct OrtRunOptions {
  tessera::RunOptions run;
  int log_verbosity = 0, log_severity = -1;
};

namespace tessera::capi {

// Runs the session. `outputs` has one entry per output name: an empty one receives the result; a tensor given there
// must have the result's type and shape, and its elements are written. After an error the empty ones are still empty.
// The same output may be named twice. `options` may be null.
Status run(const OrtSession& session, const OrtRunOptions* options, std::span<const std::string_view> input_names,
           std::span<const Value> inputs, std::span<const std::string_view> output_names, std::span<Value> outputs);

}  // namespace tessera::capi
