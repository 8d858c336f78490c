#include "ops/contrib/group_query.h"

#include <cmath>
#include <cstring>

#include "core/convert.h"
#include "ops/nn/rotary.h"

namespace tessera::contrib {
namespace {
using namespace group_query;

// Rows of a cache as floats. Integers have a scale for all, or one for each element of each head.
class CacheRows {
 public:
  CacheRows(const GroupParams& p, const Call& call, int scale, DType type, int64_t size)
      : bits_(p.bits), type_(type), size_(size), width_(p.cached(size)) {
    if (p.bits == 0) return;
    scales_ = call.in<float>(scale);
    per_channel_ = call.count(scale) > 1;
  }

  int64_t row_bytes() const { return width_ * bits_of(type_) / 8; }
  void read(const std::byte* row, int64_t head, float* out) const {
    if (bits_ == 0) return decode(type_, row, 0, size_, out);
    for (int64_t i = 0; i < size_; ++i) out[i] = static_cast<float>(number(row, i)) * scale(head, i);
  }
  void write(const float* x, int64_t head, std::byte* row) const {
    if (bits_ == 0) return encode(type_, row, 0, size_, x);
    std::fill_n(row, width_, std::byte{0});
    for (int64_t i = 0; i < size_; ++i) {
      const float s = scale(head, i), inverse = s != 0 ? 1 / s : 1;
      const float least = bits_ == 8 ? -128.f : -8.f, most = bits_ == 8 ? 127.f : 7.f, q = std::rint(x[i] * inverse);
      const int v = q >= most ? static_cast<int>(most) : q >= least ? static_cast<int>(q) : static_cast<int>(least);
      if (bits_ == 8)
        row[i] = static_cast<std::byte>(v);
      else
        row[i / 2] |= static_cast<std::byte>((v + 8) << (i % 2 ? 4 : 0));
    }
    if (bits_ == 4 && size_ % 2) row[width_ - 1] |= std::byte{8 << 4};
  }

 private:
  int number(const std::byte* row, int64_t i) const {
    if (bits_ == 8) return static_cast<int8_t>(row[i]);
    const int byte = static_cast<uint8_t>(row[i / 2]);
    return (i % 2 ? byte >> 4 : byte & 15) - 8;
  }
  float scale(int64_t head, int64_t i) const { return per_channel_ ? scales_[head * size_ + i] : scales_[0]; }

  int bits_;
  DType type_;
  int64_t size_, width_;
  const float* scales_ = nullptr;
  bool per_channel_ = false;
};

// What one head of keys of one sample sees: rows for the positions from `first` on.
struct Seen {
  std::vector<float> k, v;
  int64_t first = 0, rows = 0;
};

class GeneralRun {
 public:
  GeneralRun(const GroupParams& p, Call& call)
      : p_(p),
        call_(call),
        type_(call.dtype(kQuery)),
        batch_(call.shape(kQuery)[0]),
        length_(call.shape(kQuery)[1]),
        packed_(!call.has(kKey)),
        size_(call.shape(kQuery)[2] / (packed_ ? p.heads + 2 * p.kv_heads : p.heads)),
        total_(call.in<int32_t>(kTotal)[0]),
        past_room_(call.has(kPastK) ? call.shape(kPastK)[2] : 0),
        room_(p.windowed ? past_room_ : std::max(total_, past_room_)),
        rows_{{p, call, kScaleK, cache_type(kPastK, kPresentK), size_},
              {p, call, kScaleV, cache_type(kPastV, kPresentV), size_}} {
    scale_ = p.scale != 0 ? p.scale : static_cast<float>(1 / std::sqrt(static_cast<double>(size_)));
  }

  Status run() {
    TRY(read_lengths());
    TRY(read_angles());
    clear_outputs();
    call_.parallel(batch_ * p_.kv_heads, [&](int64_t i, int) {
      if (call_.cancelled()) return;
      const int64_t b = i / p_.kv_heads, head = i % p_.kv_heads;
      Seen seen = gather(b, head);
      keep(b, head, seen);
      const int64_t group = p_.heads / p_.kv_heads;
      for (int64_t h = head * group; h < (head + 1) * group; ++h) attend(b, h, seen);
    });
    return call_.cancelled() ? call_.stopped() : Status{};
  }

 private:
  DType cache_type(int input, int output) const {
    if (call_.has(input)) return call_.dtype(input);
    return call_.wants(output) ? call_.out_dtype(output) : p_.bits == 8 ? DType::i8 : p_.bits ? DType::u8 : type_;
  }

  // Of a cache that drops positions, how many it holds after `tokens`.
  int64_t resident(int64_t tokens) const {
    if (!p_.windowed || tokens <= room_) return tokens;
    const int64_t step = room_ - p_.window + 1;
    return tokens - step * ceil_div(tokens - room_, step);
  }

