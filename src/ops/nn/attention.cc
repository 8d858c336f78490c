// Attention — softmax(scale * Q K' + mask) V over heads, with a cache of keys and values.
//
// Keys and values of any float type are read as they lie; sums are kept in float (or double). Half floats are rounded
// where the body that the standard gives for this operator rounds them: after each of its steps. A row of queries whose
// keys are all masked gives zeros.
#include <cmath>
#include <cstring>
#include <limits>

#include "core/convert.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/rows.h"
#include "kernels/vmath.h"
#include "ops/nn/attention_shape.h"

namespace tessera {
namespace {
using namespace attention;

template <class C>
constexpr C kMasked = -std::numeric_limits<C>::infinity();

template <class C>
void load(Target target, DType type, const void* data, int64_t from, int64_t n, C* out) {
  if constexpr (std::is_same_v<C, float>) {
    const auto* bits = static_cast<const uint16_t*>(data) + from;
    if (type == DType::f16) return f16_to_f32(target, bits, out, n);
    if (type == DType::bf16) return bf16_to_f32(target, bits, out, n);
  }
  decode(type, data, from, n, out);
}

// The rounding of half floats between the steps; none for other types.
class Rounding {
 public:
  explicit Rounding(DType type) : type_(kHalfFloats.has(type) ? type : DType::undefined) {}
  bool on() const { return type_ != DType::undefined; }

  template <class C>
  void apply(Target target, C* x, int64_t n) const {
    if constexpr (std::is_same_v<C, float>) {
      uint16_t bits[256];
      for (int64_t at = 0; on() && at < n; at += 256) {
        const int64_t count = std::min<int64_t>(256, n - at);
        (type_ == DType::f16 ? f32_to_f16 : f32_to_bf16)(target, x + at, bits, count);
        (type_ == DType::f16 ? f16_to_f32 : bf16_to_f32)(target, bits, x + at, count);
      }
    }
  }
  // x * factor, each rounded.
  template <class C>
  void scale(Target target, C factor, C* x, int64_t n) const {
    for (int64_t i = 0; i < n; ++i) x[i] *= factor;
    apply(target, x, n);
  }

 private:
  DType type_;
};

// Heads of one input or output.
struct Tensor4 {
  const std::byte* data = nullptr;
  DType type = DType::undefined;
  Layout layout{};
};

// Writes the cache's past and the new rows to `present`, [batch, heads, past + fresh, size]. When present lies where
// past lies, rows that are in place stay.
void append(const Call& call, const Sizes& s, const std::byte* past, const Tensor4& fresh, int64_t size,
            std::byte* present) {
  const int64_t bytes = bits_of(fresh.type) / 8, old = s.past * size * bytes, all = s.keys * size * bytes;
  const auto one = [&](int64_t i) {
    std::byte* to = present + i * all;
    if (s.past && to != past + i * old) std::memmove(to, past + i * old, static_cast<size_t>(old));
    for (int64_t r = 0; r < s.fresh; ++r)
      std::memcpy(to + old + r * size * bytes, fresh.data + fresh.layout.at(i / s.kv_heads, i % s.kv_heads, r) * bytes,
                  static_cast<size_t>(size * bytes));
  };
  const int64_t heads = s.batch * s.kv_heads;
  if (present == past)
    for (int64_t i = heads; i-- > 0;) one(i);  // from the last on: nothing is overwritten before it has moved
  else
    call.parallel(heads, [&](int64_t i, int) { one(i); });
}

// The keys or values of one head: rows of the past, then new ones (or all in one place).
struct Rows {
  const Tensor4 *past, *fresh;
  int64_t past_rows, size;
  Rounding rounding{DType::undefined};
  float factor = 1;  // on all rows, where rounding is on

