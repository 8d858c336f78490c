// MultiHeadAttention and DecoderMaskedMultiHeadAttention — attention over heads that were projected before; the bias of
// the projection may still be missing.
#include "kernels/vmath.h"
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
  if (present(P.past_key) != present(P.past_value)) return invalid_graph("past_key and past_value go together");
  if (present(P.value) && !present(P.key)) return invalid_graph("value without key");
  p.shared = p.shared || present(P.past_length);
  if (p.shared && present(P.past_key) && !present(P.past_length))
    return invalid_graph("a shared buffer of the cache wants the input past_sequence_length");
  if (present(P.beams) && !(p.shared && present(P.past_key)))
    return invalid_graph("cache_indirection wants a shared buffer of the cache");
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
HeadTensor packed(DType type, const std::byte* data, int64_t length, int64_t heads, int64_t size, int parts, int part) {
  return {data + part * size * bits_of(type) / 8,
          type,
          {length * heads * parts * size, parts * size, heads * parts * size}};
}

// The heads with their bias added, as rows of floats.
HeadTensor with_bias(const Call& call, const HeadTensor& x, const float* bias, int64_t batch, int64_t heads,
                     int64_t length, int64_t size, std::vector<float>& room) {
  room.resize(static_cast<size_t>(batch * heads * length * size));
  call.parallel(batch * length, [&](int64_t row, int) {
    for (int64_t h = 0; h < heads; ++h) {
      float* to = room.data() + (row * heads + h) * size;
      attention::load_floats(call.target(), x.type, x.data, x.layout.at(row / length, h, row % length), size, to);
      binary_f32(call.target(), Binary::add, to, 1, bias + h * size, 1, to, size);
    }
  });
  return head_rows(DType::f32, room.data(), length, heads * size, size);
}

// Sizes up to v_size; of key and value only what is there is read.
Sizes sizes_of(const AttentionParams& p, const Shape& q, const Shape* k, const Shape* v) {
  Sizes s;
  s.four = false;
  s.batch = q[0];
  s.q_heads = s.kv_heads = p.heads;
  s.queries = s.fresh = q[1];
  s.past = 0;
  s.size = s.v_size = q.rank() == 5 ? q[4] : q[2] / (k ? 1 : 3) / p.heads;
  if (!k) return s;
  const bool four = k->rank() == 4;
  s.fresh = (*k)[four ? 2 : 1];
  if (v) s.v_size = four ? (*v)[3] : (*v)[2] / p.heads;
  return s;
}

// Sizes of the call, and its heads.
void locate(const Places& at, const AttentionParams& p, const Call& call, AttentionCall& a) {
  const Shape& q = call.shape(at.query);
  const Shape *k = call.has(at.key) ? &call.shape(at.key) : nullptr,
              *v = call.has(at.value) ? &call.shape(at.value) : nullptr;
  Sizes& s = a.sizes;
  s = sizes_of(p, q, k, v);
  a.type = call.dtype(at.query);
  const auto* data = call.in<std::byte>(at.query);
  if (!k) {
    const int64_t bytes = bits_of(a.type) / 8;
    for (const auto& [to, part] : {std::pair(&a.q, 0), std::pair(&a.k, 1), std::pair(&a.v, 2)})
      *to = q.rank() == 5 ? packed(a.type, data, s.fresh, p.heads, s.size, 3, part)
                          : head_rows(a.type, data + part * p.heads * s.size * bytes, s.fresh, q[2], s.size);
    return;
  }
  a.q = head_rows(a.type, data, s.queries, q[2], s.size);
  const auto* keys = call.in<std::byte>(at.key);
  if (k->rank() == 5) {
    a.k = packed(a.type, keys, s.fresh, p.heads, s.size, 2, 0);
    a.v = packed(a.type, keys, s.fresh, p.heads, s.size, 2, 1);
    return;
  }
  for (const auto& [to, i, size] : {std::tuple(&a.k, at.key, s.size), std::tuple(&a.v, at.value, s.v_size)})
    *to = {call.in<std::byte>(i), a.type, Layout::of(k->rank() == 4, p.heads, s.fresh, size)};
}

