// com.microsoft.MatMulNBits — A times a matrix of 2, 4 or 8 bit codes in blocks, and tessera.DequantizeMatMul — A times
// DequantizeLinear(W, scale, zero_point), both plus an optional bias.
#include <algorithm>
#include <bit>

#include "base/checked.h"
#include "kernels/gemm.h"
#include "kernels/gemm_nbits.h"
#include "ops/nn/panel_room.h"

namespace tessera {
namespace {

constexpr TypeSet kNumberTypes = set_of(DType::f32, DType::f16, DType::bf16);

NBitsFloat float_of(DType t) {
  return t == DType::f16 ? NBitsFloat::f16 : t == DType::bf16 ? NBitsFloat::bf16 : NBitsFloat::f32;
}

template <class D>
bool may_equal(const D& a, const D& b) {
  return !known(a) || !known(b) || number(a) == number(b);
}

// The standard has no signature to check: the first three inputs are there, and one output.
Status check_arguments(const Attrs& a, size_t most) {
  const ir::Node& n = a.node();
  if (n.inputs.size() < 3 || n.inputs.size() > most)
    return invalid_graph("it has {} inputs, wanted 3 to {}", n.inputs.size(), most);
  for (size_t i = 0; i < 3; ++i)
    if (n.inputs[i] == ir::kNone) return invalid_graph("its input {} is absent, but not optional", i);
  if (n.outputs.size() != 1) return invalid_graph("it has {} outputs, wanted 1", n.outputs.size());
  return {};
}

// The memory of input i, if it is there.
const void* data_of(const Call& c, int i) { return c.in(i); }
const void* data_of(const PackCall& c, int i) { return c.tensor(i).data(); }

// Whether the kernel's own layout holds the matrix; else its panels hold floats.
bool keeps_codes(const NBitsFormat& f) { return nbits_packs(f.k, f.block); }

int64_t panel_bytes(const NBitsFormat& f) {
  if (f.n == 0 || f.k == 0) return 0;
  return static_cast<int64_t>(keeps_codes(f) ? nbits_packed_bytes(f) : gemm_packed_bytes(f.n, f.k));
}

void fill_panels(int threads, const NBitsSource& s, void* out) {
  if (keeps_codes(s.format))
    nbits_pack(threads, s, out);
  else
    nbits_unpack(threads, s, nullptr, static_cast<float*>(out));
}

int64_t work_bytes(const Shape& a, int64_t k, bool int8) {
  return k == 0 ? 0 : static_cast<int64_t>(gemm_nbits_workspace(a.count() / k, k, int8));
}

// A (input 0) times panels, plus the bias (input `bias`).
Status multiply(Call& call, const NBitsFormat& f, const void* panels, bool floats, int bias, bool int8) {
  const int64_t m = f.k ? call.count(0) / f.k : call.out_count(0) / std::max<int64_t>(f.n, 1);
  if (floats || f.k == 0) {
    GemmEpilogue e;
    e.c_in = call.maybe<float>(bias);
    e.c_col_stride = 1;
    gemm_f32(call.target(), call.threads(), m, f.n, f.k, call.in<float>(0), f.k, false,
             static_cast<const float*>(panels), call.out<float>(0), f.n, e);
    return {};
  }
  PanelRoom room;
  TRY_ASSIGN(work, room.get(call, work_bytes(call.shape(0), f.k, int8)));
  gemm_nbits(call.target(), call.threads(),
             {m, call.in<float>(0), f.k, &f, panels, call.maybe<float>(bias), call.out<float>(0), f.n, int8}, work);
  return {};
}

// The product with weights that may be packed.
Status multiply_source(Call& call, const NBitsSource& s, int bias, bool int8) {
  if (call.out_count(0) == 0) return {};
  const NBitsFormat& f = s.format;
  const bool floats = !keeps_codes(f);
  if (const void* packed = call.packed(1)) return multiply(call, f, packed, floats, bias, int8);
  TRY_ASSIGN(panels, Tensor::allocate(DType::u8, Shape{panel_bytes(f)}));
  if (f.k) fill_panels(call.threads(), s, panels.mutable_data());
  return multiply(call, f, panels.data(), floats, bias, int8);
}

// A has k columns; the output has n instead.
template <class D>
Status set_product(ShapeCall<D>& c, const D& k, const D& n, int bias) {
  const int rank = c.rank(0);
  if (rank == 0) return c.refuse(0, "at least one dimension");
  if (!may_equal(c.dim(0, rank - 1), k))
    return c.refuse(0, format("{} columns, one for each row of the weights", number(k)));
  if (c.has(bias) && (c.rank(bias) != 1 || !may_equal(c.dim(bias, 0), n)))
    return c.refuse(bias, "one number for each column of the weights");
  DimVec<D> out(c.dims(0));
  out[rank - 1] = n;
  return c.set(0, out);
}

// ---------------------------------------------------------------------------------------------- MatMulNBits

struct NBitsParams {
  int64_t k = 0, n = 0, bits = 4, block = 0, accuracy = 0;

