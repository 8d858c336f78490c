// com.microsoft.Attention and QAttention — projects one input to queries, keys and values, then attends. The second
// projects quantized numbers.
#include "kernels/gemm.h"
#include "ops/contrib/attention_core.h"
#include "ops/quant/integer_matmul.h"

namespace tessera {
namespace {
using namespace contrib;
using attention::Sizes;

// Which input is what; those that the quantized form alone has are at the end.
struct Places {
  int x, weights, bias, padding, past, score_bias, past_length;
  int x_scale = kNoInput, w_scale = kNoInput, x_zero = kNoInput, w_zero = kNoInput;
};
constexpr Places kFloat{0, 1, 2, 3, 4, 5, 6}, kQuantized{0, 1, 2, 5, 8, kNoInput, kNoInput, 3, 4, 6, 7};
constexpr Arity kFloatArity{in_arg(0) | in_arg(1), 7, 2};
constexpr Arity kQuantizedArity{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4), 9, 2};

template <const Places& P, const Arity& A>
Status parse(Attrs& a, AttentionParams& p) {
  TRY(check(A, a.node()));
  TRY(parse_attention(a, p));
  const auto present = [&](int i) {
    return static_cast<size_t>(i) < a.node().inputs.size() && a.node().inputs[static_cast<size_t>(i)] != ir::kNone;
  };
  if (p.shared && !(present(P.past) && present(P.past_length)))
    return a.refuse("past_present_share_buffer", "0, or the inputs past and past_sequence_length");
  const auto& h = p.hidden_sizes;
  if (h.empty()) return {};
  if (h.size() != 3 || h[0] != h[1])
    return a.refuse("qkv_hidden_sizes", "three sizes, those of queries and keys equal");
  for (const int64_t n : h)
    if (n < 1 || n > INT32_MAX || n % p.heads) return a.refuse("qkv_hidden_sizes", "multiples of num_heads");
  return {};
}

template <class D>
Status shape(const Places& at, const AttentionParams& p, ShapeCall<D>& c) {
  if (c.rank(at.x) != 3) return c.refuse(at.x, "[batch, length, width]");
  if (c.rank(at.weights) != 2 || !agree(c.dim(at.weights, 0), c.dim(at.x, 2)))
    return c.refuse(at.weights, "a matrix with as many rows as input 0 is wide");
  const D batch = c.dim(at.x, 0), length = c.dim(at.x, 1), total = c.dim(at.weights, 1);
  const auto& h = p.hidden_sizes;
  if (known(total) && (h.empty() ? number(total) % (3 * p.heads) != 0 : number(total) != h[0] + h[1] + h[2]))
    return c.refuse(at.weights, "columns for queries, keys and values of all heads");
  if (c.has(at.bias) && !is_list(c, at.bias, total))
    return c.refuse(at.bias, "a number for each column of the weights");
  const D q_width = h.empty() ? floor_div(total, D(3)) : D(h[0]), v_width = h.empty() ? q_width : D(h[2]);
  const D size = floor_div(q_width, D(p.heads)), v_size = floor_div(v_width, D(p.heads));
  D keys = length, room = length;
  bool keys_known = true;
  if ((c.has(at.past) || c.outputs() > 1) && !agree(size, v_size))
    return c.refuse(at.weights, "keys and values of one size, since they share a cache");
  if (c.has(at.past)) {
    if (c.rank(at.past) != 5 || !agree(c.dim(at.past, 0), D(2)) || !agree(c.dim(at.past, 1), batch) ||
        !agree(c.dim(at.past, 2), D(p.heads)) || !agree(c.dim(at.past, 4), size))
      return c.refuse(at.past, "[2, batch, heads, past length, size]");
    room = keys = p.shared ? c.dim(at.past, 3) : c.dim(at.past, 3) + length;
    if (p.shared) {
      const auto past = c.content(at.past_length);
      keys_known = past && past->size() == 1;
      if (keys_known) keys = (*past)[0] + length;
      if (keys_known && known(keys) && known(room) && (number(keys) < number(length) || number(keys) > number(room)))
        return c.refuse(at.past_length, format("a length that leaves room in a cache of {}", number(room)));
    }
  }
  if (keys_known) {
    TRY(check_padding_mask(c, at.padding, batch, length, keys));
    TRY(check_score_bias(c, at.score_bias, batch, p.heads, length, keys));
  }
  for (const int i : {at.x_scale, at.x_zero})
    if (c.has(i) && !agree(c.count(i), D(1))) return c.refuse(i, "one number");
  for (const int i : {at.w_scale, at.w_zero}) TRY(check_per_line(c, i, at.weights, false));
  TRY(c.set(0, DimVec<D>{batch, length, v_width}));
  return c.outputs() > 1 ? c.set(1, DimVec<D>{D(2), batch, D(p.heads), room, size}) : Status{};
}
template <class D, const Places& P>
Status shape_at(const AttentionParams& p, ShapeCall<D>& c) {
  return shape(P, p, c);
}

// Sizes up to v_size.
Sizes sizes_of(const AttentionParams& p, const Shape& x, const Shape& weights) {
  const int64_t total = weights[1], q_width = p.hidden_sizes.empty() ? total / 3 : p.hidden_sizes[0];
  Sizes s;
  s.four = false;
  s.batch = x[0];
  s.q_heads = s.kv_heads = p.heads;
  s.queries = s.fresh = x[1];
  s.past = 0;
  s.size = q_width / p.heads;
  s.v_size = (total - 2 * q_width) / p.heads;
  return s;
}

// Everything after the projection to rows of floats. The scratch of the projection lies before that of the attention.
Status attend_projected(const Places& at, const AttentionParams& p, Call& call, const float* rows,
                        int64_t scratch_begin) {
  AttentionCall a;
  Sizes& s = a.sizes;
  s = sizes_of(p, call.shape(at.x), call.shape(at.weights));
  a.type = call.out_dtype(0);
  const int64_t total = call.shape(at.weights)[1], q_width = s.size * p.heads;
  a.q = head_rows(DType::f32, rows, s.fresh, total, s.size);
  a.k = head_rows(DType::f32, rows + q_width, s.fresh, total, s.size);
  a.v = head_rows(DType::f32, rows + 2 * q_width, s.fresh, total, s.v_size);
  const int64_t bytes = bits_of(a.type) / 8;
  if (call.has(at.past)) {
    a.past_k = call.in<std::byte>(at.past);
    a.past_v = a.past_k + call.count(at.past) / 2 * bytes;
    a.past_room = call.shape(at.past)[3];
    s.past = p.shared ? call.integer(at.past_length, 0) : a.past_room;
  }
  if (auto* present = call.out<std::byte>(1)) {
    a.present_k = present;
    a.present_v = present + call.out_count(1) / 2 * bytes;
    a.present_room = call.out_shape(1)[3];
  }
  a.padding = at.padding;
  a.bias = at.score_bias;
  a.scratch = call.scratch<std::byte>(0) + scratch_begin;
  return attend(p, call, a);
}

// An input as floats: in place, or in `room`.
Result<const float*> floats_of(const Call& call, int i, Tensor& room) {
  if (call.dtype(i) == DType::f32) return call.in<float>(i);
  TRY_ASSIGN(fresh, Tensor::allocate(DType::f32, call.shape(i)));
  room = std::move(fresh);
  auto* out = static_cast<float*>(room.mutable_data());
  for_pieces(call, call.count(i), [&](int64_t begin, int64_t count) {
    attention::load_floats(call.target(), call.dtype(i), call.in(i), begin, count, out + begin);
  });
  return out;
}

int64_t float_panel_scratch(const Shape& w, bool packed) {
  return packed ? 0 : round_up(panel_scratch(static_cast<int64_t>(gemm_packed_bytes(w[1], w[0]))), 64);
}

Status compute_float(const AttentionParams& p, Call& call) {
  const Shape &x = call.shape(kFloat.x), &w = call.shape(kFloat.weights);
  const int64_t rows = x[0] * x[1], k = w[0], n = w[1];
  const PanelType type = panel_type(call.dtype(kFloat.weights));
  TRY_ASSIGN(projected, Tensor::allocate(DType::f32, Shape{rows, n}));
  std::optional<GemmPanels> panels = packed_panels(call, kFloat.weights);
  const int64_t scratch_begin = float_panel_scratch(w, panels.has_value());
  PanelRoom room;
  if (!panels) {
    TRY_ASSIGN(fresh, room.get(call, static_cast<int64_t>(gemm_packed_bytes(n, k))));
    gemm_pack_b(type, call.in(kFloat.weights), n, false, k, n, fresh, call.threads());
    panels.emplace(fresh, type);
  }
  Tensor rooms[2];
  TRY_ASSIGN(from, floats_of(call, kFloat.x, rooms[0]));
  GemmEpilogue e;
  e.c_col_stride = 1;
  if (call.has(kFloat.bias)) {
    TRY_ASSIGN(bias, floats_of(call, kFloat.bias, rooms[1]));
    e.c_in = bias;
  }
  auto* y = static_cast<float*>(projected.mutable_data());
  gemm_f32(call.target(), call.threads(), rows, n, k, from, k, false, *panels, y, n, e);
  return attend_projected(kFloat, p, call, y, scratch_begin);
}

int64_t byte_panel_scratch(const Shape& w, bool packed) {
  return packed ? 0 : round_up(panel_scratch(static_cast<int64_t>(gemm_i8_packed_bytes(w[1], w[0]))), 64);
}

Status compute_quantized(const AttentionParams& p, Call& call) {
  const Places& at = kQuantized;
  const Shape &x = call.shape(at.x), &w = call.shape(at.weights);
  const Shape flat_x{x[0] * x[1], x[2]}, y_shape{x[0] * x[1], w[1]};
  const MatMulBatch batch(flat_x, w, y_shape);
  TRY_ASSIGN(sums, Tensor::allocate(DType::i32, y_shape));
  TRY_ASSIGN(projected, Tensor::allocate(DType::f32, y_shape));
  auto* from = static_cast<int32_t*>(sums.mutable_data());
  auto* y = static_cast<float*>(projected.mutable_data());
  TRY(integer_products(
      call, batch, {at.x, at.x_zero, at.weights, at.w_zero}, [&](int64_t) { return from; },
      [](int64_t, int64_t, int64_t) {}));
  const PerLine<float> w_scale(call, at.w_scale, 1);
  const float x_scale = call.in<float>(at.x_scale)[0];
  const float* bias = call.in<float>(at.bias);
  for_pieces(call, batch.m * batch.n, [&](int64_t begin, int64_t count) {
    for (int64_t i = begin; i < begin + count; ++i) {
      const int64_t j = i % batch.n;
      y[i] = static_cast<float>(from[i]) * (x_scale * w_scale.at(0, j, batch.n)) + bias[j];
    }
  });
  return attend_projected(at, p, call, y, byte_panel_scratch(w, call.packed(at.weights)));
}

int64_t attention_scratch(const Places& at, const AttentionParams& p, const ScratchCall& in) {
  const auto past = static_cast<size_t>(at.past);
  const bool cached = past < in.size() && in[past]->rank() == 5;
  return attend_scratch(p, sizes_of(p, *in[0], *in[1]), cached ? (*in[past])[3] : 0);
}
int64_t scratch_float(const void* params, const ScratchCall& in) {
  return float_panel_scratch(*in[1], in.is_packed(1)) +
         attention_scratch(kFloat, *static_cast<const AttentionParams*>(params), in);
}
int64_t scratch_quantized(const void* params, const ScratchCall& in) {
  return byte_panel_scratch(*in[1], in.is_packed(1)) +
         attention_scratch(kQuantized, *static_cast<const AttentionParams*>(params), in);
}
int64_t packed_bytes(const PackCall& c) {
  const Shape& w = c.shape(1);
  return w.rank() == 2 ? static_cast<int64_t>(gemm_packed_bytes(w[1], w[0], panel_type(c.dtype(1)))) : 0;
}
void pack(const PackCall& c, void* out) {
  const Shape& w = c.shape(1);
  gemm_pack_b(panel_type(c.dtype(1)), c.in<void>(1), w[1], false, w[0], w[1], out, c.threads);
}

constexpr Packing kFloatPacks[] = {{1, "F32.P16", packed_bytes, pack},
                                   {1, "F16.P16", packed_bytes, pack, nullptr, set_of(DType::f16)},
                                   {1, "BF16.P16", packed_bytes, pack, nullptr, set_of(DType::bf16)}};
constexpr Packing kBytePacks[] = {byte_matrix<1>()};
constexpr TypeRule kFloatTypes[] = {
    {in_arg(0) | in_arg(1) | in_arg(2) | in_arg(4) | in_arg(5) | out_arg(0) | out_arg(1),
     kHalfFloats | set_of(DType::f32)},
    {in_arg(3) | in_arg(6), set_of(DType::i32)}};
constexpr TypeSet kBytes = set_of(DType::i8, DType::u8);
constexpr TypeRule kQuantizedTypes[] = {
    {in_arg(0) | in_arg(6), kBytes},
    {in_arg(1) | in_arg(7), kBytes},
    {in_arg(2) | in_arg(3) | in_arg(4) | in_arg(8) | out_arg(0) | out_arg(1), set_of(DType::f32), kHalfFloats},
    {in_arg(5), set_of(DType::i32)}};
constexpr Kernel kFloatKernels[] = {{kFloatTypes, compute_with<AttentionParams, compute_float>}};
constexpr Kernel kQuantizedKernels[] = {{kQuantizedTypes, compute_with<AttentionParams, compute_quantized>}};

}  // namespace

