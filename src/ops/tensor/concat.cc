// Concat — tensors one after another along an axis.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  int64_t axis = 1;
};
Status parse(Attrs& a, Params& p) {
  if (a.version() >= 4 && !a.has("axis")) return a.refuse("axis", "an axis");
  a.get("axis", p.axis);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const auto axis = normalize_axis(p.axis, c.rank(0));
  if (!axis) return c.refuse(0, format("a tensor with an axis {}", p.axis));
  DimVec<D> out(c.dims(0));
  for (int i = 1; i < c.inputs(); ++i) {
    if (!c.has(i)) return invalid("input {} is absent, wanted a tensor", i);
    if (c.rank(i) != out.size()) return c.refuse(i, format("rank {}, as input 0 has", out.size()));
    for (int k = 0; k < out.size(); ++k) {
      const D d = c.dim(i, k);
      if (k == *axis) {
        int64_t sum = 0;
        if (known(d) && known(out[k]) && !checked_add(number(d), number(out[k]), &sum))
          return c.refuse(i, "sizes whose sum fits in 63 bits");
        out[k] = out[k] + d;
      } else if (known(d) && known(out[k])) {
        if (number(d) != number(out[k])) return c.refuse(i, format("the dimensions of input 0 outside axis {}", *axis));
      } else if (known(d)) {
        out[k] = d;
      }
    }
  }
  return c.set(0, out);
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  TRY(shape(*static_cast<const Params*>(params), c));
  std::vector<Dim> out;
  for (int i = 0; i < c.inputs(); ++i) {
    const auto part = c.content(i);
    if (!part || c.rank(i) != 1 || static_cast<int64_t>(out.size() + part->size()) > kMostContent) return {};
    out.insert(out.end(), part->begin(), part->end());
  }
  c.set_content(0, out);
  return {};
}

Status compute(const Params& p, Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y) return {};
  const Slices all = call.out_shape(0).around(*normalize_axis(p.axis, call.out_shape(0).rank()));
  const int64_t row = all.length * all.inner;
  int64_t at = 0;
  for (int i = 0; i < call.inputs(); ++i) {
    const int64_t part = all.outer ? call.count(i) / all.outer : 0;
    const int64_t dims[] = {all.outer, part}, from[] = {part, 1}, to[] = {row, 1};
    copy_strided(call, call.dtype(i), dims, call.in(i), {0, from}, y, {at, to});
    at += part;
  }
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | kRestIn | out_arg(0), kEveryType}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1, 4, 11, 13};

}  // namespace

extern constexpr Op kConcat{.domain = "",
                            .name = "Concat",
                            .versions = kVersions,
                            .parse = parse_params<Params, parse>,
                            .shape = shape_with<Params, int64_t, shape<int64_t>>,
                            .kernels = kKernels};
extern constexpr OpInference kConcatInference{.shape = infer_shape};

}  // namespace tessera
