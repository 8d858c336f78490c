#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory_resource>

#include "api.h"
#include "interrupt.h"
#include "numpy.h"

namespace tessera::python {
namespace {

// An input or output of a model.
struct Argument {
  nb::object name;
  std::string text;
  nb::tuple type;
  bool is_tensor, is_required;
  int element;  // of a tensor whose type numpy lacks; else 0
};

// Used by any number of threads at once; the interpreter runs on while a model does. The handle is null once closed.
struct Session {
  std::shared_ptr<OrtSession> handle;
  nb::object model;              // bytes that the session reads in place
  std::vector<Argument> inputs;  // the overridable initializers last
  std::vector<Argument> outputs;
  size_t required = 0;  // inputs that every run needs

  OrtSession* get() const {
    if (!handle) fail(ORT_FAIL, "the session is closed");
    return handle.get();
  }
  // For work during which the session may be closed.
  std::shared_ptr<OrtSession> share() const {
    get();
    return handle;
  }
};

// Python functions that convert what is no plain array: from_python(data, type) and to_python(value).
nb::object* from_python;
nb::object* to_python;

void set_conversions(nb::object from, nb::object to) {
  delete from_python;
  delete to_python;
  from_python = new nb::object(std::move(from));
  to_python = new nb::object(std::move(to));
}

struct Binding {
  std::shared_ptr<OrtSession> session;
  Handle<OrtIoBinding> handle;
};

using Count = OrtStatusPtr (*)(const OrtSession*, size_t*);
using Name = OrtStatusPtr (*)(const OrtSession*, size_t, OrtAllocator*, char**);
using Type = OrtStatusPtr (*)(const OrtSession*, size_t, OrtTypeInfo**);

std::vector<Argument> arguments(const OrtSession* session, Count count_of, Name name_of, Type type_of) {
  size_t count = 0;
  check(count_of(session, &count));
  std::vector<Argument> out;
  for (size_t i = 0; i < count; ++i) {
    char* name = nullptr;
    check(name_of(session, i, allocator(), &name));
    const std::string text = take_text(name);
    OrtTypeInfo* made = nullptr;
    check(type_of(session, i, &made));
    const Handle<OrtTypeInfo> info(made);
    Argument a{nb::str(text.c_str(), text.size()), text, describe(made), false, false, 0};
    a.is_tensor = PyUnicode_CompareWithASCIIString(a.type[0].ptr(), "tensor") == 0;
    a.is_required = PyUnicode_CompareWithASCIIString(a.type[0].ptr(), "optional") != 0;
    if (a.is_tensor) a.element = nb::cast<int>(a.type[1]);
    if (a.element < ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16) a.element = 0;
    out.push_back(std::move(a));
  }
  return out;
}

Session described(OrtSession* made, nb::object model) {
  Session s{std::shared_ptr<OrtSession>(made, Release()), std::move(model), {}, {}, 0};
  s.inputs = arguments(made, api().SessionGetInputCount, api().SessionGetInputName, api().SessionGetInputTypeInfo);
  for (const Argument& a : s.inputs) s.required += a.is_required;
  for (Argument& a :
       arguments(made, api().SessionGetOverridableInitializerCount, api().SessionGetOverridableInitializerName,
                 api().SessionGetOverridableInitializerTypeInfo)) {
    a.is_required = false;
    s.inputs.push_back(std::move(a));
  }
  s.outputs = arguments(made, api().SessionGetOutputCount, api().SessionGetOutputName, api().SessionGetOutputTypeInfo);
  return s;
}

Stop stop_of_load(OrtSessionOptions* options) {
  return {[](void* o) {
            api().ReleaseStatus(api().SessionOptionsSetLoadCancellationFlag(static_cast<OrtSessionOptions*>(o), true));
          },
          [](void* o) {
            api().ReleaseStatus(api().SessionOptionsSetLoadCancellationFlag(static_cast<OrtSessionOptions*>(o), false));
          },
          options};
}

Session open_file(const std::string& path, const SessionOptions& options) {
  OrtEnv* const env = environment();
  OrtSession* made = nullptr;
  do_stoppable(stop_of_load(options.handle.get()), 0,
               [&] { return api().CreateSession(env, path.c_str(), options.handle.get(), &made); });
  return described(made, {});
}

Session open_bytes(nb::bytes model, const SessionOptions& options) {
  OrtEnv* const env = environment();
  OrtSession* made = nullptr;
  const char* const data = model.c_str();
  const size_t size = model.size();
  do_stoppable(stop_of_load(options.handle.get()), 0,
               [&] { return api().CreateSessionFromArray(env, data, size, options.handle.get(), &made); });
  return described(made, std::move(model));
}

// The options of a run: those given; else, where something may stop the run, some of its own.
struct Options {
  Options(nb::handle given, double timeout) {
    static OrtRunOptions* const of_main_thread = make();
    if (!given.is_none()) {
      used = nb::cast<const RunOptions&>(given).handle.get();
    } else if (hears_signals()) {
      used = of_main_thread;
    } else if (timeout > 0) {
      own.reset(make());
      used = own.get();
    }
  }
  static OrtRunOptions* make() {
    OrtRunOptions* made = nullptr;
    check(api().CreateRunOptions(&made));
    return made;
  }
  OrtRunOptions* used = nullptr;
  Handle<OrtRunOptions> own;
};

// Memory for the lists of one run; a small run needs no other.
struct Scratch {
  std::byte room[2048];
  std::pmr::monotonic_buffer_resource pool{room, sizeof room};
};
template <class T>
using List = std::pmr::vector<T>;

// What goes into a run, and what keeps it alive.
struct Feed {
  Feed(Scratch& scratch, size_t count)
      : names(&scratch.pool), values(&scratch.pool), owned(&scratch.pool), kept(&scratch.pool) {
    names.reserve(count);
    values.reserve(count);
    owned.reserve(count);
    kept.reserve(count);
  }
  List<const char*> names;
  List<const OrtValue*> values;
  List<Handle<OrtValue>> owned;
  List<nb::object> kept;
};

size_t find(const std::vector<Argument>& arguments, nb::handle name, size_t first) {
  const size_t count = arguments.size();
  for (size_t k = 0, i = first; k < count; ++k, i = i + 1 < count ? i + 1 : 0)
    if (arguments[i].name.ptr() == name.ptr()) return i;
  for (size_t i = 0; i < count; ++i)
    if (PyUnicode_Check(name.ptr()) && PyUnicode_Compare(arguments[i].name.ptr(), name.ptr()) == 0) return i;
  return count;
}

void add_input(Feed& feed, const Argument& argument, nb::handle data) {
  feed.names.push_back(argument.text.c_str());
  if (argument.is_tensor) {
    if (Handle<OrtValue> tensor = tensor_over(data, argument.element)) {
      feed.values.push_back(tensor.get());
      feed.owned.push_back(std::move(tensor));
      feed.kept.push_back(nb::borrow(data));
      return;
    }
  }
  nb::object converted = (*from_python)(data, argument.type);
  feed.values.push_back(nb::cast<const Value&>(converted).handle.get());
  feed.kept.push_back(std::move(converted));
}

[[noreturn]] void refuse_missing(const Session& session, const nb::dict& given) {
  nb::list missing;
  for (const Argument& a : session.inputs)
    if (a.is_required && !given.contains(a.name)) missing.append(a.name);
  const std::string text = nb::cast<std::string>(
      nb::str("Required inputs ({}) are missing from input feed ({}).").attr("format")(missing, given.keys()));
  throw nb::value_error(text.c_str());
}

Feed feed_of(const Session& session, const nb::dict& given, Scratch& scratch) {
  const size_t count = given.size();
  Feed feed(scratch, count);
  PyObject *key = nullptr, *data = nullptr;
  Py_ssize_t position = 0;
  size_t next = 0, required = 0;
  List<std::pair<size_t, nb::object>> found(&scratch.pool);  // a conversion may run code that changes the dict
  found.reserve(count);
  while (PyDict_Next(given.ptr(), &position, &key, &data)) {
    const size_t i = find(session.inputs, key, next);
    if (i == session.inputs.size())
      fail(ORT_INVALID_ARGUMENT, "Invalid input name: " + nb::cast<std::string>(nb::str(nb::handle(key))));
    next = i + 1 < session.inputs.size() ? i + 1 : 0;
    required += session.inputs[i].is_required;
    found.emplace_back(i, nb::borrow(data));
  }
  if (required < session.required) refuse_missing(session, given);
  for (const auto& [i, object] : found) {
    const Argument& a = session.inputs[i];
    if (!object.is_none() || a.is_required) add_input(feed, a, object);
  }
  return feed;
}

// Null-terminated names of the outputs wanted; all where `names` is None or empty. `names` keeps them alive.
List<const char*> wanted_outputs(const Session& session, nb::handle names, Scratch& scratch) {
  List<const char*> out(&scratch.pool);
  out.reserve(session.outputs.size());
  if (!names.is_none())
    for (nb::handle name : names) {
      const char* const text = PyUnicode_AsUTF8AndSize(name.ptr(), nullptr);
      if (!text) throw nb::python_error();
      if (find(session.outputs, name, 0) == session.outputs.size())
        fail(ORT_INVALID_ARGUMENT, std::string("Invalid output name:") + text);
      out.push_back(text);
    }
  if (out.empty())
    for (const Argument& a : session.outputs) out.push_back(a.text.c_str());
  return out;
}

// `times`, where not null, gets text of the library about how long every step took.
List<Handle<OrtValue>> run_values(const Session& session, nb::handle output_names, const nb::dict& given,
                                  nb::handle options, double timeout, Scratch& scratch, char** times = nullptr) {
  const std::shared_ptr<OrtSession> handle = session.share();
  const Feed feed = feed_of(session, given, scratch);
  const List<const char*> names = wanted_outputs(session, output_names, scratch);
  const Options run(options, timeout);
  List<Handle<OrtValue>> results(names.size(), &scratch.pool);
  List<OrtValue*> made(names.size(), nullptr, &scratch.pool);
  const auto work = [&]() -> OrtStatus* {
    OrtStatus* const status =
        times ? extension().RunTimed(handle.get(), run.used, feed.names.data(), feed.values.data(), feed.names.size(),
                                     names.data(), names.size(), made.data(), allocator(), times)
              : api().Run(handle.get(), run.used, feed.names.data(), feed.values.data(), feed.names.size(),
                          names.data(), names.size(), made.data());
    for (size_t i = 0; i < made.size(); ++i) results[i].reset(std::exchange(made[i], nullptr));
    return status;
  };
  do_stoppable(stop_of(run.used), timeout, std::ref(work));
  return results;
}

nb::object python_of(Handle<OrtValue>& value) {
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  check(api().GetValueType(value.get(), &kind));
  if (kind == ONNX_TYPE_TENSOR) {
    int has = 0;
    check(api().HasValue(value.get(), &has));
    if (!has) return nb::none();
    if (nb::object array = array_over(value); array.is_valid()) return array;
  }
  return (*to_python)(nb::cast(Value{std::move(value), {}}));
}

nb::list run(const Session& session, nb::object output_names, nb::dict feed, nb::object options, double timeout) {
  Scratch scratch;
  nb::list out;
  for (Handle<OrtValue>& result : run_values(session, output_names, feed, options, timeout, scratch))
    out.append(python_of(result));
  return out;
}

nb::list run_to_values(const Session& session, nb::object output_names, nb::dict feed, nb::object options,
                       double timeout) {
  Scratch scratch;
  nb::list out;
  for (Handle<OrtValue>& result : run_values(session, output_names, feed, options, timeout, scratch))
    out.append(nb::cast(Value{std::move(result), {}}));
  return out;
}

// The times of a run, as the library tells them.
nb::bytes run_timed(const Session& session, nb::dict feed) {
  Scratch scratch;
  char* times = nullptr;
  (void)run_values(session, nb::none(), feed, nb::none(), 0, scratch, &times);
  const std::string out = take_text(times);
  return nb::bytes(out.data(), out.size());
}

// Names and types, as describe() gives them.
nb::list listed(const std::vector<Argument>& arguments, size_t first, size_t last) {
  nb::list out;
  for (size_t i = first; i < last; ++i) out.append(nb::make_tuple(arguments[i].name, arguments[i].type));
  return out;
}

size_t input_count(const Session& s) {
  size_t count = 0;
  check(api().SessionGetInputCount(s.get(), &count));
  return count;
}

nb::list inputs(const Session& s) { return listed(s.inputs, 0, input_count(s)); }

nb::list outputs(const Session& s) { return listed(s.outputs, 0, s.outputs.size()); }

nb::list overridable_initializers(const Session& s) { return listed(s.inputs, input_count(s), s.inputs.size()); }

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
  check(api().SessionGetModelMetadata(session.get(), &made));
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
  check(extension().SessionGetMemory(session.get(), &m));
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
  check(extension().SessionExplain(session.get(), allocator(), &text));
  return take_text(text);
}

nb::bytes nodes(const Session& session) {
  char* text = nullptr;
  check(extension().SessionGetNodes(session.get(), allocator(), &text));
  const std::string out = take_text(text);
  return nb::bytes(out.data(), out.size());
}

std::string end_profiling(Session& session) {
  char* path = nullptr;
  check(api().SessionEndProfiling(session.get(), allocator(), &path));
  return take_text(path);
}

uint64_t profiling_start(const Session& session) {
  uint64_t start = 0;
  check(api().SessionGetProfilingStartTimeNs(session.get(), &start));
  return start;
}

Binding bind(Session& session) {
  OrtIoBinding* made = nullptr;
  check(api().CreateIoBinding(session.get(), &made));
  return {session.share(), Handle<OrtIoBinding>(made)};
}

void run_binding(const Session& session, const Binding& binding, nb::object options, double timeout) {
  const std::shared_ptr<OrtSession> handle = session.share();
  const Options run(options, timeout);
  do_stoppable(stop_of(run.used), timeout,
               [&] { return api().RunWithBinding(handle.get(), run.used, binding.handle.get()); });
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
      .def("run", run, nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg())
      .def("run_to_values", run_to_values, nb::arg().none(), nb::arg(), nb::arg().none(), nb::arg())
      .def("run_timed", run_timed)
      .def("nodes", nodes)
      .def("close", [](Session& s) { s.handle.reset(); })
      .def("is_open", [](const Session& s) { return s.handle != nullptr; })
      .def("inputs", inputs)
      .def("outputs", outputs)
      .def("overridable_initializers", overridable_initializers)
      .def("metadata", metadata)
      .def("memory", memory)
      .def("explain", explain)
      .def("end_profiling", end_profiling)
      .def("profiling_start", profiling_start)
      .def("bind", bind, nb::keep_alive<0, 1>())
      .def("run_binding", run_binding, nb::arg(), nb::arg().none(), nb::arg());
  module.def("set_conversions", set_conversions);
  module.def("watch_signals", watch_signals);
  module.def("add_element_type", add_element_type);
}

}  // namespace tessera::python
