// What a session can leave behind for the next one. Full libraries only.
#pragma once
#include <string>

#include "session/session.h"

namespace tessera {

struct SavedPacks {
  int64_t packs = 0, bytes = 0;
};

// Writes the packed weights of a session to `path`, atomically. Weights that no run has packed yet are packed one at a
// time.
Result<SavedPacks> save_packs(const Session& session, const std::string& path);

}  // namespace tessera
