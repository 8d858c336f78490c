// Recipes for control flow, sequences, optionals and the operators of ai.onnx.ml.
#include <algorithm>

#include "random_recipes.h"

namespace tessera::testing {
namespace {

using Node = RandomNode;

bool flip(Maker& m) { return m.chance(0.5); }

// Needs more than random values, or is part of another recipe.
bool nothing(Maker&, const Signature&, Node&) { return false; }

// A few operators, and then a value of the given type and shape that depends on `from` where it can.
std::string some_value(Maker& b, DType t, const Dims& shape) {
  for (int i = b.below(4); i > 0; --i) b.add_any();
  const std::string name = b.fit(t, shape);
  if (name.empty()) return "";
  Node copy{"Identity", "", {name}, {}};
  static const std::vector<std::string> unary = {"Abs", "Neg", "Relu", "Identity"};
  if (kFloats.has(t)) copy.op = b.one_of(unary);
  return b.add(copy) || (copy.op = "Identity", copy.outputs.clear(), b.add(copy)) ? copy.outputs[0] : "";
}

bool if_else(Maker& m, const Signature&, Node& n) {
  if (m.depth() >= 2) return false;
  n.inputs = {m.fit(DType::boolean, {})};
  struct Out {
    DType type;
    Dims shape;
  };
  std::vector<Out> outs;
  for (int i = 1 + m.below(2); i > 0; --i) {
    const std::string like = m.existing([](const Value& v) { return v.tensor() && v.tensor()->count() < 500; });
    if (like.empty()) return false;
    outs.push_back({m.tensor_of(like).dtype(), m.shape(like)});
  }
  n.outputs.assign(outs.size(), "f");
  for (const char* branch : {"then_branch", "else_branch"}) {
    auto body = m.body({}, [&](Maker& b, const auto&) {
      for (Out o : outs) {
        if (std::string_view(branch) == "else_branch" && !o.shape.empty() && b.chance(0.2)) o.shape[0] = b.dim();
        const std::string name = some_value(b, o.type, o.shape);
        if (name.empty()) return false;
        b.output(name);
      }
      return true;
    });
    if (!body) return false;
    n.bodies.push_back({branch, body});
  }
  return true;
}

bool loop(Maker& m, const Signature&, Node& n) {
  if (m.depth() >= 2) return false;
  const bool counted = m.chance(0.8);
  n.inputs = {counted ? m.numbers({m.between(0, 4)}, DType::i64, true) : "",
              flip(m) ? m.numbers({m.chance(0.9)}, DType::boolean, true) : ""};
  std::vector<Value> in = {Value(m.integers(DType::i64, {}, {0})), Value(m.integers(DType::boolean, {}, {1}))};
  for (int i = m.below(3); i > 0; --i) {
    const std::string carried = m.existing([](const Value& v) { return v.tensor() && v.tensor()->count() < 500; });
    if (carried.empty()) return false;
    n.inputs.push_back(carried);
    in.push_back(m.value(carried));
  }
  const int scans = m.below(2) + (in.size() == 2);
  auto body = m.body(in, [&](Maker& b, const std::vector<std::string>& names) {
    Node go{"Less", "", {names[0], b.constant(b.integers(DType::i64, {}, {b.between(0, 3)}))}, {}};
    if (!b.add(go)) return false;
    b.output(go.outputs[0]);
    for (size_t i = 2; i < names.size(); ++i) {
      const std::string next = some_value(b, in[i].tensor()->dtype(), b.shape(names[i]));
      if (next.empty()) return false;
      b.output(next);
    }
    for (int i = 0; i < scans; ++i) {
      const std::string next = some_value(b, flip(b) ? DType::f32 : DType::i64, b.dims(b.below(3)));
      if (next.empty()) return false;
      b.output(next);
    }
    return true;
  });
  if (!body) return false;
  n.outputs.assign(in.size() - 2 + static_cast<size_t>(scans), "l");
  n.bodies.push_back({"body", body});
  return true;
}

bool scan(Maker& m, const Signature& s, Node& n) {
  if (m.depth() >= 2 || s.since_version < 9) return false;
  std::vector<Value> in;
  const int states = m.below(2);
  for (int i = 0; i < states; ++i) {
    n.inputs.push_back(m.existing([](const Value& v) { return v.tensor() && v.tensor()->count() < 300; }));
    if (n.inputs.back().empty()) return false;
    in.push_back(m.value(n.inputs.back()));
  }
  const std::string over = m.existing([](const Value& v) {
    return v.tensor() && v.tensor()->shape().rank() > 0 && v.tensor()->shape()[0] < 8 && v.tensor()->count() > 0 &&
           v.tensor()->count() < 500 && !is_sub_byte(v.tensor()->dtype());
  });
  if (over.empty()) return false;
  n.inputs.push_back(over);
  Dims slice = m.shape(over);
  slice.erase(slice.begin());
  in.push_back(Value(m.tensor(m.tensor_of(over).dtype(), slice)));
  auto body = m.body(in, [&](Maker& b, const std::vector<std::string>& names) {
    for (int i = 0; i < states; ++i) {
      const size_t k = static_cast<size_t>(i);
      b.output(some_value(b, in[k].tensor()->dtype(), b.shape(names[k])));
    }
    Node copy{"Identity", "", {names.back()}, {}};
    if (!b.add(copy)) return false;
    b.output(flip(b) ? copy.outputs[0] : some_value(b, in.back().tensor()->dtype(), slice));
    return true;
  });
  if (!body || std::count(body->outputs.begin(), body->outputs.end(), "")) return false;
  set(n, "num_scan_inputs", 1);
  n.outputs.assign(body->outputs.size(), "a");
  n.bodies.push_back({"body", body});
  return true;
}

std::string a_sequence(Maker& m, bool filled = false) {
  return m.existing([&](const Value& v) {
    const Sequence* s = v.sequence();
    return s && (!filled || !s->items.empty()) && (s->items.empty() || s->items[0].tensor());
  });
}
DType element_of(const Value& v) {
  const Sequence* s = v.sequence();
  return s->items.empty() ? s->element : s->items[0].tensor()->dtype();
}

bool construct(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  for (int i = 1 + m.below(3); i > 0; --i) n.inputs.push_back(m.any(t));
  n.outputs = {"q"};
  return true;
}

bool sequence_empty(Maker& m, const Signature&, Node& n) {
  if (flip(m)) set(n, "dtype", static_cast<int64_t>(flip(m) ? DType::i64 : DType::f64));
  n.outputs = {"q"};
  return true;
}

bool element(Maker& m, const Signature& s, Node& n) {
  const std::string from = a_sequence(m, s.name() == "SequenceAt" || s.name() == "SequenceErase");
  if (from.empty()) return false;
  n.inputs = {from};
  const int64_t length = static_cast<int64_t>(m.value(from).sequence()->items.size());
  const DType t = flip(m) ? DType::i64 : DType::i32;
  if (s.name() == "SequenceInsert") {
    n.inputs.push_back(m.any(element_of(m.value(from))));
    if (flip(m)) n.inputs.push_back(m.numbers({m.between(-length, length)}, t, true));
    n.outputs = {"q"};
  } else if (s.name() == "SequenceAt" || s.name() == "SequenceErase") {
    if (s.name() == "SequenceAt" || flip(m)) n.inputs.push_back(m.numbers({m.between(-length, length - 1)}, t, true));
  }
  return true;
}

bool concat_from_sequence(Maker& m, const Signature&, Node& n) {
  const std::string from = a_sequence(m, true);
  if (from.empty()) return false;
  n.inputs = {from};
  set(n, "axis", some_axis(m, m.value(from).sequence()->items[0].tensor()->shape().rank()));
  if (flip(m)) set(n, "new_axis", 1);
  return true;
}

bool split_to_sequence(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1, 4)};
  const Dims shape = m.shape(n.inputs[0]);
  const int rank = static_cast<int>(shape.size());
  const int64_t axis = some_axis(m, rank), length = shape[static_cast<size_t>(axis < 0 ? axis + rank : axis)];
  if (length > 9) return false;
  set(n, "axis", axis);
  if (flip(m)) {
    if (flip(m)) {
      n.inputs.push_back(m.numbers({m.between(1, 4)}, DType::i64, true));
    } else {
      const int64_t first = m.between(0, length);
      n.inputs.push_back(m.numbers({first, length - first}));
    }
  } else {
    maybe(m, s, n, "keepdims", flip(m));
  }
  n.outputs = {"q"};
  return true;
}

