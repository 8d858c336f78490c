#include "capi/guard.h"

#include "base/attempt.h"

namespace tessera::capi {

OrtStatus* guarded(FunctionRef<Status()> fn) noexcept {
  OrtStatus* out = nullptr;
  attempt([&] { out = to_ort(fn()); }, [&](const char* what) { out = status_of_exception(what); });
  return out;
}

Status not_null(std::initializer_list<NamedPointer> pointers) {
  for (const NamedPointer& p : pointers)
    if (!p.pointer) return invalid("{} must not be null", p.name);
  return {};
}

}  // namespace tessera::capi
