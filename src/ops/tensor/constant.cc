// Constant — a tensor that the model carries in an attribute.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  Tensor value;
};

template <class T>
Status from_list(Attrs& a, const char* name, Tensor& out) {
  std::vector<T> list;
  a.get(name, list);
  TRY_ASSIGN(t, Tensor::of<T>(Shape{static_cast<int64_t>(list.size())}, list));
  out = std::move(t);
  return {};
}
template <class T>
Status from_scalar(Attrs& a, const char* name, Tensor& out) {
  T v{};
  a.get(name, v);
  TRY_ASSIGN(t, Tensor::scalar<T>(v));
  out = std::move(t);
  return {};
}

Status parse(Attrs& a, Params& p) {
  if (a.node().attributes.size() != 1)
    return invalid_graph("it has {} attributes, wanted one value", a.node().attributes.size());
  const std::string& name = a.node().attributes[0].name;
  if (name == "value") return a.get("value", p.value), Status{};
  if (name == "value_int") return from_scalar<int64_t>(a, "value_int", p.value);
  if (name == "value_float") return from_scalar<float>(a, "value_float", p.value);
  if (name == "value_string") return from_scalar<std::string>(a, "value_string", p.value);
  if (name == "value_ints") return from_list<int64_t>(a, "value_ints", p.value);
  if (name == "value_floats") return from_list<float>(a, "value_floats", p.value);
  if (name == "value_strings") return from_list<std::string>(a, "value_strings", p.value);
  if (name == "sparse_value") {
    const auto* sparse = std::get_if<std::vector<SparseWeight>>(&a.node().attributes[0].value);
    if (!sparse || sparse->empty()) return a.refuse(name, "a sparse tensor");
    TRY_ASSIGN(dense, (*sparse)[0].dense());
    p.value = std::move(dense);
    return {};
  }
  return invalid_graph("it has the attribute {}, wanted one of value, value_*, sparse_value", quote(name));
}

void types(TypeCall& c) {
  c.out[0] = {Kind::tensor, static_cast<const Params*>(c.params)->value.dtype(), Kind::tensor};
}

Status shape(const Params& p, ShapeCall<int64_t>& c) { return c.set(0, p.value.shape().dims()); }

Status infer(const ir::Node&, const void* params, DimPool&, std::span<const Fact* const>, std::span<Fact> out) {
  constexpr int64_t kMostContent = 64;
  const Tensor& value = static_cast<const Params*>(params)->value;
  out[0].shape.emplace(value.shape().dims().begin(), value.shape().dims().end());
  const auto count = static_cast<size_t>(value.count());
  if (value.count() > kMostContent) return {};
  if (kIndexTypes.has(value.dtype())) {
    std::vector<int64_t> numbers(count);
    decode(value.dtype(), value.data(), 0, value.count(), numbers.data());
    out[0].content.emplace(numbers.begin(), numbers.end());
  } else if (kFloats.has(value.dtype())) {
    std::vector<double> numbers(count);
    decode(value.dtype(), value.data(), 0, value.count(), numbers.data());
    out[0].reals = std::make_shared<const std::vector<double>>(std::move(numbers));
  }
  return {};
}

Status compute(const Params& p, Call& call) {
  copy_elements(p.value.dtype(), p.value.data(), 0, call.out(0), 0, p.value.count());
  return {};
}

constexpr TypeRule kTypes[] = {{out_arg(0), kEveryType}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1, 9, 11, 12, 13, 19, 21, 23, 24, 25};

}  // namespace

extern constexpr Op kConstant{.domain = "",
                              .name = "Constant",
                              .versions = kVersions,
                              .parse = parse_params<Params, parse>,
                              .types = types,
                              .shape = shape_with<Params, int64_t, shape>,
                              .kernels = kKernels};
extern constexpr OpInference kConstantInference{.infer = infer};

}  // namespace tessera
