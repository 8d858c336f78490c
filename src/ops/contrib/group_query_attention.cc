// GroupQueryAttention — attention with a cache of keys and values of each sample's own length, rotated on the way in.
//
// The cache is [batch, heads, room, size]; the present one may lie where the past one does: then only new rows are
// written.
#include <cmath>
#include <cstring>

#include "core/convert.h"
#include "ops/contrib/attention_core.h"

namespace tessera {
namespace {
using namespace contrib;
using namespace attention;

enum In { kQuery, kKey, kValue, kPastK, kPastV, kSeqLens, kTotal, kCos, kSin, kPositions, kScoreBias, kHeadSink };
enum Out { kOut, kPresentK, kPresentV, kQk };
constexpr Arity kArity{in_arg(kQuery) | in_arg(kSeqLens) | in_arg(kTotal), 16, 4};

struct GroupParams {
  int64_t heads = 0, kv_heads = 0;
  float scale = 0, softcap = 0;
  int64_t window = -1;
  bool rotary = false, interleaved = false, smooth = false, causal = true;
  int qk = 0;  // 0 none, 1 before, 2 after the softmax
};

Status parse(Attrs& a, GroupParams& p) {
  a.get("num_heads", p.heads);
  a.get("kv_num_heads", p.kv_heads);
  a.get("scale", p.scale);
  a.get("softcap", p.softcap);
  a.get("local_window_size", p.window);
  a.get("do_rotary", p.rotary);
  a.get("rotary_interleaved", p.interleaved);
  int64_t smooth = 0;  // -1 where a file states the default
  a.get("smooth_softmax", smooth);
  p.smooth = smooth == 1;
  a.get("causal", p.causal);
  a.get("qk_output", p.qk);
  bool windowed = false;
  std::string k_quant = "NONE", v_quant = "NONE";
  a.get("sliding_window_cache", windowed);
  a.get("k_quant_type", k_quant);
  a.get("v_quant_type", v_quant);
  if (p.kv_heads < 1 || p.kv_heads > INT32_MAX) return a.refuse("kv_num_heads", "at least 1");
  if (p.heads < 1 || p.heads > INT32_MAX || p.heads % p.kv_heads)
    return a.refuse("num_heads", "a multiple of kv_num_heads");
  if (p.qk < 0 || p.qk > 2) return a.refuse("qk_output", "0, 1 or 2");
  if (!(p.softcap >= 0)) return a.refuse("softcap", "at least 0");
  if (p.window != -1 && (p.window < 1 || p.window > INT32_MAX || !p.causal))
    return a.refuse("local_window_size", "-1, or at least 1 where causal is 1");
  if (windowed) return a.refuse("sliding_window_cache", "0");
  if (k_quant != "NONE") return a.refuse("k_quant_type", "NONE");
  if (v_quant != "NONE") return a.refuse("v_quant_type", "NONE");
  const auto& in = a.node().inputs;
  const auto present = [&](size_t i) { return i < in.size() && in[i] != ir::kNone; };
  for (size_t i = kHeadSink + 1; i < in.size(); ++i)
    if (present(i)) return not_implemented("input {}: scales of the cache and norms of the heads", i);
  if (present(kKey) != present(kValue)) return invalid_graph("key and value go together");
  if (present(kPastK) != present(kPastV)) return invalid_graph("past_key and past_value go together");
  if (p.rotary && !(present(kCos) && present(kSin))) return invalid_graph("do_rotary wants cos_cache and sin_cache");
  return {};
}

template <class D>
Status check_tables(const GroupParams& p, ShapeCall<D>& c, const D& size, const D& batch, const D& length) {
  if (!p.rotary) return {};
  for (const int i : {kCos, kSin}) {
    const bool good = c.rank(i) == 2 && agree(c.dim(i, 0), c.dim(kCos, 0)) && agree(c.dim(i, 1), c.dim(kCos, 1));
    const D half = c.rank(i) == 2 ? c.dim(i, 1) : D(1);
    if (!good || (known(half) && known(size) && 2 * number(half) > number(size)))
      return c.refuse(i, "[positions, half of the rotated size], alike for both tables");
  }
  if (c.has(kPositions) &&
      (c.rank(kPositions) != 2 || !agree(c.dim(kPositions, 0), batch) || !agree(c.dim(kPositions, 1), length)))
    return c.refuse(kPositions, "a position for each element of the sequences");
  return {};
}

template <class D>
Status shape(const GroupParams& p, ShapeCall<D>& c) {
  if (c.rank(kQuery) != 3) return c.refuse(kQuery, "[batch, length, width]");
  const D batch = c.dim(kQuery, 0), length = c.dim(kQuery, 1), width = c.dim(kQuery, 2);
  const int64_t parts = c.has(kKey) ? p.heads : p.heads + 2 * p.kv_heads;
  if (known(width) && (number(width) % parts || number(width) < parts))
    return c.refuse(kQuery, format("{} heads of equal size", parts));
  const D size = floor_div(width, D(parts));
  for (const int i : {kKey, kValue})
    if (c.has(i) && (c.rank(i) != 3 || !agree(c.dim(i, 0), batch) || !agree(c.dim(i, 1), length) ||
                     !agree(c.dim(i, 2), size * D(p.kv_heads))))
      return c.refuse(i, format("[batch, length, width of {} heads] as the query has them", p.kv_heads));
  for (const int i : {kPastK, kPastV})
    if (c.has(i) && (c.rank(i) != 4 || !agree(c.dim(i, 0), batch) || !agree(c.dim(i, 1), D(p.kv_heads)) ||
                     !agree(c.dim(i, 2), c.dim(kPastK, 2)) || !agree(c.dim(i, 3), size)))
      return c.refuse(i, "[batch, heads of keys, length, size]");
  if (!agree(c.count(kSeqLens), batch)) return c.refuse(kSeqLens, "a length for each sample");
  if (!agree(c.count(kTotal), D(1))) return c.refuse(kTotal, "one number");
  if (c.has(kHeadSink) && !is_list(c, kHeadSink, D(p.heads))) return c.refuse(kHeadSink, "a number for each head");
  TRY(check_tables(p, c, size, batch, length));
  TRY(c.set(kOut, DimVec<D>{batch, length, size * D(p.heads)}));
  const auto content = c.content(kTotal);
  const D past = c.has(kPastK) ? c.dim(kPastK, 2) : D(0);
  if (!content || content->size() != 1) {
    for (int o = kPresentK; o < c.outputs(); ++o) TRY(c.unknown(o, 4));
    return {};
  }
  const D total = (*content)[0];
  if (known(total) && known(past) && known(length) &&
      (number(total) < number(length) || number(total) - number(length) > number(past)))
    return c.refuse(kTotal, format("from {} to {}, the rows of the cache and the new ones", number(length),
                                   number(past) + number(length)));
  TRY(check_score_bias(c, kScoreBias, batch, p.heads, length, total));
  const D room = c.has(kPastK) ? dim_max(total, past) : total;
  for (int o = kPresentK; o <= kPresentV && o < c.outputs(); ++o)
    TRY(c.set(o, DimVec<D>{batch, D(p.kv_heads), room, size}));
  return c.outputs() > kQk ? c.set(kQk, DimVec<D>{batch, D(p.heads), length, total}) : Status{};
}

class GroupRun {
 public:
  GroupRun(const GroupParams& p, Call& call)
      : p_(p), call_(call), type_(call.dtype(kQuery)), bytes_(bits_of(type_) / 8) {
    const Shape& q = call.shape(kQuery);
    packed_ = !call.has(kKey);
    s_.four = false;
    s_.batch = q[0];
    s_.queries = q[1];
    s_.q_heads = p.heads;
    s_.kv_heads = p.kv_heads;
    s_.size = s_.v_size = q[2] / (packed_ ? p.heads + 2 * p.kv_heads : p.heads);
    s_.past = 0;
    s_.keys = s_.fresh = call.in<int32_t>(kTotal)[0];
    const int64_t past_room = call.has(kPastK) ? call.shape(kPastK)[2] : 0;
    s_.cut(past_room + s_.queries);
    room_ = std::max(s_.keys, past_room);
  }

