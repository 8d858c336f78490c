// Tile — the input repeated along each axis.
#include "ops/movement.h"

namespace tessera {
namespace {

struct Params {
  bool one_axis = false;  // version 1: inputs are a number of tiles and the axis they go along, in the data's own type
};
Status parse(Attrs& a, Params& p) {
  p.one_axis = a.version() < 6;
  return {};
}

template <class D>
std::optional<D> scalar(ShapeCall<D>& c, int i) {
  const auto list = c.content(i);
  if (list) return list->empty() ? std::nullopt : std::optional<D>((*list)[0]);
  const auto v = c.real(i);
  return v ? std::optional<D>(D(to_integer<int64_t>(*v))) : std::nullopt;
}

template <class D>
Status repeat(ShapeCall<D>& c, int axis, const D& times, DimVec<D>& out) {
  if (known(times) && number(times) < 0) return c.refuse(1, format("repeats of at least 0 (one is {})", number(times)));
  if (!dim_product(out[axis], times, &out[axis])) return c.refuse(1, "repeats of a size that memory can hold");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  DimVec<D> out(c.dims(0));
  if (p.one_axis) {
    const auto tiles = scalar(c, 1), axis = scalar(c, 2);
    if (!tiles || !axis || !known(*axis)) return c.unknown(0, rank);
    const auto at = normalize_axis(number(*axis), rank);
    if (!at) return c.refuse(2, format("an axis from -{} to {}", rank, rank - 1));
    TRY(repeat(c, *at, *tiles, out));
    return c.set(0, out);
  }
  if (c.rank(1) != 1) return c.refuse(1, "a list of repeats");
  if (const D n = c.dim(1, 0); known(n) && number(n) != rank) return c.refuse(1, format("{} repeats", rank));
  const auto repeats = c.content(1);
  if (!repeats) return c.unknown(0, rank);
  for (int i = 0; i < rank; ++i) TRY(repeat(c, i, (*repeats)[static_cast<size_t>(i)], out));
  return c.set(0, out);
}

// The shapes say all: each axis is [repeats, size], and the repeats do not move in the input.
Status compute(Call& call) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const Shape &in = call.shape(0), &out = call.out_shape(0);
  int64_t own[kMaxRank], dims[2 * kMaxRank], from[2 * kMaxRank], to[2 * kMaxRank];
  strides_of(in.dims(), own);
  for (int i = 0; i < in.rank(); ++i) {
    dims[2 * i] = out[i] / in[i];
    dims[2 * i + 1] = in[i];
    from[2 * i] = 0;
    from[2 * i + 1] = own[i];
  }
  const size_t rank = 2 * static_cast<size_t>(in.rank());
  strides_of({dims, rank}, to);
  copy_strided(call, call.dtype(0), {dims, rank}, call.in(0), {0, {from, rank}}, y, {0, {to, rank}});
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), kEveryType}, {in_arg(1), kNumbers}, {in_arg(2), kNumbers}};
constexpr Kernel kKernels[] = {{kTypes, compute_plain<compute>}};
constexpr int16_t kVersions[] = {1, 6, 13};

}  // namespace

extern constexpr Op kTile{.domain = "",
                          .name = "Tile",
                          .versions = kVersions,
                          .parse = parse_params<Params, parse>,
                          .shape = shape_with<Params, int64_t, shape<int64_t>>,
                          .kernels = kKernels,
                          .shape_inputs = in_arg(1) | in_arg(2)};
extern constexpr OpInference kTileInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
