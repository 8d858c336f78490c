// Which instruction sets every kernel file is compiled for, and how one of them is picked at run time.
//
// A kernel file includes this before Highway's headers. The targets wanted are listed, all others are disabled; the
// scalar form is always there, because it is what the plain compiler flags allow. TESSERA_ONLY_AVX2 keeps the scalar
// form and AVX2 alone, for builds that have to be quick or small.
//
// Each target's namespace ends in a constexpr struct `kernels` of function pointers. The file then has one table of
// their addresses, one entry per base/cpu.h Target in the enum's order, null where a target was not compiled.
#pragma once
#include "base/cpu.h"

#define HWY_DISABLE_PCLMUL_AES
#if defined(TESSERA_ONLY_AVX2)
#define HWY_DISABLED_TARGETS (~(HWY_SCALAR | HWY_EMU128 | HWY_AVX2))
#else
#define HWY_DISABLED_TARGETS (~(HWY_SCALAR | HWY_EMU128 | HWY_SSE4 | HWY_AVX2 | HWY_AVX3 | HWY_NEON | HWY_WASM))
#endif

namespace tessera {

inline constexpr int kTargetCount = static_cast<int>(Target::avx3) + 1;

// The table's entry for `target`, or the best compiled one below it. Entry 0 is never null.
template <class Kernels>
const Kernels& choose_kernels(const Kernels* const (&table)[kTargetCount], Target target) {
  int i = static_cast<int>(target);
  while (i > 0 && !table[i]) --i;
  return *table[i];
}

}  // namespace tessera
