// Recipes for operators that compute element by element, reduce, or move data.
#include "random_recipes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::testing {

int input_named(const Signature& s, std::string_view name) {
  for (size_t i = 0; i < s.inputs().size(); ++i)
    if (s.inputs()[i].name() == name) return static_cast<int>(i);
  return -1;
}

void give(Maker& m, const Signature& s, RandomNode& n, const std::string& name, const Dims& values) {
  const int i = input_named(s, name);
  if (i < 0) return set_list(n, name, values);
  n.inputs.resize(std::max<size_t>(n.inputs.size(), static_cast<size_t>(i) + 1));
  n.inputs[static_cast<size_t>(i)] = m.numbers(values);
}

int64_t some_axis(Maker& m, int rank) { return rank == 0 ? 0 : m.between(-rank, rank - 1); }

Dims some_axes(Maker& m, int rank) {
  Dims out;
  for (int i = 0; i < rank; ++i)
    if (m.chance(0.5))
      out.insert(out.begin() + m.below(static_cast<int>(out.size()) + 1), m.chance(0.3) ? i - rank : i);
  return out;
}

std::string take(Maker& m, const Signature& s, int i, int least_rank, int most_rank, TypeSet within) {
  const DType t = m.type(*s.input(i), within);
  return t == DType::undefined ? "" : m.any(t, least_rank, most_rank);
}

Dims beside(Maker& m, const Dims& shape, bool within) {
  Dims out = shape;
  for (int64_t& d : out) {
    if (!within && d == 1 && m.chance(0.3))
      d = m.dim(1);
    else if (m.chance(0.2))
      d = 1;
  }
  if (m.chance(0.3)) out.erase(out.begin(), out.begin() + m.below(static_cast<int>(out.size()) + 1));
  if (!within && out.size() < 4 && out.size() == shape.size() && m.chance(0.1)) out.insert(out.begin(), m.dim(1));
  return out;
}

namespace {

using Node = RandomNode;
const std::string kText = "string";

bool flip(Maker& m) { return m.chance(0.5); }

// Every input of the shape of the first; arguments of one constraint share a type. Optional ones now and then.
bool alike(Maker& m, const Signature& s, Node& n) {
  for (const spec::Attribute& a : s.attributes())
    if (a.required) return false;
  std::map<int, DType> types;
  Dims shape;
  for (size_t i = 0; i < s.inputs().size(); ++i) {
    const spec::Argument& a = s.inputs()[i];
    if (a.option == spec::ArgumentOption::optional && m.chance(0.6)) break;
    auto [it, added] = types.emplace(
        a.constraint == spec::Argument::kFixedType ? 1000 + static_cast<int>(i) : a.constraint, DType::undefined);
    if (added) it->second = m.type(a);
    if (it->second == DType::undefined) return false;
    n.inputs.push_back(i ? m.fit(it->second, shape) : m.any(it->second));
    if (!i) shape = m.shape(n.inputs[0]);
  }
  n.outputs.assign(static_cast<size_t>(s.min_outputs()), "v");
  if (s.attribute("alpha") && s.attribute("alpha")->type == 1 && m.chance(0.3)) set_real(n, "alpha", 0.5 + m.below(4));
  return true;
}

bool broadcast(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.any(t, 0, 4)};
  const Dims shape = m.shape(n.inputs[0]);
  const DType other = s.input(1)->constraint == s.input(0)->constraint ? t : m.type(*s.input(1));
  n.inputs.push_back(m.fit(other, beside(m, shape, s.name() == "PRelu")));
  if (s.name() != "PRelu" && s.name() != "Pow" && flip(m) && s.input(1)->constraint == s.input(0)->constraint)
    std::swap(n.inputs[0], n.inputs[1]);
  if (s.attribute("direction")) set_text(n, "direction", flip(m) ? "LEFT" : "RIGHT");
  if (s.name() == "Mod" && (kFloats.has(t) || flip(m))) set(n, "fmod", 1);
  return true;
}

bool variadic(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.any(t, 0, 4)};
  const Dims shape = m.shape(n.inputs[0]);
  for (int i = m.below(4); i > 0; --i) n.inputs.push_back(m.fit(t, beside(m, shape, true)));
  std::swap(n.inputs[0], n.inputs[static_cast<size_t>(m.below(static_cast<int>(n.inputs.size())))]);
  return true;
}

