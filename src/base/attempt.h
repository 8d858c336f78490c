// The one place where exceptions are caught.
#pragma once
#include "base/function_ref.h"

namespace tessera {

// Calls `fn`. If it throws, calls `failed` with what the exception says, or with null when memory ran out.
// Libraries link attempt.cc, or attempt_plain.cc, which catches nothing: those are compiled without exceptions, and a
// process that runs out of memory in them ends.
void attempt(FunctionRef<void()> fn, FunctionRef<void(const char* what)> failed);

}  // namespace tessera
