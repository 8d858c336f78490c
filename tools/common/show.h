// Values and numbers for people to read in a terminal.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "core/value.h"

namespace tessera::cli {

// "1.50 MB", "12 B": powers of 1000.
std::string human_bytes(int64_t bytes);
// "3.21 ms", "450 ns".
std::string human_time(double nanoseconds);
// "11,173,962"
std::string human_count(int64_t n);

// The first values of a tensor on one line: "[0.1, 0.2, ...]"; what is inside a sequence or map, in short.
std::string first_values(const Value& value, int64_t most = 8);

// The elements as doubles if the tensor is a list of probabilities: floats in [0,1] with sum 1, all dimensions but one
// are 1.
std::optional<std::vector<double>> probabilities(const Tensor& tensor);
// "3 (98.1 %), 5 (1.2 %)": the most probable ones.
std::string top_classes(const std::vector<double>& p, size_t most = 5);
// One bar per class.
std::string bar_chart(const std::vector<double>& p);

// The tensor as a picture of block characters, if it is one: [H,W], [1,H,W] or [1,1,H,W] of numbers.
std::optional<std::string> picture(const Tensor& tensor);

}  // namespace tessera::cli