bool where(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(1));
  const std::string x = m.any(t, 0, 4);
  const Dims shape = m.shape(x);
  n.inputs = {m.fit(DType::boolean, beside(m, shape)), x, m.fit(t, beside(m, shape, true))};
  return true;
}

bool clip(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.any(t)};
  if (s.inputs().size() < 3) return true;
  if (flip(m)) n.inputs.push_back(m.fit(t, {}));
  if (flip(m)) {
    n.inputs.resize(2);
    n.inputs.push_back(m.fit(t, {}));
  }
  return true;
}

bool cast(Maker& m, const Signature& s, Node& n) {
  const DType from = m.type(*s.input(0));
  n.inputs = {m.any(from)};
  const DType to = m.type(*s.output(0));
  if (s.name() == "CastLike")
    n.inputs.push_back(m.any(to));
  else
    set(n, "to", static_cast<int64_t>(to));
  return from != DType::string;  // most words are no numbers
}

bool reduce(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0)};
  if (m.chance(0.8)) give(m, s, n, "axes", some_axes(m, m.rank(n.inputs[0])));
  maybe(m, s, n, "keepdims", flip(m));
  maybe(m, s, n, "noop_with_empty_axes", flip(m), 0.3);
  return true;
}

// Softmax, normalisations and the like: one axis attribute.
bool with_axis(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1)};
  maybe(m, s, n, "axis", some_axis(m, m.rank(n.inputs[0])), 0.8);
  maybe(m, s, n, "keepdims", flip(m));
  maybe(m, s, n, "select_last_index", flip(m));
  maybe(m, s, n, "p", m.between(1, 2));
  return true;
}

bool cum_sum(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1)};
  n.inputs.push_back(
      m.numbers({some_axis(m, m.rank(n.inputs[0]))}, flip(m) ? DType::i64 : DType::i32, /*scalar=*/true));
  maybe(m, s, n, "exclusive", flip(m));
  maybe(m, s, n, "reverse", flip(m));
  return true;
}

bool top_k(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1)};
  const Dims shape = m.shape(n.inputs[0]);
  const int64_t axis = some_axis(m, static_cast<int>(shape.size()));
  const int64_t length = shape[static_cast<size_t>(axis < 0 ? axis + static_cast<int64_t>(shape.size()) : axis)];
  n.inputs.push_back(m.numbers({m.between(0, length)}));
  set(n, "axis", axis);
  maybe(m, s, n, "largest", flip(m));
  n.outputs = {m.chance(0.9) ? "v" : "", "i"};
  if (!n.outputs[0].empty() && m.chance(0.3)) n.outputs[1] = "";
  return true;
}

bool unique(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1)};
  if (flip(m)) set(n, "axis", some_axis(m, m.rank(n.inputs[0])));
  maybe(m, s, n, "sorted", flip(m));
  n.outputs = {"u", flip(m) ? "i" : "", flip(m) ? "r" : "", flip(m) ? "k" : ""};
  return true;
}

bool reshape(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0)};
  const Dims from = m.shape(n.inputs[0]);
  int64_t count = 1;
  for (const int64_t d : from) count *= d;
  Dims to;
  int64_t left = std::max<int64_t>(count, 1);
  while (left > 1 && to.size() < 3) {
    Dims divisors;
    for (int64_t d = 1; d <= left && d < 64; ++d)
      if (left % d == 0) divisors.push_back(d);
    to.push_back(m.one_of(divisors));
    left /= to.back();
  }
  to.push_back(left);
  if (count == 0) to[static_cast<size_t>(m.below(static_cast<int>(to.size())))] = 0;
  if (count == 0 && s.attribute("allowzero"))
    set(n, "allowzero", 1);
  else if (count && flip(m))
    to[static_cast<size_t>(m.below(static_cast<int>(to.size())))] = -1;
  else if (count && !from.empty() && from[0] == to[0] && flip(m))
    to[0] = 0;
  if (count == 1 && m.chance(0.3)) to.clear();
  give(m, s, n, "shape", to);
  return true;
}

bool squeeze(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1)};
  const Dims shape = m.shape(n.inputs[0]);
  Dims axes;
  for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i)
    if (shape[static_cast<size_t>(i)] == 1 && m.chance(0.8))
      axes.push_back(m.chance(0.3) ? i - static_cast<int64_t>(shape.size()) : i);
  if (!axes.empty()) give(m, s, n, "axes", axes);
  return true;
}

