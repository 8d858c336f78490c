// The order of rewrites: what removes work comes before what joins it.
#include "passes/rewrite.h"

namespace tessera {

extern const Rule kLiftConstant, kDropIdentity, kDropDropout, kFoldBatchNormalization, kFuseGelu, kFuseMatMulAdd;
extern const Rule kDropReluBeforeQuantize, kDropQuantizedPair, kMoveQuantized, kConcatQuantized, kShapeOfQuantized,
    kGatherQuantized, kQuantizeConv, kQuantizeMatMul, kQuantizeMatMulToFloat, kQuantizeBinary, kQuantizeUnary,
    kQuantizeWithTable, kDequantizeMatMul, kDequantizeMatMulBias, kFoldDequantize, kFuseRelu;

std::span<const Rule* const> rewrite_rules() {
  static constexpr const Rule* kRules[] = {&kLiftConstant,
                                           &kDropIdentity,
                                           &kDropDropout,
                                           &kFoldBatchNormalization,
                                           &kDropReluBeforeQuantize,
                                           &kDropQuantizedPair,
                                           &kMoveQuantized,
                                           &kConcatQuantized,
                                           &kShapeOfQuantized,
                                           &kGatherQuantized,
                                           &kQuantizeConv,
                                           &kQuantizeMatMul,
                                           &kQuantizeBinary,
                                           &kQuantizeUnary,
                                           &kQuantizeWithTable,
                                           &kQuantizeMatMulToFloat,
                                           &kDequantizeMatMul,
                                           &kDequantizeMatMulBias,
                                           &kFoldDequantize,
                                           &kFuseGelu,
                                           &kFuseMatMulAdd,
                                           &kFuseRelu};
  return kRules;
}

}  // namespace tessera
