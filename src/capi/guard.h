// The wall between the C ABI and the rest: what happens inside becomes an OrtStatus, nothing is thrown across.
#pragma once
#include <initializer_list>
#include <utility>

#include "base/function_ref.h"
#include "capi/status.h"

namespace tessera::capi {

// Runs `fn`, which returns a Status, and gives the result to the client: null when ok. An exception, running out of
// memory included, becomes a status too.
OrtStatus* guarded(FunctionRef<Status()> fn) noexcept;

template <auto F>
struct Guarded;
template <class... A, Status (*F)(A...)>
struct Guarded<F> {
  static OrtStatus* call(A... arguments) noexcept {
    return guarded([&] { return F(arguments...); });
  }
};

// The slot of a table for a function written as `Status f(arguments)`: api.SessionGetInputCount = slot<input_count>.
template <auto F>
inline constexpr auto slot = &Guarded<F>::call;

struct NamedPointer {
  const char* name;
  const void* pointer;
};

// An error that names the first null pointer of the list.
Status not_null(std::initializer_list<NamedPointer> pointers);

}  // namespace tessera::capi
