// labels: threads
// One session under many threads, sessions coming and going, and a fork with a live session.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "session/session.h"

namespace tessera {
namespace {

const std::string kModels = std::string(TESSERA_SOURCE_DIR) + "/tests/models";

std::vector<float> run_mlp(Session& s, int64_t batch) {
  std::vector<float> values(static_cast<size_t>(batch) * 4);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 7) - 3;
  const Value in[] = {*Tensor::of<float>(Shape{batch, 4}, values)};
  std::vector<Value> out(1);
  const Status status = s.run(in, out);
  if (!status.ok()) return {};
  return {out[0].tensor()->values<float>().begin(), out[0].tensor()->values<float>().end()};
}

std::shared_ptr<Session> open_mlp(int threads) {
  SessionOptions o;
  o.threads = threads;
  auto s = Session::open(kModels + "/samples/mlp.onnx", o);
  return s.ok() ? *s : nullptr;
}

long resident_kib() {
  std::ifstream in("/proc/self/statm");
  long total = 0, resident = 0;
  in >> total >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

TEST(Threads, SixteenCallersOfOneSessionGetTheSameBits) {
  auto session = open_mlp(2);
  ASSERT_TRUE(session);
  const std::vector<float> want[] = {run_mlp(*session, 1), run_mlp(*session, 3), run_mlp(*session, 64)};
  const int64_t batch[] = {1, 3, 64};
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 16; ++t)
    threads.emplace_back([&, t] {
      for (int i = 0; i < 200; ++i) {
        const auto k = static_cast<size_t>((i + t) % 3);
        if (run_mlp(*session, batch[k]) != want[k]) ++wrong;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Threads, PoolRunsEveryChunkOnceForAnyNumberOfThreads) {
  for (const int threads : {1, 2, 7}) {
    std::vector<std::atomic<int>> seen(1000);
    for (int repeat = 0; repeat < 50; ++repeat)
      parallel_for(threads, 1000, [&](int64_t i, int lane) {
        EXPECT_LT(lane, threads);
        ++seen[static_cast<size_t>(i)];
      });
    for (const auto& s : seen) EXPECT_EQ(s, 50);
  }
}

TEST(Threads, SessionsComeAndGoWithoutGrowth) {
  const auto churn = [](int times) {
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([times] {
        for (int i = 0; i < times; ++i) {
          auto s = open_mlp(2);
          if (!s || run_mlp(*s, 2).empty()) std::abort();
        }
      });
    for (std::thread& t : threads) t.join();
  };
  churn(50);
  const long before = resident_kib();
  churn(200);
  EXPECT_LT(resident_kib() - before, 8 * 1024) << "KiB of growth over 800 sessions";
}

TEST(Threads, TheChildOfAForkAnswers) {
#if defined(__SANITIZE_THREAD__)
  // The sanitizer itself does not survive threads in a forked child.
  const int threads = 1;
#else
  const int threads = 2;
#endif
  auto session = open_mlp(threads);
  ASSERT_TRUE(session);
  const std::vector<float> want = run_mlp(*session, 64);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(run_mlp(*session, 64) == want && open_mlp(threads) ? 0 : 1);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_EQ(run_mlp(*session, 64), want);
}

TEST(Threads, CancellingStopsARunAndLeavesTheSessionUsable) {
  auto session = open_mlp(1);
  ASSERT_TRUE(session);
  RunOptions options;
  options.cancel = true;
  const Value in[] = {*Tensor::of<float>(Shape{1, 4}, std::vector<float>{1, 2, 3, 4})};
  std::vector<Value> out(1);
  EXPECT_EQ(session->run(in, out, &options).code(), Code::canceled);
  options.cancel = false;
  EXPECT_TRUE(session->run(in, out, &options).ok());
}

}  // namespace
}  // namespace tessera
