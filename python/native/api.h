// The tables of libtessera, and how its handles and errors look from Python. Everything below is called with the
// interpreter's lock held unless it says otherwise.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "tessera/c_api.h"
#include "tessera/extension.h"

namespace tessera::python {

namespace nb = nanobind;

// Of the library that has TesseraGetApi: another one of the process may offer the same name to everybody.
const OrtApiBase& api_base();
const OrtApi& api();
const TesseraApi& extension();
OrtEnv* environment();
OrtAllocator* allocator();

// Throws what the status says, as the Python exception of its code; does nothing for success. Takes the status.
void check(OrtStatus* status);

// Throws an error of a code, as check does.
[[noreturn]] void fail(OrtErrorCode code, std::string message);

// Takes text that was allocated with allocator().
std::string take_text(char* text);

// Makes errors of the library the exceptions that the package adds.
void add_errors(nb::module_& module);
void add_values(nb::module_& module);
void add_dlpack(nb::module_& module);
void add_options(nb::module_& module);
void add_sessions(nb::module_& module);

struct Release {
  void operator()(OrtSession* p) const { api().ReleaseSession(p); }
  void operator()(OrtSessionOptions* p) const { api().ReleaseSessionOptions(p); }
  void operator()(OrtRunOptions* p) const { api().ReleaseRunOptions(p); }
  void operator()(OrtIoBinding* p) const { api().ReleaseIoBinding(p); }
  void operator()(OrtValue* p) const { api().ReleaseValue(p); }
  void operator()(OrtLoraAdapter* p) const { api().ReleaseLoraAdapter(p); }
  void operator()(OrtTypeInfo* p) const { api().ReleaseTypeInfo(p); }
  void operator()(OrtModelMetadata* p) const { api().ReleaseModelMetadata(p); }
  void operator()(OrtMemoryInfo* p) const { api().ReleaseMemoryInfo(p); }
};
template <class T>
using Handle = std::unique_ptr<T, Release>;

const OrtMemoryInfo* cpu_memory();

// A value and what its memory belongs to. Offers the bytes of a tensor through the buffer protocol.
struct Value {
  Handle<OrtValue> handle;
  nb::object keeper;
};

struct SessionOptions {
  Handle<OrtSessionOptions> handle;
};

struct RunOptions {
  Handle<OrtRunOptions> handle;
};

// ("tensor", element type, dimensions), ("sequence", element), ("map", key type, value), ("optional", content) or
// (other kinds' number,). A dimension is a number, a name, or None; None for all of them where the rank is not known.
nb::tuple describe(const OrtTypeInfo* info);

}  // namespace tessera::python
