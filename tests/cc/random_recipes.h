// What recipes are written with. A table per family maps operators to recipes.
#pragma once
#include <span>
#include <string_view>

#include "random_model.h"

namespace tessera::testing {

using spec::Signature;
using Dims = std::vector<int64_t>;

struct RecipeEntry {
  std::string_view names;  // separated by spaces
  Recipe recipe;
};
std::span<const RecipeEntry> tensor_recipes();
std::span<const RecipeEntry> network_recipes();
std::span<const RecipeEntry> structure_recipes();

inline void set(RandomNode& n, std::string name, int64_t v) {
  n.attributes.push_back(ir::Attribute::integer(std::move(name), v));
}
inline void set_real(RandomNode& n, std::string name, double v) {
  n.attributes.push_back(ir::Attribute::real(std::move(name), static_cast<float>(v)));
}
inline void set_text(RandomNode& n, std::string name, std::string v) {
  n.attributes.push_back(ir::Attribute::text(std::move(name), std::move(v)));
}
inline void set_list(RandomNode& n, std::string name, Dims v) {
  n.attributes.push_back(ir::Attribute::integers(std::move(name), std::move(v)));
}
inline void set_reals(RandomNode& n, std::string name, std::vector<float> v) {
  n.attributes.push_back({std::move(name), ir::AttrType::floats, std::move(v), {}, {}});
}
inline void set_texts(RandomNode& n, std::string name, std::vector<std::string> v) {
  n.attributes.push_back({std::move(name), ir::AttrType::strings, std::move(v), {}, {}});
}

// Sets an attribute that this version of the operator has, with probability p.
inline void maybe(Maker& m, const Signature& s, RandomNode& n, std::string name, int64_t v, double p = 0.5) {
  if (s.attribute(name) && m.chance(p)) set(n, std::move(name), v);
}

// The position of an input of that name; -1 if this version has none.
int input_named(const Signature& s, std::string_view name);
// A list of integers that is an input in some versions and an attribute in others.
void give(Maker& m, const Signature& s, RandomNode& n, const std::string& name, const Dims& values);
// An axis of a tensor of that rank, from either end.
int64_t some_axis(Maker& m, int rank);
// Different axes, from either end.
Dims some_axes(Maker& m, int rank);
// A value for input i.
std::string take(Maker& m, const Signature& s, int i, int least_rank = 0, int most_rank = 5,
                 TypeSet within = kEveryType);
// A shape that broadcasts with `shape`, to something no larger if `within`.
Dims beside(Maker& m, const Dims& shape, bool within = false);

}  // namespace tessera::testing