// Beams that share a cache: for each of them and each token, in whose part of it the token is. The caches come in the
// order of the beams, and go back as they were.
class Beams {
 public:
  Status gather(const Places& at, Call& call, AttentionCall& a) {
    if (!call.has(at.beams)) {
      if (call.has(at.beam_width) && call.in<int32_t>(at.beam_width)[0] != 1)
        return call.refuse(at.beam_width, "1 without cache_indirection");
      return {};
    }
    const Sizes& s = a.sizes;
    const Shape& shape = call.shape(at.beams);
    if (shape.rank() != 3 || shape[0] * shape[1] != s.batch || shape[2] < s.past)
      return call.refuse(at.beams, "[batch, beams, length] for {} rows and {} tokens", s.batch, s.past);
    if (call.has(at.beam_width) && call.in<int32_t>(at.beam_width)[0] != shape[1])
      return call.refuse(at.beam_width, "{}, as cache_indirection says", shape[1]);
    const int32_t* from = call.in<int32_t>(at.beams);
    for (int64_t i = 0; i < s.batch * shape[2]; ++i)
      if (i % shape[2] < s.past && (from[i] < 0 || from[i] >= shape[1]))
        return call.refuse(at.beams, "beams from 0 to {} (element {} is {})", shape[1] - 1, i, from[i]);
    past_ = s.past;
    for (const int k : {0, 1}) {
      const int input = k == 0 ? at.past_key : at.past_value;
      const auto* past = call.in<std::byte>(input);
      row_[k] = (k == 0 ? s.size : s.v_size) * bits_of(a.type) / 8;
      old_[k].assign(past, past + call.count(input) * bits_of(a.type) / 8);
      sorted_[k] = old_[k];
      for (int64_t r = 0; r < s.batch * s.kv_heads; ++r)
        for (int64_t t = 0; t < s.past; ++t) {
          const int64_t b = r / s.kv_heads, first = b / shape[1] * shape[1];
          const int64_t source = (first + from[b * shape[2] + t]) * s.kv_heads + r % s.kv_heads;
          std::copy_n(old_[k].data() + (source * a.past_room + t) * row_[k], row_[k],
                      sorted_[k].data() + (r * a.past_room + t) * row_[k]);
        }
    }
    a.past_k = sorted_[0].data();
    a.past_v = sorted_[1].data();
    return {};
  }

  void restore(const AttentionCall& a) const {
    for (const int k : {0, 1}) {
      auto* present = static_cast<std::byte*>(k == 0 ? a.present_k : a.present_v);
      if (!present || old_[k].empty()) continue;
      for (int64_t r = 0; r < a.sizes.batch * a.sizes.kv_heads; ++r)
        std::copy_n(old_[k].data() + r * a.past_room * row_[k], past_ * row_[k],
                    present + r * a.present_room * row_[k]);
    }
  }

 private:
  std::vector<std::byte> old_[2], sorted_[2];
  int64_t row_[2] = {}, past_ = 0;
};

Status compute(const Places& at, const AttentionParams& p, Call& call) {
  for (const int i : {at.past_length, at.beam_width})
    if (call.has(i) && call.count(i) != 1) return call.refuse(i, "one number");
  AttentionCall a;
  locate(at, p, call, a);
  Sizes& s = a.sizes;
  std::vector<float> rooms[3];
  if (call.has(at.bias)) {
    std::vector<float> bias(static_cast<size_t>(call.count(at.bias)));
    attention::load_floats(call.target(), a.type, call.in(at.bias), 0, call.count(at.bias), bias.data());
    const int64_t wide = s.q_heads * s.size;
    const bool cross = call.has(at.key) && call.shape(at.key).rank() == 4;
    a.q = with_bias(call, a.q, bias.data(), s.batch, s.q_heads, s.queries, s.size, rooms[0]);
    if (!cross) {
      a.k = with_bias(call, a.k, bias.data() + wide, s.batch, s.q_heads, s.fresh, s.size, rooms[1]);
      a.v = with_bias(call, a.v, bias.data() + 2 * wide, s.batch, s.q_heads, s.fresh, s.v_size, rooms[2]);
    }
  }
  if (call.has(at.past_key)) {
    a.past_k = call.in<std::byte>(at.past_key);
    a.past_v = call.in<std::byte>(at.past_value);
    a.past_room = call.shape(at.past_key)[2];
    s.past = p.shared ? call.in<int32_t>(at.past_length)[0] : a.past_room;
  }
  Beams beams;
  TRY(beams.gather(at, call, a));
  a.present_k = call.out<std::byte>(1);
  a.present_v = call.out<std::byte>(2);
  a.present_room = p.shared && a.past_k ? a.past_room : s.past + s.fresh;
  a.padding = at.padding;
  a.bias = at.score_bias;
  a.scores = call.out(3);
  a.scratch = call.scratch<std::byte>(0);
  TRY(attend(p, call, a));
  beams.restore(a);
  return {};
}
template <const Places& P>
int64_t scratch_at(const void* params, const ScratchCall& in) {
  const auto& p = *static_cast<const AttentionParams*>(params);
  const auto given = [&](int i) {
    const auto at = static_cast<size_t>(i);
    return at < in.size() && in[at]->rank() > 0 ? in[at] : nullptr;
  };
  const Shape* past = given(P.past_key);
  return attend_scratch(p, sizes_of(p, *in[0], given(P.key), given(P.value)), past ? (*past)[2] : 0);
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
                                kHalfFloats | set_of(DType::f32)},
                               {args_of({P.padding, P.past_length, P.beam_width, P.beams}), set_of(DType::i32)}};
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
          .shape_inputs = in_arg(P.past_length),
          .scratch = scratch_at<P>};
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
