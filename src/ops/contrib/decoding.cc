// What decoders of sequences use: DynamicTimeWarping, NGramRepeatBlock, BifurcationDetector.
#include <algorithm>
#include <limits>

#include "ops/agree.h"
#include "ops/contrib/contrib.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kOne{in_arg(0), 1}, kTwo{in_arg(0) | in_arg(1), 2}, kTokens{in_arg(0) | in_arg(1) | in_arg(2), 4, 2};

// ------------------------------------------------------------------------------------ DynamicTimeWarping

// The cheapest path from corner to corner of a matrix of costs, by steps along, down or both.
Status compute_warping(Call& call) {
  const Shape& s = call.shape(0);
  const int rank = s.rank();
  if ((rank != 2 && !(rank == 3 && s[0] == 1)) || s.count() == 0) return call.refuse(0, "a matrix of costs");
  const int64_t m = s[rank - 2], n = s[rank - 1];
  const float* x = call.in<float>(0);
  enum Step : unsigned char { kBoth, kDown, kAlong };
  std::vector<Step> steps(static_cast<size_t>(m * n));
  std::vector<float> above(static_cast<size_t>(n + 1), std::numeric_limits<float>::infinity()), row(above);
  above[0] = 0;
  for (int64_t i = 0; i < m; ++i) {
    if (call.cancelled()) return call.stopped();
    row[0] = std::numeric_limits<float>::infinity();
    for (int64_t j = 0; j < n; ++j) {
      const auto k = static_cast<size_t>(j);
      const float both = above[k], down = above[k + 1], along = row[k];
      const Step step = both < down && both < along ? kBoth : down < both && down < along ? kDown : kAlong;
      steps[static_cast<size_t>(i * n + j)] = step;
      row[k + 1] = x[i * n + j] + (step == kBoth ? both : step == kDown ? down : along);
    }
    std::swap(above, row);
  }
  std::vector<int32_t> path[2];
  for (int64_t i = m - 1, j = n - 1; i >= 0 && j >= 0;) {
    path[0].push_back(static_cast<int32_t>(i));
    path[1].push_back(static_cast<int32_t>(j));
    // Along the edges there is one way only.
    const Step step = i == 0 ? kAlong : j == 0 ? kDown : steps[static_cast<size_t>(i * n + j)];
    if (step != kAlong) --i;
    if (step != kDown) --j;
  }
  const auto length = static_cast<int64_t>(path[0].size());
  TRY_ASSIGN(y, (call.allocate<int32_t>(0, Shape{2, length})));
  for (const auto& p : path) y = std::copy(p.rbegin(), p.rend(), y);
  return {};
}

// ------------------------------------------------------------------------------------ NGramRepeatBlock

struct BlockParams {
  int64_t size = 0;
};
Status parse_block(Attrs& a, BlockParams& p) {
  a.get("ngram_size", p.size);
  return p.size < 1 ? a.refuse("ngram_size", "at least 1") : Status{};
}

template <class D>
Status shape_block(const BlockParams&, ShapeCall<D>& c) {
  for (const int i : {0, 1})
    if (c.rank(i) != 2) return c.refuse(i, "a row for each sequence");
  if (!agree(c.dim(0, 0), c.dim(1, 0))) return c.refuse(1, "as many rows as input 0");
  return c.set(0, c.dims(1));
}

// A token that would repeat an n-gram of its sequence gets the score -inf.
Status compute_block(const BlockParams& p, Call& call) {
  const int64_t batch = call.shape(0)[0], length = call.shape(0)[1], words = call.shape(1)[1];
  const int64_t* ids = call.in<int64_t>(0);
  float* y = call.out<float>(0);
  if (y != call.in<float>(1)) std::copy_n(call.in<float>(1), batch * words, y);
  const int64_t context = p.size - 1;
  for (int64_t b = 0; b < batch; ++b) {
    const int64_t *row = ids + b * length, *last = row + length - context;
    for (int64_t i = 0; i + p.size <= length; ++i) {
      if (!std::equal(row + i, row + i + context, last)) continue;
      const int64_t word = row[i + context];
      if (word < 0 || word >= words)
        return call.refuse(0, "tokens from 0 to {} (sequence {} has {})", words - 1, b, word);
      y[b * words + word] = -std::numeric_limits<float>::infinity();
    }
  }
  return {};
}

// ------------------------------------------------------------------------------------ BifurcationDetector

struct MatchParams {
  int64_t shortest = 1, longest = 3;
};
Status parse_match(Attrs& a, MatchParams& p) {
  a.get("min_ngram_size", p.shortest);
  a.get("max_ngram_size", p.longest);
  if (p.shortest < 1) return a.refuse("min_ngram_size", "at least 1");
  if (p.longest < p.shortest) return a.refuse("max_ngram_size", "at least min_ngram_size");
  return {};
}

