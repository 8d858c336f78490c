// x/2 * (1 + erf(x / sqrt(2)))   becomes   Gelu(x), however its products are grouped.
#include <cmath>

#include "passes/rewrite.h"

namespace tessera {
namespace {

bool fuse(const Match& m, Replacement& r) {
  const bool divided = m.has("root");
  if (!m.is_number("half", 0.5) || !m.is_number("one", 1)) return false;
  if (!m.is_number(divided ? "root" : "inverse", divided ? std::sqrt(2.0) : std::sqrt(0.5))) return false;
  r.result(r.node("Gelu", {m.value("x")}));
  return true;
}

constexpr const char* kPatterns[] = {"Mul~(Mul~(x, Add~(Erf(Div(x, #root)), #one)), #half)",
                                     "Mul~(Mul~(x, #half), Add~(Erf(Div(x, #root)), #one))",
                                     "Mul~(x, Mul~(Add~(Erf(Div(x, #root)), #one), #half))",
                                     "Mul~(Mul~(x, Add~(Erf(Mul~(x, #inverse)), #one)), #half)",
                                     "Mul~(Mul~(x, #half), Add~(Erf(Mul~(x, #inverse)), #one))",
                                     "Mul~(x, Mul~(Add~(Erf(Mul~(x, #inverse)), #one), #half))"};

}  // namespace

extern constexpr Rule kFuseGelu{"fuse_gelu", 2, 0, kPatterns, fuse};

}  // namespace tessera
