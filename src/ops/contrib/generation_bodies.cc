// The bodies of the operators that generate tokens: what goes into a decoder, and what of it comes back the next time.
#include <numeric>

#include "ops/contrib/generation.h"

namespace tessera::contrib {
namespace {

Result<Tensor> integers(Shape shape, std::span<const int32_t> values) { return Tensor::of<int32_t>(shape, values); }

bool in_order(std::span<const int32_t> from) {
  for (size_t i = 0; i < from.size(); ++i)
    if (from[i] != static_cast<int32_t>(i)) return false;
  return true;
}

// Entry r of the axis is the old entry from[r].
Result<Tensor> pick(const Tensor& t, int axis, std::span<const int32_t> from) {
  std::vector<int64_t> dims(t.shape().dims().begin(), t.shape().dims().end());
  const Slices s = t.shape().around(axis);
  dims[static_cast<size_t>(axis)] = static_cast<int64_t>(from.size());
  TRY_ASSIGN(shape, Shape::checked(dims));
  TRY_ASSIGN(out, Tensor::allocate(t.dtype(), std::move(shape)));
  const auto bytes = static_cast<size_t>(s.inner * bits_of(t.dtype()) / 8);
  auto* to = static_cast<std::byte*>(out.mutable_data());
  const auto* data = static_cast<const std::byte*>(t.data());
  for (int64_t o = 0; o < s.outer; ++o)
    for (const int32_t r : from) to = std::copy_n(data + static_cast<size_t>(o * s.length + r) * bytes, bytes, to);
  return std::move(out);
}

// The same with every entry `times` times.
Result<Tensor> repeat(const Tensor& t, int64_t times) {
  std::vector<int32_t> from(static_cast<size_t>(t.shape()[0] * times));
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<int32_t>(static_cast<int64_t>(i) / times);
  return pick(t, 0, from);
}

// What every decoder needs: its inputs, and the caches between its runs.
class DecoderSource : public TokenSource {
 public:
  explicit DecoderSource(Generation& g, int row_axis) : g_(g), row_axis_(row_axis), in_(g.p.decoder.feeds.size()) {
    indirection_.assign(g.p.decoder.has(Feed::indirection) ? static_cast<size_t>(g.rows() * g.longest) : 0, 0);
    if (shared()) room_ = g.longest;
  }

 protected:
  // Caches are buffers of the greatest length, of which a part is in use.
  bool shared() const { return g_.p.decoder.has(Feed::past_length); }

  Result<Tensor> run(const Decoder& decoder) {
    if (g_.call.cancelled()) return g_.call.stopped();
    std::vector<Value> in(in_), out(static_cast<size_t>(decoder.body.outputs()));
    for (size_t i = 0; i < in_.size(); ++i)
      if (decoder.feeds[i] == Feed::past && cache_moves(i)) in_[i] = Value();
    TRY(g_.call.body(decoder.body.index).run(in, out));
    TRY_ASSIGN(logits, tensor_of(out[0]));
    present_.assign(std::make_move_iterator(out.begin() + 1), std::make_move_iterator(out.end()));
    return std::move(logits);
  }

  static Result<Tensor> tensor_of(const Value& v) {
    if (const Tensor* t = v.tensor()) return Tensor(*t);
    return invalid("an output of a body is {}, wanted a tensor", v.describe());
  }

  // Caches that the decoder gives back: as many as it has outputs.
  bool cache_moves(size_t input) const {
    size_t before = 0;
    for (size_t i = 0; i < input; ++i) before += g_.p.decoder.feeds[i] == Feed::past;
    return before < static_cast<size_t>(g_.p.decoder.body.outputs() - 1);
  }

  Status set(Feed feed, Result<Tensor> t) {
    if (!t.ok()) return t.take_status();
    for (size_t i = 0; i < in_.size(); ++i)
      if (g_.p.decoder.feeds[i] == feed) in_[i] = *t;
    return {};
  }