extern constexpr Op kMicrosoftAttention{.domain = kDomain,
                                        .name = "Attention",
                                        .versions = kVersions,
                                        .parse = parse_params<AttentionParams, parse<kFloat, kFloatArity>>,
                                        .shape = shape_with<AttentionParams, int64_t, shape_at<int64_t, kFloat>>,
                                        .kernels = kFloatKernels,
                                        .shape_inputs = in_arg(kFloat.past_length),
                                        .scratch = scratch_float,
                                        .packs = kFloatPacks};
extern constexpr Op kMicrosoftQAttention{.domain = kDomain,
                                         .name = "QAttention",
                                         .versions = kVersions,
                                         .parse = parse_params<AttentionParams, parse<kQuantized, kQuantizedArity>>,
                                         .types = type_of_input<kQuantized.bias>,
                                         .shape = shape_with<AttentionParams, int64_t, shape_at<int64_t, kQuantized>>,
                                         .kernels = kQuantizedKernels,
                                         .scratch = scratch_quantized,
                                         .packs = kBytePacks};
extern constexpr OpInference kMicrosoftAttentionInference{.shape =
                                                              shape_with<AttentionParams, Dim, shape_at<Dim, kFloat>>};
extern constexpr OpInference kMicrosoftQAttentionInference{
    .shape = shape_with<AttentionParams, Dim, shape_at<Dim, kQuantized>>};

}  // namespace tessera
