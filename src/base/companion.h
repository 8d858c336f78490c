// Companion libraries: parts that stand on libraries of others, opened when they are first used.
#pragma once
#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/status.h"

namespace tessera {

// One companion: a file beside the library (or program) that contains this code, or in ../lib of that place, which
// exports one function, `const void* symbol(uint32_t version)`, that returns a table. Looked for nowhere else.
class Companion {
 public:
  constexpr Companion(const char* file, const char* symbol, uint32_t version, const char* packages)
      : file_(file), symbol_(symbol), version_(version), packages_(packages) {}
  Companion(const Companion&) = delete;
  Companion& operator=(const Companion&) = delete;

  // The table, never null; opens the library at the first call that succeeds and keeps it open. Any thread.
  Result<const void*> table();

 private:
  Result<const void*> open() const;

  const char *file_, *symbol_;
  uint32_t version_;
  const char* packages_;  // what it is built from, in Debian's names
  std::mutex mutex_;
  std::atomic<const void*> table_{nullptr};
};

}  // namespace tessera
