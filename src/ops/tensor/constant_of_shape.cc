// ConstantOfShape — a tensor of a given shape filled with one value.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  Tensor value;
};
Status parse(Attrs& a, Params& p) {
  a.get("value", p.value);
  if (!a.has("value")) {
    TRY_ASSIGN(zero, Tensor::scalar<float>(0));
    p.value = std::move(zero);
  } else if (p.value.count() != 1) {
    return a.refuse("value", "a tensor of one element");
  }
  return {};
}

void types(TypeCall& c) {
  c.out[0] = {Kind::tensor, static_cast<const Params*>(c.params)->value.dtype(), Kind::tensor};
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  if (c.rank(0) != 1) return c.refuse(0, "a list of dimensions");
  const D length = c.dim(0, 0);
  if (known(length) && number(length) >= kMaxRank) return c.refuse(0, format("fewer than {} dimensions", kMaxRank));
  const auto wanted = c.content(0);
  if (!wanted) return c.unknown(0, known(length) ? static_cast<int>(number(length)) : -1);
  for (const D& d : *wanted)
    if (known(d) && number(d) < 0) return c.refuse(0, format("dimensions of at least 0 (one is {})", number(d)));
  return c.set(0, *wanted);
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  const Params& p = *static_cast<const Params*>(params);
  TRY(shape(p, c));
  const auto wanted = c.content(0);
  if (!wanted || !kIndexTypes.has(p.value.dtype())) return {};
  int64_t count = 1;
  for (const Dim& d : *wanted) {
    if (!d.known() || d.value() > kMostContent) return {};
    count *= d.value();
    if (count > kMostContent) return {};
  }
  int64_t value;
  decode(p.value.dtype(), p.value.data(), 0, 1, &value);
  c.set_content(0, std::vector<Dim>(static_cast<size_t>(count), Dim(value)));
  return {};
}

Status compute(const Params& p, Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  const DType t = p.value.dtype();
  if (y)
    for_blocks(call, t, call.out_count(0), 1,
               [&](int64_t begin, int64_t end) { fill_elements(t, y, begin, end - begin, p.value.data()); });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0), set_of(DType::i64)}, {out_arg(0), kEveryType}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {9, 20, 21, 23, 24, 25};

}  // namespace

extern constexpr Op kConstantOfShape{.domain = "",
                                     .name = "ConstantOfShape",
                                     .versions = kVersions,
                                     .parse = parse_params<Params, parse>,
                                     .types = types,
                                     .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                     .kernels = kKernels,
                                     .shape_inputs = in_arg(0)};
extern constexpr OpInference kConstantOfShapeInference{.shape = infer_shape};

}  // namespace tessera
