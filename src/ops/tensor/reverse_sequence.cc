// ReverseSequence — the first sequence_lens[b] time steps of each batch element in reverse order, the rest as it is.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  int64_t batch_axis = 1, time_axis = 0;
};
Status parse(Attrs& a, Params& p) {
  a.get("batch_axis", p.batch_axis);
  a.get("time_axis", p.time_axis);
  if (p.batch_axis != 0 && p.batch_axis != 1) return a.refuse("batch_axis", "0 or 1");
  if (p.time_axis != 1 - p.batch_axis) return a.refuse("time_axis", "0 or 1, and not the batch axis");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) < 2) return c.refuse(0, "at least two dimensions");
  if (c.rank(1) != 1) return c.refuse(1, "a list of lengths");
  const D batch = c.dim(0, static_cast<int>(p.batch_axis)), lengths = c.dim(1, 0);
  if (known(batch) && known(lengths) && number(batch) != number(lengths))
    return c.refuse(1, format("{} lengths, one per batch element", number(batch)));
  return c.set(0, c.dims(0));
}

Status compute(const Params& p, Call& call) {
  const Shape& shape = call.shape(0);
  const int64_t steps = shape[static_cast<int>(p.time_axis)], batch = shape[static_cast<int>(p.batch_axis)],
                inner = shape.count(2, shape.rank());
  const auto* lengths = call.in<int64_t>(1);
  for (int64_t b = 0; b < batch; ++b)
    if (lengths[b] < 0 || lengths[b] > steps)
      return call.refuse(1, "lengths from 0 to {} (element {} is {})", steps, b, lengths[b]);
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const DType t = call.dtype(0);
  const int64_t time_step = p.time_axis == 0 ? batch : 1, batch_step = p.batch_axis == 0 ? steps : 1;
  for_blocks(call, t, steps * batch, inner, [&](int64_t begin, int64_t end) {
    for (int64_t k = begin; k < end; ++k) {
      const int64_t b = k / batch_step % batch, step = k / time_step % steps;
      const int64_t from = step < lengths[b] ? lengths[b] - 1 - step : step;
      copy_elements(t, call.in(0), (from * time_step + b * batch_step) * inner, y, k * inner, inner);
    }
  });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {10, 28};

}  // namespace

extern constexpr Op kReverseSequence{.domain = "",
                                     .name = "ReverseSequence",
                                     .versions = kVersions,
                                     .parse = parse_params<Params, parse>,
                                     .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                     .kernels = kKernels};
extern constexpr OpInference kReverseSequenceInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