bool unsqueeze(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 0, 4)};
  const int added = 1 + m.below(2), rank = m.rank(n.inputs[0]) + added;
  Dims all(static_cast<size_t>(rank));
  std::iota(all.begin(), all.end(), 0);
  Dims axes;
  for (int i = 0; i < added; ++i) {
    const size_t at = static_cast<size_t>(m.below(static_cast<int>(all.size())));
    axes.push_back(m.chance(0.3) ? all[at] - rank : all[at]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
  }
  give(m, s, n, "axes", axes);
  return true;
}

bool flatten(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0)};
  maybe(m, s, n, "axis", m.between(0, m.rank(n.inputs[0])), 0.8);
  return true;
}

bool transpose(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0)};
  Dims perm(static_cast<size_t>(m.rank(n.inputs[0])));
  std::iota(perm.begin(), perm.end(), 0);
  for (size_t i = perm.size(); i > 1; --i)
    std::swap(perm[i - 1], perm[static_cast<size_t>(m.below(static_cast<int>(i)))]);
  if (m.chance(0.9)) set_list(n, "perm", perm);
  return true;
}

bool expand(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 0, 4)};
  n.inputs.push_back(m.numbers(beside(m, m.shape(n.inputs[0]))));
  return true;
}

bool tile(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 0, 4)};
  Dims repeats;
  for (int i = m.rank(n.inputs[0]); i > 0; --i) repeats.push_back(m.chance(0.1) ? 0 : m.between(1, 3));
  n.inputs.push_back(m.numbers(repeats));
  return true;
}

bool slice(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1)};
  const Dims shape = m.shape(n.inputs[0]);
  Dims axes = some_axes(m, static_cast<int>(shape.size())), starts, ends, steps;
  if (axes.empty()) axes = {0};
  for (const int64_t a : axes) {
    const int64_t d = shape[static_cast<size_t>(a < 0 ? a + static_cast<int64_t>(shape.size()) : a)];
    starts.push_back(m.between(-d - 1, d + 1));
    ends.push_back(m.chance(0.2) ? (flip(m) ? INT64_MAX : INT64_MIN) : m.between(-d - 1, d + 1));
    steps.push_back(m.chance(0.6) ? 1 : m.between(1, 3) * (flip(m) ? 1 : -1));
  }
  n.inputs.push_back(m.numbers(starts));
  n.inputs.push_back(m.numbers(ends));
  n.inputs.push_back(m.numbers(axes));
  if (flip(m)) n.inputs.push_back(m.numbers(steps));
  return input_named(s, "starts") > 0;
}

bool concat(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.any(t, 1)};
  const Dims shape = m.shape(n.inputs[0]);
  const int rank = static_cast<int>(shape.size());
  const int64_t axis = some_axis(m, rank);
  for (int i = m.below(4); i > 0; --i) {
    Dims next = shape;
    if (flip(m)) next[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = m.dim();
    n.inputs.push_back(m.fit(t, next));
  }
  std::swap(n.inputs[0], n.inputs[static_cast<size_t>(m.below(static_cast<int>(n.inputs.size())))]);
  set(n, "axis", axis);
  return true;
}

bool split(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1)};
  const Dims shape = m.shape(n.inputs[0]);
  const int rank = static_cast<int>(shape.size());
  const int64_t axis = some_axis(m, rank), length = shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  const int parts = 1 + m.below(4);
  set(n, "axis", axis);
  n.outputs.assign(static_cast<size_t>(parts), "s");
  if (parts > 1 && m.chance(0.2)) n.outputs[static_cast<size_t>(m.below(parts))] = "";
  if (s.attribute("num_outputs") && flip(m)) {
    set(n, "num_outputs", parts);
  } else {
    Dims sizes;
    int64_t left = length;
    for (int i = 1; i < parts; ++i) {
      sizes.push_back(m.between(0, left));
      left -= sizes.back();
    }
    sizes.push_back(left);
    give(m, s, n, "split", sizes);
  }
  return true;
}

// Random places in [-n, n) or [0, n).
std::string places(Maker& m, const Dims& shape, int64_t n, DType t) {
  int64_t count = 1;
  for (const int64_t d : shape) count *= d;
  if (n == 0 && count) return "";
  Dims values(static_cast<size_t>(count));
  for (int64_t& v : values) v = n ? m.between(m.chance(0.2) ? -n : 0, n - 1) : 0;
  Tensor tensor = m.integers(t, shape, values);
  return flip(m) ? m.constant(tensor) : m.input(Value(tensor));
}