  // Rows [first, first + n) as C, in place or in `buffer`; *ld is the step from row to row.
  template <class C>
  const C* get(Target target, int64_t b, int64_t h, int64_t first, int64_t n, C* buffer, int64_t* ld) const {
    const bool old = first + n <= past_rows, young = first >= past_rows;
    if (old || young) {
      const Tensor4& t = old ? *past : *fresh;
      *ld = t.layout.row_step;
      if (t.type == dtype_of<C>)
        return reinterpret_cast<const C*>(t.data) + t.layout.at(b, h, first - (young ? past_rows : 0));
    }
    *ld = size;
    for (int64_t r = 0; r < n; ++r) {
      const bool was = first + r < past_rows;
      const Tensor4& t = was ? *past : *fresh;
      load(target, t.type, t.data, t.layout.at(b, h, first + r - (was ? 0 : past_rows)), size, buffer + r * size);
      if (rounding.on() && factor != 1) rounding.scale(target, static_cast<C>(factor), buffer + r * size, size);
    }
    return buffer;
  }
};

// Which keys a query may look at, beside the mask: [begin, end).
struct Span {
  int64_t begin, end;
};

template <class C>
class Run {
 public:
  Run(const Params& p, Call& call)
      : p_(p),
        call_(call),
        s_(p, call.shape(kQ), call.shape(kK), call.shape(kV), p.has_past ? call.shape(kPastKey)[2] : 0),
        room_(s_, sizeof(C)),
        rounding_(std::is_same_v<C, float> ? call.dtype(kQ) : DType::undefined) {
    q_ = tensor(kQ, Layout::of(s_.four, s_.q_heads, s_.queries, s_.size));
    k_ = tensor(kK, Layout::of(s_.four, s_.kv_heads, s_.fresh, s_.size));
    v_ = tensor(kV, Layout::of(s_.four, s_.kv_heads, s_.fresh, s_.v_size));
    past_k_ = tensor(kPastKey, Layout::of(true, s_.kv_heads, s_.past, s_.size));
    past_v_ = tensor(kPastValue, Layout::of(true, s_.kv_heads, s_.past, s_.v_size));
    scale_ = p.scale ? *p.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(s_.size)));
    if (rounding_.on()) {
      // Queries and keys are each scaled by the root.
      root_ = static_cast<float>(std::sqrt(static_cast<double>(scale_)));
      rounding_.apply(call.target(), &root_, 1);
      scale_ = 1;
    }
    packed_head_.assign(static_cast<size_t>(call.threads()), -1);
  }

  Status run() {
    TRY(check());
    keys_ = cache(kPresentKey, past_k_, k_, present_k_, s_.size);
    keys_.rounding = rounding_;
    keys_.factor = root_;
    values_ = cache(kPresentValue, past_v_, v_, present_v_, s_.v_size);
    const int64_t blocks = s_.query_blocks();
    call_.parallel(s_.batch * s_.kv_heads * blocks, [&](int64_t i, int lane) {
      if (!call_.cancelled()) chunk(i / blocks / s_.kv_heads, i / blocks % s_.kv_heads, i % blocks, lane);
    });
    return call_.cancelled() ? call_.stopped() : Status{};
  }

 private:
  // One block of queries of all query heads that share a key head.
  struct Block {
    int64_t b, h, first, n;  // sample, key head, queries
    int64_t rows, keys;      // rows of the scores; keys that any of them may see
    int lane;
  };

  Tensor4 tensor(int i, Layout layout) const {
    if (!call_.has(i)) return {};
    return {static_cast<const std::byte*>(call_.in(i)), call_.dtype(i), layout};
  }

  Status check() const {
    for (int64_t b = 0; call_.has(kValidKeys) && b < s_.batch; ++b) {
      const int64_t n = call_.in<int64_t>(kValidKeys)[b];
      if (n < 0 || n > s_.keys)
        return call_.refuse(kValidKeys, "lengths from 0 to {} (element {} is {})", s_.keys, b, n);
    }
    return {};
  }

