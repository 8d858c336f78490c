#include "ops/op.h"

#include <algorithm>
#include <cstring>

#include "core/convert.h"

namespace tessera {

// ---------------------------------------------------------------------------------------------- attributes

template <class T>
const T* Attrs::read(std::string_view name, ir::AttrType type) {
  const ir::Attribute* a = node_.find(name);
  if (!a) return nullptr;
  const T* v = a->type == type ? std::get_if<T>(&a->value) : nullptr;
  if (!v && status_.ok()) status_ = invalid_graph("attribute {} has the wrong type", quote(name));
  return v;
}

void Attrs::get(std::string_view name, int64_t& out) {
  if (const auto* v = read<int64_t>(name, ir::AttrType::i)) out = *v;
}
void Attrs::get(std::string_view name, int& out) {
  int64_t v = out;
  get(name, v);
  if (v < INT32_MIN || v > INT32_MAX) {
    if (status_.ok()) status_ = refuse(name, "a value that fits in 32 bits");
    return;
  }
  out = static_cast<int>(v);
}
void Attrs::get(std::string_view name, bool& out) {
  if (const auto* v = read<int64_t>(name, ir::AttrType::i)) out = *v != 0;
}
void Attrs::get(std::string_view name, float& out) {
  if (const auto* v = read<float>(name, ir::AttrType::f)) out = *v;
}
void Attrs::get(std::string_view name, std::string& out) {
  if (const auto* v = read<std::string>(name, ir::AttrType::s)) out = *v;
}
void Attrs::get(std::string_view name, DType& out) {
  // The first operator versions named types by text ("FLOAT").
  if (const ir::Attribute* a = node_.find(name); a && a->type == ir::AttrType::s) {
    std::string text = std::get<std::string>(a->value);
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    out = dtype_named(text);
  } else if (const auto* v = read<int64_t>(name, ir::AttrType::i)) {
    out = *v > 0 && *v < kDTypeCount ? static_cast<DType>(*v) : DType::undefined;
  } else {
    return;
  }
  if (out == DType::undefined && status_.ok()) status_ = refuse(name, "an element type of ONNX");
}
void Attrs::get(std::string_view name, std::vector<int64_t>& out) {
  if (const auto* v = read<std::vector<int64_t>>(name, ir::AttrType::ints)) out = *v;
}
void Attrs::get(std::string_view name, std::vector<float>& out) {
  if (const auto* v = read<std::vector<float>>(name, ir::AttrType::floats)) out = *v;
}
void Attrs::get(std::string_view name, std::vector<std::string>& out) {
  if (const auto* v = read<std::vector<std::string>>(name, ir::AttrType::strings)) out = *v;
}
void Attrs::get(std::string_view name, Tensor& out) {
  const auto* v = read<std::vector<Weight>>(name, ir::AttrType::t);
  if (!v) return;
  Result<Tensor> t = (*v)[0].tensor();
  if (t.ok())
    out = std::move(*t);
  else if (status_.ok())
    status_ = t.take_status();
}
void Attrs::get(std::string_view name, std::shared_ptr<ir::Graph>& out) {
  if (const auto* v = read<std::vector<std::shared_ptr<ir::Graph>>>(name, ir::AttrType::g)) out = (*v)[0];
}
void Attrs::get_choice(std::string_view name, int& out, std::span<const std::string_view> names) {
  std::string text(names[static_cast<size_t>(out)]);
  get(name, text);
  const auto it = std::find(names.begin(), names.end(), text);
  if (it != names.end()) {
    out = static_cast<int>(it - names.begin());
  } else if (status_.ok()) {
    std::string all;
    for (const std::string_view n : names) all += (all.empty() ? "" : ", ") + std::string(n);
    status_ = invalid_graph("attribute {} is {}, wanted one of {}", quote(name), quote(text), all);
  }
}

Status Attrs::refuse(std::string_view name, std::string_view wanted) const {
  const ir::Attribute* a = node_.find(name);
  std::string got = "absent";
  if (a) {
    if (const auto* i = std::get_if<int64_t>(&a->value))
      got = format("{}", *i);
    else if (const auto* f = std::get_if<float>(&a->value))
      got = format("{}", *f);
    else if (const auto* s = std::get_if<std::string>(&a->value))
      got = quote(*s);
    else if (const auto* v = std::get_if<std::vector<int64_t>>(&a->value))
      got = format("{}", std::span<const int64_t>(*v));
    else
      got = "something else";
  }
  return invalid_graph("attribute {} is {}, wanted {}", quote(name), got, wanted);
}

// ---------------------------------------------------------------------------------------------- shapes

std::optional<std::span<const int64_t>> ShapeCall<int64_t>::content(int i) {
  const Slot& s = slots_[in_[i]];
  if (!s.known || !s.present) return {};
  const auto n = static_cast<size_t>(s.shape.count());
  if (s.dtype == DType::i64) return std::span(static_cast<const int64_t*>(s.data), n);
  if (!kNumbers.has(s.dtype)) return {};
  std::vector<int64_t>& out = decoded_[next_decoded_++ % 2];
  out.resize(n);
  decode(s.dtype, s.data, 0, static_cast<int64_t>(n), out.data());
  return std::span<const int64_t>(out);
}

std::optional<std::vector<double>> ShapeCall<int64_t>::reals(int i) const {
  const Slot& s = slots_[in_[i]];
  if (!s.known || !s.present || s.dtype == DType::string || kComplex.has(s.dtype)) return {};
  std::vector<double> v(static_cast<size_t>(s.shape.count()));
  decode(s.dtype, s.data, 0, s.shape.count(), v.data());
  return v;
}
std::optional<double> ShapeCall<int64_t>::real(int i) const {
  const auto all = reals(i);
  return all && !all->empty() ? std::optional((*all)[0]) : std::nullopt;
}

Status ShapeCall<int64_t>::set(int o, std::span<const int64_t> dims) {
  if (out_[o] == 0) return {};  // an output nobody wants
  Slot& s = slots_[out_[o]];
  const auto now = s.shape.dims();
  if (now.size() == dims.size() && std::equal(now.begin(), now.end(), dims.begin())) return {};
  // Dimensions of existing shapes are small; only a product can be out of bounds, and a negative one is absurd.
  if (dims.size() >= kMaxRank)
    return invalid("output {} would have rank {}, fewer than {} are supported", o, dims.size(), kMaxRank);
  int64_t product = 1;
  for (const int64_t d : dims)
    if (d < 0 || (d > 0 && !checked_mul(product, d, &product)))
      return invalid("output {} would have the shape {}", o, dims);
  s.shape.assign(dims);
  s.changed = true;
  return {};
}

Status ShapeCall<int64_t>::unknown(int o, int) {
  return error(Code::runtime_exception, "the shape of output {} depends on data that is not at hand", o);
}

Status ShapeCall<int64_t>::refuse(int i, std::string_view wanted) const {
  return invalid("input {} is {}{}, wanted {}", i, name_of(dtype(i)), dims(i), wanted);
}

std::optional<std::span<const Dim>> ShapeCall<Dim>::content(int i) const {
  if (!has(i) || !in_[i]->content) return {};
  return std::span<const Dim>(*in_[i]->content);
}
std::optional<std::vector<double>> ShapeCall<Dim>::reals(int i) const {
  if (!has(i)) return {};
  if (in_[i]->reals) return *in_[i]->reals;
  const auto c = content(i);
  if (!c) return {};
  std::vector<double> v;
  for (const Dim& d : *c) {
    if (!d.known()) return {};
    v.push_back(static_cast<double>(d.value()));
  }
  return v;
}
std::optional<double> ShapeCall<Dim>::real(int i) const {
  const auto all = reals(i);
  return all && all->size() == 1 ? std::optional((*all)[0]) : std::nullopt;
}
Dim ShapeCall<Dim>::count(int i) const {
  Dim n = 1;
  for (const Dim& d : dims(i)) n = n * d;
  return n;
}
Status ShapeCall<Dim>::set(int o, std::span<const Dim> dims) {
  for (const Dim& d : dims)
    if (d.known() && d.value() < 0) return invalid("output {} would have the negative dimension {}", o, d.value());
  out_[o].shape = std::vector<Dim>(dims.begin(), dims.end());
  return {};
}
void ShapeCall<Dim>::set_content(int o, std::span<const Dim> elements) {
  out_[o].content = std::vector<Dim>(elements.begin(), elements.end());
}
Status ShapeCall<Dim>::unknown(int o, int rank) {
  out_[o].shape.reset();
  if (rank < 0 || rank > kMaxRank) return {};
  std::vector<Dim> dims;
  for (int i = 0; i < rank; ++i) dims.push_back(fresh());
  out_[o].shape = std::move(dims);
  return {};
}
Status ShapeCall<Dim>::refuse(int i, std::string_view wanted) const {
  return invalid("input {} is {}, wanted {}", i, in_[i]->str(), wanted);
}

// ---------------------------------------------------------------------------------------------- running

void* Call::out(int o) {
  if (!wants(o)) return nullptr;
  Slot& s = out_slot(o);
  if (s.dtype == DType::string && !s.data) {
    if (!allocate(o, DType::string, s.shape).ok()) return nullptr;
  }
  return s.data;
}

Status Call::allocate(int o, DType dtype, Shape shape) {
  if (!wants(o)) return {};
  Slot& s = out_slot(o);
  if (bytes_for(dtype, shape.count()).value_or(INT64_MAX) > f_.scope->max_tensor_bytes)
    return error(Code::fail, "output {} would be {}{}, more than {} bytes", o, name_of(dtype), shape.dims(),
                 f_.scope->max_tensor_bytes);
  TRY_ASSIGN(t, Tensor::allocate(dtype, shape));
  s.changed = s.changed || !(s.shape == shape) || s.dtype != dtype;
  s.shape = std::move(shape);
  s.dtype = dtype;
  s.present = true;
  s.data = t.mutable_data();
  f_.held[f_.out[o]] = std::move(t);
  return {};
}

Result<Value> Call::value(int i) const {
  const Value& held = f_.held[f_.in[i]];
  const Tensor* tensor = held.tensor();
  const bool borrowed = tensor && tensor->storage() && tensor->storage()->origin() == Bytes::Origin::borrowed;
  if (!held.empty() && !borrowed) return held;
  const Slot& s = slot(i);
  if (!s.present) return Value(None{});
  TRY_ASSIGN(copy, Tensor::allocate(s.dtype, s.shape));
  if (s.dtype == DType::string) {
    std::copy_n(static_cast<const std::string*>(s.data), s.shape.count(),
                static_cast<std::string*>(copy.mutable_data()));
  } else if (const int64_t n = copy.bytes()) {
    std::memcpy(copy.mutable_data(), s.data, static_cast<size_t>(n));
  }
  return Value(std::move(copy));
}

Result<Value> Call::take(int i) {
  TRY_ASSIGN(shared, value(i));
  if (f_.last_use && f_.last_use[i]) f_.held[f_.in[i]] = Value();
  return std::move(shared);
}

void Call::set(int o, Value value) {
  if (!wants(o)) return;
  Slot& s = out_slot(o);
  s.present = false;
  s.data = nullptr;
  if (Tensor* t = value.tensor()) {
    s.present = true;
    s.changed = s.changed || !(s.shape == t->shape()) || s.dtype != t->dtype();
    s.shape = t->shape();
    s.dtype = t->dtype();
    s.data = t->mutable_data();
  }
  f_.held[f_.out[o]] = std::move(value);
}

Status Call::refuse(int i, std::string_view wanted) const {
  const Slot& s = slot(i);
  if (!s.present) return invalid("input {} is {}, wanted {}", i, f_.held[f_.in[i]].describe(), wanted);
  std::string got = format("{}{}", name_of(s.dtype), s.shape.dims());
  if (s.shape.count() == 1 && (kNumbers.has(s.dtype) || s.dtype == DType::boolean)) {
    double v;
    decode(s.dtype, s.data, 0, 1, &v);
    got += format(" {}", v);
  }
  return invalid("input {} is {}, wanted {}", i, got, wanted);
}

// ---------------------------------------------------------------------------------------------- tables

const Op* find_op(std::string_view domain, std::string_view name) {
  const auto table = op_table();
  const auto key = std::pair(domain, name);
  const auto it = std::lower_bound(table.begin(), table.end(), key, [](const Op* op, const auto& k) {
    return std::pair<std::string_view, std::string_view>(op->domain, op->name) < k;
  });
  return it != table.end() && (*it)->domain == domain && (*it)->name == name ? *it : nullptr;
}

int op_index(const Op* op) {
  const auto table = op_table();
  const auto it = std::lower_bound(table.begin(), table.end(), op, [](const Op* a, const Op* b) {
    return std::pair<std::string_view, std::string_view>(a->domain, a->name) <
           std::pair<std::string_view, std::string_view>(b->domain, b->name);
  });
  return it != table.end() && *it == op ? static_cast<int>(it - table.begin()) : -1;
}

namespace {

DType only_type(TypeSet set) { return static_cast<DType>(__builtin_ctzll(set.bits)); }

// Applies one rule to the arguments it names, inputs at bit `first`..; false if a type does not fit.
bool rule_accepts(const TypeRule& rule, int first_bit, uint32_t rest_bit, std::span<const TypeDesc> args, DType* shared,
                  DType* convert_to) {
  bool rest = false;
  for (size_t i = 0; i < args.size(); ++i) {
    const bool named = i < 15 && (rule.args >> (first_bit + static_cast<int>(i)) & 1);
    rest = rest || (named && (rule.args & rest_bit));
    if (!named && !(rest && (i >= 15 || !(rule.args >> (first_bit + static_cast<int>(i)) & 1)))) continue;
    if (args[i].kind == Kind::unknown) continue;
    if (args[i].kind != Kind::tensor) return false;
    const DType t = args[i].dtype;
    if (*shared == DType::undefined) *shared = t;
    if (t != *shared) return false;
    if (rule.native.has(t)) continue;
    if (!rule.widened.has(t)) return false;
    convert_to[i] = only_type(rule.native);
  }
  return true;
}

}  // namespace

const Kernel* choose_kernel(const Op& op, std::span<const TypeDesc> in, std::span<const TypeDesc> out,
                            std::span<DType> convert_to) {
  for (const Kernel& kernel : op.kernels) {
    std::fill(convert_to.begin(), convert_to.end(), DType::undefined);
    bool fits = true;
    for (const TypeRule& rule : kernel.when) {
      DType shared = DType::undefined;
      fits = fits && rule_accepts(rule, 0, kRestIn, in, &shared, convert_to.data()) &&
             rule_accepts(rule, 16, kRestOut, out, &shared, convert_to.data() + in.size());
    }
    if (fits) return &kernel;
  }
  return nullptr;
}

}  // namespace tessera
