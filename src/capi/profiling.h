// Profiler: the times of a session's runs, written as one file of trace events that browsers and Perfetto show.
#pragma once
#include <mutex>
#include <string>
#include <vector>

#include "session/session.h"

namespace tessera::capi {

// A string of JSON: a name comes from an untrusted file.
std::string json(std::string_view text);

// Any thread may add.
class Profiler {
 public:
  // Times are counted from `start_ns`; the file will be `prefix`, date and time, ".json".
  Profiler(const std::string& prefix, int64_t start_ns);
  // Writes the file if that was not done.
  ~Profiler();
  void add(const Profile& run, int64_t run_start_ns);
  // Writes the file and gives its name.
  Result<std::string> finish();

 private:
  struct Event {
    std::string name, op;  // op is empty for a whole run
    int64_t start_ns, duration_ns;
  };
  std::string path_;
  int64_t start_ns_;
  std::mutex mutex_;
  std::vector<Event> events_;
  bool written_ = false;
};

}  // namespace tessera::capi
