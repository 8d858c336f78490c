// com.microsoft.RotaryEmbedding — as the standard's, but positions may be one number: that of the first row.
#include "ops/agree.h"
#include "ops/contrib/contrib.h"
#include "ops/nn/rotary.h"

namespace tessera {
namespace {

enum Input { kX, kPositions, kCos, kSin };
constexpr contrib::Arity kArity{in_arg(kX) | in_arg(kPositions) | in_arg(kCos) | in_arg(kSin), 4};

struct Params {
  int64_t heads = 0, rotary = 0;  // 0: told by the shapes
  bool interleaved = false;
};

Status parse(Attrs& a, Params& p) {
  a.get("num_heads", p.heads);
  a.get("rotary_embedding_dim", p.rotary);
  a.get("interleaved", p.interleaved);
  if (p.heads < 0 || p.heads > INT32_MAX) return a.refuse("num_heads", "at least 0");
  if (p.rotary < 0 || p.rotary % 2) return a.refuse("rotary_embedding_dim", "an even number of at least 0");
  if (p.rotary && !p.heads) return a.refuse("num_heads", "at least 1 together with rotary_embedding_dim");
  return {};
}

// The size of a head: of four dimensions the last; else told by the heads, or twice the width of the tables.
template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const bool four = c.rank(kX) == 4;
  if (c.rank(kX) != 3 && !four) return c.refuse(kX, "three or four dimensions");
  for (const int i : {kCos, kSin})
    if (c.rank(i) != 2 || !agree(c.dim(i, 0), c.dim(kCos, 0)) || !agree(c.dim(i, 1), c.dim(kCos, 1)))
      return c.refuse(i, "[positions, half of the rotated size], alike for both tables");
  const D width = c.dim(kX, four ? 3 : 2), half = c.dim(kCos, 1);
  if (known(width) && known(half)) {
    const int64_t n = number(width), h = number(half);
    const int64_t size = four ? n : p.heads ? n / p.heads : 2 * h;
    if (h < 1 || size < 1 || n % size || (!four && p.heads && n != p.heads * size) || 2 * h > size)
      return c.refuse(kX, "heads of equal size that the rotation fits in");
    if (p.rotary ? h != p.rotary / 2 : 2 * h != size) return c.refuse(kCos, "[positions, half of the rotated size]");
  }
  const bool offset = c.rank(kPositions) <= 1;
  if (offset ? c.rank(kPositions) == 1 && !agree(c.dim(kPositions, 0), D(1))
             : c.rank(kPositions) != 2 || !agree(c.dim(kPositions, 0), c.dim(kX, 0)) ||
                   !agree(c.dim(kPositions, 1), c.dim(kX, four ? 2 : 1)))
    return c.refuse(kPositions, "one position, or one for each element of the sequences");
  return c.set(0, c.dims(kX));
}

Status compute(const Params& p, Call& call) {
  const Shape& s = call.shape(kX);
  const bool four = s.rank() == 4, offset = call.shape(kPositions).rank() <= 1;
  const int64_t half = call.shape(kCos)[1], rows = call.shape(kCos)[0], length = s[four ? 2 : 1];
  const int64_t size = four ? s[3] : p.heads ? s[2] / p.heads : 2 * half, heads = four ? s[1] : s[2] / size;
  const int64_t* position = call.in<int64_t>(kPositions);
  const int64_t span = offset ? std::max<int64_t>(length, 1) : 1;
  for (int64_t i = 0; i < call.count(kPositions); ++i)
    if (position[i] < 0 || position[i] > rows - span)
      return call.refuse(kPositions, "positions from 0 to {} (element {} is {})", rows - span, i, position[i]);
  rotate_all(call, {call.in<float>(kCos), call.in<float>(kSin), half, p.interleaved}, {s[0], heads, length, size, four},
             call.in<float>(kX), call.out<float>(0),
             [&](int64_t i) { return offset ? position[0] + i % length : position[i]; });
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(kX) | in_arg(kCos) | in_arg(kSin) | out_arg(0), set_of(DType::f32), kHalfFloats},
                               {in_arg(kPositions), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};

}  // namespace

extern constexpr Op kMicrosoftRotaryEmbedding{.domain = contrib::kDomain,
                                              .name = "RotaryEmbedding",
                                              .versions = contrib::kVersions,
                                              .parse = contrib::parse_checked<Params, kArity, parse>,
                                              .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                              .kernels = kKernels,
                                              .inplace = in_arg(kX)};
extern constexpr OpInference kMicrosoftRotaryEmbeddingInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
