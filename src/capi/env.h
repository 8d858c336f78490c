// The environment: where messages go, and how many threads sessions without their own number use.
#pragma once
#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "tessera/c_api.h"

namespace tessera::capi {

// Sends messages of at least `severity` to the client's function, or to stderr if there is none. Any thread may log.
struct Logger {
  OrtLoggingFunction function = nullptr;
  void* parameter = nullptr;
  std::atomic<int> severity{ORT_LOGGING_LEVEL_WARNING};
  std::string id;

  void log(OrtLoggingLevel level, std::string_view message) const;
  // An error that the client is given as a status too: for its function only.
  void log_error(std::string_view message) const {
    if (function) log(ORT_LOGGING_LEVEL_ERROR, message);
  }
};

}  // namespace tessera::capi

struct OrtEnv {
  std::shared_ptr<tessera::capi::Logger> logger;  // shared with the sessions: they may outlive the environment
  int threads = 0;                                // of the global pool; 0: as many as the process may use
};

struct OrtThreadingOptions {
  int threads = 0;
};
