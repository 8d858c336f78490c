// NGramHashMapping, VarlenNGramHashMapping — for each token, numbers made of it and the tokens before it: one for each
// length of n-gram and each head, taken modulo the size of the head's table.
#include "ops/agree.h"
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr int64_t kMost = 1 << 16;  // of n-grams and heads
constexpr int64_t kMostStates = 8;

struct Params {
  int64_t longest = 0, heads = 0, pad = 0, states = 0;
  bool reset = false;

  int64_t width() const { return longest - 1; }
  int64_t outputs() const { return width() * heads; }
};

Status parse(Attrs& a, Params& p) {
  for (const char* name : {"max_ngram_size", "n_head_per_ngram", "pad_id"})
    if (!a.has(name)) return invalid_graph("it lacks the attribute {}", quote(name));
  a.get("max_ngram_size", p.longest);
  a.get("n_head_per_ngram", p.heads);
  a.get("pad_id", p.pad);
  a.get("reset_on_eos", p.reset);
  a.get("state_update_capacity", p.states);
  if (p.longest < 2 || p.longest > kMost) return a.refuse("max_ngram_size", format("2 to {}", kMost));
  if (p.heads < 1 || p.heads > kMost) return a.refuse("n_head_per_ngram", format("1 to {}", kMost));
  if (p.states < 0 || p.states > kMostStates) return a.refuse("state_update_capacity", format("0 to {}", kMostStates));
  return {};
}

// Which inputs are which.
struct Places {
  int past, offsets, eos, segments, past_segments;
};
constexpr Places kBatch{3, 4, 5, 6, 64}, kPacked{4, 5, 6, 7, 8};
constexpr int kBounds = 3, kCapture = 9;
constexpr Arity kBatchArity{in_arg(0) | in_arg(1) | in_arg(2), 7, 2};
constexpr Arity kPackedArity{in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3), 10, 4};

template <class D>
Status check_shape(ShapeCall<D>& c, int i, std::initializer_list<D> wanted) {
  if (!c.has(i)) return {};
  bool good = c.rank(i) == static_cast<int>(wanted.size());
  for (int k = 0; good && k < c.rank(i); ++k) good = agree(c.dim(i, k), wanted.begin()[k]);
  return good ? Status{} : c.refuse(i, "another shape");
}

template <class D>
Status check_tables(const Params& p, ShapeCall<D>& c, const Places& at, const D& batch) {
  if (c.rank(1) != 1 || (known(c.dim(1, 0)) && number(c.dim(1, 0)) < p.longest))
    return c.refuse(1, format("at least {} multipliers", p.longest));
  TRY(check_shape(c, 2, {D(p.outputs())}));
  TRY(check_shape(c, at.offsets, {D(p.outputs())}));
  TRY(check_shape(c, at.past, {batch, D(p.width())}));
  TRY(check_shape(c, at.past_segments, {batch, D(p.width())}));
  return check_shape<D>(c, at.eos, {});
}

template <class D>
Status shape_batch(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) != 2) return c.refuse(0, "[batch, length]");
  TRY(check_tables(p, c, kBatch, c.dim(0, 0)));
  TRY(check_shape(c, kBatch.segments, {c.dim(0, 0), c.dim(0, 1)}));
  TRY(c.set(0, DimVec<D>{c.dim(0, 0), c.dim(0, 1), D(p.outputs())}));
  return c.outputs() > 1 ? c.set(1, DimVec<D>{c.dim(0, 0), D(p.width())}) : Status{};
}

template <class D>
Status shape_packed(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) != 1) return c.refuse(0, "[tokens]");
  if (c.rank(kBounds) != 1 || (known(c.dim(kBounds, 0)) && number(c.dim(kBounds, 0)) < 1))
    return c.refuse(kBounds, "[sequences + 1]");
  const D batch = c.dim(kBounds, 0) - D(1);
  TRY(check_tables(p, c, kPacked, batch));
  TRY(check_shape(c, kPacked.segments, {c.dim(0, 0)}));
  TRY(check_shape(c, kCapture, {batch}));
  if (c.has(kCapture) != (p.states > 0))
    return c.refuse(0, "capture_count exactly if state_update_capacity is above 0");
  TRY(c.set(0, DimVec<D>{c.dim(0, 0), D(p.outputs())}));
  for (int o = 1; o < std::min(c.outputs(), 3); ++o) TRY(c.set(o, DimVec<D>{batch, D(p.width())}));
  return c.outputs() > 3 ? c.set(3, DimVec<D>{batch, D(p.states), D(p.width())}) : Status{};
}

