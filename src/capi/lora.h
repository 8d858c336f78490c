// OrtLoraAdapter: weights by name that a run gives to the inputs of the same names.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "core/value.h"

namespace tessera::capi {

using AdapterWeights = std::map<std::string, Tensor>;

}  // namespace tessera::capi

struct OrtLoraAdapter {
  std::shared_ptr<const tessera::capi::AdapterWeights> weights;  // shared with the run options that use them
};