// Where the source goes on behind the tokens' last n-gram, if it has that n-gram once; else -1.
int64_t suffix_match(const MatchParams& p, std::span<const int64_t> source, std::span<const int64_t> tokens) {
  for (int64_t n = p.shortest; n <= p.longest && n <= static_cast<int64_t>(tokens.size()); ++n) {
    const auto gram = tokens.last(static_cast<size_t>(n));
    const auto first = std::search(source.begin(), source.end(), gram.begin(), gram.end());
    if (first == source.end()) return -1;
    const int64_t behind = first - source.begin() + n;
    if (behind >= static_cast<int64_t>(source.size())) return behind;
    if (std::search(first + 1, source.end(), gram.begin(), gram.end()) == source.end()) return behind;
  }
  return -1;
}

Status compute_match(const MatchParams& p, Call& call) {
  for (const int i : {0, 1, 3})
    if (call.has(i) && call.shape(i).rank() != 1) return call.refuse(i, "a list of tokens");
  if (call.count(2) != 1) return call.refuse(2, "one number");
  const auto tokens_of = [&](int i) { return std::span(call.in<int64_t>(i), static_cast<size_t>(call.count(i))); };
  const auto source = tokens_of(0), current = tokens_of(1);
  std::vector<int64_t> tokens(current.begin(), current.end());
  if (call.has(3)) {
    const auto predicted = tokens_of(3);
    const int64_t from = call.in<int64_t>(2)[0], left = static_cast<int64_t>(source.size()) - from;
    if (from < 0 || left < 0) return call.refuse(2, "a place in input 0 (got {})", from);
    if (static_cast<int64_t>(predicted.size()) != left + 1)
      return call.refuse(3, "a prediction for each token of input 0 from {} on, and one more", from);
    size_t same = 0;
    while (same < static_cast<size_t>(left) && predicted[same] == source[static_cast<size_t>(from) + same]) ++same;
    tokens.insert(tokens.end(), predicted.begin(), predicted.begin() + static_cast<std::ptrdiff_t>(same) + 1);
  }
  TRY_ASSIGN(y, (call.allocate<int64_t>(0, Shape{static_cast<int64_t>(tokens.size())})));
  std::copy(tokens.begin(), tokens.end(), y);
  if (!call.wants(1)) return {};
  TRY_ASSIGN(match, (call.allocate<int64_t>(1, Shape{})));
  *match = suffix_match(p, source, tokens);
  return {};
}

template <int Outputs>
Status unknown_lists(const void*, ShapeCall<Dim>& c) {
  TRY(c.unknown(0, Outputs));
  return c.outputs() > 1 ? c.set(1, DimVec<Dim>{}) : Status{};
}

constexpr TypeRule kWarpingTypes[] = {{in_arg(0), set_of(DType::f32)}, {out_arg(0), set_of(DType::i32)}};
constexpr TypeRule kBlockTypes[] = {{in_arg(0), set_of(DType::i64)}, {in_arg(1) | out_arg(0), set_of(DType::f32)}};
constexpr TypeRule kMatchTypes[] = {
    {in_arg(0) | in_arg(1) | in_arg(2) | in_arg(3) | out_arg(0) | out_arg(1), set_of(DType::i64)}};
constexpr Kernel kWarpingKernels[] = {{kWarpingTypes, compute_plain<compute_warping>}};
constexpr Kernel kBlockKernels[] = {{kBlockTypes, compute_with<BlockParams, compute_block>}};
constexpr Kernel kMatchKernels[] = {{kMatchTypes, compute_with<MatchParams, compute_match>}};

}  // namespace

extern constexpr Op kMicrosoftDynamicTimeWarping{.domain = kDomain,
                                                 .name = "DynamicTimeWarping",
                                                 .versions = kVersions,
                                                 .parse = parse_nothing<kOne>,
                                                 .types = type_always<DType::i32>,
                                                 .kernels = kWarpingKernels};
extern constexpr Op kMicrosoftNGramRepeatBlock{.domain = kDomain,
                                               .name = "NGramRepeatBlock",
                                               .versions = kVersions,
                                               .parse = parse_checked<BlockParams, kTwo, parse_block>,
                                               .types = type_of_input<1>,
                                               .shape = shape_with<BlockParams, int64_t, shape_block<int64_t>>,
                                               .kernels = kBlockKernels,
                                               .inplace = in_arg(1)};
extern constexpr Op kMicrosoftBifurcationDetector{.domain = kDomain,
                                                  .name = "BifurcationDetector",
                                                  .versions = kVersions,
                                                  .parse = parse_checked<MatchParams, kTokens, parse_match>,
                                                  .kernels = kMatchKernels};
extern constexpr OpInference kMicrosoftDynamicTimeWarpingInference{.shape = unknown_lists<2>};
extern constexpr OpInference kMicrosoftNGramRepeatBlockInference{.shape =
                                                                     shape_with<BlockParams, Dim, shape_block<Dim>>};
extern constexpr OpInference kMicrosoftBifurcationDetectorInference{.shape = unknown_lists<1>};

}  // namespace tessera
