// GreedySearch, Sampling — sequences grow by the most likely token, or by one drawn among the likely ones.
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "ops/contrib/generation.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kGreedyArity{in_arg(0) | in_arg(1), 7}, kSamplingArity{in_arg(0) | in_arg(1), 9, 2};
constexpr GenerationInputs kInputs{
    .repetition = 3, .vocab_mask = 4, .prefix_mask = 5, .attention_mask = 6, .presence_mask = 7, .longest = 16384};
constexpr int kSeed = 8;

// Gives the next tokens, one for each row of scores.
class Chooser {
 public:
  virtual ~Chooser() = default;
  virtual Status choose(const Generation& g, std::vector<float>& scores, std::span<int32_t> tokens) = 0;
};

class MostLikely : public Chooser {
 public:
  Status choose(const Generation& g, std::vector<float>& scores, std::span<int32_t> tokens) override {
    const float* row = scores.data();
    for (int32_t& t : tokens) {
      t = static_cast<int32_t>(std::max_element(row, row + g.vocab) - row);
      row += g.vocab;
    }
    return {};
  }
};

class Draw : public Chooser {
 public:
  explicit Draw(uint32_t seed) : random_(seed) {}

  Status choose(const Generation& g, std::vector<float>& scores, std::span<int32_t> tokens) override {
    if (g.p.keep >= g.vocab) return invalid("'min_tokens_to_keep' is {}, wanted less than {}", g.p.keep, g.vocab);
    const auto words = static_cast<size_t>(g.vocab);
    for (size_t r = 0; r < tokens.size(); ++r) filter(g.p, {scores.data() + r * words, words});
    for (size_t r = 0; r < tokens.size(); ++r) tokens[r] = draw({scores.data() + r * words, words});
    filtered_ = scores;
    return {};
  }
  const std::vector<float>& filtered() const { return filtered_; }

 private:
  // Sums of probabilities in the order of the scores; tokens beyond `top_p` get the filter's score.
  void filter(const GenerationParams& p, std::span<float> scores) {
    order_.resize(scores.size());
    std::iota(order_.begin(), order_.end(), size_t{0});
    std::stable_sort(order_.begin(), order_.end(),
                     [&](size_t a, size_t b) { return p.custom ? scores[a] > scores[b] : scores[a] < scores[b]; });
    const float most = scores[p.custom ? order_.front() : order_.back()];
    std::vector<float> chance(scores.size());
    float sum = 0, upto = 0;
    for (size_t i = 0; i < chance.size(); ++i) sum += chance[i] = std::exp(scores[order_[i]] - most);
    const size_t last = scores.size() - static_cast<size_t>(p.custom ? 1 : p.keep);
    for (size_t i = 0; i < last; ++i) {
      upto += chance[i] / sum;
      if (p.custom && upto > p.top_p) scores[order_[i + 1]] = p.filter;
      if (!p.custom && upto <= 1 - p.top_p) scores[order_[i]] = p.filter;
    }
  }

  int32_t draw(std::span<const float> scores) {
    float most = std::numeric_limits<float>::lowest();
    for (const float s : scores)
      if (std::isfinite(s)) most = std::max(most, s);
    std::vector<double> upto(scores.size());
    double sum = 0;
    for (size_t i = 0; i < scores.size(); ++i) {
      if (std::isfinite(scores[i])) sum += std::exp(static_cast<double>(scores[i]) - static_cast<double>(most));
      upto[i] = sum;
    }
    const double at = std::uniform_real_distribution<double>(0, 1)(random_) * sum;
    const auto found = std::upper_bound(upto.begin(), upto.end(), at) - upto.begin();
    return static_cast<int32_t>(std::min<int64_t>(found, static_cast<int64_t>(scores.size()) - 1));
  }

  std::minstd_rand0 random_;
  std::vector<size_t> order_;
  std::vector<float> filtered_;
};

