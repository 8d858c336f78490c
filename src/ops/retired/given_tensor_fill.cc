// GivenTensorFill — retired: the numbers of an attribute as a tensor. Its shape is an attribute too, or that of the
// input, or what the input lists; extra dimensions are appended to the input's.
#include <algorithm>

#include "ops/elementwise.h"
#include "ops/retired/retired.h"

namespace tessera {
namespace {

struct Params {
  std::vector<float> values;
  std::optional<std::vector<int64_t>> shape;
  std::vector<int64_t> extra;
  bool input_as_shape = false;
};
Status parse(Attrs& a, Params& p) {
  a.get("values", p.values);
  a.get("shape", p.shape);
  a.get("extra_shape", p.extra);
  a.get("input_as_shape", p.input_as_shape);
  TRY(check_retired(a, 0, 1));
  if (!p.shape && (a.node().inputs.empty() || a.node().inputs[0] == ir::kNone))
    return invalid_graph("it has neither an input nor the attribute \"shape\"");
  return {};
}
void types(TypeCall& c) {
  const bool of_input = !c.in.empty() && c.in[0].kind == Kind::tensor && kFloats.has(c.in[0].dtype);
  c.out[0] = {Kind::tensor, of_input ? c.in[0].dtype : DType::f32, Kind::tensor};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  DimVec<D> out;
  const auto append = [&](std::span<const int64_t> dims) {
    for (const int64_t d : dims) out.push(D(d));
  };
  if (p.shape) {
    append(*p.shape);
  } else {
    if (p.input_as_shape) {
      if (c.rank(0) != 1) return c.refuse(0, "a list of dimensions");
      const auto content = c.content(0);
      if (!content) return c.unknown(0);
      out.append(*content);
    } else {
      out.append(c.dims(0));
    }
    append(p.extra);
  }
  if (out.full()) return invalid("output 0 would have {} dimensions or more", kMaxRank);
  int64_t count = 1;
  for (int k = 0; k < out.size(); ++k) {
    if (!known(out[k])) return c.set(0, out);
    if (number(out[k]) < 0 || !checked_mul(count, number(out[k]), &count))
      return invalid("output 0 would have the dimension {}", number(out[k]));
  }
  if (count != static_cast<int64_t>(p.values.size()))
    return invalid("attribute \"values\" has {} numbers, the output's shape wants {}", p.values.size(), count);
  return c.set(0, out);
}

template <class T>
Status compute(const Params& p, Call& call) {
  std::transform(p.values.begin(), p.values.end(), call.out<T>(0), [](float v) { return static_cast<T>(v); });
  return {};
}

constexpr TypeSet kInput = kFloats | kIndexTypes;
template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0), kInput}, {out_arg(0), set_of(dtype_of<T>), widened_to<T>}};
constexpr Kernel kKernels[] = {{kTypes<float>, compute_with<Params, compute<float>>},
                               {kTypes<double>, compute_with<Params, compute<double>>}};

}  // namespace

extern constexpr Op kGivenTensorFill{.domain = "",
                                     .name = "GivenTensorFill",
                                     .versions = kRetiredVersions,
                                     .parse = parse_params<Params, parse>,
                                     .types = types,
                                     .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                     .kernels = kKernels,
                                     .shape_inputs = in_arg(0)};
extern constexpr OpInference kGivenTensorFillInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
