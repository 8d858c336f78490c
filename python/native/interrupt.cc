#include "interrupt.h"

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <mutex>
#include <thread>

namespace tessera::python {
namespace {

unsigned long main_thread_id;
struct sigaction python_handler;              // what Python itself set when the module was loaded
std::atomic<const Stop*> stoppable{nullptr};  // work of the thread that gets signals
std::atomic<bool> interrupted{false};
std::atomic<int> handlers{0};  // that run now, on whatever thread the system chose

void on_interrupt(int number, siginfo_t* info, void* context) {
  const int saved = errno;
  handlers.fetch_add(1);
  if (const Stop* stop = stoppable.load()) {
    interrupted.store(true);
    stop->ask(stop->work);
  }
  handlers.fetch_sub(1);
  if (python_handler.sa_flags & SA_SIGINFO)
    python_handler.sa_sigaction(number, info, context);
  else
    python_handler.sa_handler(number);
  errno = saved;
}

bool is_pythons(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) == (python_handler.sa_flags & SA_SIGINFO) &&
         action.sa_handler == python_handler.sa_handler;
}

// Puts on_interrupt before Python's own handler, and leaves every other one alone. Python sets its own again whenever a
// program names a handler, which is seldom: asking the system is left out if it was asked just before.
void install() {
  constexpr int64_t kSoon = 20'000'000;
  static int64_t asked_at = -kSoon;
  timespec time{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);
  const int64_t now_ns = time.tv_sec * int64_t{1'000'000'000} + time.tv_nsec;
  if (now_ns - asked_at < kSoon) return;
  asked_at = now_ns;
  struct sigaction now {};
  if (sigaction(SIGINT, nullptr, &now) || !is_pythons(now)) return;
  now.sa_flags |= SA_SIGINFO;
  now.sa_sigaction = on_interrupt;
  sigaction(SIGINT, &now, nullptr);
}

// While it lives, Ctrl-C asks the work of this thread to stop.
class SignalGuard {
 public:
  explicit SignalGuard(const Stop& stop) : active_(hears_signals() && !stoppable.load()) {
    if (!active_) return;
    install();
    stoppable.store(&stop);
  }
  ~SignalGuard() { end(); }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  // True if there was a Ctrl-C.
  bool end() {
    if (!active_) return false;
    active_ = false;
    stoppable.store(nullptr);
    while (handlers.load()) std::this_thread::yield();
    return interrupted.exchange(false);
  }

 private:
  bool active_;
};

// Asks the work to stop when the time is over, unless destroyed before.
class Deadline {
 public:
  Deadline(const Stop& stop, double seconds) {
    if (seconds <= 0) return;
    thread_ = std::thread([this, stop, seconds] {
      std::unique_lock lock(mutex_);
      if (changed_.wait_for(lock, std::chrono::duration<double>(seconds), [&] { return ended_; })) return;
      over_ = true;
      stop.ask(stop.work);
    });
  }
  ~Deadline() { end(); }
  Deadline(const Deadline&) = delete;
  Deadline& operator=(const Deadline&) = delete;

  // True if the time was over.
  bool end() {
    if (!thread_.joinable()) return over_;
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
    return over_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool ended_ = false, over_ = false;
  std::thread thread_;
};

}  // namespace

void watch_signals(unsigned long main_thread) {
  main_thread_id = main_thread;
  sigaction(SIGINT, nullptr, &python_handler);
  if (python_handler.sa_handler == SIG_DFL || python_handler.sa_handler == SIG_IGN) main_thread_id = 0;
}

bool hears_signals() { return main_thread_id && PyThread_get_thread_ident() == main_thread_id; }

Stop stop_of(OrtRunOptions* options) {
  return {[](void* o) { api().ReleaseStatus(api().RunOptionsSetTerminate(static_cast<OrtRunOptions*>(o))); },
          [](void* o) { api().ReleaseStatus(api().RunOptionsUnsetTerminate(static_cast<OrtRunOptions*>(o))); },
          options};
}

void do_stoppable(const Stop& stop, double timeout, const std::function<OrtStatus*()>& work) {
  for (;;) {
    OrtStatus* status = nullptr;
    bool pressed = false, over = false;
    {
      const nb::gil_scoped_release unlocked;
      SignalGuard guard(stop);
      Deadline deadline(stop, timeout);
      status = work();
      over = deadline.end();
      pressed = guard.end();
      if (over || pressed) stop.take_back(stop.work);
    }
    const bool failed = status != nullptr;
    if ((over || pressed) && failed) api().ReleaseStatus(status);
    if (pressed && PyErr_CheckSignals()) throw nb::python_error();
    if (over && failed) {
      PyErr_Format(PyExc_TimeoutError, "the run was stopped after %d ms", static_cast<int>(timeout * 1e3));
      throw nb::python_error();
    }
    if (pressed && failed) continue;
    if (failed) check(status);
    return;
  }
}

}  // namespace tessera::python