  int64_t blocks() const { return ceil_div(k, block); }
  int64_t code_bytes() const { return n * blocks() * (block * bits / 8); }
  int64_t zero_row() const { return ceil_div(blocks() * bits, 8); }  // in bytes
};

Status parse_nbits(Attrs& a, NBitsParams& p) {
  TRY(check_arguments(a, 6));
  int64_t prepacked = 0;
  a.get("K", p.k);
  a.get("N", p.n);
  a.get("bits", p.bits);
  a.get("block_size", p.block);
  a.get("accuracy_level", p.accuracy);
  a.get("weight_prepacked", prepacked);
  constexpr int64_t kMost = INT32_MAX;
  if (p.k < 1 || p.k > kMost) return a.refuse("K", "1 to 2^31 - 1");
  if (p.n < 1 || p.n > kMost) return a.refuse("N", "1 to 2^31 - 1");
  if (p.bits != 2 && p.bits != 4 && p.bits != 8) return a.refuse("bits", "2, 4 or 8");
  if (p.block < 16 || p.block > kMost || (p.block & (p.block - 1)))
    return a.refuse("block_size", "a power of two, at least 16");
  if (p.accuracy < 0 || p.accuracy > 4) return a.refuse("accuracy_level", "0 to 4");
  if (prepacked) return a.refuse("weight_prepacked", "0: weights as the operator describes them");
  return {};
}

template <class D>
Status nbits_shape(const NBitsParams& p, ShapeCall<D>& c) {
  const auto counts = [&](int i, int64_t n) { return !c.has(i) || may_equal(c.count(i), D(n)); };
  const int64_t scales = p.n * p.blocks();
  if (!counts(1, p.code_bytes()))
    return c.refuse(1, format("[{}, {}, {}]: N, blocks of K, bytes of a block", p.n, p.blocks(), p.block * p.bits / 8));
  if (!counts(2, scales)) return c.refuse(2, format("{} scales, one for each block", scales));
  if (c.has(3) && c.dtype(3) == DType::u8 && !counts(3, p.n * p.zero_row()))
    return c.refuse(3, format("{} bytes, {} for each of N", p.n * p.zero_row(), p.zero_row()));
  if (c.has(3) && c.dtype(3) != DType::u8 && !counts(3, scales))
    return c.refuse(3, format("{} zero points, one for each block", scales));
  if (!counts(4, p.k) && !counts(4, p.blocks() * p.block))
    return c.refuse(4, format("{} indexes, one for each of K", p.k));
  return set_product(c, D(p.k), D(p.n), 5);
}

template <class C>
NBitsSource nbits_source(const NBitsParams& p, const C& c) {
  NBitsSource s;
  s.format.n = p.n;
  s.format.k = p.k;
  s.format.bits = static_cast<int>(p.bits);
  s.format.block = p.block;
  s.format.implied_zero = 1 << (p.bits - 1);
  s.format.scale_type = float_of(c.dtype(2));
  s.codes = data_of(c, 1);
  s.code_k = 1;
  s.code_n = p.blocks() * p.block;
  s.scales = data_of(c, 2);
  s.scale_block = 1;
  s.scale_n = p.blocks();
  if (!c.has(3)) return s;
  const bool codes = c.dtype(3) == DType::u8;
  s.format.zero = codes ? NBitsZero::codes : NBitsZero::floats;
  s.format.zero_type = float_of(c.dtype(3));
  s.zeros = data_of(c, 3);
  s.zero_block = 1;
  s.zero_n = codes ? p.zero_row() * 8 / p.bits : p.blocks();
  return s;
}

int64_t nbits_bytes(const PackCall& c) {
  const auto& p = c.as<NBitsParams>();
  const auto counts = [&](int i, int64_t n) { return c.has(i) && c.shape(i).count() == n; };
  if (c.has(4) || !counts(1, p.code_bytes()) || !counts(2, p.n * p.blocks()) || !kNumberTypes.has(c.dtype(2))) return 0;
  if (c.has(3) && !(c.dtype(3) == DType::u8 ? counts(3, p.n * p.zero_row())
                                            : kNumberTypes.has(c.dtype(3)) && counts(3, p.n * p.blocks())))
    return 0;
  return panel_bytes(nbits_source(p, c).format);
}
void nbits_fill(const PackCall& c, void* out) { fill_panels(c.threads, nbits_source(c.as<NBitsParams>(), c), out); }
int64_t nbits_variant(const void* params) {
  const auto& p = *static_cast<const NBitsParams*>(params);
  return p.k << 16 | std::countr_zero(static_cast<uint64_t>(p.block)) << 4 | p.bits;
}

int64_t nbits_scratch(const void* params, const ScratchCall& in) {
  const auto& p = *static_cast<const NBitsParams*>(params);
  return panel_scratch(work_bytes(*in[0], p.k, p.accuracy == 4));
}

// Every step of K names its block: the weights become floats for the length of the call.
Status compute_indexed(const NBitsParams& p, Call& call) {
  const auto* index = call.in<int32_t>(4);
  for (int64_t i = 0; i < p.k; ++i)
    if (index[i] < 0 || index[i] >= p.blocks())
      return call.refuse(4, "indexes from 0 to {}, not {}", p.blocks() - 1, index[i]);
  const NBitsSource s = nbits_source(p, call);
  TRY_ASSIGN(panels, Tensor::allocate(DType::u8, Shape{static_cast<int64_t>(gemm_packed_bytes(p.n, p.k))}));
  nbits_unpack(call.threads(), s, index, static_cast<float*>(panels.mutable_data()));
  return multiply(call, s.format, panels.data(), true, 5, false);
}

Status compute_nbits(const NBitsParams& p, Call& call) {
  if (call.has(4)) return compute_indexed(p, call);
  return multiply_source(call, nbits_source(p, call), 5, p.accuracy == 4);
}

constexpr Packing kNBitsPacks[] = {
    {1, "NBITS.P16", nbits_bytes, nbits_fill, nbits_variant, set_of(DType::u8), in_arg(2) | in_arg(3) | in_arg(4)}};
constexpr TypeRule kNBitsTypes[] = {{in_arg(0) | in_arg(5) | out_arg(0), set_of(DType::f32), kHalfFloats},
                                    {in_arg(1), set_of(DType::u8)},
                                    {in_arg(2), kNumberTypes},
                                    {in_arg(3), kNumberTypes | set_of(DType::u8)},
                                    {in_arg(4), set_of(DType::i32)}};
constexpr Kernel kNBitsKernels[] = {{kNBitsTypes, compute_with<NBitsParams, compute_nbits>}};

// ---------------------------------------------------------------------------------------------- DequantizeMatMul

struct DequantizeParams {
  bool trans_w = false;  // W is [N, K]
  bool along_k = false;  // the scales' axis is that of K
  int64_t block = 0, accuracy = 0;

