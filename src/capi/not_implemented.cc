#include "capi/not_implemented.h"

#include "capi/guard.h"

namespace tessera::capi {

OrtStatus* not_implemented_status(const char* table, const char* function) noexcept {
  return guarded([&] {
    return error(Code::not_implemented, "{}::{} is not available in this build; the call had no effect", table,
                 function);
  });
}

}  // namespace tessera::capi
