// Operators of rewritten graphs, on bytes that stand for floats:
//   tessera.QLinearBinary — Add, Sub or Mul of two quantized tensors, quantized.
//   tessera.QLinearTable — any function of one quantized element, as a table of its 256 values.
#include <cmath>

#include "core/convert.h"
#include "kernels/quantize.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

constexpr TypeSet kBytes = set_of(DType::i8, DType::u8);
constexpr int16_t kVersions[] = {1};

enum Input { kA, kAScale, kAZero, kB, kBScale, kBZero, kYScale, kYZero };

struct Params {
  int op = 0;
};
Status parse(Attrs& a, Params& p) {
  static constexpr std::string_view kNames[] = {"Add", "Sub", "Mul"};
  a.get_choice("op", p.op, kNames);
  return {};
}

template <class D>
Status shape(const Params&, ShapeCall<D>& c) {
  if (c.inputs() != 8) return c.refuse(0, "eight inputs");
  for (const int i : {kAScale, kAZero, kBScale, kBZero, kYScale, kYZero}) {
    const D n = c.count(i);
    if (known(n) && number(n) != 1) return c.refuse(i, "one number");
  }
  DimVec<D> out(c.dims(kA));
  if (!broadcast_into(out, c.dims(kB), c)) return c.refuse(kB, "a shape that broadcasts with input 0");
  return c.set(0, out);
}

ByteScale scale_at(const Call& call, int scale, int zero) {
  ByteScale s;
  s.scale = *call.in<float>(scale);
  s.is_signed = call.dtype(zero) == DType::i8;
  decode(call.dtype(zero), call.in(zero), 0, 1, &s.zero);
  return s;
}

Status compute(const Params& p, Call& call) {
  static constexpr ByteArithmetic kOps[] = {ByteArithmetic::add, ByteArithmetic::subtract, ByteArithmetic::multiply};
  const ByteScale a = scale_at(call, kAScale, kAZero), b = scale_at(call, kBScale, kBZero),
                  y = scale_at(call, kYScale, kYZero);
  const std::span<const int64_t> shapes[] = {call.shape(kA).dims(), call.shape(kB).dims()};
  const auto *at = call.in<uint8_t>(kA), *bt = call.in<uint8_t>(kB);
  auto* out = call.out<uint8_t>(0);
  BroadcastRows(call.out_shape(0), shapes).run(call.threads(), [&](const BroadcastRows::Row& r) {
    combine_bytes(call.target(), kOps[p.op], {at + r.in[0], r.step[0], a}, {bt + r.in[1], r.step[1], b}, y, r.n,
                  out + r.out);
  });
  return {};
}

template <class D>
Status table_shape(ShapeCall<D>& c) {
  const D n = c.count(1);
  if (known(n) && number(n) != 256) return c.refuse(1, "256 elements");
  return c.set(0, c.dims(0));
}

Status look_up(Call& call) {
  const auto *x = call.in<uint8_t>(0), *table = call.in<uint8_t>(1);
  auto* y = call.out<uint8_t>(0);
  for_pieces(call, call.count(0),
             [&](int64_t begin, int64_t n) { look_up_bytes(call.target(), table, x + begin, n, y + begin); });
  return {};
}

void binary_types(TypeCall& c) {
  c.out[0] = c.in.size() > kYZero ? c.in[kYZero] : TypeDesc{Kind::unknown, DType::undefined, Kind::tensor};
}

constexpr TypeRule kBinaryTypes[] = {{in_arg(kA) | in_arg(kAZero), kBytes},
                                     {in_arg(kB) | in_arg(kBZero), kBytes},
                                     {in_arg(kYZero) | out_arg(0), kBytes},
                                     {in_arg(kAScale) | in_arg(kBScale) | in_arg(kYScale), set_of(DType::f32)}};
constexpr Kernel kBinaryKernels[] = {{kBinaryTypes, compute_with<Params, compute>}};
constexpr TypeRule kTableTypes[] = {{in_arg(0), kBytes}, {in_arg(1) | out_arg(0), kBytes}};
constexpr Kernel kTableKernels[] = {{kTableTypes, compute_plain<look_up>}};

}  // namespace

extern constexpr Op kTesseraQLinearBinary{.domain = "tessera",
                                          .name = "QLinearBinary",
                                          .versions = kVersions,
                                          .parse = parse_params<Params, parse>,
                                          .types = binary_types,
                                          .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                          .kernels = kBinaryKernels};
extern constexpr OpInference kTesseraQLinearBinaryInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr Op kTesseraQLinearTable{.domain = "tessera",
                                         .name = "QLinearTable",
                                         .versions = kVersions,
                                         .types = type_of_input<1>,
                                         .shape = shape_plain<int64_t, table_shape<int64_t>>,
                                         .kernels = kTableKernels};
extern constexpr OpInference kTesseraQLinearTableInference{.shape = shape_plain<Dim, table_shape<Dim>>};

}  // namespace tessera