  Status read_lengths() {
    if (p_.windowed && (!call_.has(kPastK) || past_room_ < p_.window))
      return call_.refuse(kQuery, "a cache of at least {} rows", p_.window);
    const bool prompt = length_ == total_;
    for (int64_t b = 0; b < batch_; ++b) {
      const int64_t all = int64_t{call_.in<int32_t>(kSeqLens)[b]} + 1, past = prompt ? 0 : all - length_;
      if (all < 1 || all > total_ || past < 0)
        return call_.refuse(kSeqLens, "lengths (less one) of at most {} keys (sample {} has {})", total_, b, all - 1);
      if (past > 0 && resident(past) > past_room_)
        return call_.refuse(kSeqLens, "no more keys than the cache holds (sample {} has {})", b, all - 1);
      ends_.push_back(all);
      pasts_.push_back(past);
    }
    return {};
  }

  Status read_angles() {
    if (!p_.rotary) return {};
    const int64_t positions = call_.shape(kCos)[0];
    half_ = call_.shape(kCos)[1];
    for (int64_t i = 0; i < batch_ * length_; ++i) {
      const int64_t b = i / length_;
      const int64_t at =
          call_.has(kPositions) ? call_.in<int64_t>(kPositions)[i] : pasts_[static_cast<size_t>(b)] + i % length_;
      if (at < 0 || at >= positions)
        return call_.refuse(call_.has(kPositions) ? kPositions : kSeqLens, "positions from 0 to {} (got {})",
                            positions - 1, at);
      places_.push_back(at);
    }
    for (const auto& [input, table] : {std::pair(kCos, &cos_), std::pair(kSin, &sin_)}) {
      table->resize(static_cast<size_t>(call_.count(input)));
      decode(call_.dtype(input), call_.in(input), 0, call_.count(input), table->data());
    }
    return {};
  }

  // Nothing is left of what lies behind a sample.
  void clear_outputs() {
    for (const int o : {+kPresentK, +kPresentV})
      if (auto* y = call_.out<std::byte>(o); y && y != call_.maybe<std::byte>(o == kPresentK ? kPastK : kPastV))
        std::fill_n(y, bytes_for(call_.out_dtype(o), call_.out_count(o)).value_or(0), std::byte{0});
    if (auto* y = call_.out<std::byte>(kQk))
      std::fill_n(y, bytes_for(call_.out_dtype(kQk), call_.out_count(kQk)).value_or(0), std::byte{0});
  }

  // Row i of a head of queries (part 0), keys or values, rotated unless it is a value.
  void fresh(int part, int64_t b, int64_t head, int64_t i, float* out) const {
    const int64_t row = b * length_ + i, heads = part == 0 ? p_.heads : p_.kv_heads;
    const int64_t before = part == 0 ? 0 : p_.heads + (part - 1) * p_.kv_heads;
    const int64_t at = packed_ ? row * (p_.heads + 2 * p_.kv_heads) + before + head : row * heads + head;
    decode(type_, call_.in(packed_ ? static_cast<int>(kQuery) : part), at * size_, size_, out);
    if (!p_.rotary || part == 2) return;
    Rotation{cos_.data(), sin_.data(), half_, p_.interleaved}.apply(places_[static_cast<size_t>(row)], out, size_, out);
    if (type_ == DType::f32) return;
    std::vector<uint16_t> rounded(static_cast<size_t>(size_));
    encode(type_, rounded.data(), 0, size_, out);
    decode(type_, rounded.data(), 0, size_, out);
  }

  const std::byte* past_row(int part, int64_t b, int64_t head, int64_t row) const {
    return call_.in<std::byte>(part == 0 ? kPastK : kPastV) +
           ((b * p_.kv_heads + head) * past_room_ + row) * rows_[part].row_bytes();
  }

  // The rows of the cache, and behind them the new ones as the cache will give them back.
  Seen gather(int64_t b, int64_t head) const {
    const int64_t past = pasts_[static_cast<size_t>(b)], held = resident(past);
    const int64_t fresh_rows = std::min(length_, ends_[static_cast<size_t>(b)] - past);
    Seen s;
    s.first = past - held;
    s.rows = held + fresh_rows;
    std::vector<std::byte> bytes(static_cast<size_t>(std::max(rows_[0].row_bytes(), rows_[1].row_bytes())));
    for (const int part : {0, 1}) {
      std::vector<float>& out = part == 0 ? s.k : s.v;
      out.resize(static_cast<size_t>(s.rows * size_));
      for (int64_t r = 0; r < s.rows; ++r) {
        float* to = out.data() + r * size_;
        if (r < held) {
          rows_[part].read(past_row(part, b, head, r), head, to);
          continue;
        }
        fresh(part + 1, b, head, r - held, to);
        rows_[part].write(to, head, bytes.data());
        rows_[part].read(bytes.data(), head, to);
      }
    }
    return s;
  }

