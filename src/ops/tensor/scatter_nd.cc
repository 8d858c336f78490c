// ScatterND — the data with slices replaced (or reduced into) at positions that the last dimension of indices spells
// out.
#include "ops/indices.h"
#include "ops/tensor/scatter.h"

namespace tessera {
namespace {

struct Params {
  Reduction reduction = Reduction::none;
};
Status parse(Attrs& a, Params& p) { return parse_reduction(a, p.reduction); }

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  const int rank = c.rank(0), index_rank = c.rank(1);
  if (rank == 0) return c.refuse(0, "at least one dimension");
  if (index_rank == 0) return c.refuse(1, "at least one dimension");
  TRY(c.set(0, c.dims(0)));
  const D width = c.dim(1, index_rank - 1);
  if (!known(width)) return {};
  if (number(width) < 1 || number(width) > rank) return c.refuse(1, format("a last dimension from 1 to {}", rank));
  if (index_rank - 1 + rank > kMaxRank) return c.refuse(1, "a smaller rank");
  DimVec<D> want(c.dims(1).first(static_cast<size_t>(index_rank - 1)));
  want.append(c.dims(0).subspan(static_cast<size_t>(number(width))));
  bool fits = c.rank(2) == want.size();
  for (int i = 0; fits && i < want.size(); ++i)
    fits = !known(want[i]) || !known(c.dim(2, i)) || number(want[i]) == number(c.dim(2, i));
  if (!fits) return c.refuse(2, "the leading dimensions of input 1 and the rest of those of input 0");
  return {};
}

// Single elements of a known list replaced: how exporters build shapes.
Status infer_shape(const void* params, ShapeCall<Dim>& c) {
  const Params& p = *static_cast<const Params*>(params);
  TRY(shape(p, c));
  const auto data = c.content(0), indices = c.content(1), updates = c.content(2);
  if (!data || !indices || !updates || c.rank(0) != 1 || p.reduction != Reduction::none) return {};
  if (indices->size() != updates->size()) return {};
  std::vector<Dim> out(data->begin(), data->end());
  const auto n = static_cast<int64_t>(out.size());
  for (size_t k = 0; k < indices->size(); ++k) {
    const Dim& i = (*indices)[k];
    if (!i.known() || i.value() < -n || i.value() >= n) return {};
    out[static_cast<size_t>(i.value() < 0 ? i.value() + n : i.value())] = (*updates)[k];
  }
  c.set_content(0, out);
  return {};
}

Status compute(const Params& p, Call& call) {
  const Shape &data = call.shape(0), &index = call.shape(1);
  const DType t = call.dtype(0);
  if (!reducible(t, p.reduction)) return call.refuse(0, "a type that the reduction knows");
  TRY_ASSIGN(tuples, IndexTuples::checked(call, 1, data.dims()));
  TRY(copy_input(call));
  void* y = call.out(0);
  if (!y || call.count(2) == 0) return {};
  const void* updates = call.in(2);
  const int64_t inner = data.count(static_cast<int>(index[index.rank() - 1]), data.rank()),
                count = index.count(0, index.rank() - 1);
  if (p.reduction == Reduction::none && inner > 1) {
    for (int64_t k = 0; k < count; ++k) copy_elements(t, updates, k * inner, y, tuples.offset(k) * inner, inner);
    return {};
  }
  with_reduction(t, p.reduction, updates, y, [&](auto put) {
    for (int64_t k = 0; k < count; ++k) {
      const int64_t to = tuples.offset(k) * inner;
      for (int64_t j = 0; j < inner; ++j) put(k * inner + j, to + j);
    }
  });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | in_arg(2) | out_arg(0), kEveryType}, {in_arg(1), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {11, 13, 16, 18};

}  // namespace

extern constexpr Op kScatterND{.domain = "",
                               .name = "ScatterND",
                               .versions = kVersions,
                               .parse = parse_params<Params, parse>,
                               .shape = shape_with<Params, int64_t, shape<int64_t>>,
                               .kernels = kKernels,
                               .inplace = in_arg(0)};
extern constexpr OpInference kScatterNDInference{.shape = infer_shape};

}  // namespace tessera