  int k_axis() const { return trans_w; }
};

Status parse_dequantize(Attrs& a, DequantizeParams& p) {
  TRY(check_arguments(a, 5));
  int64_t axis = 1;
  a.get("trans_w", p.trans_w);
  a.get("axis", axis);
  a.get("block_size", p.block);
  a.get("accuracy_level", p.accuracy);
  if (axis < -2 || axis > 1) return a.refuse("axis", "-2 to 1");
  if (p.block < 0 || p.block > INT32_MAX) return a.refuse("block_size", "0 to 2^31 - 1");
  if (p.accuracy < 0 || p.accuracy > 4) return a.refuse("accuracy_level", "0 to 4");
  p.along_k = (axis + 2) % 2 == p.k_axis();
  return {};
}

// One scale for the whole matrix.
template <class D>
bool is_one(int rank, const D& count) {
  return rank == 0 || (rank == 1 && known(count) && number(count) == 1);
}

// What the shape of a scale should be: empty if it fits that of W.
template <class D, class Dims>
std::string scale_trouble(const DequantizeParams& p, const Dims& w, const Dims& scale) {
  const int axis = p.along_k ? p.k_axis() : 1 - p.k_axis();
  if (p.block == 0)
    return scale.size() == 1 && may_equal<D>(scale[0], w[axis])
               ? ""
               : format("one scale, or one for each index of axis {}", axis);
  bool good = scale.size() == 2;
  for (int i = 0; i < 2 && good; ++i)
    if (known(D(w[i]))) good = may_equal<D>(scale[i], i == axis ? D(ceil_div(number(D(w[i])), p.block)) : D(w[i]));
  return good ? "" : format("a scale for each block of {} along axis {}", p.block, axis);
}

template <class D>
Status dequantize_shape(const DequantizeParams& p, ShapeCall<D>& c) {
  if (c.rank(1) != 2) return c.refuse(1, "two dimensions");
  if (!is_one(c.rank(2), c.count(2)))
    if (const std::string wanted = scale_trouble<D>(p, c.dims(1), c.dims(2)); !wanted.empty())
      return c.refuse(2, wanted);
  if (c.has(3) && !(is_one(c.rank(2), c.count(2)) && is_one(c.rank(3), c.count(3)))) {
    bool same = c.rank(3) == c.rank(2);
    for (int i = 0; i < c.rank(2) && same; ++i) same = may_equal(c.dim(2, i), c.dim(3, i));
    if (!same) return c.refuse(3, "the shape of the scale");
  }
  return set_product(c, c.dim(1, p.k_axis()), c.dim(1, 1 - p.k_axis()), 4);
}

// Steps in the list of scales.
struct ScaleSteps {
  int64_t block, by_block, by_n, n_block;
};
ScaleSteps scale_steps(const DequantizeParams& p, int64_t k, int64_t n, const Shape& scale) {
  if (is_one(scale.rank(), scale.count())) return {k, 0, 0, 1};
  if (p.block == 0) return p.along_k ? ScaleSteps{1, 1, 0, 1} : ScaleSteps{k, 0, 1, 1};
  const int64_t by_k = p.trans_w ? 1 : scale[1], by_n = p.trans_w ? scale[1] : 1;
  return p.along_k ? ScaleSteps{std::min(p.block, k), by_k, by_n, 1} : ScaleSteps{1, by_k, by_n, std::min(p.block, n)};
}

template <class C>
NBitsSource dequantize_source(const DequantizeParams& p, const C& c) {
  const Shape& w = c.shape(1);
  const DType type = c.dtype(1);
  const int64_t k = w[p.k_axis()], n = w[1 - p.k_axis()];
  const ScaleSteps steps = scale_steps(p, k, n, c.shape(2));
  NBitsSource s;
  s.is_signed = type == DType::i2 || type == DType::i4 || type == DType::i8;
  s.format.n = n;
  s.format.k = k;
  s.format.bits = bits_of(type);
  s.format.block = std::max<int64_t>(steps.block, 1);
  s.format.implied_zero = s.is_signed ? 1 << (s.format.bits - 1) : 0;
  s.format.scale_type = float_of(c.dtype(2));
  s.format.zero = c.has(3) ? NBitsZero::codes : NBitsZero::implied;
  s.codes = data_of(c, 1);
  s.code_k = p.trans_w ? 1 : n;
  s.code_n = p.trans_w ? k : 1;
  s.scales = data_of(c, 2);
  s.zeros = c.has(3) ? data_of(c, 3) : nullptr;
  s.scale_block = s.zero_block = steps.by_block;
  s.scale_n = s.zero_n = steps.by_n;
  s.n_block = std::max<int64_t>(steps.n_block, 1);
  return s;
}

constexpr TypeSet kCodeTypes = kSubByteInts | set_of(DType::i8, DType::u8);

int64_t dequantize_bytes(const PackCall& c) {
  const auto& p = c.as<DequantizeParams>();
  if (!c.has(2) || c.shape(1).rank() != 2 || !kNumberTypes.has(c.dtype(2))) return 0;
  const Shape& scale = c.shape(2);
  const bool one = is_one(scale.rank(), scale.count());
  if (!one && !scale_trouble<int64_t>(p, c.shape(1).dims(), scale.dims()).empty()) return 0;
  if (c.has(3)) {
    const Shape& zero = c.shape(3);
    if (c.dtype(3) != c.dtype(1) || !(zero == scale || (one && is_one(zero.rank(), zero.count())))) return 0;
  }
  return panel_bytes(dequantize_source(p, c).format);
}
void dequantize_fill(const PackCall& c, void* out) {
  fill_panels(c.threads, dequantize_source(c.as<DequantizeParams>(), c), out);
}
int64_t dequantize_variant(const void* params) {
  const auto& p = *static_cast<const DequantizeParams*>(params);
  return p.block << 2 | (p.trans_w ? 2 : 0) | (p.along_k ? 1 : 0);
}

int64_t dequantize_scratch(const void* params, const ScratchCall& in) {
  const auto& p = *static_cast<const DequantizeParams*>(params);
  return panel_scratch(work_bytes(*in[0], (*in[1])[p.k_axis()], p.accuracy == 4));
}

Status compute_dequantize(const DequantizeParams& p, Call& call) {
  return multiply_source(call, dequantize_source(p, call), 4, p.accuracy == 4);
}

constexpr Packing kDequantizePacks[] = {
    {1, "DQ.P16", dequantize_bytes, dequantize_fill, dequantize_variant, kCodeTypes, in_arg(2) | in_arg(3)}};
constexpr TypeRule kDequantizeTypes[] = {{in_arg(0) | in_arg(4) | out_arg(0), set_of(DType::f32), kHalfFloats},
                                         {in_arg(1) | in_arg(3), kCodeTypes},
                                         {in_arg(2), kNumberTypes}};
constexpr Kernel kDequantizeKernels[] = {{kDequantizeTypes, compute_with<DequantizeParams, compute_dequantize>}};
constexpr int16_t kVersions[] = {1};

}  // namespace

extern constexpr Op kMicrosoftMatMulNBits{.domain = "com.microsoft",
                                          .name = "MatMulNBits",
                                          .versions = kVersions,
                                          .parse = parse_params<NBitsParams, parse_nbits>,
                                          .shape = shape_with<NBitsParams, int64_t, nbits_shape<int64_t>>,
                                          .kernels = kNBitsKernels,
                                          .rounded = in_arg(0),
                                          .scratch = nbits_scratch,
                                          .packs = kNBitsPacks};
extern constexpr OpInference kMicrosoftMatMulNBitsInference{.shape = shape_with<NBitsParams, Dim, nbits_shape<Dim>>};

extern constexpr Op kTesseraDequantizeMatMul{.domain = "tessera",
                                             .name = "DequantizeMatMul",
                                             .versions = kVersions,
                                             .parse = parse_params<DequantizeParams, parse_dequantize>,
                                             .shape = shape_with<DequantizeParams, int64_t, dequantize_shape<int64_t>>,
                                             .kernels = kDequantizeKernels,
                                             .rounded = in_arg(0),
                                             .scratch = dequantize_scratch,
                                             .packs = kDequantizePacks};
extern constexpr OpInference kTesseraDequantizeMatMulInference{
    .shape = shape_with<DequantizeParams, Dim, dequantize_shape<Dim>>};

}  // namespace tessera
