// OrtModelMetadata: what a model says about itself.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tessera/c_api.h"

struct OrtModelMetadata {
  std::string producer, graph_name, domain, description, graph_description;
  int64_t version = 0;
  std::vector<std::pair<std::string, std::string>> custom;
};
