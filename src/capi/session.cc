#include "capi/session.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>

#include "base/file.h"
#include "capi/allocator.h"
#include "capi/custom_op.h"
#include "capi/guard.h"
#include "capi/options.h"
#include "capi/topics.h"
#include "capi/type_info.h"

// Packed weights that stay after the sessions that used them. Sessions of one process share packed weights anyway, as
// long as one of them is there; a container makes that longer.
struct OrtPrepackedWeightsContainer {
  void add(const tessera::Session& session) {
    std::lock_guard lock(mutex);
    session.loaded().plan->hold_packs(held);
    std::sort(held.begin(), held.end());
    held.erase(std::unique(held.begin(), held.end()), held.end());
  }
  std::mutex mutex;
  std::vector<std::shared_ptr<const void>> held;
};

namespace tessera::capi {
namespace {

Result<BytesPtr> copy_bytes(const void* data, size_t size) {
  TRY_ASSIGN(memory, allocate_bytes(size));
  if (size) std::memcpy(memory->data(), data, size);
  return BytesPtr(std::move(memory));
}

// Memory that the client promised to keep is the same bytes for all sessions that use it at one time.
BytesPtr share_borrowed(const ExternalBuffer& b) {
  static std::mutex mutex;
  static auto* const known = new std::map<std::pair<const void*, size_t>, std::weak_ptr<const Bytes>>;
  std::lock_guard lock(mutex);
  std::erase_if(*known, [](const auto& k) { return k.second.expired(); });
  std::weak_ptr<const Bytes>& there = (*known)[{b.data, b.size}];
  BytesPtr bytes = there.lock();
  if (!bytes) there = bytes = borrow_bytes(b.data, b.size, b.name);
  return bytes;
}

// The options of a session to be made. The client may free its buffers afterwards, so nothing of them is used then,
// unless it promised to keep them; with `copy` they are copied right away.
Result<SessionOptions> session_options(const OrtEnv& env, const OrtSessionOptions& from, bool copy = false) {
  SessionOptions options = from.options;
  if (from.environment_threads) options.threads = env.threads;
  options.cancel_load = from.cancel_load;
  const bool in_place = std::any_of(std::begin(kExternalBuffersInPlace), std::end(kExternalBuffersInPlace),
                                    [&](const char* key) { return from.is_set(key); });
  const bool keep = copy || !from.custom_domains.empty() || !from.extension_ops.empty();
  for (const ExternalBuffer& b : from.external_buffers) {
    if (b.reader) {
      options.external_readers[b.name] = *b.reader;
    } else if (b.kept) {
      options.external_files[b.name] = b.kept;
    } else if (in_place) {
      options.external_files[b.name] = share_borrowed(b);
    } else if (keep || b.name == plain_name(options.pack_file)) {  // they may hold on to what they are given
      TRY_ASSIGN(copy, copy_bytes(b.data, b.size));
      options.external_files[b.name] = std::move(copy);
    } else {
      options.external_files[b.name] =
          std::make_shared<Bytes>(Bytes::Origin::passing, const_cast<void*>(b.data), b.size, nullptr, nullptr, b.name);
    }
  }
  return options;
}

std::shared_ptr<const Logger> session_logger(const OrtEnv& env, const OrtSessionOptions& options) {
  const bool own = options.log_function || options.log_severity >= 0 || !options.options.log_id.empty();
  if (!own) return env.logger;
  auto logger = std::make_shared<Logger>();
  const bool replaced = options.log_function != nullptr;
  logger->function = replaced ? options.log_function : env.logger->function;
  logger->parameter = replaced ? options.log_parameter : env.logger->parameter;
  logger->severity = options.log_severity >= 0 ? options.log_severity : env.logger->severity.load();
  logger->id = options.options.log_id.empty() ? env.logger->id : options.options.log_id;
  return logger;
}

Status check_cancelled(const OrtSessionOptions& options) {
  if (options.cancel_load->load()) return error(Code::canceled, "loading was cancelled");
  return {};
}

// Makes the Session inside `result`.
Status load_into(OrtSession& result, const OrtEnv& env, const OrtSessionOptions& options, const Open& open) {
  TRY(check_cancelled(options));
  TRY_ASSIGN(own, session_options(env, options));
  TRY_ASSIGN(custom, custom_ops_of(options, result.logger));
  own.custom_ops = std::move(custom);
  TRY_ASSIGN(session, open(own, options));
  TRY(check_cancelled(options));
  result.session = std::move(session);
  return {};
}

// What follows once the Session is there.
void begin(OrtSession& result, const OrtSessionOptions& options, OrtPrepackedWeightsContainer* container) {
  if (options.profiling) {
    result.profiling_start_ns = now_ns();
    result.profiler = std::make_unique<Profiler>(options.options.profile_prefix, result.profiling_start_ns);
  }
  const Session& s = *result.session;
  if (container) container->add(s);
  for (const std::string& warning : s.warnings()) result.logger->log(ORT_LOGGING_LEVEL_WARNING, warning);
  result.logger->log(ORT_LOGGING_LEVEL_INFO,
                     format("session created: {} nodes, {} threads", s.model().graph->nodes().size(), s.threads()));
}

}  // namespace

Status open_session(const OrtEnv* env, const OrtSessionOptions* given, OrtPrepackedWeightsContainer* container,
                    OrtSession** out, const Open& open) {
  const OrtSessionOptions defaults;
  const OrtSessionOptions& options = given ? *given : defaults;
  auto result = std::make_unique<OrtSession>();
  result->logger = session_logger(*env, options);
  Status status = load_into(*result, *env, options, open);
  if (!status.ok()) {
    result->logger->log_error(status.message());
    return status;
  }
  begin(*result, options, container);
  *out = result.release();
  return {};
}

Status check_ready(const OrtSession& session) {
  if (session.session) return {};
  return error(Code::fail, "the session's model is being edited; call FinalizeModelEditorSession first");
}

const std::vector<ValueSpec>& inputs_of(const OrtSession& s) {
  return s.editing ? s.editing->model.inputs() : s.session->inputs();
}
const std::vector<ValueSpec>& overridable_of(const OrtSession& s) {
  return s.editing ? s.editing->model.overridable() : s.session->overridable();
}
const std::vector<ValueSpec>& outputs_of(const OrtSession& s) {
  return s.editing ? s.editing->model.outputs() : s.session->outputs();
}
const Model& model_of(const OrtSession& s) { return s.editing ? s.editing->model.model() : s.session->model(); }

namespace {

Status edit(const OrtEnv& env, const OrtSessionOptions* given, BytesPtr bytes, const std::string& folder,
            OrtSession** out) {
  auto result = std::make_unique<OrtSession>();
  const OrtSessionOptions options = given ? *given : OrtSessionOptions();
  result->logger = session_logger(env, options);
  TRY_ASSIGN(own, session_options(env, options, true));
  auto model = EditableModel::read(std::move(bytes), folder, own);
  if (!model.ok()) {
    result->logger->log_error(model.status().message());
    return model.take_status();
  }
  result->editing = std::make_unique<Editing>(Editing{std::move(*model), env, options});
  result->editing->options.external_buffers.clear();  // the model holds what it needs of them
  *out = result.release();
  return {};
}

}  // namespace

Status edit_path(const OrtEnv* env, const ORTCHAR_T* path, const OrtSessionOptions* options, OrtSession** out) {
  TRY(not_null({{"env", env}, {"model_path", path}, {"out", out}}));
  TRY_ASSIGN(bytes, map_file(path));
  return edit(*env, options, std::move(bytes), folder_of(path), out).in(quote(path));
}

Status edit_array(const OrtEnv* env, const void* data, size_t size, const OrtSessionOptions* options,
                  OrtSession** out) {
  TRY(not_null({{"env", env}, {"model_data", data}, {"out", out}}));
  if (size == 0) return invalid("the model has 0 bytes");
  TRY_ASSIGN(copy, copy_bytes(data, size));
  return edit(*env, options, std::move(copy), {}, out);
}

Status finish_editing(OrtSession& session, const OrtSessionOptions* given, OrtPrepackedWeightsContainer* container) {
  const Editing& editing = *session.editing;
  const OrtSessionOptions& options = given ? *given : editing.options;
  Status status = load_into(session, editing.env, options, [&](const SessionOptions& own, const OrtSessionOptions&) {
    return editing.model.open(own);
  });
  if (!status.ok()) {
    session.logger->log_error(status.message());
    return status;
  }
  begin(session, options, container);
  session.editing.reset();
  return {};
}

namespace {

Status open_path(const OrtEnv* env, const ORTCHAR_T* path, const OrtSessionOptions* options,
                 OrtPrepackedWeightsContainer* container, OrtSession** out) {
  TRY(not_null({{"env", env}, {"model_path", path}, {"out", out}}));
  return open_session(env, options, container, out,
                      [&](const SessionOptions& own, const OrtSessionOptions&) { return Session::open(path, own); });
}

Status from_path(const OrtEnv* env, const ORTCHAR_T* path, const OrtSessionOptions* options, OrtSession** out) {
  return open_path(env, path, options, nullptr, out);
}

Status from_path_with_container(const OrtEnv* env, const ORTCHAR_T* path, const OrtSessionOptions* options,
                                OrtPrepackedWeightsContainer* container, OrtSession** out) {
  TRY(not_null({{"prepacked_weights_container", container}}));
  return open_path(env, path, options, container, out);
}

Status open_array(const OrtEnv* env, const void* data, size_t size, const OrtSessionOptions* options,
                  OrtPrepackedWeightsContainer* container, OrtSession** out) {
  TRY(not_null({{"env", env}, {"model_data", data}, {"out", out}}));
  if (size == 0) return invalid("the model has 0 bytes");
  return open_session(
      env, options, container, out,
      [&](const SessionOptions& own, const OrtSessionOptions& given) -> Result<std::shared_ptr<Session>> {
        if (given.is_set(kModelBytesInPlace)) return Session::from_bytes(borrow_bytes(data, size), own);
        TRY_ASSIGN(copy, copy_bytes(data, size));
        return Session::from_bytes(std::move(copy), own);
      });
}

Status from_array(const OrtEnv* env, const void* data, size_t size, const OrtSessionOptions* options,
                  OrtSession** out) {
  return open_array(env, data, size, options, nullptr, out);
}

Status from_array_with_container(const OrtEnv* env, const void* data, size_t size, const OrtSessionOptions* options,
                                 OrtPrepackedWeightsContainer* container, OrtSession** out) {
  TRY(not_null({{"prepacked_weights_container", container}}));
  return open_array(env, data, size, options, container, out);
}

Status create_container(OrtPrepackedWeightsContainer** out) {
  TRY(not_null({{"out", out}}));
  *out = new OrtPrepackedWeightsContainer;
  return {};
}

void release_container(OrtPrepackedWeightsContainer* container) { delete container; }

void release(OrtSession* session) { delete session; }

using Specs = const std::vector<ValueSpec>& (*)(const OrtSession&);

template <Specs specs>
Status count(const OrtSession* session, size_t* out) {
  TRY(not_null({{"session", session}, {"out", out}}));
  *out = specs(*session).size();
  return {};
}

template <Specs specs>
Result<const ValueSpec*> spec_at(const OrtSession* session, size_t index) {
  const auto& all = specs(*session);
  if (index >= all.size()) return error(Code::fail, "index {} is out of range, there are {}", index, all.size());
  return &all[index];
}

template <Specs specs>
Status name(const OrtSession* session, size_t index, OrtAllocator* allocator, char** out) {
  TRY(not_null({{"session", session}, {"allocator", allocator}, {"value", out}}));
  TRY_ASSIGN(spec, spec_at<specs>(session, index));
  return give_text(allocator, spec->name, out);
}

template <Specs specs>
Status type_info(const OrtSession* session, size_t index, OrtTypeInfo** out) {
  TRY(not_null({{"session", session}, {"type_info", out}}));
  TRY_ASSIGN(spec, spec_at<specs>(session, index));
  *out = new OrtTypeInfo(type_info_of(spec->fact));
  return {};
}

template <Specs specs>
Status memory_infos(const OrtSession* session, const OrtMemoryInfo** out, size_t room) {
  TRY(not_null({{"session", session}, {"the list", out}}));
  const size_t n = specs(*session).size();
  if (room != n) return invalid("room for {} descriptions, there are {}", room, n);
  std::fill_n(out, n, &cpu_memory_info());
  return {};
}

// An empty name if the session was not profiling.
Status end_profiling(OrtSession* session, OrtAllocator* allocator, char** out) {
  TRY(not_null({{"session", session}, {"allocator", allocator}, {"out", out}}));
  if (!session->profiler) return give_text(allocator, "", out);
  TRY_ASSIGN(path, session->profiler->finish());
  return give_text(allocator, path, out);
}

Status profiling_start(const OrtSession* session, uint64_t* out) {
  TRY(not_null({{"session", session}, {"out", out}}));
  *out = static_cast<uint64_t>(session->profiling_start_ns);
  return {};
}

}  // namespace

void fill_session(OrtApi& api) {
  api.CreateSession = slot<from_path>;
  api.CreateSessionFromArray = slot<from_array>;
  api.ReleaseSession = release;
  api.CreatePrepackedWeightsContainer = slot<create_container>;
  api.ReleasePrepackedWeightsContainer = release_container;
  api.CreateSessionWithPrepackedWeightsContainer = slot<from_path_with_container>;
  api.CreateSessionFromArrayWithPrepackedWeightsContainer = slot<from_array_with_container>;
  api.SessionGetInputCount = slot<count<inputs_of>>;
  api.SessionGetOutputCount = slot<count<outputs_of>>;
  api.SessionGetOverridableInitializerCount = slot<count<overridable_of>>;
  api.SessionGetInputName = slot<name<inputs_of>>;
  api.SessionGetOutputName = slot<name<outputs_of>>;
  api.SessionGetOverridableInitializerName = slot<name<overridable_of>>;
  api.SessionGetInputTypeInfo = slot<type_info<inputs_of>>;
  api.SessionGetOutputTypeInfo = slot<type_info<outputs_of>>;
  api.SessionGetOverridableInitializerTypeInfo = slot<type_info<overridable_of>>;
  api.SessionGetMemoryInfoForInputs = slot<memory_infos<inputs_of>>;
  api.SessionGetMemoryInfoForOutputs = slot<memory_infos<outputs_of>>;
  api.SessionEndProfiling = slot<end_profiling>;
  api.SessionGetProfilingStartTimeNs = slot<profiling_start>;
}

}  // namespace tessera::capi
