// Which scale (and zero point) belongs to which element: one for all, one per index of an axis, or one per block of an
// axis.
#pragma once
#include "ops/op.h"

namespace tessera {

struct QuantParams {
  int64_t axis = 1;
  int64_t block_size = 0;
  bool saturate = true;
  DType output = DType::undefined;     // output_dtype
  DType precision = DType::undefined;  // of the division in QuantizeLinear
};

inline Status parse_quant(Attrs& a, QuantParams& p) {
  a.get("axis", p.axis);
  a.get("block_size", p.block_size);
  a.get("saturate", p.saturate);
  // 0 stands for the default.
  int64_t output = 0, precision = 0;
  a.get("output_dtype", output);
  a.get("precision", precision);
  if (output) a.get("output_dtype", p.output);
  if (precision) a.get("precision", p.precision);
  if (p.block_size < 0) return a.refuse("block_size", "at least 0");
  if (p.precision != DType::undefined && !kFloats.has(p.precision)) return a.refuse("precision", "a float type");
  return {};
}

// Checks scale (input 1) and zero point (input 2) against input 0; output 0 has input 0's shape.
template <class D>
Status quant_shape(const QuantParams& p, ShapeCall<D>& c) {
  const int rank = c.rank(0), scale_rank = c.rank(1);
  const D scales = c.count(1);
  const bool one = known(scales) && number(scales) == 1 && scale_rank <= 1;
  if (c.has(2)) {
    bool same = c.rank(2) == scale_rank;
    for (int i = 0; i < scale_rank && same; ++i)
      same = !known(c.dim(1, i)) || !known(c.dim(2, i)) || number(c.dim(1, i)) == number(c.dim(2, i));
    const D zeros = c.count(2);
    const auto may_be_one = [](int r, const D& n) { return r <= 1 && (!known(n) || number(n) == 1); };
    if (!same && !(may_be_one(scale_rank, scales) && may_be_one(c.rank(2), zeros)))
      return c.refuse(2, "the shape of the scale");
  }
  if (scale_rank == 0 || one) return c.set(0, c.dims(0));
  const auto axis = normalize_axis(p.axis, rank);
  if (!axis) return c.refuse(0, format("a dimension {}, the axis of the scales", p.axis));
  if (p.block_size == 0) {
    if (scale_rank != 1) return c.refuse(1, "one scale, or a list of them");
    const D n = c.dim(1, 0), wanted = c.dim(0, *axis);
    if (known(n) && known(wanted) && number(n) != number(wanted))
      return c.refuse(1, format("{} scales, one for each index of axis {}", number(wanted), *axis));
    return c.set(0, c.dims(0));
  }
  if (scale_rank != rank) return c.refuse(1, format("{} dimensions, as input 0 has", rank));
  for (int i = 0; i < rank; ++i) {
    const D n = c.dim(1, i), d = c.dim(0, i);
    if (!known(n) || !known(d)) continue;
    const int64_t blocks = number(d) / p.block_size + (number(d) % p.block_size != 0);
    const int64_t wanted = i == *axis ? blocks : number(d);
    if (number(n) != wanted) return c.refuse(1, format("{} in dimension {}", wanted, i));
  }
  return c.set(0, c.dims(0));
}

// Rows of elements along which the scale stays or advances by one element.
class ScaleMap {
 public:
  struct Row {
    int64_t at, n;        // elements of x
    int64_t scale, step;  // first scale; 0 or 1
  };

  ScaleMap(const QuantParams& p, const Shape& x, const Shape& scale) : total_(x.count()) {
    if (scale.rank() == 0 || (scale.rank() == 1 && scale[0] == 1)) return;
    s_ = x.around(*normalize_axis(p.axis, x.rank()));
    block_ = p.block_size ? p.block_size : 1;
    blocks_ = block_ == 0 ? 0 : ceil_div(s_.length, block_);
    kind_ = p.block_size ? Kind::block : Kind::axis;
  }

  // Calls fn(const Row&) for rows of at most kMostRow elements that cover [begin, end).
  template <class F>
  void rows(int64_t begin, int64_t end, F&& fn) const {
    for (int64_t at = begin; at < end;) {
      Row r = row(at);
      r.n = std::min({r.n, end - at, kMostRow});
      fn(static_cast<const Row&>(r));
      at += r.n;
    }
  }

  // Calls fn(const Row&) for all elements, in parallel pieces that share no byte.
  template <class F>
  void run(const Call& call, F&& fn) const {
    constexpr int64_t kPiece = 1 << 14;
    call.parallel(ceil_div(total_, kPiece),
                  [&](int64_t chunk, int) { rows(chunk * kPiece, std::min(total_, (chunk + 1) * kPiece), fn); });
  }

  static constexpr int64_t kMostRow = 512;

 private:
  enum class Kind { one, axis, block };

  Row row(int64_t at) const {
    if (kind_ == Kind::one) return {at, total_ - at, 0, 0};
    const int64_t i = at % s_.inner, a = at / s_.inner % s_.length, o = at / s_.inner / s_.length;
    const bool last = s_.inner == 1;
    if (kind_ == Kind::axis) return {at, last ? s_.length - a : s_.inner - i, a, last};
    const int64_t b = o * blocks_ + a / block_;
    if (last) return {at, std::min(block_ - a % block_, s_.length - a), b, 0};
    return {at, s_.inner - i, b * s_.inner + i, 1};
  }

  int64_t total_;
  Slices s_{};
  int64_t block_ = 1, blocks_ = 1;
  Kind kind_ = Kind::one;
};

inline constexpr TypeSet kScaleTypes = set_of(DType::f32, DType::f16, DType::bf16, DType::f8e8m0);
inline constexpr TypeSet kQuantized =
    kFloat8 | kFloat6 | kSubByteInts | set_of(DType::i8, DType::u8, DType::i16, DType::u16, DType::f4e2m1);

}  // namespace tessera
