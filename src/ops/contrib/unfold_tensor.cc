// UnfoldTensor — all windows of a dimension; the window is a new last dimension.
#include "ops/contrib/contrib.h"
#include "ops/movement.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kArity{in_arg(0), 1};

struct Params {
  int64_t dim = -1, size = 0, step = 1;
};

Status parse(Attrs& a, Params& p) {
  a.get("dim", p.dim);
  a.get("size", p.size);
  a.get("step", p.step);
  if (p.size < 1) return a.refuse("size", "at least 1");
  if (p.step < 1) return a.refuse("step", "at least 1");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const auto axis = normalize_axis(p.dim, c.rank(0));
  if (!axis || c.rank(0) == kMaxRank) return c.refuse(0, format("a dimension {} and room for one more", p.dim));
  DimVec<D> out(c.dims(0));
  const D d = c.dim(0, *axis);
  if (known(d) && number(d) < p.size) return c.refuse(0, format("at least {} in dimension {}", p.size, p.dim));
  out[*axis] = floor_div(d - D(p.size), D(p.step)) + D(1);
  out.push(D(p.size));
  return c.set(0, out);
}

Status compute(const Params& p, Call& call) {
  const Shape &x = call.shape(0), &y = call.out_shape(0);
  const int axis = *normalize_axis(p.dim, x.rank());
  int64_t from[kMaxRank], to[kMaxRank];
  strides_of(x.dims(), from);
  strides_of(y.dims(), to);
  from[x.rank()] = from[axis];
  from[axis] *= p.step;
  TRY_ASSIGN(out, output_memory(call));
  copy_strided(call, call.dtype(0), y.dims(), call.in(0), {0, {from, static_cast<size_t>(y.rank())}}, out,
               {0, {to, static_cast<size_t>(y.rank())}});
  return {};
}

constexpr Kernel kKernels[] = {{kAnyType, compute_with<Params, compute>}};

}  // namespace

extern constexpr Op kMicrosoftUnfoldTensor{.domain = kDomain,
                                           .name = "UnfoldTensor",
                                           .versions = kVersions,
                                           .parse = parse_checked<Params, kArity, parse>,
                                           .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                           .kernels = kKernels};
extern constexpr OpInference kMicrosoftUnfoldTensorInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