bool gather(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1, 4)};
  const Dims shape = m.shape(n.inputs[0]);
  const int rank = static_cast<int>(shape.size());
  const int64_t axis = some_axis(m, rank), length = shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  Dims at = m.dims(m.below(3));
  if (s.name() == "GatherElements") {
    at = shape;
    for (int64_t& d : at) d = m.between(0, d);
    at[static_cast<size_t>(axis < 0 ? axis + rank : axis)] = m.dim();
  }
  n.inputs.push_back(places(m, at, length, flip(m) ? DType::i64 : DType::i32));
  set(n, "axis", axis);
  return !n.inputs[1].empty();
}

Dims tuples_for(Maker& m, const Dims& shape, int width, Dims lead, Dims* values) {
  int64_t rows = 1;
  for (const int64_t d : lead) rows *= d;
  for (int64_t r = 0; r < rows; ++r)
    for (int i = 0; i < width; ++i) {
      const int64_t n = shape[static_cast<size_t>(i)];
      values->push_back(n ? m.between(m.chance(0.1) ? -n : 0, n - 1) : 0);
    }
  lead.push_back(width);
  return lead;
}

bool gather_nd(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1, 4)};
  const Dims shape = m.shape(n.inputs[0]);
  const int rank = static_cast<int>(shape.size()), batch = s.attribute("batch_dims") ? m.below(std::min(rank, 2)) : 0;
  const int width = 1 + m.below(rank - batch);
  Dims lead(shape.begin(), shape.begin() + batch), values;
  for (int i = m.below(3); i > 0; --i) lead.push_back(m.dim());
  const Dims inner(shape.begin() + batch, shape.end());
  const Dims at = tuples_for(m, inner, width, lead, &values);
  const Tensor tuples = m.integers(DType::i64, at, values);
  n.inputs.push_back(flip(m) ? m.constant(tuples) : m.input(Value(tuples)));
  if (batch) set(n, "batch_dims", batch);
  return true;
}

void reduction(Maker& m, const Signature& s, Node& n) {
  if (!s.attribute("reduction") || flip(m)) return;
  static const std::vector<std::string> names = {"none", "add", "mul", "max", "min"};
  set_text(n, "reduction", m.one_of(names));
}

bool scatter_elements(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.any(t, 1, 4)};
  const Dims shape = m.shape(n.inputs[0]);
  const int rank = static_cast<int>(shape.size());
  const int64_t axis = some_axis(m, rank), length = shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  Dims at = shape;
  for (int64_t& d : at) d = m.between(0, d);
  n.inputs.push_back(places(m, at, length, flip(m) ? DType::i64 : DType::i32));
  n.inputs.push_back(m.fit(t, at));
  set(n, "axis", axis);
  reduction(m, s, n);
  return !n.inputs[1].empty();
}

bool scatter_nd(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.any(t, 1, 4)};
  const Dims shape = m.shape(n.inputs[0]);
  const int rank = static_cast<int>(shape.size()), width = 1 + m.below(rank);
  Dims values, lead = m.dims(m.below(3));
  const Dims at = tuples_for(m, shape, width, lead, &values);
  const Tensor tuples = m.integers(DType::i64, at, values);
  lead.insert(lead.end(), shape.begin() + width, shape.end());
  n.inputs.push_back(flip(m) ? m.constant(tuples) : m.input(Value(tuples)));
  n.inputs.push_back(m.fit(t, lead));
  reduction(m, s, n);
  return true;
}

bool pad(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.any(t, 1, 4)};
  static const std::vector<std::string> modes = {"constant", "edge", "reflect", "wrap"};
  const std::string mode = m.chance(0.4) ? "constant" : m.one_of(modes);
  if (mode != "constant") set_text(n, "mode", mode);
  Dims pads;
  for (int i = 2 * m.rank(n.inputs[0]); i > 0; --i) pads.push_back(m.between(mode == "constant" ? -1 : 0, 2));
  give(m, s, n, "pads", pads);
  if (mode == "constant" && input_named(s, "constant_value") > 0 && flip(m)) n.inputs.push_back(m.fit(t, {}));
  return true;
}

