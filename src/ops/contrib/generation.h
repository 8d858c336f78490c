// What the operators that generate tokens share (GreedySearch, Sampling, BeamSearch, WhisperBeamSearch): the sequences
// so far, the bodies that give scores for the next token, and the rules that change these scores.
#pragma once
#include "ops/contrib/contrib.h"
#include "ops/control/bodies.h"

namespace tessera::contrib {

enum ModelType { kGpt, kEncoderDecoder, kWhisper };

// What an input of a decoder is, by its name.
enum class Feed { ids, positions, mask, encoder_ids, encoder_mask, hidden, past, past_length, beam_width, indirection };

// A decoder, its inputs in order. Those that are none of the others are caches: of the decoder itself, then those that
// the encoder filled.
struct Decoder {
  BodyRef body;
  std::vector<Feed> feeds;
  bool has(Feed f) const { return std::find(feeds.begin(), feeds.end(), f) != feeds.end(); }
};

struct GenerationParams {
  int model = kGpt;
  int64_t eos = -1, pad = -1, start = -1, ngram = 0, vocab = -1;
  bool early_stopping = false;
  // Sampling.
  float temperature = 1, top_p = 0, filter = -1e20f, presence_penalty = 0;
  int64_t keep = 0;
  bool custom = false;
  // Tokens of Whisper; -1: none.
  int64_t translate = -1, transcribe = -1, start_of_lm = -1, no_speech = -1, no_timestamps = -1, first_timestamp = -1;
  Decoder decoder;
  std::optional<Decoder> first;  // runs instead of `decoder` the first time
  std::optional<BodyRef> encoder;
};
Status parse_generation(Attrs& a, GenerationParams& p);

// Which inputs of the node are which; kAbsent: the operator has none.
struct GenerationInputs {
  int repetition, vocab_mask, prefix_mask, attention_mask, presence_mask = kAbsent, start_ids = kAbsent,
                                                           processor = kAbsent, temperature = kAbsent;
  int64_t longest;
  static constexpr int kAbsent = 64;
};

// One run's numbers, checked.
struct Generation {
  const GenerationParams& p;
  const GenerationInputs& at;
  Call& call;
  int64_t batch = 0, beams = 1, prompt = 0, longest = 0, shortest = 0, vocab = 0;
  float repetition = 1, temperature = 1;
  bool timestamps = false;

  int64_t rows() const { return batch * beams; }
};
Status read_generation(Generation& g);
// The one number of input i; the default if it is absent.
Status read_number(const Call& call, int i, int64_t& out);
Status read_number(const Call& call, int i, float& out);

// The tokens of every row so far.
class Sequences {
 public:
  Status start(const Generation& g, const Tensor& prompt);
  int64_t length() const { return length_; }
  int64_t rows() const { return rows_; }
  std::span<const int32_t> row(int64_t r) const { return {tokens_.data() + r * room_, static_cast<size_t>(length_)}; }
  // Row r becomes the row from[r] with tokens[r] behind it.
  void append(std::span<const int32_t> tokens, std::span<const int32_t> from);

 private:
  std::vector<int32_t> tokens_, other_;
  int64_t rows_ = 0, room_ = 0, length_ = 0;
};

// Where the scores of the next token come from.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // The tokens that every sequence begins with, [batch, prompt].
  virtual Result<Tensor> prompt() = 0;
  // Scores [rows, length, words] or [batch, length, words]: the last of `length` counts.
  virtual Result<Tensor> first(const Sequences& s) = 0;
  // After an append() that took rows `from`.
  virtual Result<Tensor> next(const Sequences& s, std::span<const int32_t> from) = 0;
};
Result<std::unique_ptr<TokenSource>> make_source(Generation& g);

// The scores of the last position, one row of g.vocab for each sequence; g.vocab is settled by the first call.
Status last_scores(Generation& g, const Tensor& logits, std::vector<float>& out);
// Penalties, masks and the like, in the order in which they are applied; `step` counts from 1.
Status process_scores(const Generation& g, const Sequences& s, int64_t step, std::vector<float>& scores);

void generation_types(TypeCall& c);
std::vector<BodyInput> generation_body_inputs(const void* params, std::span<const Fact* const> in);

}  // namespace tessera::contrib
