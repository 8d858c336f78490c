// In the place of profiling.cc where a library writes nothing.
#include "capi/profiling.h"

namespace tessera::capi {

Profiler::Profiler(const std::string&, int64_t start_ns) : start_ns_(start_ns) {}
Profiler::~Profiler() = default;
void Profiler::add(const Profile&, int64_t) {}
Result<std::string> Profiler::finish() {
  return not_implemented("this library is built without profiles; libtessera has them");
}

}  // namespace tessera::capi
