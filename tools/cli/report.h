// What commands say about a session, as text and as JSON.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "session/session.h"

namespace tessera::cli {

struct Times {
  std::vector<int64_t> ns;
  int64_t min() const;
  int64_t median() const;
};

// Memory, and what the planner did, one fact per line.
std::string memory_text(const Session& session);
std::string plan_text(const Session& session);
nlohmann::json memory_json(const Session& session);
nlohmann::json plan_json(const Session& session);

// The steps of a run: time by operator, then the slowest nodes.
std::string profile_text(const Profile& profile, size_t most = 15);
nlohmann::json profile_json(const Profile& profile);

}  // namespace tessera::cli
