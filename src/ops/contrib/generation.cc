#include "ops/contrib/generation.h"

#include <cmath>
#include <limits>

#include "core/convert.h"

namespace tessera::contrib {
namespace {

constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr int64_t kLatestFirstTimestamp = 50;

Status get_decoder(Attrs& a, std::string_view name, Decoder& out) {
  static constexpr std::pair<std::string_view, Feed> kNames[] = {
      {"input_ids", Feed::ids},
      {"position_ids", Feed::positions},
      {"attention_mask", Feed::mask},
      {"encoder_input_ids", Feed::encoder_ids},
      {"encoder_attention_mask", Feed::encoder_mask},
      {"encoder_hidden_states", Feed::hidden},
      {"past_sequence_length", Feed::past_length},
      {"beam_width", Feed::beam_width},
      {"cache_indirection", Feed::indirection},
  };
  TRY(get_body(a, name, out.body));
  const ir::Graph& g = *out.body.graph;
  for (const ir::ValueId v : g.inputs()) {
    const std::string& input = g.value(v).name;
    const auto* found = std::find_if(std::begin(kNames), std::end(kNames), [&](auto& n) { return n.first == input; });
    out.feeds.push_back(found == std::end(kNames) ? Feed::past : found->second);
  }
  if (!out.has(Feed::ids)) return invalid_graph("{} has no input 'input_ids'", quote(name));
  if (!out.has(Feed::past)) return invalid_graph("{} has no input for a cache", quote(name));
  if (out.body.outputs() < 2) return invalid_graph("{} has no output for a cache", quote(name));
  return {};
}

Status check_token(const Attrs& a, std::string_view name, int64_t token) {
  return token < -1 || token > INT32_MAX ? a.refuse(name, "a token") : Status{};
}

Status check_mask(const Call& call, int i, std::span<const int64_t> wanted) {
  if (!call.has(i) || call.shape(i) == Shape(wanted)) return {};
  return call.refuse(i, "{}", wanted);
}

// What Whisper allows behind a sequence: timestamps come in pairs and never decrease.
class Timestamps {
 public:
  Timestamps(const Generation& g, std::span<const int32_t> sequence, std::span<float> scores)
      : p_(g.p), sequence_(sequence), scores_(scores), first_(p_.first_timestamp) {}

  void apply() {
    const auto length = static_cast<int64_t>(sequence_.size());
    int64_t begin = 0;
    while (begin < length && sequence_[static_cast<size_t>(begin++)] < first_) {
    }
    forbid(p_.no_timestamps);
    forbid(p_.start_of_lm);
    if (length > begin)
      for (const int64_t t : {p_.start, p_.translate, p_.transcribe}) forbid(t);
    const bool last = length > 0 && sequence_.back() >= first_;
    const bool before = length <= begin || sequence_[static_cast<size_t>(length - 2)] >= first_;
    if (last && before) forbid(first_, vocab());
    if (last && !before) forbid(0, p_.eos);
    keep_order(last && !before);
    if (length == begin) forbid(first_ + kLatestFirstTimestamp + 1, vocab());
    prefer_timestamps();
  }

 private:
  int64_t vocab() const { return static_cast<int64_t>(scores_.size()); }
  void forbid(int64_t token) {
    if (token >= 0) forbid(token, token + 1);
  }
  void forbid(int64_t from, int64_t to) {
    for (int64_t t = std::max<int64_t>(from, 0); t < std::min(to, vocab()); ++t)
      scores_[static_cast<size_t>(t)] = kLowest;
  }
  void keep_order(bool open) {
    int64_t latest = -1;
    for (const int32_t t : sequence_)
      if (t >= first_) latest = t;
    if (latest >= 0) forbid(first_, open ? latest : latest + 1);
  }
  // If all timestamps together are more likely than any text, it is one.
  void prefer_timestamps() {
    const auto text = scores_.first(static_cast<size_t>(first_)), times = scores_.subspan(static_cast<size_t>(first_));
    const float most = *std::max_element(times.begin(), times.end());
    float sum = 0;
    for (const float s : times)
      if (s > kLowest) sum += std::exp(s - most);
    if (sum > 0 && std::log(sum) + most > *std::max_element(text.begin(), text.end())) forbid(0, first_);
  }

