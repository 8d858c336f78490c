// Made-up values of a declared type, the same for the same seed on every machine.
#pragma once
#include <map>
#include <string>

#include "core/value.h"
#include "ir/fact.h"

namespace tessera::cli {

// Floats are uniform in [-1, 1), integers and booleans 0 or 1 (so that indexes and masks stay valid), texts one letter.
// A symbolic dimension is `dims[its name]`, else 1.
Result<Value> random_value(const Fact& fact, const std::map<std::string, int64_t>& dims, uint64_t seed);

}  // namespace tessera::cli
