#include "base/cpu.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

constexpr std::string_view kNames[] = {"scalar", "sse4", "neon", "avx2", "avx512"};

Target detected_target() {
#if defined(__x86_64__)
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
      __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512cd"))
    return Target::avx3;
  // Every CPU with AVX2 and FMA also has F16C.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2"))
    return Target::avx2;
  if (__builtin_cpu_supports("sse4.2")) return Target::sse4;
  return Target::scalar;
#elif defined(__aarch64__)
  return Target::neon;
#else
  return Target::scalar;
#endif
}

double cgroup_quota() {
  double quota = HUGE_VAL;
  char line[128];
  if (FILE* f = fopen("/sys/fs/cgroup/cpu.max", "re")) {
    double max = 0, period = 0;
    if (fgets(line, sizeof line, f) && sscanf(line, "%lf %lf", &max, &period) == 2 && period > 0) quota = max / period;
    fclose(f);
  } else if (FILE* q = fopen("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "re")) {
    double us = 0;
    if (fgets(line, sizeof line, q) && sscanf(line, "%lf", &us) == 1 && us > 0) quota = us / 100000;
    fclose(q);
  }
  return quota;
}

}  // namespace

std::string_view target_name(Target target) { return kNames[static_cast<int>(target)]; }

bool parse_target(std::string_view text, Target* out) {
  if (text == "avx3") text = "avx512";
  for (size_t i = 0; i < std::size(kNames); ++i)
    if (kNames[i] == text) {
      *out = static_cast<Target>(i);
      return true;
    }
  return false;
}

Target best_target() {
  static const Target target = [] {
    const Target detected = detected_target();
    Target cap = detected;
    if (const char* text = getenv("TESSERA_TARGET")) parse_target(text, &cap);
    return std::min(detected, cap);
  }();
  return target;
}

bool cpu_has_vnni() {
#if defined(__x86_64__)
  return detected_target() == Target::avx3 && __builtin_cpu_supports("avx512vnni");
#else
  return false;
#endif
}

bool cpu_has_bf16() {
#if defined(__x86_64__)
  return detected_target() == Target::avx3 && __builtin_cpu_supports("avx512bf16");
#else
  return false;
#endif
}

int usable_processors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
  return std::max(1, static_cast<int>(std::min<double>(allowed, std::ceil(cgroup_quota()))));
}

}  // namespace tessera
