// Expand — the input broadcast to a shape, which the input's own dimensions may exceed.
#include "ops/elementwise.h"
#include "ops/movement.h"

namespace tessera {
namespace {

template <class D>
Status shape(ShapeCall<D>& c) {
  if (c.rank(1) != 1) return c.refuse(1, "a list of dimensions");
  const D length = c.dim(1, 0);
  if (known(length) && number(length) >= kMaxRank) return c.refuse(1, format("fewer than {} dimensions", kMaxRank));
  const auto wanted = c.content(1);
  if (!wanted) return c.unknown(0, known(length) ? std::max(c.rank(0), static_cast<int>(number(length))) : -1);
  for (const D& d : *wanted)
    if (known(d) && number(d) < 0) return c.refuse(1, format("dimensions of at least 0 (one is {})", number(d)));
  DimVec<D> out(c.dims(0));
  if (!broadcast_into(out, *wanted, c)) return c.refuse(1, "a shape that input 0 broadcasts to");
  return c.set(0, out);
}

Status infer_shape(const void*, ShapeCall<Dim>& c) {
  TRY(shape(c));
  const auto elements = c.content(0), wanted = c.content(1);
  if (!elements || elements->size() != 1 || !wanted) return {};
  int64_t count = 1;
  for (const Dim& d : *wanted) {
    if (!d.known() || d.value() > kMostContent) return {};
    count *= d.value();
    if (count > kMostContent) return {};
  }
  c.set_content(0, std::vector<Dim>(static_cast<size_t>(count), (*elements)[0]));
  return {};
}

Status compute(Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const Shape &in = call.shape(0), &out = call.out_shape(0);
  int64_t own[kMaxRank], from[kMaxRank] = {}, to[kMaxRank];
  strides_of(in.dims(), own);
  strides_of(out.dims(), to);
  const int shift = out.rank() - in.rank();
  for (int i = 0; i < in.rank(); ++i) from[shift + i] = in[i] == 1 ? 0 : own[i];
  const auto rank = static_cast<size_t>(out.rank());
  copy_strided(call, call.dtype(0), out.dims(), call.in(0), {0, {from, rank}}, y, {0, {to, rank}});
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), kIndexTypes}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};
constexpr int16_t kVersions[] = {8, 13};

}  // namespace

extern constexpr Op kExpand{.domain = "",
                            .name = "Expand",
                            .versions = kVersions,
                            .shape = shape_plain<int64_t, shape<int64_t>>,
                            .kernels = kKernels,
                            .shape_inputs = in_arg(1)};
extern constexpr OpInference kExpandInference{.shape = infer_shape};

}  // namespace tessera
