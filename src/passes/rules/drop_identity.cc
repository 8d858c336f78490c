// Identity(x), and Dropout(x) outside training   become   x.
#include "passes/rewrite.h"

namespace tessera {
namespace {

// A graph output keeps its name only if its new producer can take it: what the caller gave or a constant cannot.
bool can_stand_for_root(const Match& m, ir::ValueId x) {
  const ir::ValueInfo& root = m.graph().value(m.graph().node(m.root()).outputs[0]);
  const ir::ValueInfo& v = m.graph().value(x);
  return !root.is_output || (v.source == ir::Source::node && !v.is_output);
}

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

extern constexpr Rule kDropIdentity{"drop_identity", 1, kIdentity, drop};
extern constexpr Rule kDropDropout{"drop_dropout", 1, kDropout, drop_dropout};

}  // namespace tessera
