// Add(MatMul(a, w), c) of a matrix and one row   becomes   Gemm(a, w, c).
#include "passes/rewrite.h"

namespace tessera {
namespace {

bool fuse(const Match& m, Replacement& r) {
  const Fact &a = m.fact("a"), &w = m.fact("w"), &c = m.fact("c");
  if (a.dtype != DType::f32 || a.rank() != 2 || w.rank() != 2 || c.rank() != 1) return false;
  if (!(*w.shape)[1].known() || (*c.shape)[0] != (*w.shape)[1]) return false;
  r.result(r.node("Gemm", {m.value("a"), m.value("w"), m.value("c")}));
  return true;
}

constexpr const char* kPatterns[] = {"Add~(MatMul(a, #w), #c)"};

}  // namespace

extern constexpr Rule kFuseMatMulAdd{"fuse_matmul_add", 1, 0, kPatterns, fuse};

}  // namespace tessera