bool shape_of(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0)};
  const int rank = m.rank(n.inputs[0]);
  maybe(m, s, n, "start", m.between(-rank - 1, rank + 1), 0.3);
  maybe(m, s, n, "end", m.between(-rank - 1, rank + 1), 0.3);
  return true;
}

bool constant(Maker& m, const Signature& s, Node& n) {
  n.attributes.push_back(ir::Attribute::tensor("value", m.tensor(m.type(*s.output(0)), m.dims(m.below(4)))));
  return true;
}

bool constant_of_shape(Maker& m, const Signature& s, Node& n) {
  n.inputs = {m.numbers(m.dims(m.below(4)))};
  if (m.chance(0.8)) n.attributes.push_back(ir::Attribute::tensor("value", m.tensor(m.type(*s.output(0)), {1})));
  return true;
}

bool range(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0), set_of(DType::f32, DType::f64, DType::i16, DType::i32, DType::i64));
  const int64_t step = m.between(1, 3) * (flip(m) ? 1 : -1), start = m.between(-4, 9);
  n.inputs = {m.numbers({start}, t, true), m.numbers({start + step * m.between(-1, 12)}, t, true),
              m.numbers({step}, t, true)};
  return true;
}

bool trilu(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 2)};
  maybe(m, s, n, "upper", flip(m));
  if (flip(m)) n.inputs.push_back(m.numbers({m.between(-3, 3)}, DType::i64, true));
  return true;
}

bool eye_like(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 2, 2)};
  maybe(m, s, n, "k", m.between(-2, 2));
  if (flip(m)) set(n, "dtype", static_cast<int64_t>(m.type(*s.output(0))));
  return true;
}

bool one_hot(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(2));
  const std::string indices = take(m, s, 0, 0, 3);
  n.inputs = {indices, m.numbers({m.between(1, 6)}, DType::i64, flip(m)), m.fit(t, {2})};
  maybe(m, s, n, "axis", m.between(-m.rank(indices) - 1, m.rank(indices)));
  return true;
}

bool compress(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1)};
  const Dims shape = m.shape(n.inputs[0]);
  const int rank = static_cast<int>(shape.size());
  int64_t length = 1;
  for (const int64_t d : shape) length *= d;
  if (flip(m)) {
    const int64_t axis = some_axis(m, rank);
    set(n, "axis", axis);
    length = shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  }
  n.inputs.push_back(m.fit(DType::boolean, {m.between(0, length)}));
  return true;
}

bool reverse_sequence(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 2)};
  const Dims shape = m.shape(n.inputs[0]);
  const bool swapped = flip(m);
  set(n, "batch_axis", swapped ? 0 : 1);
  set(n, "time_axis", swapped ? 1 : 0);
  Dims lengths;
  for (int64_t i = 0; i < shape[swapped ? 0 : 1]; ++i)
    lengths.push_back(m.between(shape[swapped ? 1 : 0] ? 1 : 0, shape[swapped ? 1 : 0]));
  n.inputs.push_back(m.numbers(lengths));
  return true;
}

bool blocks(Maker& m, const Signature& s, Node& n) {
  const int64_t b = m.between(1, 3);
  Dims shape = m.dims(4);
  if (s.name() == "DepthToSpace") {
    shape = {m.dim(), b * b * m.between(1, 2), m.between(1, 4), m.between(1, 4)};
    if (s.attribute("mode") && flip(m)) set_text(n, "mode", "CRD");
  } else {
    shape = {m.dim(), m.between(1, 3), b * m.between(1, 3), b * m.between(1, 3)};
  }
  n.inputs = {m.fit(m.type(*s.input(0)), shape)};
  set(n, "blocksize", b);
  return true;
}

bool center_crop_pad(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1)};
  const int rank = m.rank(n.inputs[0]);
  Dims axes = some_axes(m, rank), sizes;
  if (axes.empty() || flip(m)) {
    axes.resize(static_cast<size_t>(rank));
  } else {
    set_list(n, "axes", axes);
  }
  for (size_t i = 0; i < axes.size(); ++i) sizes.push_back(m.dim(1));
  n.inputs.push_back(m.numbers(sizes));
  return true;
}

bool bit_cast(Maker& m, const Signature& s, Node& n) {
  const DType from = m.type(*s.input(0), kEveryType - set_of(DType::string));
  n.inputs = {m.any(from)};
  for (int i = 0; i < 20; ++i)
    if (const DType to = m.type(*s.output(0)); bits_of(to) == bits_of(from) && to != DType::string) {
      set(n, "to", static_cast<int64_t>(to));
      return true;
    }
  return false;
}

