#include "random_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/convert.h"
#include "ops/op.h"
#include "ops/resolve.h"

namespace tessera::testing {
namespace {

const std::vector<std::string> kWords = {"", "a", "b", "Ab", "tessera", "a b  c", "zw\xc3\xb6lf", "x,y", "7"};

std::vector<const spec::Signature*> operators_of(int opset, int ml_opset) {
  std::vector<const spec::Signature*> out;
  for (const Op* op : op_table()) {
    const std::string_view domain = op->domain;
    if (!domain.empty() && domain != "ai.onnx.ml") continue;
    const spec::Signature* s = spec::find_signature(domain, op->name, domain.empty() ? opset : ml_opset);
    if (s && !s->deprecated && recipe_of(*s)) out.push_back(s);
  }
  return out;
}

int64_t weight_of(const Value& v) {
  int64_t n = 0;
  if (const Tensor* t = v.tensor()) {
    n = t->count();
    if (t->dtype() == DType::string)
      for (const std::string& s : t->values<std::string>()) n += static_cast<int64_t>(s.size());
  } else if (const Sequence* s = v.sequence()) {
    n = static_cast<int64_t>(s->items.size()) * 50;
    for (const Value& i : s->items) n += weight_of(i);
  }
  return n;
}

TypeSet castable(int opset) {
  return (kNumbers - (opset < 13 ? set_of(DType::bf16) : TypeSet{})) | set_of(DType::boolean);
}

}  // namespace

Maker::Maker(RandomModel& model, std::mt19937_64& random, Tallies& tallies, Maker* parent)
    : model_(model), random_(random), tallies_(tallies), parent_(parent) {
  next_ = parent ? parent->next_ : std::make_shared<int>(0);
  sizes_ = parent ? parent->sizes_ : std::make_shared<std::map<std::string, int64_t>>();
  if (parent) large = parent->large, dynamic = parent->dynamic;
}

std::string Maker::new_name(std::string_view stem) { return format("{}{}", stem, (*next_)++); }

int64_t Maker::dim(int64_t least) {
  const int kind = below(40);
  if (kind == 0) return std::max<int64_t>(least, 0);
  if (kind < 6) return std::max<int64_t>(least, 1);
  if (large && kind < 14) return between(20, 90);
  return std::max<int64_t>(least, between(1, kind < 12 ? 9 : 5));
}

std::vector<int64_t> Maker::dims(int rank, int64_t least) {
  std::vector<int64_t> out;
  int64_t count = 1;
  for (int i = 0; i < rank; ++i) {
    int64_t d = dim(least);
    if (count * d > (large ? 30000 : 600)) d = std::max<int64_t>(least, between(1, 2));
    out.push_back(d);
    count *= std::max<int64_t>(d, 1);
  }
  return out;
}

DType Maker::type(const spec::Argument& argument, TypeSet within) {
  const TypeSet allowed = TypeSet{argument.types().mask(spec::TypeKind::tensor)} & within & kEveryType;
  if (allowed.empty()) return DType::undefined;
  if (chance(0.75)) {
    const std::string name = existing([&](const Value& v) { return v.tensor() && allowed.has(v.tensor()->dtype()); });
    if (!name.empty()) return tensor_of(name).dtype();
  }
  static const std::vector<DType> common = {DType::f32, DType::f32, DType::i64,     DType::f64,
                                            DType::i32, DType::u8,  DType::boolean, DType::f16};
  for (int i = 0; i < 6; ++i)
    if (const DType t = one_of(common); allowed.has(t)) return t;
  std::vector<DType> all;
  for (int i = 1; i < kDTypeCount; ++i)
    if (allowed.has(static_cast<DType>(i))) all.push_back(static_cast<DType>(i));
  return one_of(all);
}

const Value& Maker::value(const std::string& name) const {
  const auto it = scope_.find(name);
  if (it != scope_.end()) return it->second;
  static const Value none;
  return parent_ ? parent_->value(name) : none;
}

std::vector<int64_t> Maker::shape(const std::string& name) const {
  const auto d = tensor_of(name).shape().dims();
  return {d.begin(), d.end()};
}

std::string Maker::existing(const std::function<bool(const Value&)>& fits) {
  std::vector<std::string> found;
  for (const std::string& name : order_)
    if (fits(scope_.at(name))) found.push_back(name);
  if (parent_ && (found.empty() || chance(0.3))) return parent_->existing(fits);
  if (found.empty()) return "";
  const int n = static_cast<int>(found.size());
  return found[static_cast<size_t>(std::max(below(n), below(n)))];
}

std::string Maker::any(DType dtype, int least_rank, int most_rank) {
  if (chance(0.9)) {
    const std::string name = existing([&](const Value& v) {
      return v.tensor() && v.tensor()->dtype() == dtype && v.tensor()->shape().rank() >= least_rank &&
             v.tensor()->shape().rank() <= most_rank;
    });
    if (!name.empty()) return name;
  }
  const int rank = static_cast<int>(between(least_rank, std::max(least_rank, std::min(most_rank, 4))));
  return fit(dtype, dims(rank));
}

std::string Maker::fit(DType dtype, const std::vector<int64_t>& shape) {
  const Shape want{std::span<const int64_t>(shape)};
  if (chance(0.6)) {
    const std::string name = existing(
        [&](const Value& v) { return v.tensor() && v.tensor()->dtype() == dtype && v.tensor()->shape() == want; });
    if (!name.empty()) return name;
  }
  if (chance(0.6))
    if (const std::string name = adapted(dtype, shape); !name.empty()) return name;
  return fresh(dtype, shape);
}

std::string Maker::fresh(DType dtype, const std::vector<int64_t>& shape) {
  Tensor t = tensor(dtype, shape);
  return parent_ || chance(0.3) ? constant(std::move(t)) : input(Value(std::move(t)));
}

std::string Maker::adapted(DType dtype, const std::vector<int64_t>& shape) {
  const TypeSet types = castable(model_.opset);
  const int64_t count = Shape(std::span<const int64_t>(shape)).count();
  if (count == 0 || count > 4000) return "";
  std::string at = existing([&](const Value& v) {
    return v.tensor() && v.tensor()->count() > 0 &&
           (v.tensor()->dtype() == dtype || (types.has(dtype) && types.has(v.tensor()->dtype())));
  });
  if (at.empty()) return "";
  const auto step = [&](RandomNode node) {
    if (!add(node)) return false;
    at = node.outputs[0];
    return true;
  };
  if (tensor_of(at).dtype() != dtype &&
      !step({"Cast", "", {at}, {}, {ir::Attribute::integer("to", static_cast<int64_t>(dtype))}}))
    return "";
  if (tensor_of(at).shape().dims().size() != 1 && !step({"Reshape", "", {at, numbers({-1})}, {}})) return "";
  const int64_t have = tensor_of(at).count();
  if (have < count && !step({"Tile", "", {at, numbers({(count + have - 1) / have})}, {}})) return "";
  if (tensor_of(at).count() > count && !step({"Slice", "", {at, numbers({0}), numbers({count})}, {}})) return "";
  if (shape.size() != 1 && !step({"Reshape", "", {at, numbers(shape)}, {}})) return "";
  return at;
}

std::string Maker::shape_computed(const std::vector<int64_t>& values) {
  const auto whole = existing([&](const Value& v) {
    return v.tensor() && std::equal(values.begin(), values.end(), v.tensor()->shape().dims().begin(),
                                    v.tensor()->shape().dims().end());
  });
  if (!whole.empty() && !values.empty()) {
    RandomNode node{"Shape", "", {whole}, {}};
    return add(node) ? node.outputs[0] : "";
  }
  RandomNode concat{"Concat", "", {}, {}, {ir::Attribute::integer("axis", 0)}};
  for (const int64_t v : values) {
    const std::string name = existing([&](const Value& x) {
      if (!x.tensor()) return false;
      const auto d = x.tensor()->shape().dims();
      return std::find(d.begin(), d.end(), v) != d.end();
    });
    if (name.empty() || chance(0.4)) {
      concat.inputs.push_back(constant(integers(DType::i64, {1}, {v})));
      continue;
    }
    const std::vector<int64_t> d = shape(name);
    const int64_t at = std::find(d.begin(), d.end(), v) - d.begin();
    RandomNode of{"Shape", "", {name}, {}};
    if (!add(of)) return "";
    RandomNode one{"Gather", "", {of.outputs[0], constant(integers(DType::i64, {1}, {at}))}, {}};
    if (!add(one)) return "";
    concat.inputs.push_back(one.outputs[0]);
  }
  return !concat.inputs.empty() && add(concat) ? concat.outputs[0] : "";
}

std::string Maker::numbers(const std::vector<int64_t>& values, DType dtype, bool scalar) {
  if (!scalar && dtype == DType::i64 && chance(0.25))
    if (const std::string name = shape_computed(values); !name.empty()) return name;
  Tensor t = integers(
      dtype, scalar ? std::vector<int64_t>{} : std::vector<int64_t>{static_cast<int64_t>(values.size())}, values);
  return parent_ || chance(0.8) ? constant(std::move(t)) : input(Value(std::move(t)));
}

std::string Maker::constant(Tensor tensor) {
  const std::string name = new_name("c");
  scope_[name] = tensor;
  graph_.constants[name] = std::move(tensor);
  constants_.insert(name);
  return name;
}

std::vector<std::string> Maker::symbols_for(const Shape& shape) {
  std::vector<std::string> out;
  for (const int64_t d : shape.dims()) {
    std::string name;
    if (chance(dynamic)) {
      for (const auto& [symbol, size] : *sizes_)
        if (size == d && chance(0.4)) name = symbol;
      if (name.empty()) name = new_name("n");
      (*sizes_)[name] = d;
    }
    out.push_back(name);
  }
  return out;
}

std::string Maker::input(Value value) {
  if (parent_) return value.tensor() ? constant(*value.tensor()) : "";
  RandomInput in{new_name("x"), value};
  if (value.tensor()) in.symbols = symbols_for(value.tensor()->shape());
  in.ranked = !chance(0.03);
  scope_[in.name] = std::move(value);
  order_.push_back(in.name);
  graph_.inputs.push_back(in);
  return in.name;
}

Tensor Maker::integers(DType dtype, const std::vector<int64_t>& shape, const std::vector<int64_t>& values) {
  Result<Tensor> t = Tensor::allocate(dtype, Shape(std::span<const int64_t>(shape)));
  if (is_sub_byte(dtype)) std::memset(t->mutable_data(), 0, static_cast<size_t>(t->bytes()));
  encode(dtype, t->mutable_data(), 0, t->count(), values.data());
  return *t;
}

Tensor Maker::reals(DType dtype, const std::vector<int64_t>& shape, double low, double high) {
  Result<Tensor> t = Tensor::allocate(dtype, Shape(std::span<const int64_t>(shape)));
  std::vector<double> values(static_cast<size_t>(t->count()));
  for (double& v : values) v = low + (high - low) * below(1 << 20) * 0x1p-20;
  encode(dtype, t->mutable_data(), 0, t->count(), values.data());
  return *t;
}

Tensor Maker::tensor(DType dtype, const std::vector<int64_t>& shape) {
  Result<Tensor> t = Tensor::allocate(dtype, Shape(std::span<const int64_t>(shape)));
  const int64_t count = t->count();
  if (dtype == DType::string) {
    for (int64_t i = 0; i < count; ++i) static_cast<std::string*>(t->mutable_data())[i] = one_of(kWords);
    return *t;
  }
  if (is_sub_byte(dtype)) std::memset(t->mutable_data(), 0, static_cast<size_t>(t->bytes()));
  if (kComplex.has(dtype)) {
    std::vector<double> v(static_cast<size_t>(count * 2));
    for (double& x : v) x = static_cast<double>(between(-40, 40)) / 8;
    encode(dtype == DType::c64 ? DType::f32 : DType::f64, t->mutable_data(), 0, count * 2, v.data());
    return *t;
  }
  if ((kInts | kSubByteInts | set_of(DType::boolean)).has(dtype)) {
    const bool is_signed = kSignedInts.has(dtype) || dtype == DType::i4 || dtype == DType::i2, extreme = chance(0.05);
    const int bits = bits_of(dtype);
    const int64_t most = dtype == DType::boolean ? 1 : bits >= 8 ? 9 : (int64_t{1} << (bits - (is_signed ? 1 : 0))) - 1;
    std::vector<int64_t> v(static_cast<size_t>(count));
    for (int64_t& x : v) {
      x = between(is_signed ? std::max<int64_t>(-5, -most - 1) : 0, most);
      if (extreme && bits >= 8 && dtype != DType::boolean && chance(0.2))
        x = is_signed ? (chance(0.5) ? INT64_MIN >> (64 - bits) : INT64_MAX >> (64 - bits)) : -1;
    }
    encode(dtype, t->mutable_data(), 0, count, v.data(), /*saturate=*/false);
    return *t;
  }
  const bool whole = chance(0.2), special = chance(0.06);
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> specials = {inf, -inf, std::nan(""), -0.0, 1e-40, 3e38, -3e38, 1e-8};
  std::vector<double> v(static_cast<size_t>(count));
  for (double& x : v) {
    x = (below(1 << 20) - (1 << 19)) * 0x1p-18;
    if (whole) x = std::round(x);
    if (special && chance(0.15)) x = one_of(specials);
  }
  encode(dtype, t->mutable_data(), 0, count, v.data());
  return *t;
}

bool Maker::add_any() {
  static std::map<int, std::vector<const spec::Signature*>> lists;
  auto& list = lists[model_.opset];
  if (list.empty()) list = operators_of(model_.opset, model_.ml_opset);
  return add(*one_of(list));
}

bool Maker::add(const spec::Signature& signature) {
  RandomNode node;
  node.op = signature.name();
  node.domain = signature.domain();
  const Recipe recipe = recipe_of(signature);
  return recipe && recipe(*this, signature, node) && add(node);
}

bool Maker::add(RandomNode& node) {
  if (node.outputs.empty()) node.outputs = {"v"};
  for (std::string& o : node.outputs)
    if (!o.empty()) o = new_name(o);
  Scope scope;
  for (const std::string& name : reads_of(node)) {
    if (value(name).empty()) return false;
    scope[name] = value(name);
  }
  OpTally& tally = tallies_[node.op];
  const Status s = Interpreter(model_).run(node, constants_, scope);
  if (!s.ok()) {
    ++tally.refused;
    tally.reason = s.message();
    return false;
  }
  for (const std::string& o : node.outputs)
    if (!o.empty() && (scope[o].empty() || weight_of(scope[o]) > (large ? 60000 : 4000))) return false;
  ++tally.made;
  for (const std::string& o : node.outputs)
    if (!o.empty()) {
      scope_[o] = scope[o];
      order_.push_back(o);
    }
  graph_.nodes.push_back(node);
  return true;
}

std::shared_ptr<RandomGraph> Maker::body(const std::vector<Value>& inputs,
                                         const std::function<bool(Maker&, const std::vector<std::string>&)>& make) {
  Maker inner(model_, random_, tallies_, this);
  std::vector<std::string> names;
  for (const Value& v : inputs) {
    const std::string name = new_name("b");
    RandomInput in{name, v};
    in.ranked = false;
    inner.graph_.inputs.push_back(in);
    inner.scope_[name] = v;
    inner.order_.push_back(name);
    names.push_back(name);
  }
  if (!make(inner, names)) return nullptr;
  return std::make_shared<RandomGraph>(std::move(inner.graph_));
}

void Maker::finish(RandomGraph& out) {
  std::set<std::string> read;
  for (const RandomNode& n : graph_.nodes) {
    const std::set<std::string> more = reads_of(n);
    read.insert(more.begin(), more.end());
  }
  for (const RandomNode& n : graph_.nodes)
    for (const std::string& o : n.outputs)
      if (!o.empty() && (!read.contains(o) || chance(0.15))) output(o);
  std::erase_if(graph_.constants, [&](const auto& c) { return !read.contains(c.first); });
  std::erase_if(graph_.inputs, [&](const RandomInput& i) { return !read.contains(i.name); });
  out = std::move(graph_);
}

RandomModel random_model(uint64_t seed, int nodes, Tallies& tallies) {
  std::mt19937_64 random(seed * 0x9e3779b97f4a7c15u + 1);
  RandomModel out;
  out.seed = seed;
  Maker m(out, random, tallies);
  out.opset = m.chance(0.6) ? static_cast<int>(m.between(17, 22)) : static_cast<int>(m.between(11, kNewestOpset));
  m.large = m.chance(0.1);
  m.dynamic = m.chance(0.3) ? 0 : 0.5;
  for (int i = 0; i < 3; ++i) m.input(Value(m.tensor(DType::f32, m.dims(static_cast<int>(m.between(1, 4))))));
  m.input(Value(m.tensor(DType::i64, m.dims(static_cast<int>(m.between(0, 2))))));
  for (int attempt = 0; attempt < 20 * nodes && m.nodes() < nodes; ++attempt) m.add_any();
  m.finish(out.graph);
  return out;
}

}  // namespace tessera::testing
