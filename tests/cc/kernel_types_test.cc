// Every operator's versions and kernel types agree with the standard's signatures, version by version.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

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

// Every choice of types that a version of an operator allows, one for each of its type variables: where they are many,
// every pair of choices, the other variables having the first of theirs.
class Choices {
 public:
  explicit Choices(const spec::Signature& s) : signature_(s) {
    for (const spec::TypeConstraint& c : s.constraints()) {
      types_.emplace_back();
      for (int t = 1; t < 64; ++t)
        if (c.types().contains(spec::TypeKind::tensor, t)) types_.back().push_back(static_cast<DType>(t));
    }
  }

  template <class F>
  void for_each(F&& f) const {
    std::vector<size_t> chosen(types_.size(), 0);
    f(described(chosen));
    for (size_t a = 0; a < types_.size(); ++a)
      for (size_t b = a; b < types_.size(); ++b)
        for (size_t i = 0; i < types_[a].size(); ++i)
          for (size_t j = 0; j < types_[b].size(); ++j) {
            std::fill(chosen.begin(), chosen.end(), 0);
            chosen[a] = i;
            chosen[b] = a == b ? i : j;
            f(described(chosen));
          }
  }

  struct Described {
    std::vector<TypeDesc> in, out;
    std::string text;
  };

 private:
  Described described(const std::vector<size_t>& chosen) const {
    Described d;
    for (const spec::Argument& a : signature_.inputs()) d.in.push_back(type_of(a, chosen));
    for (const spec::Argument& a : signature_.outputs()) d.out.push_back(type_of(a, chosen));
    for (const TypeDesc& t : d.in) d.text += " " + std::string(name_of(t.dtype));
    d.text += " ->";
    for (const TypeDesc& t : d.out) d.text += " " + std::string(name_of(t.dtype));
    return d;
  }
  // Values that are no tensors are left open.
  TypeDesc type_of(const spec::Argument& a, const std::vector<size_t>& chosen) const {
    const TypeDesc open{Kind::unknown, DType::undefined, Kind::tensor};
    if (a.constraint != spec::Argument::kFixedType) {
      const auto& types = types_[a.constraint];
      return types.empty() ? open : TypeDesc{Kind::tensor, types[chosen[a.constraint]], Kind::tensor};
    }
    const uint64_t mask = a.types().mask(spec::TypeKind::tensor);
    return mask ? TypeDesc{Kind::tensor, static_cast<DType>(__builtin_ctzll(mask)), Kind::tensor} : open;
  }

  const spec::Signature& signature_;
  std::vector<std::vector<DType>> types_;  // of each constraint
};

TEST(KernelTypes, TypesThatTheStandardLeavesFreeAreFreeHere) {
  for (const Op* op : op_table()) {
    if (op->compose) continue;
    for (const spec::Signature& s : spec::signature_versions(op->domain, op->name)) {
      if (s.deprecated) continue;
      int missing = 0;
      std::string first;
      Choices(s).for_each([&](const Choices::Described& d) {
        std::vector<DType> convert(d.in.size() + d.out.size());
        if (choose_kernel(*op, d.in, d.out, convert)) return;
        if (!missing++) first = d.text;
      });
      EXPECT_EQ(missing, 0) << op->name << "-" << s.since_version << " has no kernel for" << first;
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
