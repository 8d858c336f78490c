// RotaryEmbedding — rotates pairs of elements of every head by angles that depend on the position.
#include "ops/nn/rotary.h"

namespace tessera {
namespace {

struct Params {
  int64_t heads = 0;   // of inputs with three dimensions
  int64_t rotary = 0;  // leading elements of a head that are rotated; 0: all
  bool interleaved = false;
};

Status parse(Attrs& a, Params& p) {
  a.get("num_heads", p.heads);
  a.get("rotary_embedding_dim", p.rotary);
  a.get("interleaved", p.interleaved);
  if (p.heads < 0) return a.refuse("num_heads", "at least 0");
  if (p.rotary < 0 || p.rotary % 2) return a.refuse("rotary_embedding_dim", "an even number of at least 0");
  return {};
}

template <class D>
bool differ(const D& a, const D& b) {
  return known(a) && known(b) && number(a) != number(b);
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const bool four = c.rank(0) == 4;
  if (c.rank(0) != 3 && !four) return c.refuse(0, "three or four dimensions");
  if (!four && p.heads < 1) return c.refuse(0, "four dimensions, or the attribute num_heads");
  const D batch = c.dim(0, 0), length = c.dim(0, four ? 2 : 1), width = c.dim(0, four ? 3 : 2);
  if (!four && known(width) && number(width) % p.heads) return c.refuse(0, format("{} heads of equal size", p.heads));
  if (known(width)) {
    const int64_t size = four ? number(width) : number(width) / p.heads;
    if (p.rotary > size || (!p.rotary && size % 2))
      return c.refuse(0, "heads of an even size that the rotation fits in");
  }
  const D half = p.rotary ? D(p.rotary / 2) : floor_div(four ? width : floor_div(width, D(p.heads)), D(2));
  const bool chosen = c.has(3);
  for (const int i : {1, 2}) {
    const int rank = chosen ? 2 : 3;
    bool good = c.rank(i) == rank && !differ(c.dim(i, rank - 1), half);
    if (good && !chosen) good = !differ(c.dim(i, 0), batch) && !differ(c.dim(i, 1), length);
    if (good && chosen && i == 2) good = !differ(c.dim(2, 0), c.dim(1, 0));
    if (!good)
      return c.refuse(i,
                      chosen ? "[positions, half of the rotated size]" : "[batch, length, half of the rotated size]");
  }
  if (chosen && (c.rank(3) != 2 || differ(c.dim(3, 0), batch) || differ(c.dim(3, 1), length)))
    return c.refuse(3, "a position for each element of the sequences");
  return c.set(0, c.dims(0));
}

Status compute(const Params& p, Call& call) {
  const Shape& s = call.shape(0);
  const bool four = s.rank() == 4;
  const int64_t batch = s[0], heads = four ? s[1] : p.heads, length = s[four ? 2 : 1];
  const int64_t size = four ? s[3] : s[2] / p.heads, half = (p.rotary ? p.rotary : size) / 2;
  const float *x = call.in<float>(0), *cos = call.in<float>(1), *sin = call.in<float>(2);
  const int64_t* position = call.maybe<int64_t>(3);
  float* y = call.out<float>(0);
  for (int64_t i = 0; position && i < batch * length; ++i)
    if (position[i] < 0 || position[i] >= call.shape(1)[0])
      return call.refuse(3, "positions from 0 to {} (element {} is {})", call.shape(1)[0] - 1, i, position[i]);
  const Rotation rotation{cos, sin, half, p.interleaved};
  rotate_all(call, rotation, {batch, heads, length, size, four}, x, y,
             [&](int64_t i) { return position ? position[i] : i; });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0) | in_arg(1) | in_arg(2) | out_arg(0), set_of(DType::f32), kHalfFloats},
                               {in_arg(3), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {23};

}  // namespace

extern constexpr Op kRotaryEmbedding{.domain = "",
                                     .name = "RotaryEmbedding",
                                     .versions = kVersions,
                                     .parse = parse_params<Params, parse>,
                                     .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                     .kernels = kKernels,
                                     .inplace = in_arg(0)};
extern constexpr OpInference kRotaryEmbeddingInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