bool resize(Maker& m, const Signature& s, Node& n) {
  const std::vector<std::string> modes = {"nearest", "linear", "cubic"};
  const std::string mode = m.one_of(modes);
  const int rank = mode == "cubic" ? 4 : static_cast<int>(m.between(1, 4));
  Dims shape = m.dims(rank, 1);
  if (mode == "cubic" || flip(m))
    for (int i = 0; i + 2 < rank; ++i) shape[static_cast<size_t>(i)] = m.between(1, 2);
  n.inputs = {m.fit(m.type(*s.input(0)), shape)};
  if (mode != "nearest") set_text(n, "mode", mode);
  static const std::vector<std::string> coordinates = {"half_pixel", "pytorch_half_pixel", "align_corners",
                                                       "asymmetric"};
  if (s.attribute("coordinate_transformation_mode"))
    set_text(n, "coordinate_transformation_mode", m.one_of(coordinates));
  if (mode == "nearest" && s.attribute("nearest_mode")) {
    static const std::vector<std::string> nearest = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    set_text(n, "nearest_mode", m.one_of(nearest));
  }
  if (mode != "nearest") maybe(m, s, n, "antialias", flip(m), 0.3);
  if (s.name() == "Upsample") return false;
  Dims sizes = shape;
  for (int i = mode == "cubic" ? 2 : 0; i < rank; ++i) sizes[static_cast<size_t>(i)] = m.between(1, 7);
  n.inputs.push_back("");
  if (flip(m)) {
    n.inputs.push_back("");
    n.inputs.push_back(m.numbers(sizes));
  } else {
    Tensor scales = m.reals(DType::f32, {rank}, 0.4, 2.5);
    for (int i = 0; mode == "cubic" && i < 2; ++i) static_cast<float*>(scales.mutable_data())[i] = 1;
    n.inputs.push_back(m.constant(scales));
  }
  return input_named(s, "sizes") == 3;
}

bool string_concat(Maker& m, const Signature&, Node& n) {
  n.inputs = {m.any(DType::string, 0, 4)};
  n.inputs.push_back(m.fit(DType::string, beside(m, m.shape(n.inputs[0]), true)));
  return true;
}

bool string_split(Maker& m, const Signature&, Node& n) {
  n.inputs = {m.any(DType::string, 0, 3)};
  if (flip(m)) set_text(n, "delimiter", flip(m) ? "," : "");
  if (flip(m)) set(n, "maxsplit", m.between(0, 2));
  n.outputs = {"p", "k"};
  return true;
}

bool regex(Maker& m, const Signature&, Node& n) {
  n.inputs = {m.any(DType::string, 0, 3)};
  set_text(n, "pattern", flip(m) ? "[a-c]+" : ".*b");
  return true;
}

bool tensor_scatter(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const int64_t batch = m.between(1, 3), length = m.between(2, 6), update = m.between(1, length);
  const Dims rest = m.dims(1, 1);
  n.inputs = {m.fit(t, {batch, length, rest[0]}), m.fit(t, {batch, update, rest[0]})};
  if (flip(m)) {
    Dims at;
    for (int64_t i = 0; i < batch; ++i) at.push_back(m.between(0, length - update));
    n.inputs.push_back(m.numbers(at));
  }
  return true;
}

bool window(Maker& m, const Signature& s, Node& n) {
  n.inputs = {m.numbers({m.between(0, 9)}, flip(m) ? DType::i64 : DType::i32, true)};
  maybe(m, s, n, "periodic", 0);
  return true;
}

bool dft(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.fit(t, {m.between(1, 2), m.between(1, 9), m.between(1, 2)})};
  if (flip(m)) n.inputs.push_back(m.numbers({m.between(1, 9)}, DType::i64, true));
  maybe(m, s, n, "inverse", 1);
  return true;
}

bool stft(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.fit(t, {m.between(1, 2), m.between(8, 14), m.between(1, 2)}),
              m.numbers({m.between(1, 3)}, DType::i64, true), "", m.numbers({m.between(1, 8)}, DType::i64, true)};
  set(n, "onesided", 0);
  return true;
}

