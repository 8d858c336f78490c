#include "runtime/context.h"

namespace tessera {

Result<std::shared_ptr<Bytes>> SlabPool::acquire(int64_t size) {
  {
    std::lock_guard lock(mutex_);
    for (size_t i = idle_.size(); i-- > 0;)
      if (idle_[i]->size() >= static_cast<size_t>(size)) {
        std::shared_ptr<Bytes> slab = std::move(idle_[i]);
        idle_.erase(idle_.begin() + static_cast<std::ptrdiff_t>(i));
        return slab;
      }
    // A slab that is too small for what is asked now is not worth keeping.
    if (!idle_.empty()) idle_.pop_back();
  }
  return allocate_bytes(static_cast<size_t>(size));
}

void SlabPool::release(std::shared_ptr<Bytes> slab) {
  std::lock_guard lock(mutex_);
  if (idle_.size() >= kMostIdle) idle_.erase(idle_.begin());
  idle_.push_back(std::move(slab));
}

void SlabPool::trim() {
  std::lock_guard lock(mutex_);
  idle_.clear();
}

int64_t SlabPool::idle_bytes() const {
  std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& s : idle_) sum += static_cast<int64_t>(s->size());
  return sum;
}

}  // namespace tessera
