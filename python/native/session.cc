#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api.h"

namespace tessera::python {
namespace {

// Used by any number of threads at once; the interpreter runs on while a model does.
struct Session {
  Handle<OrtSession> handle;
  nb::object model;  // bytes that the session reads in place
};

struct Binding {
  Handle<OrtIoBinding> handle;
};

Session open_file(const std::string& path, const SessionOptions& options) {
  OrtEnv* const env = environment();
  OrtSession* made = nullptr;
  OrtStatus* status = nullptr;
  {
    const nb::gil_scoped_release unlocked;
    status = api().CreateSession(env, path.c_str(), options.handle.get(), &made);
  }
  check(status);
  return {Handle<OrtSession>(made), {}};
}

Session open_bytes(nb::bytes model, const SessionOptions& options) {
  OrtEnv* const env = environment();
  OrtSession* made = nullptr;
  OrtStatus* status = nullptr;
  const char* const data = model.c_str();
  const size_t size = model.size();
  {
    const nb::gil_scoped_release unlocked;
    status = api().CreateSessionFromArray(env, data, size, options.handle.get(), &made);
  }
  check(status);
  return {Handle<OrtSession>(made), std::move(model)};
}

const OrtRunOptions* options_of(nb::handle options) {
  return options.is_none() ? nullptr : nb::cast<const RunOptions&>(options).handle.get();
}

// UTF-8 of strings that `names` keeps alive.
std::vector<const char*> pointers(const nb::list& names) {
  std::vector<const char*> out;
  out.reserve(names.size());
  for (nb::handle name : names) {
    const char* text = PyUnicode_AsUTF8AndSize(name.ptr(), nullptr);
    if (!text) throw nb::python_error();
    out.push_back(text);
  }
  return out;
}

nb::list run(Session& session, nb::list input_names, nb::list inputs, nb::list output_names, nb::object options) {
  const std::vector<const char*> in = pointers(input_names);
  const std::vector<const char*> out = pointers(output_names);
  std::vector<const OrtValue*> values;
  for (nb::handle input : inputs) values.push_back(nb::cast<const Value&>(input).handle.get());
  if (values.size() != in.size()) throw nb::value_error("as many inputs as names");
  std::vector<OrtValue*> results(out.size(), nullptr);
  const OrtRunOptions* const run_options = options_of(options);
  OrtStatus* status = nullptr;
  {
    const nb::gil_scoped_release unlocked;
    status = api().Run(session.handle.get(), run_options, in.data(), values.data(), in.size(), out.data(), out.size(),
                       results.data());
  }
  std::vector<Handle<OrtValue>> owned;
  for (OrtValue* result : results) owned.emplace_back(result);
  check(status);
  nb::list list;
  for (Handle<OrtValue>& result : owned) list.append(nb::cast(Value{std::move(result), {}}));
  return list;
}

using Count = OrtStatusPtr (*)(const OrtSession*, size_t*);
using Name = OrtStatusPtr (*)(const OrtSession*, size_t, OrtAllocator*, char**);
using Type = OrtStatusPtr (*)(const OrtSession*, size_t, OrtTypeInfo**);

// Names and types, as describe() gives them.
nb::list arguments(const Session& session, Count count_of, Name name_of, Type type_of) {
  size_t count = 0;
  check(count_of(session.handle.get(), &count));
  nb::list out;
  for (size_t i = 0; i < count; ++i) {
    char* name = nullptr;
    check(name_of(session.handle.get(), i, allocator(), &name));
    const std::string text = take_text(name);
    OrtTypeInfo* made = nullptr;
    check(type_of(session.handle.get(), i, &made));
    const Handle<OrtTypeInfo> info(made);
    out.append(nb::make_tuple(text, describe(made)));
  }
  return out;
}

nb::list inputs(const Session& s) {
  return arguments(s, api().SessionGetInputCount, api().SessionGetInputName, api().SessionGetInputTypeInfo);
}

nb::list outputs(const Session& s) {
  return arguments(s, api().SessionGetOutputCount, api().SessionGetOutputName, api().SessionGetOutputTypeInfo);
}

nb::list overridable_initializers(const Session& s) {
  return arguments(s, api().SessionGetOverridableInitializerCount, api().SessionGetOverridableInitializerName,
                   api().SessionGetOverridableInitializerTypeInfo);
}

using MetadataText = OrtStatusPtr (*)(const OrtModelMetadata*, OrtAllocator*, char**);

std::string text_of(const OrtModelMetadata* metadata, MetadataText get) {
  char* text = nullptr;
  check(get(metadata, allocator(), &text));
  return take_text(text);
}

nb::dict custom_metadata(const OrtModelMetadata* metadata) {
  char** keys = nullptr;
  int64_t count = 0;
  check(api().ModelMetadataGetCustomMetadataMapKeys(metadata, allocator(), &keys, &count));
  nb::dict out;
  for (int64_t i = 0; i < count; ++i) {
    const std::string key = take_text(keys[i]);
    char* value = nullptr;
    check(api().ModelMetadataLookupCustomMetadataMap(metadata, allocator(), key.c_str(), &value));
    out[key.c_str()] = take_text(value);
  }
  if (keys) check(api().AllocatorFree(allocator(), keys));
  return out;
}

nb::dict metadata(const Session& session) {
  OrtModelMetadata* made = nullptr;
  check(api().SessionGetModelMetadata(session.handle.get(), &made));
  const Handle<OrtModelMetadata> held(made);
  int64_t version = 0;
  check(api().ModelMetadataGetVersion(made, &version));
  nb::dict out;
  out["producer_name"] = text_of(made, api().ModelMetadataGetProducerName);
  out["graph_name"] = text_of(made, api().ModelMetadataGetGraphName);
  out["domain"] = text_of(made, api().ModelMetadataGetDomain);
  out["description"] = text_of(made, api().ModelMetadataGetDescription);
  out["graph_description"] = text_of(made, api().ModelMetadataGetGraphDescription);
  out["version"] = version;
  out["custom_metadata_map"] = custom_metadata(made);
  return out;
}

nb::dict memory(const Session& session) {
  TesseraMemory m{};
  m.size = sizeof m;
  check(extension().SessionGetMemory(session.handle.get(), &m));
  nb::dict out;
  out["weights"] = m.weights;
  out["mapped"] = m.mapped;
  out["copied"] = m.copied;
  out["packed"] = m.packed;
  out["planned_peak"] = m.planned_peak;
  out["slab"] = m.slab;
  out["idle"] = m.idle;
  return out;
}

std::string explain(const Session& session) {
  char* text = nullptr;
  check(extension().SessionExplain(session.handle.get(), allocator(), &text));
  return take_text(text);
}

std::string end_profiling(Session& session) {
  char* path = nullptr;
  check(api().SessionEndProfiling(session.handle.get(), allocator(), &path));
  return take_text(path);
}

uint64_t profiling_start(const Session& session) {
  uint64_t start = 0;
  check(api().SessionGetProfilingStartTimeNs(session.handle.get(), &start));
  return start;
}

Binding bind(Session& session) {
  OrtIoBinding* made = nullptr;
  check(api().CreateIoBinding(session.handle.get(), &made));
  return {Handle<OrtIoBinding>(made)};
}

void run_binding(Session& session, const Binding& binding, nb::object options) {
  const OrtRunOptions* const run_options = options_of(options);
  OrtStatus* status = nullptr;
  {
    const nb::gil_scoped_release unlocked;
    status = api().RunWithBinding(session.handle.get(), run_options, binding.handle.get());
  }
  check(status);
}

void bind_input(Binding& b, const std::string& name, const Value& value) {
  check(api().BindInput(b.handle.get(), name.c_str(), value.handle.get()));
}

void bind_output(Binding& b, const std::string& name, const Value& value) {
  check(api().BindOutput(b.handle.get(), name.c_str(), value.handle.get()));
}

// The library allocates the output when the model runs.
void leave_output(Binding& b, const std::string& name) {
  check(api().BindOutputToDevice(b.handle.get(), name.c_str(), cpu_memory()));
}

nb::list bound_outputs(const Binding& b) {
  OrtValue** values = nullptr;
  size_t count = 0;
  check(api().GetBoundOutputValues(b.handle.get(), allocator(), &values, &count));
  nb::list out;
  for (size_t i = 0; i < count; ++i) out.append(nb::cast(Value{Handle<OrtValue>(values[i]), {}}));
  if (values) check(api().AllocatorFree(allocator(), values));
  return out;
}

}  // namespace

void add_sessions(nb::module_& module) {
  nb::class_<Binding>(module, "Binding")
      .def("bind_input", bind_input)
      .def("bind_output", bind_output)
      .def("leave_output", leave_output)
      .def("outputs", bound_outputs)
      .def("clear_inputs", [](Binding& b) { api().ClearBoundInputs(b.handle.get()); })
      .def("clear_outputs", [](Binding& b) { api().ClearBoundOutputs(b.handle.get()); });
  nb::class_<Session>(module, "Session")
      .def_static("open_file", open_file)
      .def_static("open_bytes", open_bytes)
      .def("run", run, nb::arg(), nb::arg(), nb::arg(), nb::arg().none())
      .def("inputs", inputs)
      .def("outputs", outputs)
      .def("overridable_initializers", overridable_initializers)
      .def("metadata", metadata)
      .def("memory", memory)
      .def("explain", explain)
      .def("end_profiling", end_profiling)
      .def("profiling_start", profiling_start)
      .def("bind", bind, nb::keep_alive<0, 1>())
      .def("run_binding", run_binding, nb::arg(), nb::arg().none());
}

}  // namespace tessera::python
