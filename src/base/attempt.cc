#include "base/attempt.h"

#include <exception>
#include <new>

namespace tessera {

void attempt(FunctionRef<void()> fn, FunctionRef<void(const char* what)> failed) {
  try {
    fn();
  } catch (const std::bad_alloc&) {
    failed(nullptr);
  } catch (const std::exception& e) {
    failed(e.what());
  } catch (...) {
    failed("an exception of unknown type");
  }
}

}  // namespace tessera
