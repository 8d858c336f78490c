#include "base/thread_pool.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/workers.h"

namespace tessera {
namespace {

// How long a worker looks for the next job before it sleeps, and the caller for the last chunk.
constexpr auto kSpin = std::chrono::microseconds(50);
constexpr int kMostThreads = 256;

inline void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

thread_local bool inside_chunk = false;
thread_local const std::atomic<bool>* stop = nullptr;  // of the innermost StopScope

class Pool {
 public:
  static Pool& instance() {
    // Leaked: workers may outlive static destruction.
    static Pool* const pool = [] {
      auto* p = new Pool;
      pthread_atfork(nullptr, nullptr, [] { instance().after_fork(); });
      return p;
    }();
    return *pool;
  }

  void run(int threads, int64_t chunks, ChunkFn fn) {
    threads = static_cast<int>(std::min<int64_t>({threads, chunks, kMostThreads}));
    if (threads <= 1 || inside_chunk || !job_mutex_.try_lock()) return run_serially(chunks, fn);
    ensure_workers(threads - 1);
    fn_ = &fn;
    chunks_ = chunks;
    lanes_ = threads;
    next_.store(0, std::memory_order_relaxed);
    next_lane_.store(1, std::memory_order_relaxed);
    {
      std::lock_guard lock(sleep_mutex_);
      active_ = 0;
      open_ = true;
      generation_.fetch_add(1, std::memory_order_release);
    }
    if (sleeping_.load(std::memory_order_acquire) > 0) wake_.notify_all();
    work(0);
    // Close the job so that no further worker joins it, then wait for those inside.
    std::unique_lock lock(sleep_mutex_);
    open_ = false;
    done_.wait(lock, [&] { return active_ == 0; });
    fn_ = nullptr;
    lock.unlock();
    job_mutex_.unlock();
  }

 private:
  void run_serially(int64_t chunks, ChunkFn fn) {
    for (int64_t i = 0; i < chunks; ++i) fn(i, 0);
  }

  void ensure_workers(int count) {
    for (; workers_ < count; ++workers_) {
      pthread_t thread;
      if (pthread_create(&thread, nullptr, start_worker, this)) return;  // the caller does the work alone
      pthread_detach(thread);
    }
  }
  static void* start_worker(void* pool) {
    static_cast<Pool*>(pool)->worker();
    return nullptr;
  }

  void work(int lane) {
    inside_chunk = true;
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < chunks_;) (*fn_)(i, lane);
    inside_chunk = false;
  }

  void worker() {
    uint64_t seen = 0;
    for (;;) {
      const auto give_up = std::chrono::steady_clock::now() + kSpin;
      while (generation_.load(std::memory_order_acquire) == seen && std::chrono::steady_clock::now() < give_up) pause();
      std::unique_lock lock(sleep_mutex_);
      ++sleeping_;
      wake_.wait(lock, [&] { return generation_.load(std::memory_order_relaxed) != seen; });
      --sleeping_;
      seen = generation_.load(std::memory_order_relaxed);
      if (!open_) continue;
      const int lane = next_lane_.fetch_add(1, std::memory_order_relaxed);
      if (lane >= lanes_) continue;
      ++active_;
      lock.unlock();
      work(lane);
      lock.lock();
      if (--active_ == 0) done_.notify_one();
    }
  }

  // Only the forking thread exists in the child: start over with no workers and fresh locks.
  void after_fork() { new (this) Pool; }

  std::mutex job_mutex_;  // held by the caller whose job is running
  int workers_ = 0;
  const ChunkFn* fn_ = nullptr;
  int64_t chunks_ = 0;
  int lanes_ = 0;
  alignas(64) std::atomic<int64_t> next_{0};
  alignas(64) std::atomic<int> next_lane_{0};
  alignas(64) std::atomic<uint64_t> generation_{0};
  std::atomic<int> sleeping_{0};
  std::mutex sleep_mutex_;
  std::condition_variable wake_, done_;
  int active_ = 0;     // guarded by sleep_mutex_
  bool open_ = false;  // guarded by sleep_mutex_
};

}  // namespace

StopScope::StopScope(const std::atomic<bool>* flag) : outer_(stop) { stop = flag; }
StopScope::~StopScope() { stop = outer_; }

void parallel_for(int threads, int64_t chunks, ChunkFn fn) {
  if (stop) {
    const std::atomic<bool>& flag = *stop;
    const StopScope looked_at(nullptr);
    return parallel_for(threads, chunks, [&](int64_t i, int lane) {
      if (!flag.load(std::memory_order_relaxed)) fn(i, lane);
    });
  }
  if (threads <= 1 || chunks <= 1) {
    for (int64_t i = 0; i < chunks; ++i) fn(i, 0);
    return;
  }
  Pool::instance().run(threads, chunks, fn);
}

}  // namespace tessera
