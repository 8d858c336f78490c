// BeamSearch, WhisperBeamSearch — the likeliest sequences, by keeping the best few beginnings at every step.
#include <cmath>
#include <limits>
#include <numeric>

#include "ops/contrib/generation.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kArity{in_arg(0) | in_arg(1) | in_arg(3) | in_arg(4), 12, 3};
constexpr Arity kWhisperArity{in_arg(0) | in_arg(1) | in_arg(3) | in_arg(4), 15, 5};
constexpr GenerationInputs kInputs{.repetition = 6,
                                   .vocab_mask = 7,
                                   .prefix_mask = 8,
                                   .attention_mask = 9,
                                   .start_ids = 10,
                                   .processor = 11,
                                   .temperature = 14,
                                   .longest = 4096};
constexpr int64_t kMostBeams = 128;
constexpr float kUnlikely = -1e9f;

// A possible next token of one sample.
struct Candidate {
  float score;
  int32_t beam, token;
};

// The finished sequences of one sample, best first, at most as many as there are beams.
class Finished {
 public:
  Finished(int64_t most, float penalty) : most_(static_cast<size_t>(most)), penalty_(penalty) {}

  void add(std::span<const int32_t> tokens, float sum) {
    const float score = scored(sum, static_cast<int64_t>(tokens.size()));
    if (full() && !(score > list_.back().score)) return;
    if (full()) list_.pop_back();
    auto at = list_.end();
    while (at != list_.begin() && score > (at - 1)->score) --at;
    list_.insert(at, {{tokens.begin(), tokens.end()}, score});
  }
  bool full() const { return list_.size() == most_; }
  // Whether a sequence of this length and sum would still get in.
  bool may_improve(float sum, int64_t length) const { return list_.back().score < scored(sum, length); }

  struct Item {
    std::vector<int32_t> tokens;
    float score;
  };
  const Item& operator[](int64_t i) const { return list_[static_cast<size_t>(i)]; }
  bool done = false;

 private:
  float scored(float sum, int64_t length) const { return sum / std::pow(static_cast<float>(length), penalty_); }
  size_t most_;
  float penalty_;
  std::vector<Item> list_;
};

class Search {
 public:
  explicit Search(Generation& g) : g_(g) {}

  Status run() {
    TRY(read());
    TRY_ASSIGN(source, make_source(g_));
    TRY_ASSIGN(prompt, source->prompt());
    TRY(sequences_.start(g_, prompt));
    for (int64_t step = 1; sequences_.length() < g_.longest; ++step) {
      TRY_ASSIGN(logits, step == 1 ? source->first(sequences_) : source->next(sequences_, from_));
      TRY(last_scores(g_, logits, scores_));
      if (step == 1) TRY(save_no_speech());
      take_logarithms();
      TRY(process_scores(g_, sequences_, step, scores_));
      for (size_t i = 0; i < scores_.size(); ++i) scores_[i] += sums_[i / static_cast<size_t>(g_.vocab)];
      TRY(save_scores(step));
      extend();
      if (std::all_of(finished_.begin(), finished_.end(), [](const Finished& f) { return f.done; })) break;
    }
    return give();
  }

 private:
  Status read() {
    const Call& call = g_.call;
    TRY(read_number(call, 3, g_.beams));
    if (g_.beams < 1 || g_.beams > kMostBeams) return call.refuse(3, "1 to {} (got {})", kMostBeams, g_.beams);
    TRY(read_number(call, 4, returned_));
    if (returned_ < 1 || returned_ > g_.beams) return call.refuse(4, "1 to {} (got {})", g_.beams, returned_);
    float penalty = 1;
    TRY(read_number(call, 5, penalty));
    TRY(read_generation(g_));
    finished_.assign(static_cast<size_t>(g_.batch), Finished(g_.beams, penalty));
    const auto rows = static_cast<size_t>(g_.rows());
    tokens_.resize(rows);
    from_.resize(rows);
    sums_.assign(rows, kUnlikely);
    for (int64_t b = 0; b < g_.batch; ++b) sums_[static_cast<size_t>(b * g_.beams)] = 0;
    return {};
  }

  void take_logarithms() {
    const auto words = static_cast<size_t>(g_.vocab);
    for (size_t r = 0; r < sums_.size(); ++r) {
      const std::span<float> row(scores_.data() + r * words, words);
      const float most = *std::max_element(row.begin(), row.end());
      float sum = 0;
      for (const float s : row) sum += std::exp(s - most);
      const float shift = most + std::log(sum);
      for (float& s : row) s -= shift;
    }
  }

