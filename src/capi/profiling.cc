#include "capi/profiling.h"

#include <unistd.h>

#include <ctime>

#include "base/file.h"

namespace tessera::capi {
namespace {

std::string timestamp() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "_%Y-%m-%d_%H-%M-%S", &parts)};
}

}  // namespace

std::string json(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) out += c;
  }
  return out + '"';
}

Profiler::Profiler(const std::string& prefix, int64_t start_ns)
    : path_(prefix + timestamp() + ".json"), start_ns_(start_ns) {}

// Nobody is left to be told of an error.
Profiler::~Profiler() {
  if (!written_) (void)finish();
}

void Profiler::add(const Profile& run, int64_t run_start_ns) {
  std::lock_guard lock(mutex_);
  events_.push_back({"model_run", "", run_start_ns - start_ns_, run.total_ns});
  for (const ProfileEntry& e : run.entries) events_.push_back({e.node, e.op, e.start_ns - start_ns_, e.duration_ns});
}

Result<std::string> Profiler::finish() {
  std::lock_guard lock(mutex_);
  std::string text = "[\n";
  for (const Event& e : events_) {
    if (text.size() > 2) text += ",\n";
    text += format(R"({"cat":"{}","pid":{},"tid":0,"ph":"X","ts":{},"dur":{},"name":{},"args":{)",
                   e.op.empty() ? "Session" : "Node", getpid(), e.start_ns / 1000, e.duration_ns / 1000,
                   json(e.op.empty() || !e.name.empty() ? e.name : e.op));
    if (!e.op.empty()) text += "\"op_name\":" + json(e.op) + ",\"provider\":\"CPUExecutionProvider\"";
    text += "}}";
  }
  TRY(write_file(path_, text + "\n]\n"));
  written_ = true;
  return path_;
}

}  // namespace tessera::capi