  const GenerationParams& p_;
  std::span<const int32_t> sequence_;
  std::span<float> scores_;
  int64_t first_;
};

void punish_repetition(const Generation& g, std::span<const int32_t> sequence, std::span<float> scores) {
  std::vector<bool> seen(scores.size());
  for (const int32_t t : sequence) {
    const auto k = static_cast<size_t>(t);
    if (t < 0 || k >= scores.size() || seen[k]) continue;
    seen[k] = true;
    scores[k] = scores[k] < 0 ? scores[k] * g.repetition : scores[k] / g.repetition;
  }
}

// Tokens that would repeat an n-gram of the sequence.
void forbid_ngrams(int64_t n, std::span<const int32_t> sequence, std::span<float> scores) {
  const auto length = static_cast<int64_t>(sequence.size());
  const int32_t *begin = sequence.data(), *last = begin + length - (n - 1);
  for (int64_t i = 0; i + n <= length; ++i) {
    const int32_t t = begin[i + n - 1];
    if (t >= 0 && static_cast<size_t>(t) < scores.size() && std::equal(begin + i, begin + i + n - 1, last))
      scores[static_cast<size_t>(t)] = kLowest;
  }
}

void forbid_masked(const int32_t* mask, std::span<float> scores) {
  for (size_t k = 0; k < scores.size(); ++k)
    if (mask[k] == 0) scores[k] = kLowest;
}

}  // namespace

Status parse_generation(Attrs& a, GenerationParams& p) {
  int64_t early = 0;
  a.get("model_type", p.model);
  a.get("eos_token_id", p.eos);
  a.get("pad_token_id", p.pad);
  a.get("decoder_start_token_id", p.start);
  a.get("no_repeat_ngram_size", p.ngram);
  a.get("vocab_size", p.vocab);
  a.get("early_stopping", early);
  a.get("temperature", p.temperature);
  a.get("top_p", p.top_p);
  a.get("filter_value", p.filter);
  a.get("presence_penalty", p.presence_penalty);
  a.get("min_tokens_to_keep", p.keep);
  a.get("custom", p.custom);
  a.get("translate_token_id", p.translate);
  a.get("transcribe_token_id", p.transcribe);
  a.get("start_of_lm_token_id", p.start_of_lm);
  a.get("no_speech_token_id", p.no_speech);
  a.get("no_timestamps_token_id", p.no_timestamps);
  a.get("beginning_timestamp_token_id", p.first_timestamp);
  TRY(a.done());
  p.early_stopping = early == 1;
  if (p.model < kGpt || p.model > kWhisper) return a.refuse("model_type", "0, 1 or 2");
  TRY(check_token(a, "eos_token_id", p.eos));
  TRY(check_token(a, "pad_token_id", p.pad));
  TRY(check_token(a, "decoder_start_token_id", p.start));
  if (p.ngram < 0) return a.refuse("no_repeat_ngram_size", "at least 0");
  if (p.keep < 0) return a.refuse("min_tokens_to_keep", "at least 0");
  if (p.vocab < -1 || p.vocab > INT32_MAX) return a.refuse("vocab_size", "the number of tokens, or -1");
  TRY(get_decoder(a, "decoder", p.decoder));
  if (p.model == kGpt) {
    if (a.has("init_decoder")) TRY(get_decoder(a, "init_decoder", p.first.emplace()));
    if (p.first && p.first->feeds.size() != p.decoder.feeds.size())
      return invalid_graph("'init_decoder' has {} inputs and 'decoder' {}", p.first->feeds.size(),
                           p.decoder.feeds.size());
    return {};
  }
  TRY(get_body(a, "encoder", p.encoder.emplace()));
  const int inputs = p.encoder->inputs();
  if (inputs != 2 && !(inputs == 3 && p.model == kEncoderDecoder))
    return invalid_graph("'encoder' has {} inputs, wanted 2{}", inputs, p.model == kEncoderDecoder ? " or 3" : "");
  if (p.model == kEncoderDecoder && p.start < 0) return a.refuse("decoder_start_token_id", "a token");
  return {};
}

Status read_number(const Call& call, int i, int64_t& out) {
  if (!call.has(i)) return {};
  if (call.count(i) != 1) return call.refuse(i, "one number");
  out = *call.in<int32_t>(i);
  return {};
}

Status read_number(const Call& call, int i, float& out) {
  if (!call.has(i)) return {};
  if (call.count(i) != 1) return call.refuse(i, "one number");
  out = *call.in<float>(i);
  return {};
}

Status read_generation(Generation& g) {
  const Call& call = g.call;
  const int rank = g.p.model == kWhisper ? 3 : 2;
  if (call.shape(0).rank() != rank || call.count(0) == 0) return call.refuse(0, "{} dimensions, none empty", rank);
  if (rank == 2 && call.dtype(0) != DType::i32) return call.refuse(0, "tokens of int32");
  g.batch = call.shape(0)[0];
  g.prompt = g.p.model == kGpt ? call.shape(0)[1] : 1;
  g.vocab = g.p.vocab;
  if (call.has(g.at.start_ids) && g.p.model == kWhisper) {
    const Shape& s = call.shape(g.at.start_ids);
    if (s.rank() != 2 || s[0] != g.batch || s[1] < 1) return call.refuse(g.at.start_ids, "[{}, length]", g.batch);
    g.prompt = s[1];
  } else if (g.p.model == kWhisper && g.p.start < 0) {
    return invalid("it has neither 'decoder_start_token_id' nor decoder_input_ids");
  }
  g.longest = g.at.longest;
  TRY(read_number(call, 1, g.longest));
  if (g.longest <= g.prompt || g.longest > g.at.longest)
    return call.refuse(1, "more than {} tokens of the prompt and at most {} (got {})", g.prompt, g.at.longest,
                       g.longest);
  TRY(read_number(call, 2, g.shortest));
  TRY(read_number(call, g.at.repetition, g.repetition));
  if (!(g.repetition > 0)) return call.refuse(g.at.repetition, "more than 0");
  g.temperature = g.p.temperature;
  TRY(read_number(call, g.at.temperature, g.temperature));
  int64_t processor = 0;
  TRY(read_number(call, g.at.processor, processor));
  if (processor < 0) return call.refuse(g.at.processor, "at least 0");
  g.timestamps = processor == 1 && g.p.model == kWhisper;
  int64_t cells = 0;
  if (!checked_mul(g.batch, g.beams, &cells) || !checked_mul(cells, g.longest, &cells) || cells > INT32_MAX)
    return call.refuse(0, "fewer sequences");
  if (g.p.model != kWhisper) TRY(check_mask(call, g.at.attention_mask, call.shape(0).dims()));
  return {};
}

Status Sequences::start(const Generation& g, const Tensor& prompt) {
  rows_ = g.rows();
  room_ = g.longest;
  length_ = g.prompt;
  tokens_.assign(static_cast<size_t>(rows_ * room_), 0);
  other_ = tokens_;
  for (int64_t r = 0; r < rows_; ++r)
    std::copy_n(static_cast<const int32_t*>(prompt.data()) + r / g.beams * length_, length_,
                tokens_.data() + r * room_);
  return {};
}

void Sequences::append(std::span<const int32_t> tokens, std::span<const int32_t> from) {
  for (int64_t r = 0; r < rows_; ++r) {
    int32_t* to = other_.data() + r * room_;
    std::copy_n(tokens_.data() + from[static_cast<size_t>(r)] * room_, length_, to);
    to[length_] = tokens[static_cast<size_t>(r)];
  }
  std::swap(tokens_, other_);
  ++length_;
}

Status last_scores(Generation& g, const Tensor& logits, std::vector<float>& out) {
  const Shape& s = logits.shape();
  if (s.rank() != 3 || (s[0] != g.rows() && s[0] != g.batch) || s[1] < 1 || s[2] < 2)
    return invalid("the scores of the decoder are {}, wanted [{}, length, tokens]", s.dims(), g.rows());
  if (!(kFloats.has(logits.dtype()))) return invalid("the scores of the decoder are {}", name_of(logits.dtype()));
  if (g.vocab <= 0) g.vocab = s[2];
  if (g.vocab > s[2]) return invalid("'vocab_size' is {}, but the decoder scores {} tokens", g.vocab, s[2]);
  if (g.vocab < 2) return invalid("'vocab_size' is {}, wanted at least 2", g.vocab);
  int64_t cells = 0;
  if (!checked_mul(g.rows(), g.vocab, &cells) || cells > INT32_MAX) return invalid("there are too many scores");
  out.resize(static_cast<size_t>(cells));
  for (int64_t r = 0; r < g.rows(); ++r) {
    const int64_t source = s[0] == g.rows() ? r : r / g.beams;
    decode(logits.dtype(), logits.data(), ((source + 1) * s[1] - 1) * s[2], g.vocab, out.data() + r * g.vocab);
  }
  return {};
}

Status process_scores(const Generation& g, const Sequences& s, int64_t step, std::vector<float>& scores) {
  const Call& call = g.call;
  TRY(check_mask(call, g.at.vocab_mask, std::array{g.vocab}));
  TRY(check_mask(call, g.at.prefix_mask, std::array{g.batch, g.vocab}));
  TRY(check_mask(call, g.at.presence_mask, std::array{g.batch, g.vocab}));
  if (g.timestamps && (g.p.first_timestamp < 1 || g.p.first_timestamp >= g.vocab))
    return invalid("'beginning_timestamp_token_id' is {}, wanted a token below {}", g.p.first_timestamp, g.vocab);
  for (int64_t r = 0; r < g.rows(); ++r) {
    const std::span<float> row(scores.data() + r * g.vocab, static_cast<size_t>(g.vocab));
    const auto sequence = s.row(r);
    const int64_t sample = r / g.beams * g.vocab;
    if (g.repetition != 1) punish_repetition(g, sequence, row);
    if (g.p.ngram > 0) forbid_ngrams(g.p.ngram, sequence, row);
    if (call.has(g.at.vocab_mask)) forbid_masked(call.in<int32_t>(g.at.vocab_mask), row);
    if (call.has(g.at.prefix_mask) && step == 1) forbid_masked(call.in<int32_t>(g.at.prefix_mask) + sample, row);
    if (s.length() < g.shortest && g.p.eos >= 0 && g.p.eos < g.vocab) row[static_cast<size_t>(g.p.eos)] = kLowest;
    if (g.temperature > 0 && g.temperature != 1)
      for (float& v : row) v /= g.temperature;
    if (call.has(g.at.presence_mask) && g.p.presence_penalty != 0)
      for (size_t k = 0; k < row.size(); ++k)
        row[k] -= static_cast<float>(call.in<int32_t>(g.at.presence_mask)[static_cast<size_t>(sample) + k]) *
                  g.p.presence_penalty;
    if (g.timestamps) Timestamps(g, sequence, row).apply();
  }
  return {};
}

void generation_types(TypeCall& c) {
  for (size_t o = 0; o < c.out.size(); ++o) c.out[o] = {Kind::tensor, o == 0 ? DType::i32 : DType::f32, Kind::tensor};
}

std::vector<BodyInput> generation_body_inputs(const void*, std::span<const Fact* const>) { return {}; }

}  // namespace tessera::contrib
