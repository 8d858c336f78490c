// Who works on a job that can be given up: some threads, until a flag is set.
#pragma once
#include <atomic>

namespace tessera {

struct Workers {
  Workers(int count = 1, const std::atomic<bool>* stop = nullptr) : threads(count), cancel(stop) {}

  int threads;
  const std::atomic<bool>* cancel;  // may be null

  bool cancelled() const { return cancel && cancel->load(std::memory_order_relaxed); }
};

// While it lives, parallel_for called by this thread leaves out chunks that have not begun when the flag is set.
// Whoever wants the result of such a job looks at the flag afterwards. The flag may be null.
class StopScope {
 public:
  explicit StopScope(const std::atomic<bool>* flag);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  const std::atomic<bool>* outer_;
};

}  // namespace tessera
