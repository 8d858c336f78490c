#include "capi/env.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "capi/guard.h"
#include "capi/key_values.h"
#include "capi/topics.h"

namespace tessera::capi {

void Logger::log(OrtLoggingLevel level, std::string_view message) const {
  if (level < severity.load(std::memory_order_relaxed)) return;
  const std::string text(message);
  if (function) return function(parameter, level, "tessera", id.c_str(), "", text.c_str());
  constexpr char kLetters[] = "VIWEF";
  std::fprintf(stderr, "[%c:tessera:%s] %s\n", kLetters[level], id.c_str(), text.c_str());
}

namespace {

Status create(OrtLoggingFunction function, void* parameter, int severity, const char* logid, int threads,
              OrtEnv** out) {
  TRY(not_null({{"logid", logid}, {"out", out}}));
  auto env = std::make_unique<OrtEnv>();
  env->logger = std::make_shared<Logger>();
  env->logger->function = function;
  env->logger->parameter = parameter;
  env->logger->severity = severity;
  env->logger->id = logid;
  env->threads = threads;
  *out = env.release();
  return {};
}

Status create_env(OrtLoggingLevel severity, const char* logid, OrtEnv** out) {
  return create(nullptr, nullptr, severity, logid, 0, out);
}

Status create_env_with_logger(OrtLoggingFunction function, void* parameter, OrtLoggingLevel severity, const char* logid,
                              OrtEnv** out) {
  return create(function, parameter, severity, logid, 0, out);
}

Status create_env_with_threads(OrtLoggingLevel severity, const char* logid, const OrtThreadingOptions* threading,
                               OrtEnv** out) {
  TRY(not_null({{"tp_options", threading}}));
  return create(nullptr, nullptr, severity, logid, threading->threads, out);
}

Status create_env_with_logger_and_threads(OrtLoggingFunction function, void* parameter, OrtLoggingLevel severity,
                                          const char* logid, const OrtThreadingOptions* threading, OrtEnv** out) {
  TRY(not_null({{"tp_options", threading}}));
  return create(function, parameter, severity, logid, threading->threads, out);
}

Status create_env_with_options(const OrtEnvCreationOptions* options, OrtEnv** out) {
  TRY(not_null({{"options", options}}));
  return create(options->custom_logging_function, options->custom_logging_param, options->logging_severity_level,
                options->log_id, options->threading_options ? options->threading_options->threads : 0, out);
}

void release_env(OrtEnv* env) { delete env; }

Status update_log_level(OrtEnv* env, OrtLoggingLevel severity) {
  TRY(not_null({{"ort_env", env}}));
  env->logger->severity = severity;
  return {};
}

// Nothing is ever sent anywhere, so these two have nothing to do.
Status set_telemetry(const OrtEnv* env) { return not_null({{"env", env}}); }
Status set_projection(const OrtEnv* env, OrtLanguageProjection) { return not_null({{"ort_env", env}}); }

Status create_threading_options(OrtThreadingOptions** out) {
  TRY(not_null({{"out", out}}));
  *out = new OrtThreadingOptions;
  return {};
}
void release_threading_options(OrtThreadingOptions* options) { delete options; }

Status set_global_threads(OrtThreadingOptions* options, int threads) {
  TRY(not_null({{"tp_options", options}}));
  options->threads = threads;
  return {};
}
// Steps run one after the other, and waiting threads sleep soon: accepted, without effect.
Status accept_number(OrtThreadingOptions* options, int) { return not_null({{"tp_options", options}}); }

constexpr char kProvider[] = "CPUExecutionProvider";

Status available_providers(char*** out, int* count) {
  TRY(not_null({{"out_ptr", out}, {"provider_length", count}}));
  // One block: the list, then the text.
  void* block = std::malloc(sizeof(char*) + sizeof kProvider);
  if (!block) return error(Code::runtime_exception, "out of memory");
  char** list = static_cast<char**>(block);
  list[0] = reinterpret_cast<char*>(list + 1);
  std::copy_n(kProvider, sizeof kProvider, list[0]);
  *out = list;
  *count = 1;
  return {};
}

Status release_providers(char** list, int) {
  std::free(list);
  return {};
}

}  // namespace

void fill_env(OrtApi& api) {
  api.CreateEnv = slot<create_env>;
  api.CreateEnvWithCustomLogger = slot<create_env_with_logger>;
  api.CreateEnvWithGlobalThreadPools = slot<create_env_with_threads>;
  api.CreateEnvWithCustomLoggerAndGlobalThreadPools = slot<create_env_with_logger_and_threads>;
  api.CreateEnvWithOptions = slot<create_env_with_options>;
  api.ReleaseEnv = release_env;
  api.UpdateEnvWithCustomLogLevel = slot<update_log_level>;
  api.EnableTelemetryEvents = slot<set_telemetry>;
  api.DisableTelemetryEvents = slot<set_telemetry>;
  api.SetLanguageProjection = slot<set_projection>;
  api.CreateThreadingOptions = slot<create_threading_options>;
  api.ReleaseThreadingOptions = release_threading_options;
  api.SetGlobalIntraOpNumThreads = slot<set_global_threads>;
  api.SetGlobalInterOpNumThreads = slot<accept_number>;
  api.SetGlobalSpinControl = slot<accept_number>;
  api.GetAvailableProviders = slot<available_providers>;
  api.ReleaseAvailableProviders = slot<release_providers>;
}

}  // namespace tessera::capi
