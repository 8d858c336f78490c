// Times of the steps of one run. Passing a null Profile costs nothing.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace tessera {

struct ProfileEntry {
  std::string node, op;
  int64_t start_ns, duration_ns;
};

struct Profile {
  std::vector<ProfileEntry> entries;
  int64_t bind_ns = 0, total_ns = 0;
};

int64_t now_ns();

}  // namespace tessera
