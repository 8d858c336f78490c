// Relu(Conv(x, w, b)) and Relu(Gemm(a, b, c))   become   one step: the product is cut off at zero while it is stored.
#include "passes/rewrite.h"

namespace tessera {
namespace {

bool fuse(const Match& m, Replacement& r) {
  const ir::Node& f = m.node("f");
  if (m.fact_of("f").dtype != DType::f32) return false;
  r.result(r.node("tessera." + f.op_type + "Relu", f.inputs, f.attributes));
  return true;
}

constexpr const char* kPatterns[] = {"Relu(f: Conv(x, w, b?))", "Relu(f: Gemm(a, b, c?))"};

}  // namespace

extern constexpr Rule kFuseRelu{"fuse_relu", 2, 2, kPatterns, fuse};

}  // namespace tessera