// Rows that met the end go on with padding until all have.
Status generate(Generation& g, Chooser& chooser) {
  TRY(read_generation(g));
  TRY_ASSIGN(source, make_source(g));
  TRY_ASSIGN(prompt, source->prompt());
  Sequences sequences;
  TRY(sequences.start(g, prompt));
  const auto rows = static_cast<size_t>(g.batch);
  std::vector<int32_t> tokens(rows), from(rows);
  std::iota(from.begin(), from.end(), 0);
  std::vector<bool> ended(rows);
  std::vector<float> scores;
  for (int64_t step = 1; sequences.length() < g.longest; ++step) {
    TRY_ASSIGN(logits, step == 1 ? source->first(sequences) : source->next(sequences, from));
    TRY(last_scores(g, logits, scores));
    TRY(process_scores(g, sequences, step, scores));
    TRY(chooser.choose(g, scores, tokens));
    bool all = true;
    for (size_t r = 0; r < rows; ++r) {
      ended[r] = ended[r] || tokens[r] == g.p.eos;
      if (ended[r]) tokens[r] = static_cast<int32_t>(g.p.pad);
      all = all && ended[r];
    }
    sequences.append(tokens, from);
    if (all) break;
  }
  TRY_ASSIGN(shape, Shape::checked(std::array{g.batch, g.longest}));
  TRY_ASSIGN(y, g.call.allocate<int32_t>(0, std::move(shape)));
  for (int64_t r = 0; r < g.batch; ++r) {
    const auto row = sequences.row(r);
    int32_t* end = std::copy(row.begin(), row.end(), y + r * g.longest);
    std::fill(end, y + (r + 1) * g.longest, static_cast<int32_t>(g.p.pad));
  }
  return {};
}

Status compute_greedy(const GenerationParams& p, Call& call) {
  Generation g{p, kInputs, call};
  MostLikely chooser;
  return generate(g, chooser);
}

Status compute_sampling(const GenerationParams& p, Call& call) {
  Generation g{p, kInputs, call};
  int64_t seed = 0;
  TRY(read_number(call, kSeed, seed));
  if (seed < 0) return call.refuse(kSeed, "at least 0");
  Draw chooser(static_cast<uint32_t>(seed));
  TRY(generate(g, chooser));
  if (!call.wants(1)) return {};
  TRY_ASSIGN(y, (call.allocate<float>(1, Shape{g.batch, g.vocab})));
  std::copy(chooser.filtered().begin(), chooser.filtered().end(), y);
  return {};
}

Status infer(const ir::Node&, const void*, DimPool& dims, std::span<const Fact* const> in, std::span<Fact> out) {
  if (!in[0] || in[0]->rank() < 1) return {};
  for (Fact& f : out) f.shape = std::vector<Dim>{in[0]->shape->front(), dims.fresh()};
  return {};
}

constexpr TypeRule kTypes[] = {
    {in_arg(0), set_of(DType::i32, DType::f32, DType::f16)},
    {in_arg(1) | in_arg(2) | in_arg(4) | in_arg(5) | in_arg(6) | in_arg(7) | in_arg(8), set_of(DType::i32)},
    {out_arg(0), set_of(DType::i32)},
    {in_arg(3) | out_arg(1), set_of(DType::f32)}};
constexpr Kernel kGreedyKernels[] = {{kTypes, compute_with<GenerationParams, compute_greedy>}};
constexpr Kernel kSamplingKernels[] = {{kTypes, compute_with<GenerationParams, compute_sampling>}};

}  // namespace

extern constexpr Op kMicrosoftGreedySearch{.domain = kDomain,
                                           .name = "GreedySearch",
                                           .versions = kVersions,
                                           .parse = parse_checked<GenerationParams, kGreedyArity, parse_generation>,
                                           .types = generation_types,
                                           .kernels = kGreedyKernels};
extern constexpr Op kMicrosoftSampling{.domain = kDomain,
                                       .name = "Sampling",
                                       .versions = kVersions,
                                       .parse = parse_checked<GenerationParams, kSamplingArity, parse_generation>,
                                       .types = generation_types,
                                       .kernels = kSamplingKernels,
                                       .random = true};
extern constexpr OpInference kMicrosoftGreedySearchInference{.infer = infer, .body_inputs = generation_body_inputs};
extern constexpr OpInference kMicrosoftSamplingInference{.infer = infer, .body_inputs = generation_body_inputs};

}  // namespace tessera
