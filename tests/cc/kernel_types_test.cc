// Every operator's versions and kernel types agree with the standard's signatures, version by version.
#include <gtest/gtest.h>

#include <algorithm>

#include "ops/op.h"
#include "ops/signatures.h"

namespace tessera {
namespace {

// Types the kernels take for argument i of an operator (inputs) or output i.
TypeSet kernel_types(const Op& op, bool input, int i) {
  TypeSet out;
  for (const Kernel& k : op.kernels) {
    bool named = false;
    for (const TypeRule& r : k.when) {
      const uint32_t bit = input ? in_arg(std::min(i, 15)) : out_arg(std::min(i, 15));
      bool covers = r.args & bit;
      if (!covers && (r.args & (input ? kRestIn : kRestOut)))
        for (int j = 0; j < i; ++j)
          covers = covers || (r.args & (input ? in_arg(std::min(j, 14)) : out_arg(std::min(j, 14))));
      if (covers) out = out | r.native | r.widened, named = true;
    }
    if (!named) return kEveryType;  // the kernel does not look at it
  }
  return out;
}

TEST(KernelTypes, VersionsAreThoseOfTheStandard) {
  for (const Op* op : op_table()) {
    const auto versions = spec::signature_versions(op->domain, op->name);
    if (versions.empty()) continue;
    for (const spec::Signature& s : versions)
      EXPECT_TRUE(s.deprecated || std::count(op->versions.begin(), op->versions.end(), s.since_version) == 1)
          << op->name << " lacks version " << s.since_version;
    for (const int16_t v : op->versions)
      EXPECT_TRUE(
          v < versions.front().since_version ||  // experimental before it came
          std::any_of(versions.begin(), versions.end(), [&](const spec::Signature& s) { return s.since_version == v; }))
          << op->name << " has version " << v << ", which the standard does not";
  }
}

TEST(KernelTypes, EveryTypeOfTheStandardHasAKernel) {
  for (const Op* op : op_table()) {
    if (op->compose) continue;
    for (const spec::Signature& s : spec::signature_versions(op->domain, op->name)) {
      if (s.deprecated) continue;
      const auto check = [&](std::span<const spec::Argument> arguments, bool input) {
        for (size_t i = 0; i < arguments.size(); ++i) {
          const TypeSet want{arguments[i].types().mask(spec::TypeKind::tensor)};
          const TypeSet missing = want - kernel_types(*op, input, static_cast<int>(i));
          EXPECT_TRUE(missing.empty()) << op->name << "-" << s.since_version << (input ? " input " : " output ") << i
                                       << " lacks " << names_of(missing);
        }
      };
      check(s.inputs(), true);
      check(s.outputs(), false);
    }
  }
}

TEST(KernelTypes, TheTableIsSortedAndComplete) {
  const auto table = op_table();
  ASSERT_EQ(table.size(), inference_table().size());
  for (size_t i = 0; i < table.size(); ++i) {
    EXPECT_EQ(find_op(table[i]->domain, table[i]->name), table[i]);
    EXPECT_EQ(op_index(table[i]), static_cast<int>(i));
    EXPECT_TRUE(table[i]->compose || !table[i]->kernels.empty()) << table[i]->name;
    EXPECT_FALSE(table[i]->versions.empty());
  }
}

}  // namespace
}  // namespace tessera