  Status run() {
    TRY(read_lengths());
    TRY(find_angles());
    Problem problem(s_);
    if (p_.rotary) problem.angles = &angles_;
    problem.q = source(kQuery, 0);
    CacheStep keep_k, keep_v;
    TRY(keep(kPastK, kPresentK, source(kKey, p_.heads), own_[0], problem.k, keep_k));
    TRY(keep(kPastV, kPresentV, source(kValue, p_.heads + p_.kv_heads), own_[1], problem.v, keep_v));
    keep_k.angles = problem.angles;
    problem.keep_k = &keep_k;
    problem.keep_v = &keep_v;
    problem.y = call_.out(kOut);
    problem.y_type = type_;
    problem.y_layout = Layout::of(false, p_.heads, s_.queries, s_.size);
    problem.valid = valid_.data();
    problem.first = first_.data();
    problem.scale = p_.scale != 0 ? p_.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(s_.size)));
    problem.softcap = p_.softcap;
    problem.causal = p_.causal;
    problem.left_window = p_.window < 0 ? -1 : p_.window - 1;
    if (call_.has(kScoreBias)) problem.masks[0] = Mask::of(call_, kScoreBias);
    std::vector<float> sinks(static_cast<size_t>(p_.heads));
    if (call_.has(kHeadSink)) decode(type_, call_.in(kHeadSink), 0, p_.heads, sinks.data());
    if (p_.smooth || call_.has(kHeadSink)) problem.sinks = sinks.data();
    problem.scores = call_.out(kQk);
    problem.scores_type = type_;
    problem.scores_mode = p_.qk == 1 ? 2 : 3;
    problem.scratch_step = scratch_bytes(s_);
    problem.scratch = call_.scratch<std::byte>(0);
    TRY(attention::run(problem, call_));
    return p_.qk == 1 ? clear_masked(problem.scores) : Status{};
  }

