// The subcommands of `tessera`, one file each. Each adds itself to the command line and runs when chosen. Exit codes:
// 0 all went well, 1 it did not, 2 the command line is wrong.
#pragma once
#include <CLI/CLI.hpp>
#include <string>

#include "base/status.h"
#include "session/options.h"

namespace tessera::cli {

void add_run(CLI::App& app, int& exit_code);
void add_inspect(CLI::App& app, int& exit_code);
void add_check(CLI::App& app, int& exit_code);
void add_convert(CLI::App& app, int& exit_code);
void add_bench(CLI::App& app, int& exit_code);
void add_optimize(CLI::App& app, int& exit_code);
void add_pack(CLI::App& app, int& exit_code);
void add_test(CLI::App& app, int& exit_code);
void add_trim(CLI::App& app, int& exit_code);

inline constexpr int kOk = 0, kFailed = 1, kUsage = 2;

// Says on stderr what is wrong and gives `code` back.
int complain(const std::string& message, int code);

// --threads and --target, which several commands have.
struct MachineOptions {
  int threads = 0;
  std::string target;

  void add_to(CLI::App& command);
  Status apply(SessionOptions& options) const;
};

// A line on stderr that is overwritten by the next; nothing where stderr is no terminal.
class Progress {
 public:
  Progress();
  ~Progress();
  void say(const std::string& line);

 private:
  bool terminal_;
};

}  // namespace tessera::cli
