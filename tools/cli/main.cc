#include "commands.h"

int main(int argc, char** argv) {
  CLI::App app{"tessera: load, inspect, run and measure ONNX models"};
  app.require_subcommand(1);
  int exit_code = 0;
  tessera::cli::add_test(app, exit_code);
  CLI11_PARSE(app, argc, argv);
  return exit_code;
}
