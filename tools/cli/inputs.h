// The inputs of a run, as a command line gives them.
#pragma once
#include <map>
#include <string>
#include <vector>

#include "commands.h"
#include "session/session.h"

namespace tessera::cli {

struct InputOptions {
  std::vector<std::string> inputs;  // name=FILE, name=random, or just FILE or random
  std::string archive;              // .npz
  std::vector<std::string> dims;    // name=number
  uint64_t seed = 0;
  bool random_rest = false;  // inputs that nobody gave are random

  void add_to(CLI::App& command);
};

struct Feed {
  std::vector<std::string> names;
  std::vector<Value> values;
};

// Every input of the session once; overridable initializers where they are given.
Result<Feed> gather_inputs(const InputOptions& options, const Session& session);

}  // namespace tessera::cli