  Rows cache(int output, const Tensor4& past, const Tensor4& fresh, Tensor4& present, int64_t size) {
    auto* to = call_.out<std::byte>(output);
    if (!to) return {&past, &fresh, s_.past, size};
    append(call_, s_, past.data, fresh, size, to);
    present = {to, fresh.type, Layout::of(true, s_.kv_heads, s_.keys, size)};
    return {&past, &present, 0, size};
  }

  template <class T = C>
  T* memory(int lane, int64_t offset) const {
    return reinterpret_cast<T*>(call_.template scratch<std::byte>(lane) + offset);
  }

  Span visible(int64_t b, int64_t query) const {
    const int64_t* valid = call_.maybe<int64_t>(kValidKeys);
    const int64_t at = query + (valid ? valid[b] - s_.queries : s_.past);
    Span span{0, valid ? valid[b] : s_.keys};
    if (p_.causal) span.end = std::min(span.end, at + 1);
    if (p_.right_window >= 0) span.end = std::min(span.end, at + p_.right_window + 1);
    if (p_.left_window >= 0) span.begin = std::max<int64_t>(0, at - p_.left_window);
    span.end = std::clamp<int64_t>(span.end, 0, s_.keys);
    span.begin = std::min(span.begin, span.end);
    return span;
  }

  void chunk(int64_t b, int64_t h, int64_t index, int lane) {
    Block k{b, h, index * s_.block, 0, 0, s_.keys, lane};
    k.n = std::min(s_.block, s_.queries - k.first);
    k.rows = s_.group * k.n;
    // The last query sees furthest. Whoever wants the scores wants them all.
    if (!call_.wants(kScores)) k.keys = visible(b, k.first + k.n - 1).end;
    C* q = memory(lane, room_.q);
    for (int64_t r = 0; r < k.rows; ++r)
      load(call_.target(), q_.type, q_.data, q_.layout.at(b, h * s_.group + r / k.n, k.first + r % k.n), s_.size,
           q + r * s_.size);
    if (rounding_.on()) rounding_.scale(call_.target(), static_cast<C>(root_), q, k.rows * s_.size);
    products(k);
    for (int64_t r = 0; r < k.rows; ++r) finish_row(k, r);
    sums(k);
    store(k);
  }

  // scores = scale * q * keys'
  void products(const Block& k) {
    const C* q = memory(k.lane, room_.q);
    C* scores = memory(k.lane, room_.scores);
    if constexpr (std::is_same_v<C, float>) {
      if (!s_.few()) return packed_products(k);
      gemm_pack_b(q, s_.size, true, s_.size, k.rows, memory(k.lane, room_.panel), 1);
    }
    for (int64_t j = 0; j < k.keys; j += Sizes::kKeyBlock) {
      const int64_t n = std::min(Sizes::kKeyBlock, k.keys - j);
      int64_t ld;
      const C* rows = keys_.get(call_.target(), k.b, k.h, j, n, memory(k.lane, room_.decoded), &ld);
      if constexpr (std::is_same_v<C, float>) {
        float* turned = memory(k.lane, room_.turned);
        GemmEpilogue e;
        e.alpha = scale_;
        gemm_f32(call_.target(), 1, n, k.rows, s_.size, rows, ld, false, memory(k.lane, room_.panel), turned, k.rows,
                 e);
        for (int64_t r = 0; r < k.rows; ++r)
          for (int64_t i = 0; i < n; ++i) scores[r * s_.keys + j + i] = turned[i * k.rows + r];
      } else {
        for (int64_t r = 0; r < k.rows; ++r)
          for (int64_t i = 0; i < n; ++i) {
            C sum = 0;
            for (int64_t d = 0; d < s_.size; ++d) sum += q[r * s_.size + d] * rows[i * ld + d];
            scores[r * s_.keys + j + i] = sum * static_cast<C>(scale_);
          }
      }
    }
  }

