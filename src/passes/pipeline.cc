// The order of rewrites: what removes work comes before what joins it.
#include "passes/rewrite.h"

namespace tessera {

extern const Rule kDropIdentity, kDropDropout, kFoldBatchNormalization, kFuseGelu, kFuseMatMulAdd;

std::span<const Rule* const> rewrite_rules() {
  static constexpr const Rule* kRules[] = {&kDropIdentity, &kDropDropout, &kFoldBatchNormalization, &kFuseGelu,
                                           &kFuseMatMulAdd};
  return kRules;
}

}  // namespace tessera
