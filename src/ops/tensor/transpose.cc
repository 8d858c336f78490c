// Transpose — the dimensions in another order; reversed when none is given.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  std::optional<std::vector<int64_t>> perm;

  // Where dimension i of the output comes from.
  int source(int i, int rank) const { return perm ? static_cast<int>((*perm)[static_cast<size_t>(i)]) : rank - 1 - i; }
};
Status parse(Attrs& a, Params& p) {
  a.get("perm", p.perm);
  bool seen[kMaxRank];
  if (!p.perm) return {};
  const auto rank = static_cast<int>(std::min<size_t>(p.perm->size(), kMaxRank + 1));
  if (rank > kMaxRank || !mark_axes(*p.perm, rank, seen)) return a.refuse("perm", "each axis once");
  for (int64_t& axis : *p.perm) axis += axis < 0 ? rank : 0;
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  if (p.perm && static_cast<int>(p.perm->size()) != rank)
    return c.refuse(0, format("rank {}, as perm has", p.perm->size()));
  DimVec<D> out;
  for (int i = 0; i < rank; ++i) out.push(c.dim(0, p.source(i, rank)));
  return c.set(0, out);
}

Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  const Params& p = *static_cast<const Params*>(params);
  TRY(shape(p, c));
  const auto from = known_dims(c, 0);
  if (!from) return {};
  const int rank = c.rank(0);
  int64_t strides[kMaxRank];
  strides_of(from->span(), strides);
  DimVec<int64_t> dims, steps;
  for (int i = 0; i < rank; ++i) {
    dims.push((*from)[p.source(i, rank)]);
    steps.push(strides[p.source(i, rank)]);
  }
  strided_content(c, dims.span(), 0, steps.span());
  return {};
}

Status compute(const Params& p, Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y) return {};
  int perm[kMaxRank];
  const int rank = call.shape(0).rank();
  for (int i = 0; i < rank; ++i) perm[i] = p.source(i, rank);
  transpose_elements(call, call.dtype(0), call.shape(0).dims(), {perm, static_cast<size_t>(rank)}, call.in(0), y);
  return {};
}

constexpr Kernel kKernels[] = {{kAnyType, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1, 13, 21, 23, 24, 25};

}  // namespace

extern constexpr Op kTranspose{.domain = "",
                               .name = "Transpose",
                               .versions = kVersions,
                               .parse = parse_params<Params, parse>,
                               .shape = shape_with<Params, int64_t, shape<int64_t>>,
                               .kernels = kKernels};
extern constexpr OpInference kTransposeInference{.shape = infer_shape};

}  // namespace tessera
