// Which CPU this is: the instruction sets kernels may use, and how many threads make sense.
#pragma once
#include <string_view>

namespace tessera {

// Ordered from least to most capable; a kernel table has one entry per target that was compiled in.
enum class Target : unsigned char { scalar, sse4, neon, avx2, avx3 };

std::string_view target_name(Target target);
// The most capable target of this machine, lowered by the environment variable TESSERA_TARGET if that names one.
Target best_target();
// Parses "scalar", "sse4", "avx2", "avx512" or "avx3", "neon"; false if the text is none of them.
bool parse_target(std::string_view text, Target* out);
// AVX-512 VNNI and BF16, beside Target::avx3.
bool cpu_has_vnni();
bool cpu_has_bf16();

// Processors this process may use: affinity mask and cgroup CPU quota, at least 1.
int usable_processors();

}  // namespace tessera
