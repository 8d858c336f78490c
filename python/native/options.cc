#include <nanobind/stl/string.h>

#include "api.h"

namespace tessera::python {
namespace {

struct LoraAdapter {
  Handle<OrtLoraAdapter> handle;
};

SessionOptions make_session_options() {
  OrtSessionOptions* made = nullptr;
  check(api().CreateSessionOptions(&made));
  return {Handle<OrtSessionOptions>(made)};
}

SessionOptions clone(const SessionOptions& from) {
  OrtSessionOptions* made = nullptr;
  check(api().CloneSessionOptions(from.handle.get(), &made));
  return {Handle<OrtSessionOptions>(made)};
}

void set_graph_optimization(SessionOptions& o, int level) {
  check(api().SetSessionGraphOptimizationLevel(o.handle.get(), static_cast<GraphOptimizationLevel>(level)));
}

void set_execution_mode(SessionOptions& o, int mode) {
  check(api().SetSessionExecutionMode(o.handle.get(), static_cast<ExecutionMode>(mode)));
}

void set_threads(SessionOptions& o, int intra_op, int inter_op) {
  check(api().SetIntraOpNumThreads(o.handle.get(), intra_op));
  check(api().SetInterOpNumThreads(o.handle.get(), inter_op));
}

void set_memory(SessionOptions& o, bool arena, bool pattern) {
  check(arena ? api().EnableCpuMemArena(o.handle.get()) : api().DisableCpuMemArena(o.handle.get()));
  check(pattern ? api().EnableMemPattern(o.handle.get()) : api().DisableMemPattern(o.handle.get()));
}

void set_logging(SessionOptions& o, const std::string& id, int severity, int verbosity) {
  check(api().SetSessionLogId(o.handle.get(), id.c_str()));
  if (severity >= 0) check(api().SetSessionLogSeverityLevel(o.handle.get(), severity));
  check(api().SetSessionLogVerbosityLevel(o.handle.get(), verbosity));
}

void set_deterministic(SessionOptions& o, bool value) { check(api().SetDeterministicCompute(o.handle.get(), value)); }

void set_optimized_path(SessionOptions& o, const std::string& path) {
  check(api().SetOptimizedModelFilePath(o.handle.get(), path.c_str()));
}

void enable_profiling(SessionOptions& o, const std::string& prefix) {
  check(api().EnableProfiling(o.handle.get(), prefix.c_str()));
}

void add_config(SessionOptions& o, const std::string& key, const std::string& value) {
  check(api().AddSessionConfigEntry(o.handle.get(), key.c_str(), value.c_str()));
}

// None where there is no such entry.
nb::object get_config(const SessionOptions& o, const std::string& key) {
  int has = 0;
  check(api().HasSessionConfigEntry(o.handle.get(), key.c_str(), &has));
  if (!has) return nb::none();
  size_t size = 0;
  check(api().GetSessionConfigEntry(o.handle.get(), key.c_str(), nullptr, &size));
  std::string value(size, '\0');
  check(api().GetSessionConfigEntry(o.handle.get(), key.c_str(), value.data(), &size));
  return nb::str(value.c_str());
}

void fix_dimension(SessionOptions& o, const std::string& name, int64_t size) {
  check(api().AddFreeDimensionOverrideByName(o.handle.get(), name.c_str(), size));
}

void fix_denoted_dimension(SessionOptions& o, const std::string& denotation, int64_t size) {
  check(api().AddFreeDimensionOverride(o.handle.get(), denotation.c_str(), size));
}

void add_initializer(SessionOptions& o, const std::string& name, const Value& value) {
  check(api().AddInitializer(o.handle.get(), name.c_str(), value.handle.get()));
}

void add_external_initializers(SessionOptions& o, nb::list names, nb::list values) {
  std::vector<std::string> texts;
  std::vector<const char*> name_pointers;
  std::vector<const OrtValue*> handles;
  for (nb::handle name : names) texts.push_back(nb::cast<std::string>(name));
  for (const std::string& text : texts) name_pointers.push_back(text.c_str());
  for (nb::handle value : values) handles.push_back(nb::cast<const Value&>(value).handle.get());
  if (handles.size() != texts.size()) throw nb::value_error("as many values as names");
  check(api().AddExternalInitializers(o.handle.get(), name_pointers.data(), handles.data(), handles.size()));
}

// `file` stays in use, unchanged, until the options and the sessions made with them are gone.
void add_external_file(SessionOptions& o, const std::string& name, nb::bytes file, size_t size) {
  if (size > file.size()) throw nb::value_error("the length is greater than the buffer");
  const auto release = [](void* held) {
    if (!Py_IsInitialized()) return;
    const nb::gil_scoped_acquire lock;
    Py_DECREF(static_cast<PyObject*>(held));
  };
  check(extension().AddExternalFile(o.handle.get(), name.c_str(), file.c_str(), size, release, file.ptr()));
  file.inc_ref();
}

void set_load_cancellation(SessionOptions& o, bool cancel) {
  check(api().SessionOptionsSetLoadCancellationFlag(o.handle.get(), cancel));
}

void register_library(SessionOptions& o, const std::string& path) {
  check(api().RegisterCustomOpsLibrary_V2(o.handle.get(), path.c_str()));
}

RunOptions make_run_options() {
  OrtRunOptions* made = nullptr;
  check(api().CreateRunOptions(&made));
  return {Handle<OrtRunOptions>(made)};
}

void set_terminate(RunOptions& o, bool value) {
  check(value ? api().RunOptionsSetTerminate(o.handle.get()) : api().RunOptionsUnsetTerminate(o.handle.get()));
}

void set_tag(RunOptions& o, const std::string& tag) { check(api().RunOptionsSetRunTag(o.handle.get(), tag.c_str())); }

void set_severity(RunOptions& o, int level) { check(api().RunOptionsSetRunLogSeverityLevel(o.handle.get(), level)); }

void set_verbosity(RunOptions& o, int level) { check(api().RunOptionsSetRunLogVerbosityLevel(o.handle.get(), level)); }

void add_run_config(RunOptions& o, const std::string& key, const std::string& value) {
  check(api().AddRunConfigEntry(o.handle.get(), key.c_str(), value.c_str()));
}

nb::object get_run_config(const RunOptions& o, const std::string& key) {
  const char* value = api().GetRunConfigEntry(o.handle.get(), key.c_str());
  if (!value) return nb::none();
  return nb::str(value);
}

LoraAdapter load_adapter(const std::string& path) {
  OrtLoraAdapter* made = nullptr;
  check(api().CreateLoraAdapter(path.c_str(), allocator(), &made));
  return {Handle<OrtLoraAdapter>(made)};
}

void add_adapter(RunOptions& o, const LoraAdapter& adapter) {
  check(api().RunOptionsAddActiveLoraAdapter(o.handle.get(), adapter.handle.get()));
}

}  // namespace

void add_options(nb::module_& module) {
  nb::class_<SessionOptions>(module, "SessionOptions")
      .def_static("make", make_session_options)
      .def("clone", clone)
      .def("set_graph_optimization", set_graph_optimization)
      .def("set_execution_mode", set_execution_mode)
      .def("set_threads", set_threads)
      .def("set_memory", set_memory)
      .def("set_logging", set_logging)
      .def("set_deterministic", set_deterministic)
      .def("set_optimized_path", set_optimized_path)
      .def("enable_profiling", enable_profiling)
      .def("add_config", add_config)
      .def("get_config", get_config)
      .def("fix_dimension", fix_dimension)
      .def("fix_denoted_dimension", fix_denoted_dimension)
      .def("add_initializer", add_initializer)
      .def("add_external_initializers", add_external_initializers)
      .def("add_external_file", add_external_file)
      .def("set_load_cancellation", set_load_cancellation)
      .def("register_library", register_library);
  nb::class_<LoraAdapter>(module, "LoraAdapter").def_static("load", load_adapter);
  nb::class_<RunOptions>(module, "RunOptions")
      .def_static("make", make_run_options)
      .def("add_adapter", add_adapter)
      .def("set_terminate", set_terminate)
      .def("set_tag", set_tag)
      .def("set_severity", set_severity)
      .def("set_verbosity", set_verbosity)
      .def("add_config", add_run_config)
      .def("get_config", get_run_config);
}

}  // namespace tessera::python
