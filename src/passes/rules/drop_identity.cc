// Identity(x), and Dropout(x) outside training   become   x.
#include "passes/rules/quantized.h"

namespace tessera {
namespace {

bool drop(const Match& m, Replacement& r) {
  const ir::ValueId x = m.value("x");
  if (!can_stand_for_root(m, x)) return false;
  r.result(x);
  return true;
}

bool drop_dropout(const Match& m, Replacement& r) {
  if (m.has("training_mode") && m.tensor("training_mode").empty()) return false;
  if (m.has("training_mode") && *static_cast<const bool*>(m.tensor("training_mode").data())) return false;
  const ir::Node& n = m.graph().node(m.root());
  if (n.since < 7 && m.integer("d", "is_test", 0) == 0) return false;
  return drop(m, r);
}

constexpr const char* kIdentity[] = {"Identity(x)"};
constexpr const char* kDropout[] = {"d: Dropout(x, ratio?, #training_mode?)"};

}  // namespace

extern constexpr Rule kDropIdentity{"drop_identity", 1, 0, kIdentity, drop};
extern constexpr Rule kDropDropout{"drop_dropout", 1, 0, kDropout, drop_dropout};

}  // namespace tessera