  // An empty cache, sized as the body says.
  Status clear_cache(size_t input, int64_t heads_axis) {
    const Fact& f = g_.p.decoder.body.input(static_cast<int>(input));
    const auto rank = static_cast<size_t>(row_axis_ + 4), heads = static_cast<size_t>(heads_axis);
    if (!f.shape || f.shape->size() != rank || !known((*f.shape)[heads]) || !known((*f.shape)[heads + 2]))
      return invalid("the cache {} of the decoder is declared as {}, wanted numbers for heads and their size",
                     quote(g_.p.decoder.body.graph->value(g_.p.decoder.body.graph->inputs()[input]).name), f.str());
    std::vector<int64_t> dims{g_.rows(), number((*f.shape)[heads]), room_, number((*f.shape)[heads + 2])};
    if (row_axis_ == 1) dims.insert(dims.begin(), 2);
    TRY_ASSIGN(shape, Shape::checked(dims));
    TRY_ASSIGN(t, Tensor::allocate(f.dtype, std::move(shape)));
    std::fill_n(static_cast<std::byte*>(t.mutable_data()), t.bytes(), std::byte{});
    in_[input] = std::move(t);
    return {};
  }

  // What came out goes in again, for the rows that go on.
  Status return_caches(std::span<const int32_t> from) {
    const bool as_is = in_order(from) || !indirection_.empty();
    size_t k = 0;
    for (size_t i = 0; i < in_.size() && k < present_.size(); ++i) {
      if (g_.p.decoder.feeds[i] != Feed::past) continue;
      TRY_ASSIGN(cache, tensor_of(present_[k]));
      present_[k++] = Value();
      if (cache.shape().rank() != row_axis_ + 4 || cache.shape()[row_axis_] != g_.rows() || !kFloats.has(cache.dtype()))
        return invalid("a cache of the decoder is {}, wanted {} sequences", cache.shape().dims(), g_.rows());
      if (as_is) {
        in_[i] = std::move(cache);
        continue;
      }
      TRY_ASSIGN(picked, pick(cache, row_axis_, from));
      in_[i] = std::move(picked);
    }
    return {};
  }

  // How much of a shared cache is in use, and in which beam's part of it each token is.
  Status set_cache_state(int64_t used) {
    const auto one = [](int64_t v) { return integers(Shape{1}, std::array{static_cast<int32_t>(v)}); };
    if (shared()) TRY(set(Feed::past_length, one(used)));
    if (g_.p.decoder.has(Feed::beam_width)) TRY(set(Feed::beam_width, one(g_.beams)));
    if (!indirection_.empty())
      TRY(set(Feed::indirection, integers(Shape{g_.batch, g_.beams, g_.longest}, indirection_)));
    return {};
  }
  void follow_beams(std::span<const int32_t> from, int64_t last) {
    if (indirection_.empty()) return;
    std::vector<int32_t> now(indirection_);
    for (size_t r = 0; r < from.size(); ++r) {
      std::copy_n(indirection_.data() + from[r] * g_.longest, g_.longest,
                  now.data() + static_cast<int64_t>(r) * g_.longest);
      now[r * static_cast<size_t>(g_.longest) + static_cast<size_t>(last)] = static_cast<int32_t>(from[r] % g_.beams);
    }
    indirection_ = std::move(now);
  }

  Result<Tensor> last_tokens(const Sequences& s) const {
    std::vector<int32_t> ids;
    for (int64_t r = 0; r < g_.rows(); ++r) ids.push_back(s.row(r).back());
    return integers(Shape{g_.rows(), 1}, ids);
  }

  Generation& g_;
  const int row_axis_;
  int64_t room_ = 0;
  std::vector<Value> in_, present_;
  std::vector<int32_t> indirection_;
};

// ------------------------------------------------------------------------------------ a decoder alone

class GptSource : public DecoderSource {
 public:
  explicit GptSource(Generation& g) : DecoderSource(g, 1) {}

  Result<Tensor> prompt() override {
    TRY_ASSIGN(v, g_.call.value(0));
    return tensor_of(v);
  }

  Result<Tensor> first(const Sequences& s) override {
    const int32_t* mask = g_.call.has(g_.at.attention_mask) ? g_.call.in<int32_t>(g_.at.attention_mask) : nullptr;
    std::vector<int32_t> ids, positions;
    for (int64_t r = 0; r < g_.rows(); ++r) {
      int32_t position = 0;
      for (int64_t i = 0; i < g_.prompt; ++i) {
        const int32_t id = s.row(r)[static_cast<size_t>(i)];
        const bool padded = id == g_.p.pad;
        ids.push_back(id);
        positions.push_back(padded ? 0 : position);
        mask_.push_back(mask ? mask[r / g_.beams * g_.prompt + i] : !padded);
        position += !padded;
      }
      positions_.push_back(position);
    }
    const Shape shape{g_.rows(), g_.prompt};
    TRY(set(Feed::ids, integers(shape, ids)));
    TRY(set(Feed::positions, integers(shape, positions)));
    TRY(set(Feed::mask, integers(shape, mask_)));
    for (size_t i = 0; i < in_.size(); ++i)
      if (g_.p.decoder.feeds[i] == Feed::past) TRY(clear_cache(i, 2));
    TRY(set_cache_state(0));
    return run(g_.p.first ? *g_.p.first : g_.p.decoder);
  }

