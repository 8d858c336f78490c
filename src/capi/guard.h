// The wall between the C ABI and the rest: what happens inside becomes an OrtStatus, nothing is thrown across.
#pragma once
#include <utility>

#include "capi/status.h"

namespace tessera::capi {

// Runs `fn`, which returns a Status, and gives the result to the client: null when ok. An exception, running out of
// memory included, becomes a status too.
//
//   OrtStatus* session_get_input_count(const OrtSession* session, size_t* out) noexcept {
//     return guarded([&]() -> Status { ... });
//   }
template <class F>
OrtStatus* guarded(F&& fn) noexcept {
  try {
    return to_ort(std::forward<F>(fn)());
  } catch (...) {
    return status_of_current_exception();
  }
}

}  // namespace tessera::capi