// One sequence and what came before it.
template <class T>
struct Sequence {
  const T* ids;
  int64_t length;
  const int32_t* segments;       // null: all the same
  const T* past;                 // null: nothing
  const int32_t* past_segments;  // null: the first one
  int64_t width;
  T missing;

  T id(int64_t at) const { return at >= 0 ? ids[at] : past ? past[width + at] : missing; }
  int32_t segment(int64_t at) const {
    if (at >= 0) return segments[at];
    return past_segments ? past_segments[width + at] : segments[0];
  }
};

template <class T>
T product(T a, T b) {
  using U = std::make_unsigned_t<T>;
  return static_cast<T>(static_cast<U>(a) * static_cast<U>(b));
}

template <class T>
class Hashing {
 public:
  Hashing(const Params& p, Call& call, const Places& at) : p_(p), call_(call), at_(at) {
    if (call.has(at.eos)) eos_ = *call.in<T>(at.eos);
  }

  Status check() const {
    for (int64_t i = 0; i < p_.outputs(); ++i)
      if (call_.in<T>(2)[i] < 1) return call_.refuse(2, "sizes of at least 1 (entry {} is {})", i, call_.in<T>(2)[i]);
    if (p_.pad < std::numeric_limits<T>::min() || p_.pad > std::numeric_limits<T>::max())
      return invalid("'pad_id' is {}, which {} cannot hold", p_.pad, name_of(dtype_of<T>));
    return {};
  }

  Sequence<T> sequence(int64_t number, int64_t from, int64_t length) const {
    const auto part = [&]<class V>(const V*, int i, int64_t offset) -> const V* {
      return call_.has(i) ? call_.in<V>(i) + offset : nullptr;
    };
    const T* t = nullptr;
    const int32_t* s = nullptr;
    return {call_.in<T>(0) + from,
            length,
            part(s, at_.segments, from),
            part(t, at_.past, number * p_.width()),
            part(s, at_.past_segments, number * p_.width()),
            p_.width(),
            eos_ ? *eos_ : static_cast<T>(p_.pad)};
  }

  void hash(const Sequence<T>& s, T* out) const {
    const T *factors = call_.in<T>(1), *sizes = call_.in<T>(2);
    const T* offsets = call_.has(at_.offsets) ? call_.in<T>(at_.offsets) : nullptr;
    for (int64_t i = 0; i < s.length; ++i) {
      T mix = product(s.ids[i], factors[0]);
      bool cut = false;
      int64_t head = 0;
      for (int64_t k = 1; k <= p_.width(); ++k) {
        cut = cut || (s.segments && s.segment(i - k) != s.segment(i - k + 1));
        if (!cut && p_.reset && eos_ && s.id(i - k) == *eos_) cut = true;
        mix ^= product(cut ? s.missing : s.id(i - k), factors[k]);
        for (int64_t h = 0; h < p_.heads; ++h, ++head) {
          T y = mix % sizes[head];
          if (y < 0) y += sizes[head];
          using U = std::make_unsigned_t<T>;
          *out++ = offsets ? static_cast<T>(static_cast<U>(y) + static_cast<U>(offsets[head])) : y;
        }
      }
    }
  }

  // The tokens that the next call has before it when this one ends after `length`.
  void state(const Sequence<T>& s, int64_t length, T* ids) const {
    for (int64_t k = 0; k < p_.width(); ++k) ids[k] = s.id(length - p_.width() + k);
  }
  void segment_state(const Sequence<T>& s, int32_t* segments) const {
    for (int64_t k = 0; k < p_.width(); ++k) segments[k] = s.segment(s.length - p_.width() + k);
  }

 private:
  const Params& p_;
  Call& call_;
  const Places& at_;
  std::optional<T> eos_;
};

template <class T>
Status compute_batch(const Params& p, Call& call) {
  const Hashing<T> hashing(p, call, kBatch);
  TRY(hashing.check());
  const int64_t length = call.shape(0)[1];
  T *y = call.out<T>(0), *present = call.out<T>(1);
  for (int64_t b = 0; b < call.shape(0)[0]; ++b) {
    if (call.cancelled()) return call.stopped();
    const Sequence<T> s = hashing.sequence(b, b * length, length);
    hashing.hash(s, y + b * length * p.outputs());
    if (present) hashing.state(s, length, present + b * p.width());
  }
  return {};
}