  // What a cache holds was read already, so it may lie where it did. Rows that were there keep their bits.
  void keep(int64_t b, int64_t head, const Seen& s) {
    const int64_t end = ends_[static_cast<size_t>(b)], held = resident(end), skip = end - held - s.first;
    const int64_t old = resident(pasts_[static_cast<size_t>(b)]);
    for (const int part : {0, 1}) {
      auto* to = call_.out<std::byte>(part == 0 ? kPresentK : kPresentV);
      if (!to) continue;
      to += (b * p_.kv_heads + head) * room_ * rows_[part].row_bytes();
      const int64_t bytes = rows_[part].row_bytes();
      for (int64_t r = 0; r < held; ++r) {
        if (skip + r < old)
          std::memmove(to + r * bytes, past_row(part, b, head, skip + r), static_cast<size_t>(bytes));
        else
          rows_[part].write((part == 0 ? s.k : s.v).data() + (skip + r) * size_, head, to + r * bytes);
      }
    }
  }

  float score_bias(int64_t b, int64_t h, int64_t i, int64_t position) const {
    if (!call_.has(kScoreBias)) return 0;
    const Shape& s = call_.shape(kScoreBias);
    float v = 0;
    const int64_t sample = s[0] == 1 ? 0 : b, head = s[1] == 1 ? 0 : h;
    decode(call_.dtype(kScoreBias), call_.in(kScoreBias), ((sample * s[1] + head) * s[2] + i) * s[3] + position, 1, &v);
    return v;
  }

  void attend(int64_t b, int64_t h, const Seen& s) {
    std::vector<float> q(static_cast<size_t>(size_)), y(q), scores;
    const int64_t past = pasts_[static_cast<size_t>(b)], end = ends_[static_cast<size_t>(b)];
    for (int64_t i = 0; i < length_; ++i) {
      const int64_t stop = p_.causal ? std::min(past + i + 1, end) : end;
      const int64_t start = std::max(s.first, p_.window < 0 ? 0 : stop - p_.window);
      fresh(0, b, h, i, q.data());
      scores.assign(static_cast<size_t>(std::max<int64_t>(0, stop - start)), 0.f);
      for (int64_t t = start; t < stop; ++t) {
        float dot = 0;
        for (int64_t e = 0; e < size_; ++e)
          dot += q[static_cast<size_t>(e)] * s.k[static_cast<size_t>((t - s.first) * size_ + e)];
        dot *= scale_;
        if (p_.softcap > 0) dot = p_.softcap * std::tanh(dot / p_.softcap);
        scores[static_cast<size_t>(t - start)] = dot + score_bias(b, h, i, t);
      }
      show(1, b, h, i, start, scores);
      soften(h, scores);
      show(2, b, h, i, start, scores);
      std::fill(y.begin(), y.end(), 0.f);
      for (int64_t t = start; t < stop; ++t)
        for (int64_t e = 0; e < size_; ++e)
          y[static_cast<size_t>(e)] +=
              scores[static_cast<size_t>(t - start)] * s.v[static_cast<size_t>((t - s.first) * size_ + e)];
      encode(call_.out_dtype(kOut), call_.out(kOut), ((b * length_ + i) * p_.heads + h) * size_, size_, y.data());
    }
  }

  void soften(int64_t h, std::vector<float>& scores) const {
    float sink = 0, sum = 0, most = -INFINITY;
    const bool extra = p_.smooth || call_.has(kHeadSink);
    if (call_.has(kHeadSink)) decode(call_.dtype(kHeadSink), call_.in(kHeadSink), h, 1, &sink);
    if (extra) most = sink;
    for (const float s : scores) most = std::max(most, s);
    if (extra) sum = std::exp(sink - most);
    for (float& s : scores) sum += s = std::exp(s - most);
    for (float& s : scores) s /= sum;
  }

  void show(int when, int64_t b, int64_t h, int64_t i, int64_t start, const std::vector<float>& scores) {
    if (p_.qk != when || !call_.wants(kQk)) return;
    encode(call_.out_dtype(kQk), call_.out(kQk), ((b * p_.heads + h) * length_ + i) * total_ + start,
           static_cast<int64_t>(scores.size()), scores.data());
  }

  const GroupParams& p_;
  Call& call_;
  DType type_;
  int64_t batch_, length_;
  bool packed_;
  int64_t size_, total_, past_room_, room_;
  CacheRows rows_[2];
  float scale_;
  int64_t half_ = 0;
  std::vector<int64_t> ends_, pasts_, places_;
  std::vector<float> cos_, sin_;
};

Status check_scales(const GroupParams& p, const Call& call, int64_t size) {
  for (const int i : {+kScaleK, +kScaleV})
    if (p.bits > 0 && (!call.has(i) || (call.count(i) != 1 && call.count(i) != p.kv_heads * size)))
      return call.refuse(kQuery, "scales of the cache: one, or one for each element of each head");
  return {};
}

}  // namespace

Status compute_group_query_general(const GroupParams& p, Call& call) {
  const int64_t parts = call.has(kKey) ? p.heads : p.heads + 2 * p.kv_heads;
  TRY(check_scales(p, call, call.shape(kQuery)[2] / parts));
  return GeneralRun(p, call).run();
}

}  // namespace tessera::contrib
