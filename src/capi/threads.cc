// How threads are made and what they do between pieces of work. The pool belongs to the process and makes its own
// threads: results never depend on it, so these settings are accepted, without effect.
#include "capi/env.h"
#include "capi/guard.h"
#include "capi/options.h"
#include "capi/topics.h"

namespace tessera::capi {
namespace {

template <class T>
Status accept(OrtSessionOptions* options, T) {
  return not_null({{"options", options}});
}
template <class T>
Status accept_global(OrtThreadingOptions* options, T) {
  return not_null({{"tp_options", options}});
}

// Denormal numbers are computed as they are.
Status denormals(OrtThreadingOptions* options) { return not_null({{"tp_options", options}}); }

Status affinity(OrtThreadingOptions* options, const char* text) {
  TRY(not_null({{"tp_options", options}, {"affinity_string", text}}));
  if (!*text) return invalid("affinity_string is empty");
  return {};
}

Status callbacks(OrtEnv* env, const OrtThreadPoolCallbacksConfig*) { return not_null({{"env", env}}); }

}  // namespace

void fill_threads(OrtApi& api) {
  api.SessionOptionsSetCustomCreateThreadFn = slot<accept<OrtCustomCreateThreadFn>>;
  api.SessionOptionsSetCustomThreadCreationOptions = slot<accept<void*>>;
  api.SessionOptionsSetCustomJoinThreadFn = slot<accept<OrtCustomJoinThreadFn>>;
  api.SetGlobalCustomCreateThreadFn = slot<accept_global<OrtCustomCreateThreadFn>>;
  api.SetGlobalCustomThreadCreationOptions = slot<accept_global<void*>>;
  api.SetGlobalCustomJoinThreadFn = slot<accept_global<OrtCustomJoinThreadFn>>;
  api.SetGlobalDenormalAsZero = slot<denormals>;
  api.SetGlobalIntraOpThreadAffinity = slot<affinity>;
  api.SetPerSessionThreadPoolCallbacks = slot<callbacks>;
}

}  // namespace tessera::capi