template <class T>
Status compute_packed(const Params& p, Call& call) {
  const Hashing<T> hashing(p, call, kPacked);
  TRY(hashing.check());
  if (call.wants(2) && !call.has(kPacked.segments))
    return invalid("the output present_segment_ids wants the input segment_ids");
  const int32_t* bounds = call.in<int32_t>(kBounds);
  const int64_t batch = call.count(kBounds) - 1;
  bool good = bounds[0] == 0 && bounds[batch] == call.count(0);
  for (int64_t b = 0; b < batch; ++b) good = good && bounds[b] < bounds[b + 1];
  if (!good) return call.refuse(kBounds, "rising bounds from 0 to {}", call.count(0));
  T *y = call.out<T>(0), *present = call.out<T>(1), *states = call.out<T>(3);
  int32_t* segments = call.out<int32_t>(2);
  if (states) std::fill_n(states, call.out_count(3), static_cast<T>(p.pad));
  for (int64_t b = 0; b < batch; ++b) {
    if (call.cancelled()) return call.stopped();
    const Sequence<T> s = hashing.sequence(b, bounds[b], bounds[b + 1] - bounds[b]);
    hashing.hash(s, y + bounds[b] * p.outputs());
    if (present) hashing.state(s, s.length, present + b * p.width());
    if (segments) hashing.segment_state(s, segments + b * p.width());
    const int64_t captured = states ? std::min({int64_t{call.in<int32_t>(kCapture)[b]}, s.length, p.states}) : 0;
    for (int64_t k = 0; k < captured; ++k) hashing.state(s, k + 1, states + (b * p.states + k) * p.width());
  }
  return {};
}

void packed_types(TypeCall& c) {
  type_of_input<0>(c);
  if (c.out.size() > 2) c.out[2].dtype = DType::i32;
}

template <class T>
constexpr TypeRule kBatchTypes[] = {
    {in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4) | in_arg(5) | out_arg(0) | out_arg(1),
     set_of(dtype_of<T>)},
    {in_arg(6), set_of(DType::i32)}};
template <class T>
constexpr TypeRule kPackedTypes[] = {
    {in_arg(0) | in_arg(1) | in_arg(2) | in_arg(4) | in_arg(5) | in_arg(6) | out_arg(0) | out_arg(1) | out_arg(3),
     set_of(dtype_of<T>)},
    {in_arg(3) | in_arg(7) | in_arg(8) | in_arg(9) | out_arg(2), set_of(DType::i32)}};
constexpr Kernel kBatchKernels[] = {{kBatchTypes<int32_t>, compute_with<Params, compute_batch<int32_t>>},
                                    {kBatchTypes<int64_t>, compute_with<Params, compute_batch<int64_t>>}};
constexpr Kernel kPackedKernels[] = {{kPackedTypes<int32_t>, compute_with<Params, compute_packed<int32_t>>},
                                     {kPackedTypes<int64_t>, compute_with<Params, compute_packed<int64_t>>}};

}  // namespace

extern constexpr Op kMicrosoftNGramHashMapping{.domain = kDomain,
                                               .name = "NGramHashMapping",
                                               .versions = kVersions,
                                               .parse = parse_checked<Params, kBatchArity, parse>,
                                               .shape = shape_with<Params, int64_t, shape_batch<int64_t>>,
                                               .kernels = kBatchKernels};
extern constexpr Op kMicrosoftVarlenNGramHashMapping{.domain = kDomain,
                                                     .name = "VarlenNGramHashMapping",
                                                     .versions = kVersions,
                                                     .parse = parse_checked<Params, kPackedArity, parse>,
                                                     .types = packed_types,
                                                     .shape = shape_with<Params, int64_t, shape_packed<int64_t>>,
                                                     .kernels = kPackedKernels};
extern constexpr OpInference kMicrosoftNGramHashMappingInference{.shape = shape_with<Params, Dim, shape_batch<Dim>>};
extern constexpr OpInference kMicrosoftVarlenNGramHashMappingInference{.shape =
                                                                           shape_with<Params, Dim, shape_packed<Dim>>};

}  // namespace tessera
