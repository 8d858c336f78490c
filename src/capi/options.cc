#include "capi/options.h"

#include <algorithm>
#include <cstring>

#include "capi/guard.h"
#include "capi/key_values.h"
#include "capi/topics.h"

namespace tessera::capi {

Status check_config_entry(const char* key, const char* value) {
  constexpr size_t kLongestKey = 1024, kLongestValue = 8192;
  TRY(not_null({{"config_key", key}, {"config_value", value}}));
  const size_t length = std::strlen(key);
  if (length == 0 || length > kLongestKey)
    return invalid("a config key has {} bytes, wanted 1 to {}", length, kLongestKey);
  if (std::strlen(value) > kLongestValue)
    return invalid("the value of config key {} has {} bytes, wanted at most {}", quote(key), std::strlen(value),
                   kLongestValue);
  return {};
}

namespace {

Status create(OrtSessionOptions** out) {
  TRY(not_null({{"options", out}}));
  *out = new OrtSessionOptions;
  return {};
}

Status clone(const OrtSessionOptions* options, OrtSessionOptions** out) {
  TRY(not_null({{"in_options", options}, {"out_options", out}}));
  auto copy = std::make_unique<OrtSessionOptions>(*options);
  copy->cancel_load = std::make_shared<std::atomic<bool>>(options->cancel_load->load());
  *out = copy.release();
  return {};
}

void release(OrtSessionOptions* options) { delete options; }

Status set_execution_mode(OrtSessionOptions* options, ExecutionMode mode) {
  TRY(not_null({{"options", options}}));
  if (mode != ORT_SEQUENTIAL && mode != ORT_PARALLEL)
    return invalid("execution mode {} is none of ORT_SEQUENTIAL and ORT_PARALLEL", static_cast<int>(mode));
  options->execution_mode = mode;
  return {};
}

Status get_execution_mode(const OrtSessionOptions* options, ExecutionMode* out) {
  TRY(not_null({{"options", options}, {"out", out}}));
  *out = options->execution_mode;
  return {};
}

Status enable_profiling(OrtSessionOptions* options, const ORTCHAR_T* prefix) {
  TRY(not_null({{"options", options}, {"profile_file_prefix", prefix}}));
  options->options.profile_prefix = prefix;
  options->profiling = true;
  return {};
}

Status disable_profiling(OrtSessionOptions* options) {
  TRY(not_null({{"options", options}}));
  options->options.profile_prefix.clear();
  options->profiling = false;
  return {};
}

// Memory is always planned, and there is no arena: the switches are kept or accepted, without effect.
Status enable_mem_pattern(OrtSessionOptions* options) {
  TRY(not_null({{"options", options}}));
  options->mem_pattern = true;
  return {};
}
Status disable_mem_pattern(OrtSessionOptions* options) {
  TRY(not_null({{"options", options}}));
  options->mem_pattern = false;
  return {};
}
Status get_mem_pattern(const OrtSessionOptions* options, int* out) {
  TRY(not_null({{"options", options}, {"out", out}}));
  *out = options->mem_pattern;
  return {};
}
Status switch_arena(OrtSessionOptions* options) { return not_null({{"options", options}}); }

Status set_log_id(OrtSessionOptions* options, const char* id) {
  TRY(not_null({{"options", options}, {"logid", id}}));
  options->options.log_id = id;
  return {};
}

Status set_log_verbosity(OrtSessionOptions* options, int) { return not_null({{"options", options}}); }

Status set_log_severity(OrtSessionOptions* options, int severity) {
  TRY(not_null({{"options", options}}));
  options->log_severity = severity;
  return {};
}

Status set_log_function(OrtSessionOptions* options, OrtLoggingFunction function, void* parameter) {
  TRY(not_null({{"options", options}}));
  options->log_function = function;
  options->log_parameter = parameter;
  return {};
}

Status set_optimization_level(OrtSessionOptions* options, GraphOptimizationLevel level) {
  TRY(not_null({{"options", options}}));
  constexpr GraphOptimizationLevel kLevels[] = {ORT_DISABLE_ALL, ORT_ENABLE_BASIC, ORT_ENABLE_EXTENDED,
                                                ORT_ENABLE_LAYOUT, ORT_ENABLE_ALL};
  if (std::find(std::begin(kLevels), std::end(kLevels), level) == std::end(kLevels))
    return invalid("graph optimization level {} is none of 0, 1, 2, 3 and 99", static_cast<int>(level));
  options->options.optimization_level = level;
  return {};
}

Status set_optimized_model_path(OrtSessionOptions* options, const ORTCHAR_T* path) {
  TRY(not_null({{"options", options}, {"optimized_model_filepath", path}}));
  options->options.optimized_model_path = path;
  return {};
}

// Zero and less mean: as many as this process may use.
Status set_threads(OrtSessionOptions* options, int threads) {
  TRY(not_null({{"options", options}}));
  constexpr int kMost = 1024;
  options->options.threads = std::clamp(threads, 0, kMost);
  return {};
}

// Steps run one after the other; the number is accepted, without effect.
Status set_inter_op_threads(OrtSessionOptions* options, int) { return not_null({{"options", options}}); }

Status disable_own_threads(OrtSessionOptions* options) {
  TRY(not_null({{"options", options}}));
  options->environment_threads = true;
  return {};
}

// Results are the same bits every time, whatever is asked.
Status set_deterministic(OrtSessionOptions* options, bool) { return not_null({{"options", options}}); }

Status add_config_entry(OrtSessionOptions* options, const char* key, const char* value) {
  TRY(not_null({{"options", options}}));
  TRY(check_config_entry(key, value));
  return options->options.set(key, value);
}

Status has_config_entry(const OrtSessionOptions* options, const char* key, int* out) {
  TRY(not_null({{"options", options}, {"config_key", key}, {"out", out}}));
  *out = options->options.config.count(key) != 0;
  return {};
}

// *size is the room at `value` and becomes what is needed, the zero byte included. A null value only asks.
Status get_config_entry(const OrtSessionOptions* options, const char* key, char* value, size_t* size) {
  TRY(not_null({{"options", options}, {"config_key", key}, {"size", size}}));
  const auto it = options->options.config.find(key);
  if (it == options->options.config.end()) return invalid("there is no config entry {}", quote(key));
  const size_t needed = it->second.size() + 1, room = *size;
  *size = needed;
  if (!value) return {};
  if (room < needed) return invalid("config entry {} wants {} bytes, got room for {}", quote(key), needed, room);
  std::memcpy(value, it->second.c_str(), needed);
  return {};
}

Status get_config_entries(const OrtSessionOptions* options, OrtKeyValuePairs** out) {
  TRY(not_null({{"options", options}, {"out", out}}));
  auto pairs = std::make_unique<OrtKeyValuePairs>();
  pairs->entries = options->options.config;
  pairs->refresh();
  *out = pairs.release();
  return {};
}

Status fix_dimension(OrtSessionOptions* options, const char* name, int64_t value) {
  TRY(not_null({{"options", options}, {"dim_name", name}}));
  options->options.free_dimensions[name] = value;
  return {};
}

Status fix_denoted_dimension(OrtSessionOptions* options, const char* denotation, int64_t value) {
  TRY(not_null({{"options", options}, {"dim_denotation", denotation}}));
  options->options.denoted_dimensions[denotation] = value;
  return {};
}

Status append_provider(OrtSessionOptions* options, const char* name, const char* const* keys, const char* const* values,
                       size_t count) {
  TRY(not_null({{"options", options}, {"provider_name", name}}));
  if (count) TRY(not_null({{"provider_options_keys", keys}, {"provider_options_values", values}}));
  if (std::strcmp(name, "CPU") == 0 || std::strcmp(name, "CPUExecutionProvider") == 0) return {};
  return invalid("provider {} is not in this build; it has CPU, also called CPUExecutionProvider", quote(name));
}

Status set_load_cancellation(OrtSessionOptions* options, bool cancel) {
  TRY(not_null({{"options", options}}));
  options->cancel_load->store(cancel);
  return {};
}

}  // namespace

void fill_options(OrtApi& api) {
  api.CreateSessionOptions = slot<create>;
  api.CloneSessionOptions = slot<clone>;
  api.ReleaseSessionOptions = release;
  api.SetSessionExecutionMode = slot<set_execution_mode>;
  api.GetSessionExecutionMode = slot<get_execution_mode>;
  api.EnableProfiling = slot<enable_profiling>;
  api.DisableProfiling = slot<disable_profiling>;
  api.EnableMemPattern = slot<enable_mem_pattern>;
  api.DisableMemPattern = slot<disable_mem_pattern>;
  api.GetMemPatternEnabled = slot<get_mem_pattern>;
  api.EnableCpuMemArena = slot<switch_arena>;
  api.DisableCpuMemArena = slot<switch_arena>;
  api.SetSessionLogId = slot<set_log_id>;
  api.SetSessionLogVerbosityLevel = slot<set_log_verbosity>;
  api.SetSessionLogSeverityLevel = slot<set_log_severity>;
  api.SetUserLoggingFunction = slot<set_log_function>;
  api.SetSessionGraphOptimizationLevel = slot<set_optimization_level>;
  api.SetOptimizedModelFilePath = slot<set_optimized_model_path>;
  api.SetIntraOpNumThreads = slot<set_threads>;
  api.SetInterOpNumThreads = slot<set_inter_op_threads>;
  api.DisablePerSessionThreads = slot<disable_own_threads>;
  api.SetDeterministicCompute = slot<set_deterministic>;
  api.AddSessionConfigEntry = slot<add_config_entry>;
  api.HasSessionConfigEntry = slot<has_config_entry>;
  api.GetSessionConfigEntry = slot<get_config_entry>;
  api.GetSessionOptionsConfigEntries = slot<get_config_entries>;
  api.AddFreeDimensionOverride = slot<fix_denoted_dimension>;
  api.AddFreeDimensionOverrideByName = slot<fix_dimension>;
  api.SessionOptionsAppendExecutionProvider = slot<append_provider>;
  api.SessionOptionsSetLoadCancellationFlag = slot<set_load_cancellation>;
}

}  // namespace tessera::capi

OrtStatusPtr ORT_API_CALL OrtSessionOptionsAppendExecutionProvider_CPU(OrtSessionOptions* options, int) noexcept {
  return tessera::capi::guarded([&] { return tessera::capi::not_null({{"options", options}}); });
}