  // Packs the keys and values of a head, unless the lane still holds them from the block before.
  void pack_head(const Block& k) {
    int64_t& held = packed_head_[static_cast<size_t>(k.lane)];
    if (held == k.b * s_.kv_heads + k.h) return;
    held = k.b * s_.kv_heads + k.h;
    float *decoded = memory<float>(k.lane, room_.decoded), *to_k = memory<float>(k.lane, room_.packed_k),
          *to_v = memory<float>(k.lane, room_.packed_v);
    for (int64_t j = 0; j < s_.keys; j += Sizes::kKeyBlock) {
      const int64_t n = std::min(Sizes::kKeyBlock, s_.keys - j);
      int64_t ld;
      const float* rows = keys_.get(call_.target(), k.b, k.h, j, n, decoded, &ld);
      gemm_pack_b(rows, ld, true, s_.size, n, to_k + j * s_.size, 1);
      rows = values_.get(call_.target(), k.b, k.h, j, n, decoded, &ld);
      gemm_pack_b(rows, ld, false, n, s_.v_size, to_v + j * round_up(s_.v_size, kPanelWidth), 1);
    }
  }

  void packed_products(const Block& k) {
    pack_head(k);
    GemmEpilogue e;
    e.alpha = scale_;
    gemm_f32(call_.target(), 1, k.rows, k.keys, s_.size, memory<float>(k.lane, room_.q), s_.size, false,
             memory<float>(k.lane, room_.packed_k), memory<float>(k.lane, room_.scores), s_.keys, e);
  }

  // y = scores * values
  void sums(const Block& k) {
    C* y = memory(k.lane, room_.y);
    std::fill_n(y, k.rows * s_.v_size, C{0});
    if constexpr (std::is_same_v<C, float>) {
      if (s_.few()) return few_sums(k);
    }
    const C* scores = memory(k.lane, room_.scores);
    for (int64_t j = 0; j < k.keys; j += Sizes::kKeyBlock) {
      const int64_t n = std::min(Sizes::kKeyBlock, k.keys - j);
      if constexpr (std::is_same_v<C, float>) {
        // A block at the end of what is visible is packed for all of its keys: their weights are zeros.
        const int64_t packed = std::min(Sizes::kKeyBlock, s_.keys - j);
        GemmEpilogue e;
        e.c_in = y;
        e.c_row_stride = s_.v_size;
        e.c_col_stride = 1;
        gemm_f32(call_.target(), 1, k.rows, s_.v_size, packed, scores + j, s_.keys, false,
                 memory(k.lane, room_.packed_v) + j * round_up(s_.v_size, kPanelWidth), y, s_.v_size, e);
      } else {
        int64_t ld;
        const C* rows = values_.get(call_.target(), k.b, k.h, j, n, memory(k.lane, room_.decoded), &ld);
        for (int64_t r = 0; r < k.rows; ++r)
          for (int64_t i = 0; i < n; ++i)
            for (int64_t d = 0; d < s_.v_size; ++d)
              y[r * s_.v_size + d] += scores[r * s_.keys + j + i] * rows[i * ld + d];
      }
    }
  }

  // Computes the transposed sums, so that the values are the side that needs no packing.
  void few_sums(const Block& k) {
    float *y = memory<float>(k.lane, room_.y), *turned = memory<float>(k.lane, room_.turned),
          *panel = memory<float>(k.lane, room_.panel);
    const float* scores = memory<float>(k.lane, room_.scores);
    for (int64_t j = 0; j < k.keys; j += Sizes::kKeyBlock) {
      const int64_t n = std::min(Sizes::kKeyBlock, k.keys - j);
      int64_t ld;
      const float* rows = values_.get(call_.target(), k.b, k.h, j, n, memory<float>(k.lane, room_.decoded), &ld);
      gemm_pack_b(scores + j, s_.keys, true, n, k.rows, panel, 1);
      GemmEpilogue e;
      e.c_in = j ? turned : nullptr;
      e.c_row_stride = k.rows;
      e.c_col_stride = 1;
      gemm_f32(call_.target(), 1, s_.v_size, k.rows, n, rows, ld, true, panel, turned, k.rows, e);
    }
    for (int64_t r = 0; k.keys && r < k.rows; ++r)
      for (int64_t d = 0; d < s_.v_size; ++d) y[r * s_.v_size + d] = turned[d * k.rows + r];
  }

