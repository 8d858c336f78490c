// OrtLogger: where custom operators send messages.
#pragma once
#include <memory>

#include "capi/env.h"
#include "tessera/c_api.h"

struct OrtLogger {
  std::shared_ptr<const tessera::capi::Logger> logger;
};
