// tessera._native: the C ABI as Python objects, without policy; the package beside it gives them their shape.
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "api.h"
#include "numpy.h"

namespace tessera::python {
namespace {

std::vector<std::string> providers() {
  char** names = nullptr;
  int count = 0;
  check(api().GetAvailableProviders(&names, &count));
  std::vector<std::string> out(names, names + count);
  check(api().ReleaseAvailableProviders(names, count));
  return out;
}

void set_log_severity(int level) {
  check(api().UpdateEnvWithCustomLogLevel(environment(), static_cast<OrtLoggingLevel>(level)));
}

}  // namespace
}  // namespace tessera::python

NB_MODULE(_native, module) {
  using namespace tessera::python;
  nb::set_leak_warnings(false);  // objects of a program that ends are released by its end
  import_numpy();
  add_errors(module);
  add_values(module);
  add_dlpack(module);
  add_options(module);
  add_sessions(module);
  module.def("providers", providers);
  module.def("set_log_severity", set_log_severity);
  module.def("version", [] { return std::string(api_base().GetVersionString()); });
  module.def("build_info", [] { return std::string(api().GetBuildInfoString()); });
}