bool string_normalizer(Maker& m, const Signature&, Node& n) {
  n.inputs = {m.fit(DType::string, flip(m) ? Dims{m.dim()} : Dims{1, m.dim()})};
  if (flip(m)) set_text(n, "case_change_action", flip(m) ? "UPPER" : "LOWER");
  if (flip(m)) set_texts(n, "stopwords", {"a", "AB"});
  return true;
}

bool einsum(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const std::string a = m.any(t, 2, 2);
  static const std::vector<std::string> two = {"ij,jk->ik", "ij,jk", "ij,jk->ki", "ij,jk->j", "...ij,...jk->...ik"};
  static const std::vector<std::string> one = {"ij->ji", "ij->i", "ij->", "...j->j..."};
  n.inputs = {a};
  if (flip(m)) n.inputs.push_back(m.fit(t, {m.shape(a)[1], m.dim(1)}));
  set_text(n, "equation", m.one_of(n.inputs.size() == 2 ? two : one));
  return true;
}

constexpr RecipeEntry kRecipes[] = {
    {"BlackmanWindow HammingWindow HannWindow", window},
    {"DFT", dft},
    {"STFT", stft},
    {"StringNormalizer", string_normalizer},
    {"Einsum", einsum},
    {"Abs Neg Sign Relu Erf Exp Log Sqrt Tanh Sigmoid Reciprocal Floor Ceil Round Sin Cos Tan Asin Acos Atan Sinh Cosh "
     "Asinh Acosh Atanh Softplus Softsign Gelu LeakyRelu Elu Celu Selu HardSigmoid HardSwish Swish Mish "
     "ThresholdedRelu "
     "Shrink Not BitwiseNot IsNaN IsInf Identity Size NonZero",
     alike},
    {"Add Sub Mul Div Pow Mod And Or Xor Equal Greater Less GreaterOrEqual LessOrEqual BitwiseAnd BitwiseOr BitwiseXor "
     "BitShift PRelu",
     broadcast},
    {"Max Min Sum Mean", variadic},
    {"Where", where},
    {"Clip", clip},
    {"Cast CastLike", cast},
    {"ReduceSum ReduceMean ReduceMax ReduceMin ReduceProd ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp "
     "ReduceSumSquare",
     reduce},
    {"Softmax LogSoftmax Hardmax ArgMax ArgMin LpNormalization", with_axis},
    {"CumSum CumProd", cum_sum},
    {"TopK", top_k},
    {"Unique", unique},
    {"Reshape", reshape},
    {"Squeeze", squeeze},
    {"Unsqueeze", unsqueeze},
    {"Flatten", flatten},
    {"Transpose", transpose},
    {"Expand", expand},
    {"Tile", tile},
    {"Slice", slice},
    {"Concat", concat},
    {"Split", split},
    {"Gather GatherElements", gather},
    {"GatherND", gather_nd},
    {"ScatterElements Scatter", scatter_elements},
    {"ScatterND", scatter_nd},
    {"Pad", pad},
    {"Shape", shape_of},
    {"Constant", constant},
    {"ConstantOfShape", constant_of_shape},
    {"Range", range},
    {"Trilu", trilu},
    {"EyeLike", eye_like},
    {"OneHot", one_hot},
    {"Compress", compress},
    {"ReverseSequence", reverse_sequence},
    {"DepthToSpace SpaceToDepth", blocks},
    {"CenterCropPad", center_crop_pad},
    {"BitCast", bit_cast},
    {"Resize", resize},
    {"StringConcat", string_concat},
    {"StringSplit", string_split},
    {"RegexFullMatch", regex},
    {"TensorScatter", tensor_scatter},
};

Recipe find_in(std::span<const RecipeEntry> table, std::string_view name) {
  for (const RecipeEntry& e : table)
    for (size_t at = 0; (at = e.names.find(name, at)) != std::string_view::npos; ++at) {
      const size_t end = at + name.size();
      if ((at == 0 || e.names[at - 1] == ' ') && (end == e.names.size() || e.names[end] == ' ')) return e.recipe;
    }
  return nullptr;
}

}  // namespace

std::span<const RecipeEntry> tensor_recipes() { return kRecipes; }

Recipe recipe_of(const Signature& s) {
  for (const auto& table : {tensor_recipes(), network_recipes(), structure_recipes()})
    if (const Recipe r = find_in(table, s.name())) return r;
  return s.domain().empty() ? alike : nullptr;
}

}  // namespace tessera::testing