 private:
  // Scores before the softmax that no query sees are zeros.
  Status clear_masked(void* scores) {
    std::vector<float> row(static_cast<size_t>(s_.keys));
    for (int64_t i = 0; scores && i < s_.batch * p_.heads * s_.queries; ++i) {
      decode(type_, scores, i * s_.keys, s_.keys, row.data());
      for (float& v : row)
        if (v == -INFINITY) v = 0;
      encode(type_, scores, i * s_.keys, s_.keys, row.data());
    }
    return {};
  }

  // Heads in a row of the query (packed) or of an input of their own; `before`: heads that lie before in a packed row.
  HeadTensor source(int input, int64_t before) const {
    const int64_t step =
        packed_ ? (p_.heads + 2 * p_.kv_heads) * s_.size : (input == kQuery ? p_.heads : p_.kv_heads) * s_.size;
    const auto* data = call_.in<std::byte>(packed_ ? static_cast<int>(kQuery) : input);
    return {data + (packed_ ? before * s_.size * bytes_ : 0), type_, {s_.queries * step, s_.size, step}};
  }

  // Keys of each sample, and how many of them the cache holds already.
  Status read_lengths() {
    const int32_t* lens = call_.in<int32_t>(kSeqLens);
    const bool prompt = s_.queries == s_.keys;
    for (int64_t b = 0; b < s_.batch; ++b) {
      const int64_t all = int64_t{lens[b]} + 1, past = prompt ? 0 : all - s_.queries;
      if (all < 1 || all > s_.keys || past < 0)
        return call_.refuse(kSeqLens,
                            "lengths (less one) of at most {} keys, the new ones among them (element {} is {})",
                            s_.keys, b, lens[b]);
      if (past && (!call_.has(kPastK) || past > call_.shape(kPastK)[2]))
        return call_.refuse(kSeqLens, "no more keys than the cache holds (element {} is {})", b, lens[b]);
      valid_.push_back(all);
      first_.push_back(past);
    }
    return {};
  }

