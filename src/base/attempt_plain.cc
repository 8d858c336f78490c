#include "base/attempt.h"

namespace tessera {

void attempt(FunctionRef<void()> fn, FunctionRef<void(const char* what)>) { fn(); }

}  // namespace tessera