  // Softcap, mask and softmax of one row; keeps the scores that somebody wants.
  void finish_row(const Block& k, int64_t r) {
    C* row = memory(k.lane, room_.scores) + r * s_.keys;
    const int64_t head = k.h * s_.group + r / k.n, query = k.first + r % k.n;
    round(row, k.keys);
    keep(k.b, head, query, 0, row);
    if (p_.softcap > 0) cap_row(row, k.keys);
    keep(k.b, head, query, 1, row);
    const bool any = mask_row(k, head, query, row);
    keep(k.b, head, query, 2, row);
    softmax(row, k.keys, any);
    // Blocks of values are multiplied whole.
    std::fill(row + k.keys, row + std::min(s_.keys, round_up(k.keys, Sizes::kKeyBlock)), C{0});
    keep(k.b, head, query, 3, row);
  }

  void round(C* row, int64_t n) const { rounding_.apply(call_.target(), row, n); }

  void cap_row(C* row, int64_t n) const {
    C cap = static_cast<C>(p_.softcap);
    round(&cap, 1);
    for (int64_t j = 0; j < n; ++j) row[j] /= cap;
    round(row, n);
    for (int64_t j = 0; j < n; ++j) row[j] = std::tanh(row[j]);
    round(row, n);
    for (int64_t j = 0; j < n; ++j) row[j] *= cap;
    round(row, n);
  }

  void keep(int64_t b, int64_t head, int64_t query, int mode, const C* row) {
    if (mode != p_.scores_mode || !call_.wants(kScores)) return;
    encode(call_.out_dtype(kScores), call_.out(kScores), ((b * s_.q_heads + head) * s_.queries + query) * s_.keys,
           s_.keys, row);
  }

  // False if no key is left.
  bool mask_row(const Block& k, int64_t head, int64_t query, C* row) {
    const Span span = visible(k.b, query);
    std::fill(row, row + std::min(span.begin, k.keys), kMasked<C>);
    std::fill(row + std::min(span.end, k.keys), row + k.keys, kMasked<C>);
    if (!call_.has(kMask)) return span.begin < span.end;
    const Shape& m = call_.shape(kMask);
    const int rank = m.rank();
    const int64_t length = m[rank - 1], place[] = {k.b, head, query};
    int64_t at = 0;
    for (int i = 0; i + 1 < rank; ++i) at = at * m[i] + (m[i] == 1 ? 0 : place[4 - rank + i]);
    const int64_t end = std::min(span.end, length);
    std::fill(row + std::max(span.begin, end), row + std::max(span.begin, std::min(span.end, k.keys)), kMasked<C>);
    if (span.begin >= end) return false;
    C* mask = memory(k.lane, room_.mask);
    load(call_.target(), call_.dtype(kMask), call_.in(kMask), at * length + span.begin, end - span.begin, mask);
    const bool boolean = call_.dtype(kMask) == DType::boolean;
    bool any = false;
    for (int64_t j = span.begin; j < end; ++j) {
      const C v = boolean ? (mask[j - span.begin] != 0 ? C{0} : kMasked<C>) : mask[j - span.begin];
      any = any || v != kMasked<C>;
      row[j] = v == kMasked<C> ? v : row[j] + v;
    }
    round(row + span.begin, end - span.begin);
    return any;
  }