  // The best 2 * beams of a sample; of equal ones the first.
  std::vector<Candidate> best(int64_t sample) const {
    std::vector<Candidate> out;
    const auto most = static_cast<size_t>(2 * g_.beams);
    const float* s = scores_.data() + sample * g_.beams * g_.vocab;
    for (int64_t beam = 0; beam < g_.beams; ++beam)
      for (int64_t t = 0; t < g_.vocab; ++t, ++s) {
        const float score = std::isnan(*s) ? -std::numeric_limits<float>::infinity() : *s;
        if (out.size() == most && !(score > out.back().score)) continue;
        if (out.size() == most) out.pop_back();
        auto at = out.end();
        while (at != out.begin() && score > (at - 1)->score) --at;
        out.insert(at, {score, static_cast<int32_t>(beam), static_cast<int32_t>(t)});
      }
    return out;
  }

  void extend() {
    for (int64_t b = 0; b < g_.batch; ++b) {
      Finished& finished = finished_[static_cast<size_t>(b)];
      const auto first = static_cast<size_t>(b * g_.beams);
      if (finished.done) {
        for (size_t k = 0; k < static_cast<size_t>(g_.beams); ++k) {
          sums_[first + k] = 0;
          tokens_[first + k] = static_cast<int32_t>(g_.p.pad);
          from_[first + k] = static_cast<int32_t>(first + k);
        }
        continue;
      }
      const std::vector<Candidate> candidates = best(b);
      size_t k = 0;
      for (size_t i = 0; i < candidates.size() && k < static_cast<size_t>(g_.beams); ++i) {
        const Candidate& c = candidates[i];
        const int64_t row = b * g_.beams + c.beam;
        if (c.token == g_.p.eos) {
          if (i < static_cast<size_t>(g_.beams)) finished.add(sequences_.row(row), c.score);
          continue;
        }
        next_sums_.push_back(c.score);
        tokens_[first + k] = c.token;
        from_[first + k++] = static_cast<int32_t>(row);
      }
      std::copy(next_sums_.begin(), next_sums_.end(), sums_.begin() + static_cast<std::ptrdiff_t>(first));
      next_sums_.clear();
      if (finished.full())
        finished.done = g_.p.early_stopping || !finished.may_improve(candidates.front().score, sequences_.length());
    }
    sequences_.append(tokens_, from_);
  }

  // Of the tokens that stand for silence, after the prompt.
  Status save_no_speech() {
    if (!g_.call.wants(4)) return {};
    if (g_.p.no_speech < 0 || g_.p.no_speech >= g_.vocab)
      return invalid("'no_speech_token_id' is {}, wanted a token below {}", g_.p.no_speech, g_.vocab);
    TRY_ASSIGN(y, (g_.call.allocate<float>(4, Shape{g_.batch})));
    for (int64_t b = 0; b < g_.batch; ++b) {
      const float* row = scores_.data() + b * g_.beams * g_.vocab;
      const float most = *std::max_element(row, row + g_.vocab);
      float sum = 0;
      for (int64_t t = 0; t < g_.vocab; ++t) sum += std::exp(row[t] - most);
      y[b] = std::exp(row[g_.p.no_speech] - most) / sum;
    }
    return {};
  }

  Status save_scores(int64_t step) {
    if (!g_.call.wants(2)) return {};
    if (step == 1) {
      TRY_ASSIGN(shape, Shape::checked(std::array{g_.longest - g_.prompt, g_.batch, g_.beams, g_.vocab}));
      TRY_ASSIGN(y, g_.call.allocate<float>(2, std::move(shape)));
      all_scores_ = y;
      std::fill_n(y, g_.call.out_count(2), 0.f);
    }
    std::copy(scores_.begin(), scores_.end(), all_scores_ + (step - 1) * static_cast<int64_t>(scores_.size()));
    return {};
  }

