// The subcommands of `tessera`, one file each. Each adds itself to the command line and runs when chosen.
#pragma once
#include <CLI/CLI.hpp>

namespace tessera::cli {

void add_test(CLI::App& app, int& exit_code);

}  // namespace tessera::cli
