#include "capi/run.h"

#include <algorithm>

#include "capi/guard.h"
#include "capi/options.h"
#include "capi/topics.h"

namespace tessera::capi {
namespace {

// Kernels read elements at their natural alignment; a client's buffer may have none.
bool is_aligned(const Tensor& t) {
  const auto element = static_cast<uintptr_t>(std::clamp(bits_of(t.dtype()) / 8, 1, 8));
  return reinterpret_cast<uintptr_t>(t.data()) % element == 0;
}

Result<Value> readable(const Value& value) {
  const Tensor* t = value.tensor();
  if (!t || t->dtype() == DType::string || is_aligned(*t)) return value;
  TRY_ASSIGN(copy, copy_of(*t));
  return Value(std::move(copy));
}

// Names each output once, however often it was asked for; at[i] is where request i is found.
struct Distinct {
  std::vector<std::string_view> names;
  std::vector<Value> values;
  std::vector<size_t> at;
};

Result<Distinct> distinct_outputs(const Session& session, std::span<const std::string_view> names,
                                  std::span<const Value> given) {
  Distinct d;
  for (size_t i = 0; i < names.size(); ++i) {
    const auto found = std::find(d.names.begin(), d.names.end(), names[i]);
    d.at.push_back(static_cast<size_t>(found - d.names.begin()));
    if (found == d.names.end()) {
      d.names.push_back(names[i]);
      d.values.emplace_back();
    }
    const Tensor* t = given[i].tensor();
    if (given[i].empty()) continue;
    for (const ValueSpec& spec : session.outputs())
      if (spec.name == names[i] && spec.fact.kind == Kind::tensor && (!t || t->dtype() != spec.fact.dtype))
        return invalid("output {} was given as {}, the model computes {}", quote(names[i]), given[i].describe(),
                       spec.fact.str());
    if (t && is_aligned(*t)) d.values[d.at[i]] = given[i];
  }
  return d;
}

// Puts a result where the client wants it: as it is, or over the elements of the tensor the client gave.
Status deliver(std::string_view name, const Value& result, bool shared, Value& out) {
  const Tensor* from = result.tensor();
  if (out.empty()) {
    if (!shared || !from) {
      out = result;
      return {};
    }
    TRY_ASSIGN(copy, copy_of(*from));
    out = std::move(copy);
    return {};
  }
  Tensor* to = out.tensor();
  if (!to || !from || from->dtype() != to->dtype() || !(from->shape() == to->shape()))
    return invalid("output {} was given as {}, this run computed {}; give none to let the run allocate it", quote(name),
                   out.describe(), result.describe());
  if (from->data() != to->data()) copy_elements(*from, *to);
  return {};
}

// With a prefix, the times of this run are written to a file of their own.
Status run_profiled(const OrtSession& session, const RunOptions* options, const std::string& profile_prefix,
                    std::span<const std::string_view> input_names, std::span<const Value> inputs, Distinct& outputs,
                    Profile* profile) {
  const bool profiled = session.profiler || !profile_prefix.empty();
  if (!profiled)
    return session.session->run_named(input_names, inputs, outputs.names, outputs.values, options, profile);
  Profile times;
  const int64_t start = now_ns();
  Status status = session.session->run_named(input_names, inputs, outputs.names, outputs.values, options, &times);
  if (session.profiler) session.profiler->add(times, start);
  if (status.ok() && !profile_prefix.empty()) {
    Profiler own(profile_prefix, start);
    own.add(times, start);
    status = own.finish().take_status();
  }
  if (profile) *profile = std::move(times);
  return status;
}

void add_adapters(const OrtRunOptions& options, std::vector<std::string_view>& names, std::vector<Value>& values) {
  for (const auto& adapter : options.adapters)
    for (const auto& [name, tensor] : *adapter) {
      names.push_back(name);
      values.emplace_back(tensor);
    }
}

// Clients look for ORT_FAIL when they set the terminate flag.
Status as_reported(Status status) {
  if (status.code() != Code::canceled) return status;
  return error(Code::fail, "{}: the terminate flag of its options is set", status.message());
}

}  // namespace

Status run(const OrtSession& session, const OrtRunOptions* options, std::span<const std::string_view> input_names,
           std::span<const Value> inputs, std::span<const std::string_view> output_names, std::span<Value> outputs,
           Profile* profile) {
  TRY(check_ready(session));
  if (options && options->run.cancel.load()) return as_reported(error(Code::canceled, "the run was cancelled"));
  std::vector<Value> in;
  in.reserve(inputs.size());
  for (const Value& v : inputs) {
    TRY_ASSIGN(value, readable(v));
    in.push_back(std::move(value));
  }
  std::vector<std::string_view> in_names(input_names.begin(), input_names.end());
  if (options) add_adapters(*options, in_names, in);
  TRY_ASSIGN(out, distinct_outputs(*session.session, output_names, outputs));
  Status status = run_profiled(session, options ? &options->run : nullptr, options ? options->profile_prefix : "",
                               in_names, in, out, profile);
  if (!status.ok()) {
    session.logger->log_error(status.message());
    return as_reported(std::move(status));
  }
  std::vector<Value> delivered(outputs.begin(), outputs.end());
  std::vector<bool> taken(out.names.size(), false);
  for (size_t i = 0; i < outputs.size(); ++i) {
    TRY(deliver(output_names[i], out.values[out.at[i]], taken[out.at[i]], delivered[i]));
    taken[out.at[i]] = true;
  }
  std::move(delivered.begin(), delivered.end(), outputs.begin());
  return {};
}

namespace {

Result<std::vector<std::string_view>> names_of(const char* what, const char* const* names, size_t count) {
  if (count) TRY(not_null({{what, names}}));
  std::vector<std::string_view> out;
  for (size_t i = 0; i < count; ++i) {
    if (!names[i] || !*names[i]) return invalid("{}: name {} is empty", what, i);
    out.emplace_back(names[i]);
  }
  return out;
}

}  // namespace

Status run_arrays(OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                  const OrtValue* const* inputs, size_t input_count, const char* const* output_names,
                  size_t output_count, OrtValue** outputs, Profile* profile) {
  TRY(not_null({{"session", session}, {"outputs", outputs}}));
  TRY_ASSIGN(in_names, names_of("input_names", input_names, input_count));
  TRY_ASSIGN(out_names, names_of("output_names", output_names, output_count));
  if (output_count == 0) return invalid("no output was asked for, wanted at least 1");
  if (input_count) TRY(not_null({{"inputs", inputs}}));
  std::vector<Value> in, out;
  for (size_t i = 0; i < input_count; ++i) {
    if (!inputs[i]) return invalid("input {} is null", quote(in_names[i]));
    if (inputs[i]->value.sparse() && inputs[i]->layout.format != ORT_SPARSE_COO)
      return invalid("input {} is a sparse tensor of format {}, wanted coordinates", quote(in_names[i]),
                     static_cast<int>(inputs[i]->layout.format));
    in.push_back(inputs[i]->value);
  }
  for (size_t i = 0; i < output_count; ++i) out.push_back(outputs[i] ? outputs[i]->value : Value());
  TRY(run(*session, options, in_names, in, out_names, out, profile));

  std::vector<std::unique_ptr<OrtValue>> fresh(output_count);
  for (size_t i = 0; i < output_count; ++i)
    if (!outputs[i]) fresh[i] = std::make_unique<OrtValue>(OrtValue{std::move(out[i])});
  for (size_t i = 0; i < output_count; ++i)
    if (fresh[i]) outputs[i] = fresh[i].release();
  return {};
}

namespace {

Status run_slot(OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                const OrtValue* const* inputs, size_t input_count, const char* const* output_names, size_t output_count,
                OrtValue** outputs) {
  return run_arrays(session, options, input_names, inputs, input_count, output_names, output_count, outputs);
}

Status create(OrtRunOptions** out) {
  TRY(not_null({{"out", out}}));
  *out = new OrtRunOptions;
  return {};
}
void release(OrtRunOptions* options) { delete options; }

template <auto Member>
Status set_number(OrtRunOptions* options, int number) {
  TRY(not_null({{"options", options}}));
  options->*Member = number;
  return {};
}
template <auto Member>
Status get_number(const OrtRunOptions* options, int* out) {
  TRY(not_null({{"options", options}, {"the number", out}}));
  *out = options->*Member;
  return {};
}

Status set_tag(OrtRunOptions* options, const char* tag) {
  TRY(not_null({{"options", options}}));
  options->run.tag = tag ? tag : "";
  return {};
}
Status get_tag(const OrtRunOptions* options, const char** out) {
  TRY(not_null({{"options", options}, {"run_tag", out}}));
  *out = options->run.tag.c_str();
  return {};
}

template <bool value>
Status set_terminate(OrtRunOptions* options) {
  TRY(not_null({{"options", options}}));
  options->run.cancel.store(value);
  return {};
}

Status add_config_entry(OrtRunOptions* options, const char* key, const char* value) {
  TRY(not_null({{"options", options}}));
  TRY(check_config_entry(key, value));
  options->run.config[key] = value;
  return {};
}

Status enable_profiling(OrtRunOptions* options, const ORTCHAR_T* prefix) {
  TRY(not_null({{"options", options}, {"profile_file_prefix", prefix}}));
  if (!*prefix) return invalid("profile_file_prefix is empty");
  options->profile_prefix = prefix;
  return {};
}
Status disable_profiling(OrtRunOptions* options) {
  TRY(not_null({{"options", options}}));
  options->profile_prefix.clear();
  return {};
}

const char* get_config_entry(const OrtRunOptions* options, const char* key) noexcept {
  const char* found = nullptr;
  if (!options || !key) return found;
  release_status(guarded([&]() -> Status {
    const auto it = options->run.config.find(key);
    if (it != options->run.config.end()) found = it->second.c_str();
    return {};
  }));
  return found;
}

}  // namespace

void fill_run(OrtApi& api) {
  api.Run = slot<run_slot>;
  api.CreateRunOptions = slot<create>;
  api.ReleaseRunOptions = release;
  api.RunOptionsSetRunLogVerbosityLevel = slot<set_number<&OrtRunOptions::log_verbosity>>;
  api.RunOptionsGetRunLogVerbosityLevel = slot<get_number<&OrtRunOptions::log_verbosity>>;
  api.RunOptionsSetRunLogSeverityLevel = slot<set_number<&OrtRunOptions::log_severity>>;
  api.RunOptionsGetRunLogSeverityLevel = slot<get_number<&OrtRunOptions::log_severity>>;
  api.RunOptionsSetRunTag = slot<set_tag>;
  api.RunOptionsGetRunTag = slot<get_tag>;
  api.RunOptionsSetTerminate = slot<set_terminate<true>>;
  api.RunOptionsUnsetTerminate = slot<set_terminate<false>>;
  api.AddRunConfigEntry = slot<add_config_entry>;
  api.RunOptionsEnableProfiling = slot<enable_profiling>;
  api.RunOptionsDisableProfiling = slot<disable_profiling>;
  api.GetRunConfigEntry = get_config_entry;
}

}  // namespace tessera::capi
