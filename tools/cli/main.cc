#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <new>

#include "commands.h"

namespace tessera::cli {

int complain(const std::string& message, int code) {
  std::fprintf(stderr, "tessera: %s\n", message.c_str());
  return code;
}

void MachineOptions::add_to(CLI::App& command) {
  command.add_option("--threads", threads, "Threads per run (default: all this process may use)")
      ->check(CLI::Range(0, 4096));
  command.add_option("--target", target, "Highest CPU target to use: scalar, sse4, avx2, avx512, neon");
}

Status MachineOptions::apply(SessionOptions& options) const {
  options.threads = threads;
  return target.empty() ? Status{} : options.set("session.cpu_target", target);
}

Progress::Progress() : terminal_(isatty(2)) {}
Progress::~Progress() { say({}); }
void Progress::say(const std::string& line) {
  if (terminal_) std::fprintf(stderr, "\r\033[K%.79s", line.c_str());
}

}  // namespace tessera::cli

int main(int argc, char** argv) {
  using namespace tessera::cli;
  CLI::App app{"tessera: load, inspect, run and measure ONNX models"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "tessera " TESSERA_VERSION);
  app.footer("Run 'tessera COMMAND --help' for the options and examples of a command.");
  std::signal(SIGXFSZ, SIG_IGN);  // a file that may not grow is an error, not an end
  int exit_code = kOk;
  add_run(app, exit_code);
  add_inspect(app, exit_code);
  add_check(app, exit_code);
  add_optimize(app, exit_code);
  add_pack(app, exit_code);
  add_convert(app, exit_code);
  add_bench(app, exit_code);
  add_test(app, exit_code);
  add_trim(app, exit_code);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    return app.exit(e) == 0 ? kOk : kUsage;
  } catch (const std::bad_alloc&) {
    return complain("out of memory", kFailed);
  }
  return exit_code;
}
