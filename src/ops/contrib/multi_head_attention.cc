// MultiHeadAttention and DecoderMaskedMultiHeadAttention — attention over heads that were projected before; the bias of
// the projection may still be missing.
#include "ops/contrib/attention_core.h"

namespace tessera {
namespace {
using namespace contrib;
using attention::HeadTensor;
using attention::Layout;
using attention::Sizes;

// Which input is what.
struct Places {
  int query, key, value, bias, padding, score_bias, past_key, past_value, past_length, beam_width, beams;
};
constexpr Places kMany{0, 1, 2, 3, 4, 5, 6, 7, 8, kNoInput, 9}, kDecoder{0, 1, 2, 10, 3, 4, 5, 6, 7, 8, 9};
constexpr Arity kManyArity{in_arg(0), 10, 4}, kDecoderArity{in_arg(0), 11, 4};

template <const Places& P, const Arity& A>
Status parse(Attrs& a, AttentionParams& p) {
  TRY(check(A, a.node()));
  TRY(parse_attention(a, p));
  const auto present = [&](int i) {
    return static_cast<size_t>(i) < a.node().inputs.size() && a.node().inputs[static_cast<size_t>(i)] != ir::kNone;
  };
  if (present(P.beams)) return not_implemented("input {} (cache_indirection): beams that share a cache", P.beams);
  if (present(P.past_key) != present(P.past_value)) return invalid_graph("past_key and past_value go together");
  if (present(P.value) && !present(P.key)) return invalid_graph("value without key");
  p.shared = p.shared || present(P.past_length);
  if (p.shared && present(P.past_key) && !present(P.past_length))
    return invalid_graph("a shared buffer of the cache wants the input past_sequence_length");
  return {};
}

// What the shapes say. Unknown dimensions stay so.
template <class D>
struct Dims {
  D batch{1}, queries{1}, fresh{1}, past{0}, size{1}, v_size{1};
  bool cross = false;  // key and value are [batch, heads, keys, size] already
};

template <class D>
Status hidden(ShapeCall<D>& c, int i, const D& width, int64_t heads, D* size) {
  if (known(width) && number(width) % heads) return c.refuse(i, format("{} heads of equal size", heads));
  *size = floor_div(width, D(heads));
  return {};
}

// Queries with keys and values in one input, or with both beside.
template <class D>
Status read_heads(const Places& at, const AttentionParams& p, ShapeCall<D>& c, Dims<D>* d) {
  const int rank = c.rank(at.query);
  if (rank != 3 && rank != 5) return c.refuse(at.query, "three or five dimensions");
  d->batch = c.dim(at.query, 0);
  d->queries = d->fresh = c.dim(at.query, 1);
  if (rank == 5) {
    if (!agree(c.dim(at.query, 2), D(p.heads)) || !agree(c.dim(at.query, 3), D(3)) || c.has(at.key))
      return c.refuse(at.query, format("[batch, length, {}, 3, size] and no key", p.heads));
    d->size = d->v_size = c.dim(at.query, 4);
    return {};
  }
  if (!c.has(at.key)) {
    TRY(hidden(c, at.query, c.dim(at.query, 2), 3 * p.heads, &d->size));
    d->v_size = d->size;
    return {};
  }
  TRY(hidden(c, at.query, c.dim(at.query, 2), p.heads, &d->size));
  d->v_size = d->size;
  const int key_rank = c.rank(at.key);
  if (key_rank < 3 || key_rank > 5 || !agree(c.dim(at.key, 0), d->batch))
    return c.refuse(at.key, "three to five dimensions and the batch of the query");
  d->cross = key_rank == 4;
  d->fresh = c.dim(at.key, d->cross ? 2 : 1);
  const D expected[] = {d->cross ? D(p.heads) : d->fresh, d->cross ? d->fresh : D(p.heads), D(2)};
  const D width = c.dim(at.key, key_rank - 1);
  if (key_rank == 3 ? !agree(width, d->size * D(p.heads)) : !agree(width, d->size))
    return c.refuse(at.key, "the head size of the query");
  for (int k = 1; key_rank > 3 && k < key_rank - 1; ++k)
    if (!agree(c.dim(at.key, k), expected[k - 1])) return c.refuse(at.key, format("{} heads", p.heads));
  if (key_rank == 5) return c.has(at.value) ? c.refuse(at.value, "no value beside a packed key") : Status{};
  if (!c.has(at.value)) return c.refuse(at.key, "a value beside the key");
  const int value_rank = c.rank(at.value);
  if (value_rank != key_rank || !agree(c.dim(at.value, 0), d->batch) ||
      !agree(c.dim(at.value, d->cross ? 2 : 1), d->fresh) || (d->cross && !agree(c.dim(at.value, 1), D(p.heads))))
    return c.refuse(at.value, "the batch, length and heads of the key");
  if (d->cross) return d->v_size = c.dim(at.value, 3), Status{};
  return hidden(c, at.value, c.dim(at.value, 2), p.heads, &d->v_size);
}

template <class D>
Status shape(const Places& at, const AttentionParams& p, ShapeCall<D>& c) {
  Dims<D> d;
  TRY(read_heads(at, p, c, &d));
  D keys = d.fresh, room = d.fresh;
  bool keys_known = true;
  if (c.has(at.past_key)) {
    for (const auto& [i, size] : {std::pair(at.past_key, d.size), std::pair(at.past_value, d.v_size)})
      if (c.rank(i) != 4 || !agree(c.dim(i, 0), d.batch) || !agree(c.dim(i, 1), D(p.heads)) ||
          !agree(c.dim(i, 2), c.dim(at.past_key, 2)) || !agree(c.dim(i, 3), size))
        return c.refuse(i, "the shape [batch, heads, past length, size] of the keys and values");
    if (d.cross) return c.refuse(at.past_key, "no cache beside keys that have four dimensions");
    room = p.shared ? c.dim(at.past_key, 2) : c.dim(at.past_key, 2) + d.fresh;
    keys = room;
    if (p.shared) {
      const auto length = c.content(at.past_length);
      keys_known = length && length->size() == 1;
      if (keys_known) keys = (*length)[0] + d.fresh;
      if (keys_known && known(keys) && known(room) && (number(keys) < number(d.fresh) || number(keys) > number(room)))
        return c.refuse(at.past_length, format("a length that leaves room in a cache of {}", number(room)));
    }
  }
  if (c.has(at.bias)) {
    const D total = (d.size + d.size + d.v_size) * D(p.heads);
    if (!is_list(c, at.bias, total)) return c.refuse(at.bias, "as many numbers as query, key and value are wide");
  }
  if (keys_known) {
    TRY(check_padding_mask(c, at.padding, d.batch, d.queries, keys));
    TRY(check_score_bias(c, at.score_bias, d.batch, p.heads, d.queries, keys));
  }
  TRY(c.set(0, DimVec<D>{d.batch, d.queries, d.v_size * D(p.heads)}));
  if (c.outputs() > 1) TRY(c.set(1, DimVec<D>{d.batch, D(p.heads), room, d.size}));
  if (c.outputs() > 2) TRY(c.set(2, DimVec<D>{d.batch, D(p.heads), room, d.v_size}));
  if (c.outputs() <= 3) return {};
  return keys_known ? c.set(3, DimVec<D>{d.batch, D(p.heads), d.queries, keys}) : c.unknown(3, 4);
}
template <class D, const Places& P>
Status shape_at(const AttentionParams& p, ShapeCall<D>& c) {
  return shape(P, p, c);
}

// Where heads of one kind lie in an input. `parts`: how many kinds share the rows, `part`: which this is.
HeadTensor packed(const float* data, int64_t length, int64_t heads, int64_t size, int parts, int part) {
  return {reinterpret_cast<const std::byte*>(data + part * size),
          DType::f32,
          {length * heads * parts * size, parts * size, heads * parts * size}};
}

// The heads with their bias added, as rows.
HeadTensor with_bias(const HeadTensor& x, const float* bias, int64_t batch, int64_t heads, int64_t length, int64_t size,
                     std::vector<float>& room) {
  room.resize(static_cast<size_t>(batch * heads * length * size));
  const auto* from = reinterpret_cast<const float*>(x.data);
  for (int64_t i = 0; i < batch * length * heads; ++i) {
    const int64_t h = i % heads, row = i / heads;
    const float* source = from + x.layout.at(row / length, h, row % length);
    for (int64_t j = 0; j < size; ++j) room[static_cast<size_t>(i * size + j)] = source[j] + bias[h * size + j];
  }
  return float_rows(room.data(), length, heads * size, size);
}

// Sizes of the call, and its heads.
void locate(const Places& at, const AttentionParams& p, const Call& call, AttentionCall& a) {
  Sizes& s = a.sizes;
  const Shape& q = call.shape(at.query);
  const auto* data = call.in<float>(at.query);
  s.four = false;
  s.batch = q[0];
  s.q_heads = s.kv_heads = p.heads;
  s.queries = s.fresh = q[1];
  s.past = 0;
  if (q.rank() == 5) {
    s.size = s.v_size = q[4];
    for (const auto& [to, part] : {std::pair(&a.q, 0), std::pair(&a.k, 1), std::pair(&a.v, 2)})
      *to = packed(data, s.fresh, p.heads, s.size, 3, part);
    return;
  }
  if (!call.has(at.key)) {
    s.size = s.v_size = q[2] / 3 / p.heads;
    for (const auto& [to, part] : {std::pair(&a.q, 0), std::pair(&a.k, 1), std::pair(&a.v, 2)})
      *to = float_rows(data + part * p.heads * s.size, s.fresh, q[2], s.size);
    return;
  }
  s.size = s.v_size = q[2] / p.heads;
  a.q = float_rows(data, s.queries, q[2], s.size);
  const Shape& k = call.shape(at.key);
  const auto* keys = call.in<float>(at.key);
  s.fresh = k[k.rank() == 4 ? 2 : 1];
  if (k.rank() == 5) {
    a.k = packed(keys, s.fresh, p.heads, s.size, 2, 0);
    a.v = packed(keys, s.fresh, p.heads, s.size, 2, 1);
    return;
  }
  const Shape& v = call.shape(at.value);
  s.v_size = k.rank() == 4 ? v[3] : v[2] / p.heads;
  for (const auto& [to, i, size] : {std::tuple(&a.k, at.key, s.size), std::tuple(&a.v, at.value, s.v_size)})
    *to = {call.in<std::byte>(i), DType::f32, Layout::of(k.rank() == 4, p.heads, s.fresh, size)};
}

Status compute(const Places& at, const AttentionParams& p, Call& call) {
  if (call.has(at.beam_width) && call.in<int32_t>(at.beam_width)[0] != 1)
    return call.refuse(at.beam_width, "1: beams that share a cache are not supported");
  AttentionCall a;
  locate(at, p, call, a);
  Sizes& s = a.sizes;
  std::vector<float> rooms[3];
  if (const float* bias = call.maybe<float>(at.bias)) {
    const int64_t wide = s.q_heads * s.size;
    const bool cross = call.has(at.key) && call.shape(at.key).rank() == 4;
    a.q = with_bias(a.q, bias, s.batch, s.q_heads, s.queries, s.size, rooms[0]);
    if (!cross) {
      a.k = with_bias(a.k, bias + wide, s.batch, s.q_heads, s.fresh, s.size, rooms[1]);
      a.v = with_bias(a.v, bias + 2 * wide, s.batch, s.q_heads, s.fresh, s.v_size, rooms[2]);
    }
  }
  if (call.has(at.past_key)) {
    a.past_k = call.in<float>(at.past_key);
    a.past_v = call.in<float>(at.past_value);
    a.past_room = call.shape(at.past_key)[2];
    s.past = p.shared ? call.in<int32_t>(at.past_length)[0] : a.past_room;
  }
  a.present_k = call.out<float>(1);
  a.present_v = call.out<float>(2);
  a.present_room = p.shared && a.past_k ? a.past_room : s.past + s.fresh;
  a.padding = at.padding;
  a.bias = at.score_bias;
  a.scores = call.out<float>(3);
  return attend(p, call, a);
}
template <const Places& P>
Status compute_at(const AttentionParams& p, Call& call) {
  return compute(P, p, call);
}

constexpr uint32_t args_of(std::initializer_list<int> inputs) {
  uint32_t all = 0;
  for (const int i : inputs)
    if (i != kNoInput) all |= in_arg(i);
  return all;
}
template <const Places& P>
constexpr TypeRule kTypes[] = {{args_of({P.query, P.key, P.value, P.bias, P.score_bias, P.past_key, P.past_value}) |
                                    out_arg(0) | out_arg(1) | out_arg(2) | out_arg(3),
                                set_of(DType::f32), kHalfFloats},
                               {args_of({P.padding, P.past_length, P.beam_width}), set_of(DType::i32)}};
template <const Places& P>
constexpr Kernel kKernels[] = {{kTypes<P>, compute_with<AttentionParams, compute_at<P>>}};

template <const Places& P, const Arity& A>
constexpr Op attention_op(const char* name) {
  return {.domain = kDomain,
          .name = name,
          .versions = kVersions,
          .parse = parse_params<AttentionParams, parse<P, A>>,
          .shape = shape_with<AttentionParams, int64_t, shape_at<int64_t, P>>,
          .kernels = kKernels<P>,
          .shape_inputs = in_arg(P.past_length)};
}

}  // namespace

extern constexpr Op kMicrosoftMultiHeadAttention = attention_op<kMany, kManyArity>("MultiHeadAttention");
extern constexpr Op kMicrosoftDecoderMaskedMultiHeadAttention =
    attention_op<kDecoder, kDecoderArity>("DecoderMaskedMultiHeadAttention");
extern constexpr OpInference kMicrosoftMultiHeadAttentionInference{
    .shape = shape_with<AttentionParams, Dim, shape_at<Dim, kMany>>};
extern constexpr OpInference kMicrosoftDecoderMaskedMultiHeadAttentionInference{
    .shape = shape_with<AttentionParams, Dim, shape_at<Dim, kDecoder>>};

}  // namespace tessera