  // Where the tables hold the angles of each new element; tables of another type give up the rows that are used.
  Status find_angles() {
    if (!p_.rotary) return {};
    const int64_t rows = s_.batch * s_.queries, positions = call_.shape(kCos)[0], half = call_.shape(kCos)[1];
    places_.resize(static_cast<size_t>(rows));
    const int64_t* given = call_.maybe<int64_t>(kPositions);
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t place = given ? given[i] : first_[static_cast<size_t>(i / s_.queries)] + i % s_.queries;
      if (place < 0 || place >= positions)
        return call_.refuse(given ? kPositions : kSeqLens, "positions from 0 to {} (row {} is at {})", positions - 1, i,
                            place);
      places_[static_cast<size_t>(i)] = place;
    }
    if (type_ != DType::f32) {
      for (const auto& [input, table] : {std::pair(kCos, &tables_[0]), std::pair(kSin, &tables_[1])}) {
        table->resize(static_cast<size_t>(rows * half));
        for (int64_t i = 0; i < rows; ++i)
          load_floats(call_.target(), type_, call_.in(input), places_[static_cast<size_t>(i)] * half, half,
                      table->data() + i * half);
      }
      for (int64_t i = 0; i < rows; ++i) places_[static_cast<size_t>(i)] = i;
      angles_ = {tables_[0].data(), tables_[1].data(), half, p_.interleaved, places_.data()};
      return {};
    }
    angles_ = {call_.in<float>(kCos), call_.in<float>(kSin), half, p_.interleaved, places_.data()};
    return {};
  }

  // The cache with its new rows, in the output or in memory of this call.
  Status keep(int input, int output, const HeadTensor& fresh, Tensor& own, HeadTensor& all, CacheStep& step) {
    auto* to = call_.out<std::byte>(output);
    const auto* past = call_.maybe<std::byte>(input);
    if (!to) {
      TRY_ASSIGN(memory, Tensor::allocate(type_, Shape{s_.batch, p_.kv_heads, room_, s_.size}));
      own = std::move(memory);
      to = static_cast<std::byte*>(own.mutable_data());
    }
    step = {s_.batch,   p_.kv_heads, s_.size, past, past ? call_.shape(input)[2] : 0, first_.data(), fresh,
            s_.queries, to,          room_,   type_};
    step.zeros_behind = true;
    if (!s_.few()) clear_behind(to);
    all = {to, type_, Layout::of(true, p_.kv_heads, room_, s_.size)};
    return {};
  }

  // Where keys are packed in whole blocks, rows behind a shorter sample are multiplied by zeros: no NaN may lie there.
  void clear_behind(std::byte* to) const {
    for (int64_t b = 0; b < s_.batch; ++b) {
      const int64_t from = first_[static_cast<size_t>(b)] + s_.queries;
      for (int64_t h = 0; h < p_.kv_heads && from < s_.keys; ++h)
        std::memset(to + ((b * p_.kv_heads + h) * room_ + from) * s_.size * bytes_, 0,
                    static_cast<size_t>((s_.keys - from) * s_.size * bytes_));
    }
  }

  const GroupParams& p_;
  Call& call_;
  DType type_;
  int64_t bytes_, room_ = 0;
  bool packed_;
  Sizes s_;
  std::vector<int64_t> valid_, first_;  // per sample: keys, and those of the past
  std::vector<int64_t> places_;         // in the tables of angles
  std::vector<float> tables_[2];
  Angles angles_{};
  Tensor own_[2];
};

Status compute(const GroupParams& p, Call& call) {
  const int64_t total = call.in<int32_t>(kTotal)[0], length = call.shape(kQuery)[1];
  const int64_t past = call.has(kPastK) ? call.shape(kPastK)[2] : 0;
  if (total < length || total - length > past)
    return call.refuse(kTotal, "from {} to {}, the rows of the cache and the new ones", length, past + length);
  return GroupRun(p, call).run();
}

int64_t scratch(const void* params, const ScratchCall& in) {
  const auto& p = *static_cast<const GroupParams*>(params);
  const Shape& q = *in[kQuery];
  const int64_t past = in.size() > kPastK && in[kPastK]->rank() == 4 ? (*in[kPastK])[2] : 0;
  Sizes s;
  s.four = false;
  s.batch = q[0];
  s.queries = q[1];
  s.q_heads = p.heads;
  s.kv_heads = p.kv_heads;
  s.size = s.v_size = q[2] / (in[kKey]->rank() ? p.heads : p.heads + 2 * p.kv_heads);
  s.past = 0;
  s.keys = s.fresh = past + q[1];
  s.cut(s.keys);
  return scratch_bytes(s);
}

constexpr TypeRule kTypes[] = {{in_arg(kQuery) | in_arg(kKey) | in_arg(kValue) | in_arg(kPastK) | in_arg(kPastV) |
                                    in_arg(kCos) | in_arg(kSin) | in_arg(kScoreBias) | in_arg(kHeadSink) |
                                    out_arg(kOut) | out_arg(kPresentK) | out_arg(kPresentV) | out_arg(kQk),
                                kHalfFloats | set_of(DType::f32)},
                               {in_arg(kSeqLens) | in_arg(kTotal), set_of(DType::i32)},
                               {in_arg(kPositions), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<GroupParams, compute>}};

}  // namespace

extern constexpr Op kMicrosoftGroupQueryAttention{.domain = kDomain,
                                                  .name = "GroupQueryAttention",
                                                  .versions = contrib::kVersions,
                                                  .parse = parse_checked<GroupParams, kArity, parse>,
                                                  .shape = shape_with<GroupParams, int64_t, shape<int64_t>>,
                                                  .kernels = kKernels,
                                                  .shape_inputs = in_arg(kTotal),
                                                  .scratch = scratch};
extern constexpr OpInference kMicrosoftGroupQueryAttentionInference{.shape = shape_with<GroupParams, Dim, shape<Dim>>};

}  // namespace tessera