  void softmax(C* row, int64_t n, bool any) {
    any = any && std::any_of(row, row + n, [](C v) { return v != kMasked<C>; });
    if (!any) return std::fill_n(row, n, C{0}), void();
    const bool in_steps = rounding_.on() && !p_.wide_softmax;
    if constexpr (std::is_same_v<C, float>) {
      if (!in_steps) {
        softmax_rows(call_.target(), 1, row, row, 1, n);
        return round(row, n);
      }
    }
    const C most = *std::max_element(row, row + n);
    C sum = 0;
    for (int64_t j = 0; j < n; ++j) row[j] -= most;
    round(row, n);
    if constexpr (std::is_same_v<C, float>)
      unary_f32(call_.target(), Unary::exp, row, row, n);
    else
      for (int64_t j = 0; j < n; ++j) row[j] = std::exp(row[j]);
    round(row, n);
    for (int64_t j = 0; j < n; ++j) sum += row[j];
    round(&sum, 1);
    for (int64_t j = 0; j < n; ++j) row[j] /= sum;
    round(row, n);
  }

  void store(const Block& k) {
    const Layout to = Layout::of(s_.four, s_.q_heads, s_.queries, s_.v_size);
    const C* y = memory(k.lane, room_.y);
    for (int64_t r = 0; call_.wants(kY) && r < k.rows; ++r)
      encode(call_.out_dtype(kY), call_.out(kY), to.at(k.b, k.h * s_.group + r / k.n, k.first + r % k.n), s_.v_size,
             y + r * s_.v_size);
  }

  const Params& p_;
  Call& call_;
  Sizes s_;
  Workspace room_;
  Tensor4 q_, k_, v_, past_k_, past_v_, present_k_, present_v_;
  Rows keys_{}, values_{};
  Rounding rounding_;
  float scale_, root_ = 1;
  std::vector<int64_t> packed_head_;  // per lane
};

template <class C>
Status compute(const Params& p, Call& call) {
  return Run<C>(p, call).run();
}

void types(TypeCall& c) {
  for (TypeDesc& t : c.out) t = c.in[kQ];
  if (c.out.size() > kPresentValue) c.out[kPresentValue] = c.in[kV];
}

int64_t scratch(const void* params, const ScratchCall& in) {
  const auto& p = *static_cast<const Params*>(params);
  const Sizes s(p, *in[kQ], *in[kK], *in[kV], p.has_past ? (*in[kPastKey])[2] : 0);
  if (s.batch == 0 || s.queries == 0) return 0;
  return std::max(Workspace(s, sizeof(float)).total, Workspace(s, sizeof(double)).total);
}

constexpr uint32_t kLikeQuery =
    in_arg(kQ) | in_arg(kK) | in_arg(kPastKey) | out_arg(kY) | out_arg(kPresentKey) | out_arg(kScores);
constexpr uint32_t kLikeValue = in_arg(kV) | in_arg(kPastValue) | out_arg(kPresentValue);
constexpr TypeRule kMaskTypes{in_arg(kMask), kNumbers | set_of(DType::boolean)};
constexpr TypeRule kLengthTypes{in_arg(kValidKeys), set_of(DType::i64)};
constexpr TypeSet kSingle = kHalfFloats | set_of(DType::f32);
constexpr TypeRule kFloatTypes[] = {{kLikeQuery, kSingle}, {kLikeValue, kSingle}, kMaskTypes, kLengthTypes};
constexpr TypeRule kDoubleTypes[] = {{kLikeQuery, kFloats}, {kLikeValue, kFloats}, kMaskTypes, kLengthTypes};
constexpr Kernel kKernels[] = {{kFloatTypes, compute_with<Params, compute<float>>},
                               {kDoubleTypes, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {23, 24, 25};

}  // namespace

extern constexpr Op kAttention{.domain = "",
                               .name = "Attention",
                               .versions = kVersions,
                               .parse = parse_params<Params, attention::parse>,
                               .types = types,
                               .shape = shape_with<Params, int64_t, attention::shape<int64_t>>,
                               .kernels = kKernels,
                               .scratch = scratch};
extern constexpr OpInference kAttentionInference{.shape = shape_with<Params, Dim, attention::shape<Dim>>};

}  // namespace tessera
