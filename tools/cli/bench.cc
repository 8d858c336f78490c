// tessera bench: how long a model takes to load and to run, and how much memory that needs.
#include <time.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"
#include "common/load.h"
#include "common/show.h"
#include "inputs.h"
#include "report.h"

namespace tessera::cli {
namespace {

struct Options {
  std::string model, target;
  InputOptions inputs;
  std::vector<int> threads;
  double seconds = 3;
  bool json = false;
};

struct Measured {
  int threads = 0;
  int64_t load_ns = 0, first_ns = 0, peak_rss = 0;
  Times wall, cpu;
};

int64_t cpu_ns() {
  timespec t{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

// Linux forgets the peak when asked to; elsewhere it stays that of the process.
void reset_peak_rss() {
  if (std::FILE* f = std::fopen("/proc/self/clear_refs", "w")) {
    std::fputs("5", f);
    std::fclose(f);
  }
}
int64_t peak_rss() {
  int64_t kilobytes = 0;
  if (std::FILE* f = std::fopen("/proc/self/status", "r")) {
    char line[256];
    while (std::fgets(line, sizeof line, f))
      if (long long v = 0; std::sscanf(line, "VmHWM: %lld kB", &v) == 1) kilobytes = v;
    std::fclose(f);
  }
  return kilobytes * 1024;
}

Result<Measured> measure(const Options& o, int threads) {
  Measured m;
  SessionOptions options;
  TRY((MachineOptions{threads, o.target}.apply(options)));
  reset_peak_rss();
  int64_t begin = now_ns();
  TRY_ASSIGN(session, open_session(o.model, options));
  m.load_ns = now_ns() - begin;
  m.threads = session->threads();
  InputOptions inputs = o.inputs;
  inputs.random_rest = true;
  TRY_ASSIGN(feed, gather_inputs(inputs, *session));
  const std::vector<std::string_view> in(feed.names.begin(), feed.names.end());
  std::vector<std::string_view> out;
  for (const ValueSpec& s : session->outputs()) out.push_back(s.name);
  Progress progress;
  const int64_t end = now_ns() + static_cast<int64_t>(o.seconds * 1e9);
  for (int64_t run = 0; run < 3 || now_ns() < end; ++run) {
    if (run % 64 == 0) progress.say(format("{} threads, run {}", m.threads, run));
    std::vector<Value> values(out.size());
    const int64_t cpu = cpu_ns();
    begin = now_ns();
    TRY(session->run_named(in, feed.values, out, values));
    const int64_t took = now_ns() - begin;
    if (run == 0) {
      m.first_ns = took;
      continue;
    }
    m.wall.ns.push_back(took);
    m.cpu.ns.push_back(cpu_ns() - cpu);
  }
  m.peak_rss = peak_rss();
  return m;
}

nlohmann::json to_json(const Measured& m) {
  return {{"threads", m.threads},
          {"load_ns", m.load_ns},
          {"first_run_ns", m.first_ns},
          {"runs", m.wall.ns.size()},
          {"wall_ns", {{"min", m.wall.min()}, {"median", m.wall.median()}}},
          {"cpu_ns", {{"min", m.cpu.min()}, {"median", m.cpu.median()}}},
          {"peak_rss_bytes", m.peak_rss}};
}

int bench(const Options& o) {
  auto report = nlohmann::json::array();
  if (!o.json)
    std::printf("%7s %10s %10s %10s %10s %10s %10s %8s %10s\n", "threads", "load", "first run", "wall min", "median",
                "CPU min", "median", "runs", "peak RSS");
  for (const int threads : o.threads.empty() ? std::vector<int>{0} : o.threads) {
    const Result<Measured> m = measure(o, threads);
    if (!m.ok()) return complain(format("{}\n  {}", m.status().message(), advice(m.status())), kFailed);
    if (o.json) {
      report.push_back(to_json(*m));
      continue;
    }
    const auto time = [](int64_t ns) { return human_time(static_cast<double>(ns)); };
    std::printf("%7d %10s %10s %10s %10s %10s %10s %8zu %10s\n", m->threads, time(m->load_ns).c_str(),
                time(m->first_ns).c_str(), time(m->wall.min()).c_str(), time(m->wall.median()).c_str(),
                time(m->cpu.min()).c_str(), time(m->cpu.median()).c_str(), m->wall.ns.size(),
                human_bytes(m->peak_rss).c_str());
  }
  if (o.json) std::printf("%s\n", report.dump(1).c_str());
  return kOk;
}

}  // namespace

void add_bench(CLI::App& app, int& exit_code) {
  auto o = std::make_shared<Options>();
  CLI::App* cmd = app.add_subcommand("bench", "Measure loading and running a model");
  cmd->footer(
      "Inputs that are not given are random. Examples:\n"
      "  tessera bench model.onnx --threads 1,2 --seconds 5\n"
      "  tessera bench model.onnx --dim batch=8 --json\n");
  cmd->add_option("model", o->model, "A .onnx file, or a .onnxtxt file in ONNX's textual syntax")->required();
  o->inputs.add_to(*cmd);
  cmd->add_option("--threads", o->threads, "Thread counts to measure, as in 1,2 (default: all)")
      ->delimiter(',')
      ->check(CLI::Range(0, 4096));
  cmd->add_option("--target", o->target, "Highest CPU target to use: scalar, sse4, avx2, avx512, neon");
  cmd->add_option("--seconds", o->seconds, "How long to run per thread count (default: 3)")
      ->check(CLI::Range(0.0, 86400.0));
  cmd->add_flag("--json", o->json, "Print a JSON list with one object per thread count");
  cmd->callback([o, &exit_code] { exit_code = bench(*o); });
}

}  // namespace tessera::cli