  // Samples that are not done end where their beams are.
  Status give() {
    TRY_ASSIGN(shape, Shape::checked(std::array{g_.batch, returned_, g_.longest}));
    TRY_ASSIGN(y, g_.call.allocate<int32_t>(0, std::move(shape)));
    float* scores = nullptr;
    if (g_.call.wants(1)) {
      TRY_ASSIGN(s, (g_.call.allocate<float>(1, Shape{g_.batch, returned_})));
      scores = s;
    }
    for (int64_t b = 0; b < g_.batch; ++b) {
      Finished& finished = finished_[static_cast<size_t>(b)];
      for (int64_t r = b * g_.beams; r < (b + 1) * g_.beams && !finished.done; ++r)
        finished.add(sequences_.row(r), sums_[static_cast<size_t>(r)]);
      for (int64_t i = 0; i < returned_; ++i, y += g_.longest) {
        const auto& item = finished[i];
        std::fill(std::copy(item.tokens.begin(), item.tokens.end(), y), y + g_.longest, static_cast<int32_t>(g_.p.pad));
        if (scores) *scores++ = item.score;
      }
    }
    return {};
  }

  Generation& g_;
  int64_t returned_ = 1;
  Sequences sequences_;
  std::vector<Finished> finished_;
  std::vector<float> scores_, sums_, next_sums_;
  std::vector<int32_t> tokens_, from_;
  float* all_scores_ = nullptr;
};

Status parse(Attrs& a, GenerationParams& p) {
  TRY(parse_generation(a, p));
  if (p.eos < 0) return a.refuse("eos_token_id", "a token");
  if (p.pad < 0) return a.refuse("pad_token_id", "a token");
  return {};
}

Status parse_whisper(Attrs& a, GenerationParams& p) {
  p.model = kWhisper;
  int64_t cross = 0;
  a.get("decoder_output_cross_qk", cross);
  if (cross != 0) return a.refuse("decoder_output_cross_qk", "0");
  if (a.node().outputs.size() > 3 && a.node().outputs[3] != ir::kNone) return not_implemented("it gives no cross_qk");
  TRY(parse(a, p));
  return p.model == kWhisper ? Status{} : a.refuse("model_type", "2");
}

Status compute(const GenerationParams& p, Call& call) {
  Generation g{p, kInputs, call};
  return Search(g).run();
}

Status infer(const ir::Node&, const void*, DimPool& dims, std::span<const Fact* const> in, std::span<Fact> out) {
  if (!in[0] || in[0]->rank() < 1) return {};
  const Dim batch = in[0]->shape->front(), returned = dims.fresh();
  std::vector<Dim> shapes[] = {{batch, returned, dims.fresh()},
                               {batch, returned},
                               {dims.fresh(), batch, dims.fresh(), dims.fresh()},
                               {batch, returned, dims.fresh(), dims.fresh(), dims.fresh()},
                               {batch}};
  for (size_t o = 0; o < out.size(); ++o) out[o].shape = std::move(shapes[o]);
  return {};
}

constexpr TypeRule kTypes[] = {
    {in_arg(0), set_of(DType::i32, DType::f32, DType::f16)},
    {in_arg(1) | in_arg(2) | in_arg(3) | in_arg(4) | in_arg(7) | in_arg(8) | in_arg(9) | in_arg(10) | in_arg(11),
     set_of(DType::i32)},
    {out_arg(0), set_of(DType::i32)},
    {in_arg(5), set_of(DType::f32), set_of(DType::f16)},
    {in_arg(6), set_of(DType::f32), set_of(DType::f16)},
    {in_arg(14), set_of(DType::f32), set_of(DType::f16)},
    {out_arg(1) | out_arg(2) | out_arg(4), set_of(DType::f32), set_of(DType::f16)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<GenerationParams, compute>}};

void types(TypeCall& c) {
  generation_types(c);
  const bool half = c.in.size() > 5 && c.in[5].dtype == DType::f16;
  for (size_t o = 1; o < c.out.size() && half; ++o) c.out[o].dtype = DType::f16;
}

}  // namespace

extern constexpr Op kMicrosoftBeamSearch{.domain = kDomain,
                                         .name = "BeamSearch",
                                         .versions = kVersions,
                                         .parse = parse_checked<GenerationParams, kArity, parse>,
                                         .types = types,
                                         .kernels = kKernels};
extern constexpr Op kMicrosoftWhisperBeamSearch{.domain = kDomain,
                                                .name = "WhisperBeamSearch",
                                                .versions = kVersions,
                                                .parse = parse_checked<GenerationParams, kWhisperArity, parse_whisper>,
                                                .types = types,
                                                .kernels = kKernels};
extern constexpr OpInference kMicrosoftBeamSearchInference{.infer = infer, .body_inputs = generation_body_inputs};
extern constexpr OpInference kMicrosoftWhisperBeamSearchInference{.infer = infer,
                                                                  .body_inputs = generation_body_inputs};

}  // namespace tessera
