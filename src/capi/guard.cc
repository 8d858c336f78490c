#include "capi/guard.h"

namespace tessera::capi {

Status not_null(std::initializer_list<NamedPointer> pointers) {
  for (const NamedPointer& p : pointers)
    if (!p.pointer) return invalid("{} must not be null", p.name);
  return {};
}

}  // namespace tessera::capi
