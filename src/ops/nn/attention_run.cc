#include "ops/nn/attention_run.h"

#include <cmath>
#include <cstring>
#include <limits>

#include "core/convert.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/rows.h"
#include "kernels/vmath.h"

namespace tessera::attention {
namespace {

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
    uint16_t bits[256];
    for (int64_t at = 0; on() && at < n; at += 256) {
      const int64_t count = std::min<int64_t>(256, n - at);
      if constexpr (std::is_same_v<C, float>) {
        (type_ == DType::f16 ? f32_to_f16 : f32_to_bf16)(target, x + at, bits, count);
        (type_ == DType::f16 ? f16_to_f32 : bf16_to_f32)(target, bits, x + at, count);
      } else {
        encode(type_, bits, 0, count, x + at);
        decode(type_, bits, 0, count, x + at);
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

// The keys or values of one head: rows of the past, then new ones (or all in one place).
struct Rows {
  const HeadTensor *past, *fresh;
  int64_t past_rows, size;
  Rounding rounding{DType::undefined};
  float factor = 1;  // on all rows, where rounding is on

  // Rows [first, first + n) as C, in place or in `buffer`; *ld is the step from row to row.
  template <class C>
  const C* get(Target target, int64_t b, int64_t h, int64_t first, int64_t n, C* buffer, int64_t* ld) const {
    const bool old = first + n <= past_rows, young = first >= past_rows;
    if (old || young) {
      const HeadTensor& t = old ? *past : *fresh;
      *ld = t.layout.row_step;
      if (t.type == dtype_of<C>)
        return reinterpret_cast<const C*>(t.data) + t.layout.at(b, h, first - (young ? past_rows : 0));
    }
    *ld = size;
    for (int64_t r = 0; r < n; ++r) {
      const bool was = first + r < past_rows;
      const HeadTensor& t = was ? *past : *fresh;
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
  Run(const Problem& p, Call& call)
      : p_(p),
        call_(call),
        s_(p.sizes),
        room_(s_, sizeof(C)),
        rounding_(p.in_steps ? p.q.type : DType::undefined),
        scale_(p.scale) {
    if (rounding_.on()) {
      // Queries and keys are each scaled by the root.
      root_ = static_cast<float>(std::sqrt(static_cast<double>(scale_)));
      rounding_.apply(call.target(), &root_, 1);
      scale_ = 1;
    }
    packed_head_.assign(static_cast<size_t>(call.threads()), -1);
  }

  Status run() {
    keys_ = {&p_.past_k, &p_.k, p_.past_k.data ? s_.past : 0, s_.size, rounding_, root_};
    values_ = {&p_.past_v, &p_.v, p_.past_v.data ? s_.past : 0, s_.v_size};
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

  template <class T = C>
  T* memory(int lane, int64_t offset) const {
    return reinterpret_cast<T*>(p_.scratch + lane * p_.scratch_step + offset);
  }

  Span visible(int64_t b, int64_t query) const {
    const int64_t at = query + (p_.first ? p_.first[b] : s_.past);
    Span span{0, p_.valid ? p_.valid[b] : s_.keys};
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
    if (!p_.scores) k.keys = visible(b, k.first + k.n - 1).end;
    C* q = memory(lane, room_.q);
    for (int64_t r = 0; r < k.rows; ++r)
      load(call_.target(), p_.q.type, p_.q.data, p_.q.layout.at(b, h * s_.group + r / k.n, k.first + r % k.n), s_.size,
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
    if (p_.sinks)
      sink_softmax(row, k.keys, static_cast<C>(p_.sinks[head]));
    else
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
    if (mode != p_.scores_mode || !p_.scores) return;
    encode(p_.scores_type, p_.scores, ((b * s_.q_heads + head) * s_.queries + query) * s_.keys, s_.keys, row);
  }

  // False if no key is left.
  bool mask_row(const Block& k, int64_t head, int64_t query, C* row) {
    const Span span = visible(k.b, query);
    std::fill(row, row + std::min(span.begin, k.keys), kMasked<C>);
    std::fill(row + std::min(span.end, k.keys), row + k.keys, kMasked<C>);
    bool any = span.begin < span.end;
    for (const Mask& m : p_.masks)
      if (m.data && any) any = add_mask(m, m.at(k.b, head, query), span, k, row);
    return any;
  }

  bool add_mask(const Mask& m, int64_t at, const Span& span, const Block& k, C* row) {
    const int64_t end = std::min(span.end, m.length);
    std::fill(row + std::max(span.begin, end), row + std::max(span.begin, std::min(span.end, k.keys)), kMasked<C>);
    if (span.begin >= end) return false;
    C* mask = memory(k.lane, room_.mask);
    load(call_.target(), m.type, m.data, at + span.begin, end - span.begin, mask);
    const bool boolean = m.type == DType::boolean;
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
    const Rounding between = p_.wide_softmax ? Rounding(DType::undefined) : rounding_;
    if constexpr (std::is_same_v<C, float>) {
      if (!between.on()) {
        softmax_rows(call_.target(), 1, row, row, 1, n);
        return round(row, n);
      }
    }
    const C most = *std::max_element(row, row + n);
    C sum = 0;
    for (int64_t j = 0; j < n; ++j) row[j] -= most;
    between.apply(call_.target(), row, n);
    if constexpr (std::is_same_v<C, float>)
      unary_f32(call_.target(), Unary::exp, row, row, n);
    else
      for (int64_t j = 0; j < n; ++j) row[j] = std::exp(row[j]);
    between.apply(call_.target(), row, n);
    for (int64_t j = 0; j < n; ++j) sum += row[j];
    between.apply(call_.target(), &sum, 1);
    for (int64_t j = 0; j < n; ++j) row[j] /= sum;
    round(row, n);
  }

  // The softmax of a row and one more score, which is then dropped.
  void sink_softmax(C* row, int64_t n, C sink) const {
    C most = sink, sum = 0;
    for (int64_t j = 0; j < n; ++j) most = std::max(most, row[j]);
    for (int64_t j = 0; j < n; ++j) sum += row[j] = std::exp(row[j] - most);
    sum += std::exp(sink - most);
    for (int64_t j = 0; j < n; ++j) row[j] /= sum;
    round(row, n);
  }

  void store(const Block& k) {
    const C* y = memory(k.lane, room_.y);
    for (int64_t r = 0; p_.y && r < k.rows; ++r)
      encode(p_.y_type, p_.y, p_.y_layout.at(k.b, k.h * s_.group + r / k.n, k.first + r % k.n), s_.v_size,
             y + r * s_.v_size);
  }

  const Problem& p_;
  Call& call_;
  const Sizes& s_;
  Workspace room_;
  Rows keys_{}, values_{};
  Rounding rounding_;
  float scale_, root_ = 1;
  std::vector<int64_t> packed_head_;  // per lane
};

}  // namespace

Mask Mask::of(const Call& call, int i) {
  const Shape& s = call.shape(i);
  const int rank = s.rank();
  Mask m{call.in(i), call.dtype(i), 0, 0, 0, s[rank - 1]};
  int64_t* const steps[] = {&m.query_step, &m.head_step, &m.batch_step};
  int64_t step = m.length;
  for (int k = 0; k + 1 < rank; step *= s[rank - 2 - k++])
    if (s[rank - 2 - k] != 1) *steps[k] = step;
  return m;
}

int64_t scratch_bytes(const Sizes& s) {
  if (s.batch == 0 || s.queries == 0) return 0;
  return std::max(Workspace(s, sizeof(float)).total, Workspace(s, sizeof(double)).total);
}

Status run(const Problem& p, Call& call) {
  const bool wide = p.q.type == DType::f64 || p.v.type == DType::f64;
  return wide ? Run<double>(p, call).run() : Run<float>(p, call).run();
}

void append(const Call& call, const CacheStep& c) {
  const int64_t bytes = bits_of(c.fresh.type) / 8, row = c.size * bytes;
  const auto one = [&](int64_t i) {
    const int64_t b = i / c.heads, h = i % c.heads, old = c.past_rows ? c.past_rows[b] : c.past_room;
    std::byte* to = c.present + i * c.present_room * row;
    const std::byte* from = c.past + i * c.past_room * row;
    if (c.past && old && to != from) std::memmove(to, from, static_cast<size_t>(old * row));
    for (int64_t r = 0; r < c.fresh_rows; ++r)
      std::memcpy(to + (old + r) * row, c.fresh.data + c.fresh.layout.at(b, h, r) * bytes, static_cast<size_t>(row));
  };
  const int64_t heads = c.batch * c.heads;
  if (c.present == c.past)
    for (int64_t i = heads; i-- > 0;) one(i);  // from the last on: nothing is overwritten before it has moved
  else
    call.parallel(heads, [&](int64_t i, int) { one(i); });
}

}  // namespace tessera::attention
