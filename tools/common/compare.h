// Comparing values the way ONNX's backend tests do, but strict on integers, lengths and types.
#pragma once
#include <string>

#include "core/value.h"

namespace tessera::cli {

struct Tolerance {
  double rtol = 1e-3, atol = 1e-7;
};

// Empty if equal within the tolerance; else what differs first.
std::string difference(const Value& got, const Value& want, const Tolerance& tolerance);

}  // namespace tessera::cli