  Result<Tensor> next(const Sequences& s, std::span<const int32_t> from) override {
    const auto rows = static_cast<size_t>(g_.rows()), length = static_cast<size_t>(s.length());
    TRY(set(Feed::ids, last_tokens(s)));
    TRY(set(Feed::positions, integers(Shape{g_.rows(), 1}, positions_)));
    std::vector<int32_t> mask;
    for (size_t r = 0; r < rows; ++r) {
      mask.insert(mask.end(), mask_.data() + r * (length - 1), mask_.data() + (r + 1) * (length - 1));
      mask.push_back(1);
      ++positions_[r];
    }
    mask_ = std::move(mask);
    TRY(set(Feed::mask, integers(Shape{g_.rows(), s.length()}, mask_)));
    TRY(return_caches(from));
    if (s.length() > g_.prompt + 1) follow_beams(from, s.length() - 2);
    TRY(set_cache_state(s.length() - 1));
    return run(g_.p.decoder);
  }

 private:
  std::vector<int32_t> mask_, positions_;
};

// ------------------------------------------------------------------------------------ encoder and decoder

class EncoderSource : public DecoderSource {
 public:
  explicit EncoderSource(Generation& g) : DecoderSource(g, 0) {}

  Result<Tensor> prompt() override {
    if (g_.p.model == kWhisper && g_.call.has(g_.at.start_ids)) {
      TRY_ASSIGN(v, g_.call.value(g_.at.start_ids));
      return tensor_of(v);
    }
    const std::vector<int32_t> ids(static_cast<size_t>(g_.batch), static_cast<int32_t>(g_.p.start));
    return integers(Shape{g_.batch, 1}, ids);
  }

  Result<Tensor> first(const Sequences& s) override {
    std::vector<Value> in, out(static_cast<size_t>(g_.p.encoder->outputs()));
    TRY_ASSIGN(source, g_.call.value(0));
    in.push_back(source);
    Tensor mask;
    if (g_.p.model == kEncoderDecoder) {
      TRY_ASSIGN(m, encoder_mask());
      mask = m;
      in.push_back(std::move(m));
    }
    if (g_.p.encoder->inputs() > static_cast<int>(in.size())) {
      TRY_ASSIGN(start, prompt());
      in.push_back(std::move(start));
    }
    TRY(g_.call.body(g_.p.encoder->index).run(in, out));
    TRY(feed_encoded(source, mask, out));
    if (gave_scores_) return tensor_of(out[0]);
    TRY(set(Feed::ids, last_tokens(s)));
    TRY(set_cache_state(0));
    return run(g_.p.decoder);
  }

  Result<Tensor> next(const Sequences& s, std::span<const int32_t> from) override {
    TRY(set(Feed::ids, takes_sequence() ? all_tokens(s) : last_tokens(s)));
    // After the encoder's own scores all beams of a sample are the same.
    if (!present_.empty()) {
      TRY(return_caches(from));
      follow_beams(from, s.length() - 2);
    }
    TRY(set_cache_state(s.length() - 1));
    return run(g_.p.decoder);
  }

 private:
  // Padding counts only in front.
  Result<Tensor> encoder_mask() const {
    if (g_.call.has(g_.at.attention_mask)) {
      TRY_ASSIGN(v, g_.call.value(g_.at.attention_mask));
      return tensor_of(v);
    }
    const int64_t length = g_.call.shape(0)[1];
    const int32_t* ids = g_.call.in<int32_t>(0);
    std::vector<int32_t> mask;
    for (int64_t b = 0; b < g_.batch; ++b) {
      bool begun = false;
      for (int64_t i = 0; i < length; ++i) {
        begun = begun || ids[b * length + i] != g_.p.pad;
        mask.push_back(begun);
      }
    }
    return integers(g_.call.shape(0), mask);
  }

