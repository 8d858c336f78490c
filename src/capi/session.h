// OrtSession: a Session and where it reports to.
#pragma once
#include <memory>

#include "capi/env.h"
#include "capi/profiling.h"
#include "session/session.h"
#include "tessera/c_api.h"

struct OrtSession {
  std::shared_ptr<tessera::Session> session;
  std::shared_ptr<const tessera::capi::Logger> logger;
  std::unique_ptr<tessera::capi::Profiler> profiler;  // null: not profiling
  int64_t profiling_start_ns = 0;                     // 0: never profiled
};
