// The numbers of inputs and outputs that every library checks are those of the standard's signatures.
#include "ops/arity.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "ops/op.h"
#include "ops/signatures.h"

namespace tessera {
namespace {

// A node with so many arguments; input `absent` is one that is left out.
ir::Node node_of(const Op& op, int inputs, int outputs, int absent = -1) {
  ir::Node n;
  n.domain = op.domain;
  n.op_type = op.name;
  n.inputs.assign(static_cast<size_t>(inputs), 0);
  n.outputs.assign(static_cast<size_t>(outputs), 1);
  if (absent >= 0) n.inputs[static_cast<size_t>(absent)] = ir::kNone;
  return n;
}

TEST(Arity, IsThatOfTheSignatures) {
  int operators = 0;
  for (const Op* op : op_table()) {
    const auto versions = spec::signature_versions(op->domain, op->name);
    if (versions.empty() || versions.back().deprecated) continue;
    SCOPED_TRACE(op->name);
    ++operators;
    int least_out = 255, most_in = 0, most_out = 0;
    const spec::Signature* newest = &versions.back();
    for (const spec::Signature& s : versions) {
      least_out = std::min(least_out, s.min_outputs());
      most_in = std::max(most_in, s.max_inputs());
      most_out = std::max(most_out, s.max_outputs());
      if (!s.deprecated) newest = &s;
    }
    const int least_in = newest->min_inputs();
    EXPECT_TRUE(check_arity(node_of(*op, least_in, least_out)).ok());
    if (least_in > 0) {
      EXPECT_FALSE(check_arity(node_of(*op, least_in - 1, least_out)).ok());
    }
    if (least_out > 0) {
      EXPECT_FALSE(check_arity(node_of(*op, least_in, least_out - 1)).ok());
    }
    if (most_in < 255) {
      EXPECT_TRUE(check_arity(node_of(*op, most_in, least_out)).ok());
      EXPECT_FALSE(check_arity(node_of(*op, most_in + 1, least_out)).ok());
    }
    if (most_out < 255) {
      EXPECT_FALSE(check_arity(node_of(*op, least_in, most_out + 1)).ok());
    }
    for (int i = 0; i < least_in; ++i)
      EXPECT_EQ(check_arity(node_of(*op, least_in, least_out, i)).ok(),
                newest->input(i)->option != spec::ArgumentOption::single)
          << "input " << i << "; run tools/arities.py";
  }
  EXPECT_GT(operators, 200);
}

TEST(Arity, OperatorsOfRewrittenGraphsHaveOne) {
  for (const Op* op : op_table())
    if (std::string_view(op->domain) == "tessera") {
      EXPECT_FALSE(check_arity(node_of(*op, 0, 1)).ok()) << op->name;
      EXPECT_FALSE(check_arity(node_of(*op, 3, 0)).ok()) << op->name;
    }
}

// Old versions may have fewer inputs only where they are brought to the current form at load.
TEST(Arity, OldFormsAreBroughtToTheCurrentOne) {
  for (const Op* op : op_table()) {
    const auto versions = spec::signature_versions(op->domain, op->name);
    for (const spec::Signature& s : versions) {
      if (s.deprecated || versions.back().deprecated || op->upgrade || op->compose) continue;
      EXPECT_GE(s.min_inputs(), versions.back().min_inputs()) << op->name << "-" << s.since_version;
    }
  }
}

}  // namespace
}  // namespace tessera
