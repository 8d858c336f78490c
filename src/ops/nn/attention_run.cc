#include "ops/nn/attention_run.h"

#include <atomic>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/convert.h"
#include "kernels/attention.h"
#include "kernels/convert.h"
#include "kernels/rows.h"
#include "kernels/vmath.h"
#include "ops/nn/panel_room.h"

namespace tessera::attention {
namespace {

std::atomic<int64_t> bytes_moved{0};

template <class C>
constexpr C kMasked = -std::numeric_limits<C>::infinity();

// What kernels for C read as it lies.
template <class C>
constexpr TypeSet kRead = std::is_same_v<C, float> ? kHalfFloats | set_of(DType::f32) : set_of(dtype_of<C>);

template <class C>
void load(Target target, DType type, const void* data, int64_t from, int64_t n, C* out) {
  if constexpr (std::is_same_v<C, float>) {
    const auto* bits = static_cast<const uint16_t*>(data) + from;
    if (type == DType::f32) return std::copy_n(static_cast<const float*>(data) + from, n, out), void();
    if (type == DType::f16) return f16_to_f32(target, bits, out, n);
    if (type == DType::bf16) return bf16_to_f32(target, bits, out, n);
  }
  decode(type, data, from, n, out);
}

template <class C>
void save(Target target, DType type, void* data, int64_t to, int64_t n, const C* in) {
  if constexpr (std::is_same_v<C, float>) {
    auto* bits = static_cast<uint16_t*>(data) + to;
    if (type == DType::f32) return std::copy_n(in, n, static_cast<float*>(data) + to), void();
    if (type == DType::f16) return f32_to_f16(target, in, bits, n);
    if (type == DType::bf16) return f32_to_bf16(target, in, bits, n);
  }
  encode(type, data, to, n, in);
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
      save(target, type_, bits, 0, count, x + at);
      load(target, type_, bits, 0, count, x + at);
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

// Some rows of a head: where they lie, or as C in a buffer.
struct View {
  const void* data;
  DType type;
  int64_t step;
  HeadRows rows() const { return {data, panel_type(type), step}; }
};

// The keys or values of one head: rows of the past, then new ones (or all in one place).
struct Rows {
  const HeadTensor *past, *fresh;
  int64_t past_rows, size;
  Rounding rounding{DType::undefined};
  float factor = 1;  // on all rows, where rounding is on

  // How many rows from `first` on lie in one place.
  int64_t together(int64_t first, int64_t n) const { return first < past_rows ? std::min(n, past_rows - first) : n; }

  // Rows [first, first + n), in place where kernels for C read their type.
  template <class C>
  View get(Target target, int64_t b, int64_t h, int64_t first, int64_t n, C* buffer) const {
    const bool changes = rounding.on() && factor != 1;
    if (together(first, n) == n && !changes) {
      const bool old = first < past_rows;
      const HeadTensor& t = old ? *past : *fresh;
      const int64_t at = t.layout.at(b, h, first - (old ? 0 : past_rows));
      if (kRead<C>.has(t.type)) return {t.data + at * bits_of(t.type) / 8, t.type, t.layout.row_step};
    }
    for (int64_t r = 0; r < n; ++r) {
      const bool was = first + r < past_rows;
      const HeadTensor& t = was ? *past : *fresh;
      load(target, t.type, t.data, t.layout.at(b, h, first + r - (was ? 0 : past_rows)), size, buffer + r * size);
      if (changes) rounding.scale(target, static_cast<C>(factor), buffer + r * size, size);
    }
    return {buffer, dtype_of<C>, size};
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
    lazy_ = std::is_same_v<C, float> && !rounding_.on() && kRead<C>.has(p.y_type) && !(p.scores && p.scores_mode == 3);
    packed_head_.assign(static_cast<size_t>(call.threads()), -1);
  }

  Status run() {
    keys_ = {&p_.past_k, &p_.k, p_.past_k.data ? s_.past : 0, s_.size, rounding_, root_};
    values_ = {&p_.past_v, &p_.v, p_.past_v.data ? s_.past : 0, s_.v_size};
    const int64_t blocks = s_.query_blocks();
    for (const CacheStep* c : {p_.keep_k, p_.keep_v})
      if (c && !keeps_by_head(*c)) append(call_, *c);
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

  // Whoever reads a head alone can also keep it: it is near then.
  bool keeps_by_head(const CacheStep& c) const {
    return s_.query_blocks() == 1 && (c.present != c.past || c.present_room == c.past_room);
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
    for (const CacheStep* c : {p_.keep_k, p_.keep_v})
      if (c && keeps_by_head(*c)) append_head(call_, *c, b, h);
    Block k{b, h, index * s_.block, 0, 0, s_.keys, lane};
    k.n = std::min(s_.block, s_.queries - k.first);
    k.rows = s_.group * k.n;
    // The last query sees furthest. Whoever wants the scores wants them all.
    if (!p_.scores) k.keys = visible(b, k.first + k.n - 1).end;
    for (int64_t g = 0; g < s_.group; ++g) load_queries(k, g);
    products(k);
    if (!lazy_ || p_.softcap > 0 || p_.scores || p_.masks[0].data || p_.masks[1].data)
      for (int64_t r = 0; r < k.rows; ++r) finish_row(k, r);
    if constexpr (std::is_same_v<C, float>)
      if (lazy_) lazy_softmax(k);
    sums(k);
    store(k);
  }

  // The queries of one head, scaled.
  void load_queries(const Block& k, int64_t g) {
    C* q = memory(k.lane, room_.q) + g * k.n * s_.size;
    const int64_t at = p_.q.layout.at(k.b, k.h * s_.group + g, k.first);
    if constexpr (std::is_same_v<C, float>)
      if (!rounding_.on() && kRead<C>.has(p_.q.type)) {
        const HeadRows from{p_.q.data + at * bits_of(p_.q.type) / 8, panel_type(p_.q.type), p_.q.layout.row_step};
        load_rows(call_.target(), from, k.n, s_.size, &scale_, 0, q, s_.size);
        for (int64_t r = 0; p_.angles && r < k.n; ++r)
          turn(call_.target(), *p_.angles, k.b * s_.queries + k.first + r, q + r * s_.size);
        return;
      }
    for (int64_t r = 0; r < k.n; ++r, q += s_.size) {
      load(call_.target(), p_.q.type, p_.q.data, at + r * p_.q.layout.row_step, s_.size, q);
      if (rounding_.on())
        rounding_.scale(call_.target(), static_cast<C>(root_), q, s_.size);
      else
        for (int64_t d = 0; d < s_.size; ++d) q[d] *= static_cast<C>(scale_);
    }
  }

  // scores = q * keys'
  void products(const Block& k) {
    const C* q = memory(k.lane, room_.q);
    C* scores = memory(k.lane, room_.scores);
    if constexpr (std::is_same_v<C, float>)
      if (!s_.few()) return packed_products(k);
    for (int64_t j = 0, n; j < k.keys; j += n) {
      n = keys_.together(j, std::min(Sizes::kKeyBlock, k.keys - j));
      const View view = keys_.get(call_.target(), k.b, k.h, j, n, memory(k.lane, room_.decoded));
      if constexpr (std::is_same_v<C, float>) {
        head_products(call_.target(), q, k.rows, s_.size, view.rows(), n, scores + j, s_.score_step());
      } else {
        const auto* rows = static_cast<const C*>(view.data);
        for (int64_t r = 0; r < k.rows; ++r)
          for (int64_t i = 0; i < n; ++i) {
            C sum = 0;
            for (int64_t d = 0; d < s_.size; ++d) sum += q[r * s_.size + d] * rows[i * view.step + d];
            scores[r * s_.score_step() + j + i] = sum;
          }
      }
    }
  }

  // Packs the keys and values of a head, unless the lane still holds them from the block before.
  void pack_head(const Block& k) {
    int64_t& held = packed_head_[static_cast<size_t>(k.lane)];
    if (held == k.b * s_.kv_heads + k.h) return;
    held = k.b * s_.kv_heads + k.h;
    const Target target = call_.target();
    float *decoded = memory<float>(k.lane, room_.decoded), *to_k = memory<float>(k.lane, room_.packed_k),
          *to_v = memory<float>(k.lane, room_.packed_v);
    for (int64_t j = 0; j < s_.keys; j += Sizes::kKeyBlock) {
      const int64_t n = std::min(Sizes::kKeyBlock, s_.keys - j);
      pack_keys(target, keys_.get(target, k.b, k.h, j, n, decoded).rows(), n, s_.size, to_k + j * s_.size);
      pack_values(target, values_.get(target, k.b, k.h, j, n, decoded).rows(), n, s_.v_size,
                  to_v + j * round_up(s_.v_size, kPanelWidth));
    }
  }

  void packed_products(const Block& k) {
    pack_head(k);
    gemm_f32(call_.target(), 1, k.rows, k.keys, s_.size, memory<float>(k.lane, room_.q), s_.size, false,
             memory<float>(k.lane, room_.packed_k), memory<float>(k.lane, room_.scores), s_.score_step(), {});
  }

  // y = scores * values
  void sums(const Block& k) {
    if constexpr (std::is_same_v<C, float>)
      if (!s_.few() && k.keys) return packed_sums(k);
    C* y = memory(k.lane, room_.y);
    const C* scores = memory(k.lane, room_.scores);
    std::fill_n(y, k.rows * s_.v_size, C{0});
    for (int64_t j = 0, n; j < k.keys; j += n) {
      n = values_.together(j, std::min(Sizes::kKeyBlock, k.keys - j));
      const View view = values_.get(call_.target(), k.b, k.h, j, n, memory(k.lane, room_.decoded));
      if constexpr (std::is_same_v<C, float>) {
        head_sums(call_.target(), scores + j, s_.score_step(), k.rows, view.rows(), n, s_.v_size, y);
      } else {
        const auto* rows = static_cast<const C*>(view.data);
        for (int64_t r = 0; r < k.rows; ++r)
          for (int64_t i = 0; i < n; ++i)
            for (int64_t d = 0; d < s_.v_size; ++d)
              y[r * s_.v_size + d] += scores[r * s_.score_step() + j + i] * rows[i * view.step + d];
      }
    }
  }

  // A block at the end of what is visible is packed for all of its keys: their weights are zeros.
  void packed_sums(const Block& k) {
    float* y = memory<float>(k.lane, room_.y);
    for (int64_t j = 0; j < k.keys; j += Sizes::kKeyBlock) {
      GemmEpilogue e;
      e.c_in = j ? y : nullptr;
      e.c_row_stride = s_.v_size;
      e.c_col_stride = 1;
      gemm_f32(call_.target(), 1, k.rows, s_.v_size, std::min(Sizes::kKeyBlock, s_.keys - j),
               memory<float>(k.lane, room_.scores) + j, s_.score_step(), false,
               memory<float>(k.lane, room_.packed_v) + j * round_up(s_.v_size, kPanelWidth), y, s_.v_size, e);
    }
  }

  // Softcap, mask and softmax of one row; keeps the scores that somebody wants.
  void finish_row(const Block& k, int64_t r) {
    C* row = memory(k.lane, room_.scores) + r * s_.score_step();
    const int64_t head = k.h * s_.group + r / k.n, query = k.first + r % k.n;
    round(row, k.keys);
    keep(k.b, head, query, 0, row);
    if (p_.softcap > 0) cap_row(row, k.keys);
    keep(k.b, head, query, 1, row);
    const Span span = visible(k.b, query);
    const bool any = mask_row(k, head, query, span, row);
    keep(k.b, head, query, 2, row);
    if (lazy_) return;
    if (p_.sinks)
      sink_softmax(row, k.keys, static_cast<C>(p_.sinks[head]));
    else
      softmax(row, k.keys, any);
    // Blocks of values are multiplied whole.
    std::fill(row + k.keys, row + std::min(s_.keys, round_up(k.keys, Sizes::kKeyBlock)), C{0});
    keep(k.b, head, query, 3, row);
  }

  // Leaves the division to store().
  void lazy_softmax(const Block& k) {
    const bool alike = !p_.causal && p_.left_window < 0 && p_.right_window < 0;  // all queries see the same keys
    const int64_t step = s_.score_step(), padded = std::min(s_.keys, round_up(k.keys, Sizes::kKeyBlock));
    float *row = memory<float>(k.lane, room_.scores), *factors = memory<float>(k.lane, room_.factors);
    for (int64_t g = 0; g < s_.group; ++g) {
      const float sink = p_.sinks ? p_.sinks[k.h * s_.group + g] : kMasked<float>;
      for (int64_t r = 0, n; r < k.n; r += n, row += n * step, factors += n) {
        n = alike ? k.n : 1;
        const Span span = visible(k.b, k.first + r);
        const int64_t begin = std::min(span.begin, k.keys), end = std::clamp(span.end, begin, k.keys);
        exp_rows(call_.target(), row + begin, step, n, end - begin, sink, factors);
        for (int64_t i = 0; i < n && begin + padded - end > 0; ++i) {
          std::fill(row + i * step, row + i * step + begin, 0.0f);
          std::fill(row + i * step + end, row + i * step + padded, 0.0f);
        }
      }
    }
  }

  void round(C* row, int64_t n) const { rounding_.apply(call_.target(), row, n); }

  void cap_row(C* row, int64_t n) const {
    C cap = static_cast<C>(p_.softcap);
    round(&cap, 1);
    for (int64_t j = 0; j < n; ++j) row[j] /= cap;
    round(row, n);
    if constexpr (std::is_same_v<C, float>)
      unary_f32(call_.target(), Unary::tanh, row, row, n);
    else
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
  bool mask_row(const Block& k, int64_t head, int64_t query, const Span& span, C* row) {
    if (!lazy_ || p_.scores) {
      std::fill(row, row + std::min(span.begin, k.keys), kMasked<C>);
      std::fill(row + std::min(span.end, k.keys), row + k.keys, kMasked<C>);
    }
    bool any = span.begin < span.end;
    for (const Mask& m : p_.masks)
      if (m.data && any) any = add_mask(m, m.at(k.b, head, query), span, k, row);
    return any;
  }

  bool add_mask(const Mask& m, int64_t at, const Span& span, const Block& k, C* row) {
    const int64_t end = std::min(span.end, m.length);
    std::fill(row + std::max(span.begin, end), row + std::max(span.begin, std::min(span.end, k.keys)), kMasked<C>);
    if (span.begin >= end) return false;
    const int64_t n = end - span.begin;
    if constexpr (std::is_same_v<C, float>)
      if (lazy_ && m.type == DType::f32) {
        float* to = row + span.begin;
        binary_f32(call_.target(), Binary::add, to, 1, static_cast<const float*>(m.data) + at + span.begin, 1, to, n);
        return true;
      }
    C* mask = memory(k.lane, room_.mask);
    load(call_.target(), m.type, m.data, at + span.begin, n, mask);
    const bool boolean = m.type == DType::boolean;
    bool any = false;
    for (int64_t j = span.begin; j < end; ++j) {
      const C v = boolean ? (mask[j - span.begin] != 0 ? C{0} : kMasked<C>) : mask[j - span.begin];
      any = any || v != kMasked<C>;
      row[j] = v == kMasked<C> ? v : row[j] + v;
    }
    round(row + span.begin, n);
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
    for (int64_t g = 0; p_.y && g < s_.group; ++g) {
      const C* y = memory(k.lane, room_.y) + g * k.n * s_.v_size;
      const int64_t at = p_.y_layout.at(k.b, k.h * s_.group + g, k.first);
      if constexpr (std::is_same_v<C, float>)
        if (lazy_) {
          store_rows(call_.target(), y, s_.v_size, k.n, s_.v_size, memory(k.lane, room_.factors) + g * k.n, 1,
                     panel_type(p_.y_type), static_cast<std::byte*>(p_.y) + at * bits_of(p_.y_type) / 8,
                     p_.y_layout.row_step);
          continue;
        }
      for (int64_t r = 0; r < k.n; ++r)
        save(call_.target(), p_.y_type, p_.y, at + r * p_.y_layout.row_step, s_.v_size, y + r * s_.v_size);
    }
  }

  static void turn(Target target, const Angles& a, int64_t query, float* x) {
    const int64_t row = a.rows[query] * a.half;
    rotate_head(target, x, a.cos + row, a.sin + row, a.half, a.interleaved);
  }

  // One head of one sample of a cache.
  static void append_head(const Call& call, const CacheStep& c, int64_t b, int64_t h) {
    const Target target = call.target();
    const int64_t bytes = bits_of(c.type) / 8, row = c.size * bytes, i = b * c.heads + h;
    const int64_t old = c.past_rows ? c.past_rows[b] : c.past_room;
    std::byte* to = c.present + i * c.present_room * row;
    const std::byte* from = c.past + i * c.past_room * row;
    if (c.past && old && to != from) {
      std::memmove(to, from, static_cast<size_t>(old * row));
      bytes_moved.fetch_add(old * row, std::memory_order_relaxed);
    }
    std::vector<float> turned(static_cast<size_t>(c.angles || c.fresh.type != c.type ? c.size : 0));
    for (int64_t r = 0; r < c.fresh_rows; ++r) {
      const int64_t at = c.fresh.layout.at(b, h, r);
      std::byte* place = to + (old + r) * row;
      if (turned.empty()) {
        std::memcpy(place, c.fresh.data + at * bytes, static_cast<size_t>(row));
        continue;
      }
      load(target, c.fresh.type, c.fresh.data, at, c.size, turned.data());
      if (c.angles) turn(target, *c.angles, b * c.fresh_rows + r, turned.data());
      save(target, c.type, place, 0, c.size, turned.data());
    }
    const int64_t behind = c.present_room - old - c.fresh_rows;
    if (c.zeros_behind && c.present != c.past && behind > 0)
      std::memset(to + (old + c.fresh_rows) * row, 0, static_cast<size_t>(behind * row));
  }

  static void append(const Call& call, const CacheStep& c) {
    const int64_t heads = c.batch * c.heads;
    const auto one = [&](int64_t i) { append_head(call, c, i / c.heads, i % c.heads); };
    if (c.present == c.past && c.present_room != c.past_room)
      for (int64_t i = heads; i-- > 0;) one(i);  // from the last on: nothing is overwritten before it has moved
    else
      call.parallel(heads, [&](int64_t i, int) { one(i); });
  }

  const Problem& p_;
  Call& call_;
  const Sizes& s_;
  Workspace room_;
  Rows keys_{}, values_{};
  Rounding rounding_;
  float scale_, root_ = 1;
  bool lazy_;
  std::vector<int64_t> packed_head_;  // per lane
};

}  // namespace

int64_t cache_bytes_moved() { return bytes_moved.load(std::memory_order_relaxed); }

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

void load_floats(Target target, DType type, const void* data, int64_t from, int64_t n, float* out) {
  load(target, type, data, from, n, out);
}

int64_t scratch_bytes(const Sizes& s) {
  if (s.batch == 0 || s.queries == 0) return 0;
  return std::max(Workspace(s, sizeof(float)).total, Workspace(s, sizeof(double)).total);
}

Status run(const Problem& p, Call& call) {
  const bool wide = p.q.type == DType::f64 || p.v.type == DType::f64;
  return wide ? Run<double>(p, call).run() : Run<float>(p, call).run();
}

}  // namespace tessera::attention
