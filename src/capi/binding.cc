// OrtIoBinding: inputs and outputs fixed once, for many runs.
#include <algorithm>

#include "capi/allocator.h"
#include "capi/guard.h"
#include "capi/run.h"
#include "capi/topics.h"

namespace tessera::capi {

struct Bound {
  std::string name;
  Value value;          // of an output: the client's tensor, or the last result
  bool to_run = false;  // an output that each run allocates
};

}  // namespace tessera::capi

struct OrtIoBinding {
  const OrtSession* session;
  std::vector<tessera::capi::Bound> inputs;
  mutable std::vector<tessera::capi::Bound> outputs;  // runs take the binding as const, and fill this
};

namespace tessera::capi {
namespace {

// A name bound again takes its old place.
void bind(std::vector<Bound>& list, Bound bound) {
  const auto old = std::find_if(list.begin(), list.end(), [&](const Bound& b) { return b.name == bound.name; });
  if (old == list.end())
    list.push_back(std::move(bound));
  else
    *old = std::move(bound);
}

Status create(OrtSession* session, OrtIoBinding** out) {
  TRY(not_null({{"session", session}, {"out", out}}));
  *out = new OrtIoBinding{session, {}, {}};
  return {};
}

void release(OrtIoBinding* binding) { delete binding; }

Status bind_input(OrtIoBinding* binding, const char* name, const OrtValue* value) {
  TRY(not_null({{"binding_ptr", binding}, {"name", name}, {"val_ptr", value}}));
  const OrtSession& session = *binding->session;
  for (const auto* specs : {&inputs_of(session), &overridable_of(session)})
    for (const ValueSpec& spec : *specs)
      if (spec.name == name) {
        bind(binding->inputs, {name, value->value});
        return {};
      }
  return error(Code::fail, "the model has no input {}", quote(name));
}

Status bind_output(OrtIoBinding* binding, const char* name, const OrtValue* value) {
  TRY(not_null({{"binding_ptr", binding}, {"name", name}, {"val_ptr", value}}));
  bind(binding->outputs, {name, value->value});
  return {};
}

Status bind_output_to_device(OrtIoBinding* binding, const char* name, const OrtMemoryInfo* info) {
  TRY(not_null({{"binding_ptr", binding}, {"name", name}, {"mem_info_ptr", info}}));
  if (!is_host_memory(*info)) return invalid("results cannot be put into {} memory", quote(info->name));
  bind(binding->outputs, {name, {}, true});
  return {};
}

Status run_with_binding(OrtSession* session, const OrtRunOptions* options, const OrtIoBinding* binding) {
  TRY(not_null({{"session", session}, {"binding_ptr", binding}}));
  if (binding->session->session != session->session) return invalid("the binding was made for another session");
  if (binding->outputs.empty()) return invalid("no output is bound, wanted at least 1");
  std::vector<std::string_view> in_names, out_names;
  std::vector<Value> in, out;
  for (const Bound& b : binding->inputs) {
    in_names.push_back(b.name);
    in.push_back(b.value);
  }
  for (const Bound& b : binding->outputs) {
    out_names.push_back(b.name);
    out.push_back(b.to_run ? Value() : b.value);
  }
  TRY(run(*session, options, in_names, in, out_names, out));
  for (size_t i = 0; i < out.size(); ++i) binding->outputs[i].value = std::move(out[i]);
  return {};
}

// All names end to end, without zero bytes, and their lengths: two blocks of the client's allocator.
Status output_names(const OrtIoBinding* binding, OrtAllocator* allocator, char** text, size_t** lengths,
                    size_t* count) {
  TRY(not_null(
      {{"binding_ptr", binding}, {"allocator", allocator}, {"buffer", text}, {"lengths", lengths}, {"count", count}}));
  *text = nullptr;
  *lengths = nullptr;
  *count = 0;
  if (binding->outputs.empty()) return {};
  std::string all;
  for (const Bound& b : binding->outputs) all += b.name;
  TRY_ASSIGN(numbers, allocate_with(allocator, binding->outputs.size() * sizeof(size_t)));
  if (Status status = give_text(allocator, all, text); !status.ok()) {
    allocator->Free(allocator, numbers);
    return status;
  }
  *lengths = static_cast<size_t*>(numbers);
  for (const Bound& b : binding->outputs) (*lengths)[(*count)++] = b.name.size();
  return {};
}

// A list of the client's allocator; each value in it is released by the client.
Status output_values(const OrtIoBinding* binding, OrtAllocator* allocator, OrtValue*** out, size_t* count) {
  TRY(not_null({{"binding_ptr", binding}, {"allocator", allocator}, {"output", out}, {"output_count", count}}));
  *out = nullptr;
  *count = 0;
  if (binding->outputs.empty()) return {};
  std::vector<std::unique_ptr<OrtValue>> values;
  for (const Bound& b : binding->outputs) values.push_back(std::make_unique<OrtValue>(OrtValue{b.value}));
  TRY_ASSIGN(memory, allocate_with(allocator, values.size() * sizeof(OrtValue*)));
  *out = static_cast<OrtValue**>(memory);
  for (auto& v : values) (*out)[(*count)++] = v.release();
  return {};
}

void clear_inputs(OrtIoBinding* binding) noexcept {
  if (binding) binding->inputs.clear();
}
void clear_outputs(OrtIoBinding* binding) noexcept {
  if (binding) binding->outputs.clear();
}

// Everything is in host memory when a run returns.
Status synchronize(OrtIoBinding* binding) { return not_null({{"binding_ptr", binding}}); }

}  // namespace

void fill_binding(OrtApi& api) {
  api.CreateIoBinding = slot<create>;
  api.ReleaseIoBinding = release;
  api.BindInput = slot<bind_input>;
  api.BindOutput = slot<bind_output>;
  api.BindOutputToDevice = slot<bind_output_to_device>;
  api.RunWithBinding = slot<run_with_binding>;
  api.GetBoundOutputNames = slot<output_names>;
  api.GetBoundOutputValues = slot<output_values>;
  api.ClearBoundInputs = clear_inputs;
  api.ClearBoundOutputs = clear_outputs;
  api.SynchronizeBoundInputs = slot<synchronize>;
  api.SynchronizeBoundOutputs = slot<synchronize>;
}

}  // namespace tessera::capi
