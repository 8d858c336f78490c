// OrtSession: a Session and where it reports to; or a model that is being extended and becomes one.
#pragma once
#include <functional>
#include <memory>
#include <mutex>

#include "capi/env.h"
#include "capi/options.h"
#include "capi/profiling.h"
#include "session/edit_model.h"
#include "session/session.h"
#include "tessera/c_api.h"

namespace tessera::capi {

struct Editing {
  EditableModel model;
  OrtEnv env;
  OrtSessionOptions options;
};

// Which provider runs which node, as the client sees it.
struct Assignments {
  std::vector<const OrtEpAssignedSubgraph*> list;
  std::vector<std::shared_ptr<OrtEpAssignedSubgraph>> owned;
};

}  // namespace tessera::capi

struct OrtSession {
  std::shared_ptr<tessera::Session> session;             // null while the model is being edited
  std::unique_ptr<tessera::capi::Editing> editing = {};  // null otherwise
  std::shared_ptr<const tessera::capi::Logger> logger;
  std::unique_ptr<tessera::capi::Profiler> profiler;  // null: not profiling
  int64_t profiling_start_ns = 0;                     // 0: never profiled
  mutable std::once_flag assigned_once;
  mutable std::unique_ptr<const tessera::capi::Assignments> assigned;  // made when it is asked for
};

namespace tessera::capi {

// An error for a session whose model is still being edited.
Status check_ready(const OrtSession& session);

// What a session takes and gives, also while its model is being edited.
const std::vector<ValueSpec>& inputs_of(const OrtSession& session);
const std::vector<ValueSpec>& overridable_of(const OrtSession& session);
const std::vector<ValueSpec>& outputs_of(const OrtSession& session);
const Model& model_of(const OrtSession& session);

// Makes the Session from its options.
using Open = std::function<Result<std::shared_ptr<Session>>(const SessionOptions&, const OrtSessionOptions&)>;
// Makes an OrtSession. Options and container may be null.
Status open_session(const OrtEnv* env, const OrtSessionOptions* options, OrtPrepackedWeightsContainer* container,
                    OrtSession** out, const Open& open);

// Sessions that are being edited, of OrtModelEditorApi.
Status edit_path(const OrtEnv* env, const ORTCHAR_T* path, const OrtSessionOptions* options, OrtSession** out);
Status edit_array(const OrtEnv* env, const void* data, size_t size, const OrtSessionOptions* options, OrtSession** out);
// Turns the edited model into a Session; when it fails, the model can be edited further. Options: null for those that
// the editing began with.
Status finish_editing(OrtSession& session, const OrtSessionOptions* options, OrtPrepackedWeightsContainer* container);

}  // namespace tessera::capi
