// RunAsync: a run on a thread of its own.
#include <thread>

#include "capi/guard.h"
#include "capi/run.h"
#include "capi/topics.h"

namespace tessera::capi {
namespace {

// What a run needs after the call has returned: copies of the names, and the input values by reference count. The
// client keeps the session, the run options and the array of outputs until its function is called.
struct Pending {
  OrtSession* session;
  const OrtRunOptions* options;
  std::vector<std::string> input_names, output_names;
  std::vector<OrtValue> inputs;
  OrtValue** outputs;
  RunAsyncCallbackFn done;
  void* user_data;

  OrtStatus* run() const noexcept {
    return guarded([&] {
      std::vector<const char*> in, out;
      std::vector<const OrtValue*> values;
      for (const std::string& name : input_names) in.push_back(name.c_str());
      for (const std::string& name : output_names) out.push_back(name.c_str());
      for (const OrtValue& value : inputs) values.push_back(&value);
      return run_arrays(session, options, in.data(), values.data(), in.size(), out.data(), out.size(), outputs);
    });
  }
};

Result<std::vector<std::string>> copy_names(const char* what, const char* const* names, size_t count) {
  if (count) TRY(not_null({{what, names}}));
  std::vector<std::string> out;
  for (size_t i = 0; i < count; ++i) {
    if (!names[i]) return invalid("{}: name {} is null", what, i);
    out.emplace_back(names[i]);
  }
  return out;
}

// The status given to `done` is the client's.
Status run_async(OrtSession* session, const OrtRunOptions* options, const char* const* input_names,
                 const OrtValue* const* inputs, size_t input_count, const char* const* output_names,
                 size_t output_count, OrtValue** outputs, RunAsyncCallbackFn done, void* user_data) {
  TRY(not_null({{"session", session}, {"output", outputs}}));
  if (!done) return invalid("run_async_callback is null");
  if (output_count == 0) return invalid("no output was asked for, wanted at least 1");
  if (input_count) TRY(not_null({{"input", inputs}}));
  auto pending = std::make_unique<Pending>();
  *pending = {session, options, {}, {}, {}, outputs, done, user_data};
  TRY_ASSIGN(in, copy_names("input_names", input_names, input_count));
  TRY_ASSIGN(out, copy_names("output_names", output_names, output_count));
  for (size_t i = 0; i < input_count; ++i) {
    if (!inputs[i]) return invalid("input {} is null", quote(in[i]));
    pending->inputs.push_back(*inputs[i]);
  }
  pending->input_names = std::move(in);
  pending->output_names = std::move(out);
  std::thread([p = std::move(pending)]() mutable {
    OrtStatus* status = p->run();
    const auto call = p->done;
    void* const data = p->user_data;
    OrtValue** const results = p->outputs;
    const size_t count = status ? 0 : p->output_names.size();
    p.reset();  // before the client may let go of what it holds
    call(data, results, count, status);
  }).detach();
  return {};
}

}  // namespace

void fill_run_async(OrtApi& api) { api.RunAsync = slot<run_async>; }

}  // namespace tessera::capi