  // An encoder with a decoder in it gives scores, its own output and all caches; another one what is seen across alone.
  Status feed_encoded(const Value& source, const Tensor& mask, std::span<const Value> out) {
    const auto pasts =
        static_cast<size_t>(std::count(g_.p.decoder.feeds.begin(), g_.p.decoder.feeds.end(), Feed::past));
    gave_scores_ = out.size() == pasts + 2;
    const size_t moving = static_cast<size_t>(g_.p.decoder.body.outputs() - 1);
    if (!gave_scores_ && (out.size() + moving != pasts || g_.p.model == kWhisper))
      return invalid("'encoder' has {} outputs, but 'decoder' wants {} caches", out.size(), pasts);
    if (!gave_scores_ && g_.p.decoder.has(Feed::hidden))
      return invalid("'decoder' wants encoder_hidden_states, which 'encoder' does not give");
    size_t k = 0;
    for (size_t i = 0; i < in_.size(); ++i) {
      const Feed feed = g_.p.decoder.feeds[i];
      if (feed == Feed::encoder_ids) TRY(feed_repeated(i, source));
      if (feed == Feed::encoder_mask) TRY(feed_repeated(i, mask));
      if (feed == Feed::hidden) TRY(feed_repeated(i, out[1]));
      if (feed != Feed::past) continue;
      const size_t number = k++;
      if (gave_scores_) {
        TRY(feed_repeated(i, out[number + 2], number < moving));
      } else if (number < moving) {
        TRY(clear_cache(i, 1));
      } else {
        TRY(feed_repeated(i, out[number - moving]));
      }
    }
    return {};
  }

  Status feed_repeated(size_t input, const Value& v, bool grows = false) {
    TRY_ASSIGN(t, tensor_of(v));
    if (t.shape().rank() < 2 || t.shape()[0] != g_.batch || t.dtype() == DType::string)
      return invalid("an output of 'encoder' is {}, wanted {} samples", t.shape().dims(), g_.batch);
    TRY_ASSIGN(rows, repeat(t, g_.beams));
    if (grows && room_ > 0) {
      TRY_ASSIGN(wide, widen(rows));
      in_[input] = std::move(wide);
    } else {
      in_[input] = std::move(rows);
    }
    return {};
  }

  // [rows, heads, length, size] in a buffer of the greatest length.
  Result<Tensor> widen(const Tensor& t) const {
    const Shape& s = t.shape();
    if (s.rank() != 4 || s[2] > room_) return invalid("a cache of 'encoder' is {}", s.dims());
    TRY_ASSIGN(shape, Shape::checked(std::array{s[0], s[1], room_, s[3]}));
    TRY_ASSIGN(out, Tensor::allocate(t.dtype(), std::move(shape)));
    const int64_t width = s[3] * bits_of(t.dtype()) / 8;
    auto* to = static_cast<std::byte*>(out.mutable_data());
    std::fill_n(to, out.bytes(), std::byte{});
    for (int64_t r = 0; r < s[0] * s[1]; ++r)
      std::copy_n(static_cast<const std::byte*>(t.data()) + r * s[2] * width, s[2] * width, to + r * room_ * width);
    return std::move(out);
  }

  // A decoder whose tokens are declared to be one at a time gets the last one, another one the whole sequence.
  bool takes_sequence() const {
    for (size_t i = 0; i < in_.size(); ++i) {
      if (g_.p.decoder.feeds[i] != Feed::ids) continue;
      const Fact& f = g_.p.decoder.body.input(static_cast<int>(i));
      return !(f.rank() == 2 && known((*f.shape)[1]) && number((*f.shape)[1]) == 1);
    }
    return false;
  }

  Result<Tensor> all_tokens(const Sequences& s) const {
    std::vector<int32_t> ids;
    for (int64_t r = 0; r < g_.rows(); ++r) ids.insert(ids.end(), s.row(r).begin(), s.row(r).end());
    return integers(Shape{g_.rows(), s.length()}, ids);
  }

  bool gave_scores_ = false;
};

}  // namespace

Result<std::unique_ptr<TokenSource>> make_source(Generation& g) {
  std::unique_ptr<TokenSource> source;
  if (g.p.model == kGpt)
    source = std::make_unique<GptSource>(g);
  else
    source = std::make_unique<EncoderSource>(g);
  return source;
}

}  // namespace tessera::contrib
