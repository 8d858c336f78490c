// Packing of B into panels: the layout is the same on every CPU, the way there is not.
#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "base/thread_pool.h"
#include "kernels/gemm.h"
#include "kernels/targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gemm_pack.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/turn-inl.h"

#ifndef TESSERA_KERNELS_GEMM_PACK_SHARED_
#define TESSERA_KERNELS_GEMM_PACK_SHARED_
namespace tessera {
namespace gemm_pack {

struct Kernels {
  // A whole panel of floats: row p of `out` is element p of 16 rows, ldb apart, for p < k.
  void (*turned)(const float* b, int64_t ldb, int64_t k, float* out);
};

}  // namespace gemm_pack
}  // namespace tessera
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

void turned(const float* b, int64_t ldb, int64_t k, float* out) {
  int64_t p = 0;
#if HWY_TARGET != HWY_SCALAR
  for (; p + 4 <= k; p += 4)
    for (int j = 0; j < kPanelWidth; j += turn::kLanes) {
      turn::V v[4];
      turn::load_four([&](int lane) HWY_ATTR { return b + (j + lane) * ldb + p; }, v);
#pragma GCC unroll 4
      for (int x = 0; x < 4; ++x) hn::StoreU(v[x], turn::D(), out + (p + x) * kPanelWidth + j);
    }
#endif
  for (; p < k; ++p)
    for (int64_t j = 0; j < kPanelWidth; ++j) out[p * kPanelWidth + j] = b[j * ldb + p];
}

constexpr gemm_pack::Kernels kernels = {turned};

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera {
namespace {

constexpr const gemm_pack::Kernels* kTable[] = {HWY_CHOOSE_FALLBACK(kernels), HWY_CHOOSE_SSE4(kernels),
                                                HWY_CHOOSE_NEON(kernels), HWY_CHOOSE_AVX2(kernels),
                                                HWY_CHOOSE_AVX3(kernels)};

constexpr int64_t kSideBySide = 4;  // panels written while a row of B is read

// `columns` columns, at most kSideBySide panels of them, from rows of B.
template <class T>
void pack_rows(const T* b, int64_t ldb, int64_t k, int64_t columns, T* out) {
  const int64_t whole = columns / kPanelWidth, rest = columns % kPanelWidth;
  for (int64_t p = 0; p < k; ++p, b += ldb, out += kPanelWidth) {
    for (int64_t x = 0; x < whole; ++x)
      std::memcpy(out + x * k * kPanelWidth, b + x * kPanelWidth, kPanelWidth * sizeof(T));
    if (rest) {
      T* last = out + whole * k * kPanelWidth;
      std::memcpy(last, b + whole * kPanelWidth, static_cast<size_t>(rest) * sizeof(T));
      std::fill(last + rest, last + kPanelWidth, T{0});
    }
  }
}

// One panel from columns of B that lie side by side.
template <class T>
void pack_columns(const T* b, int64_t ldb, int64_t k, int64_t columns, T* out) {
  if constexpr (sizeof(T) == sizeof(float)) {
    if (columns == kPanelWidth) return choose_kernels(kTable, best_target()).turned(b, ldb, k, out);
  }
  for (int64_t p = 0; p < k; p += kPanelWidth) {
    const int64_t steps = std::min<int64_t>(kPanelWidth, k - p);
    for (int64_t j = 0; j < kPanelWidth; ++j)
      for (int64_t q = 0; q < steps; ++q) out[(p + q) * kPanelWidth + j] = j < columns ? b[j * ldb + p + q] : T{0};
  }
}

template <class T>
void pack_panels(const T* b, int64_t ldb, bool trans_b, int64_t k, int64_t n, T* out, int threads) {
  const int64_t panels = ceil_div(n, kPanelWidth), step = trans_b ? 1 : kSideBySide;
  const int64_t per_chunk = round_up(std::max<int64_t>(1, (1 << 14) / std::max<int64_t>(k * kPanelWidth, 1)), step);
  parallel_for(threads, ceil_div(panels, per_chunk), [&](int64_t chunk, int) {
    for (int64_t p = chunk * per_chunk; p < std::min(panels, (chunk + 1) * per_chunk); p += step) {
      const int64_t j = p * kPanelWidth, columns = std::min(step * kPanelWidth, n - j);
      T* to = out + p * k * kPanelWidth;
      trans_b ? pack_columns(b + j * ldb, ldb, k, columns, to) : pack_rows(b + j, ldb, k, columns, to);
    }
  });
}

}  // namespace

size_t gemm_packed_bytes(int64_t n, int64_t k, PanelType type) {
  return static_cast<size_t>(round_up(n, kPanelWidth)) * static_cast<size_t>(k) * (type == PanelType::f32 ? 4 : 2);
}

void gemm_pack_b(const float* b, int64_t ldb, bool trans_b, int64_t k, int64_t n, float* out, int threads) {
  pack_panels(b, ldb, trans_b, k, n, out, threads);
}

void gemm_pack_b(PanelType type, const void* b, int64_t ldb, bool trans_b, int64_t k, int64_t n, void* out,
                 int threads) {
  if (type == PanelType::f32)
    pack_panels(static_cast<const float*>(b), ldb, trans_b, k, n, static_cast<float*>(out), threads);
  else
    pack_panels(static_cast<const uint16_t*>(b), ldb, trans_b, k, n, static_cast<uint16_t*>(out), threads);
}

}  // namespace tessera
#endif