bool sequence_map(Maker& m, const Signature&, Node& n) {
  const std::string from = a_sequence(m, true);
  if (from.empty() || m.depth() >= 2) return false;
  n.inputs = {from};
  std::vector<Value> in = {m.value(from).sequence()->items[0]};
  if (flip(m)) {
    n.inputs.push_back(m.any(DType::f32));
    in.push_back(m.value(n.inputs.back()));
  }
  auto body = m.body(in, [&](Maker& b, const std::vector<std::string>& names) {
    static const std::vector<std::string> some = {"Identity", "Shape", "Size"};
    Node one{b.one_of(some), "", {names[0]}, {}};
    if (!b.add(one)) return false;
    for (int i = b.below(3); i > 0; --i) b.add_any();
    b.output(one.outputs[0]);
    if (names.size() == 2 && flip(b)) {
      Node two{"Neg", "", {names[1]}, {}};
      if (!b.add(two)) return false;
      b.output(two.outputs[0]);
    }
    return true;
  });
  if (!body) return false;
  n.outputs.assign(body->outputs.size(), "q");
  n.bodies.push_back({"body", body});
  return true;
}

// An optional is made for its reader: nobody else takes one.
bool optional(Maker& m, const Signature& s, Node& n) {
  n.inputs = {flip(m) ? a_sequence(m) : m.any(DType::f32)};
  if (n.inputs[0].empty()) return false;
  if (s.since_version < 18 || flip(m)) {
    Node wrap{"Optional", "", {n.inputs[0]}, {"o"}};
    if (m.opset() < 15 || !m.add(wrap)) return false;
    m.hide(wrap.outputs[0]);
    n.inputs = {wrap.outputs[0]};
  }
  return true;
}

