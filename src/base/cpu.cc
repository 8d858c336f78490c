#include "base/cpu.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

constexpr std::string_view kNames[] = {"scalar", "sse4", "neon", "avx2", "avx512"};

#if defined(__x86_64__)

// The words in which the CPU says what it has.
struct Features {
  unsigned leaf1_c = 0, leaf7_b = 0, leaf7_c = 0, leaf7_1_a = 0;
  bool ymm = false, zmm = false;  // the system keeps these registers

  Features() {
    unsigned a = 0, b = 0, c = 0, d = 0;
    if (!__get_cpuid(1, &a, &b, &leaf1_c, &d)) return;
    if (leaf1_c >> 27 & 1) {
      unsigned low = 0, high = 0;
      asm("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
      ymm = (low & 0x06) == 0x06;
      zmm = (low & 0xe6) == 0xe6;
    }
    if (__get_cpuid_count(7, 0, &a, &leaf7_b, &leaf7_c, &d) && a >= 1) __get_cpuid_count(7, 1, &leaf7_1_a, &b, &c, &d);
  }
  bool sse42() const { return leaf1_c >> 20 & 1; }
  // AVX2, FMA and BMI2. Every CPU with them also has F16C.
  bool avx2() const { return ymm && (leaf7_b >> 5 & 1) && (leaf1_c >> 12 & 1) && (leaf7_b >> 8 & 1); }
  // The parts F, DQ, CD, BW and VL of AVX-512.
  bool avx512() const {
    constexpr unsigned kParts = 1u << 16 | 1u << 17 | 1u << 28 | 1u << 30 | 1u << 31;
    return zmm && (leaf7_b & kParts) == kParts;
  }
  bool vnni() const { return avx512() && (leaf7_c >> 11 & 1); }
  bool bf16() const { return avx512() && (leaf7_1_a >> 5 & 1); }
};

#endif

Target detected_target() {
#if defined(__x86_64__)
  const Features cpu;
  return cpu.avx512() ? Target::avx3 : cpu.avx2() ? Target::avx2 : cpu.sse42() ? Target::sse4 : Target::scalar;
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
  return Features().vnni();
#else
  return false;
#endif
}

bool cpu_has_bf16() {
#if defined(__x86_64__)
  return Features().bf16();
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
