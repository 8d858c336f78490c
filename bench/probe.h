// The limits of this machine: multiply-adds from registers, and reading memory.
#pragma once
#include <time.h>

#include <algorithm>
#include <cstdint>

#include "base/cpu.h"
#include "base/thread_pool.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace tessera::bench {

// CPU time, so that other programs do not count; programs that use several threads set the wall clock.
inline clockid_t clock_in_use = CLOCK_PROCESS_CPUTIME_ID;

inline double now() {
  timespec t;
  clock_gettime(clock_in_use, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

constexpr int64_t kProbeSteps = 20000;
constexpr int kProbeSums = 12;

// Each probe does kProbeSteps * kProbeSums vector multiply-adds and returns its lane count; *sink keeps them alive.
#if defined(__x86_64__)
__attribute__((target("avx512f"))) inline int probe_avx512(float* sink) {
  __m512 sum[kProbeSums], x = _mm512_set1_ps(*sink), y = _mm512_set1_ps(0.5f);
  for (auto& s : sum) s = x;
  for (int64_t i = 0; i < kProbeSteps; ++i)
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm512_fmadd_ps(s, y, x);
  for (int i = 1; i < kProbeSums; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
  *sink = _mm512_cvtss_f32(sum[0]) * 1e-9f;
  return 16;
}

__attribute__((target("avx2,fma"))) inline int probe_avx2(float* sink) {
  __m256 sum[kProbeSums], x = _mm256_set1_ps(*sink), y = _mm256_set1_ps(0.5f);
  for (auto& s : sum) s = x;
  for (int64_t i = 0; i < kProbeSteps; ++i)
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm256_fmadd_ps(s, y, x);
  for (int i = 1; i < kProbeSums; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
  *sink = _mm256_cvtss_f32(sum[0]) * 1e-9f;
  return 8;
}

inline int probe_sse(float* sink) {
  __m128 sum[kProbeSums], x = _mm_set1_ps(*sink), y = _mm_set1_ps(0.5f);
  for (auto& s : sum) s = x;
  for (int64_t i = 0; i < kProbeSteps; ++i)
#pragma GCC unroll 16
    for (auto& s : sum) s = _mm_add_ps(_mm_mul_ps(s, y), x);
  for (int i = 1; i < kProbeSums; ++i) sum[0] = _mm_add_ps(sum[0], sum[i]);
  *sink = _mm_cvtss_f32(sum[0]) * 1e-9f;
  return 4;
}
#endif

inline int probe_scalar(float* sink) {
  float sum[kProbeSums], x = *sink;
  for (float& s : sum) s = x;
  for (int64_t i = 0; i < kProbeSteps; ++i) {
#pragma GCC unroll 16
    for (float& s : sum) s = s * 0.5f + x;
    asm volatile("" ::: "memory");
  }
  for (int i = 1; i < kProbeSums; ++i) sum[0] += sum[i];
  *sink = sum[0] * 1e-9f;
  return 1;
}

inline int probe(Target target, float* sink) {
#if defined(__x86_64__)
  if (target == Target::avx3) return probe_avx512(sink);
  if (target == Target::avx2) return probe_avx2(sink);
  if (target == Target::sse4) return probe_sse(sink);
#endif
  return probe_scalar(sink);
}

// Multiply-add rate of all threads together, in 1e9 operations per second.
inline double probe_flops(Target target, int threads) {
  static float sinks[64 * 16];
  int lanes = 1;
  const double start = now();
  parallel_for(threads, threads, [&](int64_t chunk, int) {
    const int count = probe(target, sinks + chunk % 64 * 16);
    if (chunk == 0) lanes = count;
  });
  return 2e-9 * static_cast<double>(kProbeSteps) * kProbeSums * lanes * threads / (now() - start);
}

// Bytes per second, in 1e9, at which `bytes` of memory are read again and again.
inline double probe_read(const float* data, int64_t bytes) {
  static volatile float keep;
  typedef float Four __attribute__((vector_size(16), aligned(4), may_alias));
  Four sum[8] = {};
  const int64_t count = bytes / 4 / 32 * 32, repeats = std::max<int64_t>(1, (1 << 20) / std::max<int64_t>(bytes, 1));
  const double start = now();
  for (int64_t r = 0; r < repeats; ++r)
    for (int64_t i = 0; i < count; i += 32)
#pragma GCC unroll 8
      for (int j = 0; j < 8; ++j) sum[j] += *reinterpret_cast<const Four*>(data + i + 4 * j);
  const double seconds = now() - start;
  for (const Four& s : sum) keep = keep + s[0];
  return 4e-9 * static_cast<double>(count * repeats) / seconds;
}

}  // namespace tessera::bench