// --------------------------------------------------------------------------------------------------- ai.onnx.ml

bool columns(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  n.inputs = {m.any(t, 1, 2)};
  const Dims x = m.shape(n.inputs[0]);
  const size_t width = static_cast<size_t>(x.back());
  std::vector<float> values(flip(m) ? width : 1, 0.5f);
  if (s.name() == "Scaler") {
    set_reals(n, "offset", values);
    set_reals(n, "scale", values);
  } else if (s.name() == "Imputer") {
    if (kFloats.has(t))
      set_reals(n, "imputed_value_floats", values);
    else
      set_list(n, "imputed_value_int64s", Dims(values.size(), 3));
  } else if (s.name() == "Normalizer") {
    static const std::vector<std::string> norms = {"MAX", "L1", "L2"};
    set_text(n, "norm", m.one_of(norms));
  } else if (s.name() == "Binarizer") {
    set_real(n, "threshold", 0.5);
  }
  return !values.empty();
}

bool extract(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 1, 3)};
  const int64_t last = m.shape(n.inputs[0]).back();
  if (last == 0) return false;
  Dims at;
  for (int i = 1 + m.below(3); i > 0; --i) at.push_back(m.between(0, last - 1));
  n.inputs.push_back(m.numbers(at));
  return true;
}

bool label_encoder(Maker& m, const Signature&, Node& n) {
  if (flip(m)) {
    n.inputs = {m.any(DType::i64)};
    set_list(n, "keys_int64s", {0, 1, 2, 3});
    set_texts(n, "values_strings", {"a", "b", "Ab", "7"});
  } else {
    n.inputs = {m.any(DType::string)};
    set_texts(n, "keys_strings", {"a", "b"});
    set_reals(n, "values_floats", {0.5f, -2});
    set_real(n, "default_float", 9);
  }
  return true;
}

bool one_hot_encoder(Maker& m, const Signature&, Node& n) {
  n.inputs = {m.any(DType::i64, 0, 3)};
  set_list(n, "cats_int64s", {0, 1, 2, 5});
  return true;
}

bool feature_vectorizer(Maker& m, const Signature& s, Node& n) {
  const DType t = m.type(*s.input(0));
  const int64_t rows = m.between(1, 4);
  Dims widths;
  for (int i = 1 + m.below(3); i > 0; --i) {
    widths.push_back(m.between(1, 4));
    n.inputs.push_back(m.fit(t, {rows, widths.back()}));
  }
  set_list(n, "inputdimensions", widths);
  return true;
}

bool linear(Maker& m, const Signature& s, Node& n) {
  n.inputs = {take(m, s, 0, 2, 2)};
  const size_t width = static_cast<size_t>(m.shape(n.inputs[0])[1]), targets = 1 + static_cast<size_t>(m.below(3));
  std::vector<float> c(width * targets), b(targets, 0.25f);
  for (float& v : c) v = static_cast<float>(m.between(-8, 8)) / 4;
  set_reals(n, "coefficients", c);
  set_reals(n, "intercepts", b);
  static const std::vector<std::string> after = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO"};
  set_text(n, "post_transform", m.one_of(after));
  if (s.name() == "LinearRegressor") {
    set(n, "targets", static_cast<int64_t>(targets));
  } else {
    Dims labels;
    for (size_t i = 0; i < std::max<size_t>(targets, 2); ++i) labels.push_back(static_cast<int64_t>(i) * 3);
    set_list(n, "classlabels_ints", labels);
    n.outputs = {"y", "z"};
  }
  return true;
}

bool zip_map(Maker& m, const Signature&, Node& n) {
  const std::string x = m.any(DType::f32, 1, 2);
  n.inputs = {x};
  Dims labels;
  for (int64_t i = 0; i < m.shape(x).back(); ++i) labels.push_back(i);
  set_list(n, "classlabels_int64s", labels);
  n.outputs = {"q"};
  return labels.size() < 20;
}

constexpr RecipeEntry kRecipes[] = {
    {"If", if_else},
    {"Loop", loop},
    {"Scan", scan},
    {"SequenceConstruct", construct},
    {"SequenceEmpty", sequence_empty},
    {"SequenceInsert SequenceErase SequenceAt SequenceLength", element},
    {"ConcatFromSequence", concat_from_sequence},
    {"SplitToSequence", split_to_sequence},
    {"SequenceMap", sequence_map},
    {"OptionalGetElement OptionalHasElement", optional},
    {"Optional ImageDecoder TfIdfVectorizer", nothing},
    {"Binarizer Imputer Scaler Normalizer", columns},
    {"ArrayFeatureExtractor", extract},
    {"LabelEncoder", label_encoder},
    {"OneHotEncoder", one_hot_encoder},
    {"FeatureVectorizer", feature_vectorizer},
    {"LinearRegressor LinearClassifier", linear},
    {"ZipMap", zip_map},
};

}  // namespace

std::span<const RecipeEntry> structure_recipes() { return kRecipes; }

}  // namespace tessera::testing
