// GatherND — slices of the data at positions that the last dimension of indices spells out.
#include "ops/indices.h"
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  int64_t batch_dims = 0;
};
Status parse(Attrs& a, Params& p) {
  a.get("batch_dims", p.batch_dims);
  if (p.batch_dims < 0) return a.refuse("batch_dims", "at least 0");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0), index_rank = c.rank(1);
  if (rank == 0 || p.batch_dims >= rank) return c.refuse(0, format("more than {} dimensions", p.batch_dims));
  if (index_rank <= p.batch_dims) return c.refuse(1, format("more than {} dimensions", p.batch_dims));
  const int batch = static_cast<int>(p.batch_dims);
  for (int i = 0; i < batch; ++i)
    if (const D a = c.dim(0, i), b = c.dim(1, i); known(a) && known(b) && number(a) != number(b))
      return c.refuse(1, format("{} batches along axis {}, as input 0 has", number(a), i));
  const D width = c.dim(1, index_rank - 1);
  if (!known(width)) return c.unknown(0);
  if (number(width) < 1 || number(width) > rank - batch)
    return c.refuse(1, format("a last dimension from 1 to {}", rank - batch));
  DimVec<D> out(c.dims(1).first(static_cast<size_t>(index_rank - 1)));
  const auto rest = c.dims(0).subspan(static_cast<size_t>(batch + number(width)));
  if (out.size() + static_cast<int>(rest.size()) >= kMaxRank) return c.refuse(1, "a smaller rank");
  out.append(rest);
  return c.set(0, out);
}

Status compute(const Params& p, Call& call) {
  const Shape &data = call.shape(0), &index = call.shape(1);
  const int batch = static_cast<int>(p.batch_dims);
  const int width = static_cast<int>(index[index.rank() - 1]);
  TRY_ASSIGN(tuples, IndexTuples::checked(call, 1, data.dims().subspan(static_cast<size_t>(batch))));
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const DType t = call.dtype(0);
  const void* x = call.in(0);
  const int64_t inner = data.count(batch + width, data.rank()), positions = data.count(batch, batch + width),
                per_batch = index.count(batch, index.rank() - 1);
  const auto each = [&](auto block) {
    for_blocks(call, t, index.count(0, index.rank() - 1), inner, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) block((k / per_batch * positions + tuples.offset(k)) * inner, k * inner);
    });
  };
  if (inner == 1)
    with_mover(t, x, y, each);
  else
    each([&](int64_t from, int64_t to) { copy_elements(t, x, from, y, to, inner); });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {11, 12, 13};

}  // namespace

extern constexpr Op kGatherND{.domain = "",
                              .name = "GatherND",
                              .versions = kVersions,
                              .parse = parse_params<Params, parse>,
                              .shape = shape_with<Params, int64_t, shape<int64_t>>,
                              .kernels = kKernels};
extern constexpr OpInference kGatherNDInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
