// TfIdfVectorizer — how often each n-gram of a pool occurs in a sequence, also with a fixed number of tokens skipped
// between its own.
#include <algorithm>
#include <unordered_map>

#include "ops/op.h"

namespace tessera {
namespace {

enum Mode { kTf, kIdf, kTfIdf };

struct Params {
  int mode = kTf;
  int64_t min_gram_length = 0, max_gram_length = 0, max_skip_count = 0;
  std::vector<int64_t> ngram_counts, ngram_indexes;
  std::vector<int64_t> pool_int64s;
  std::vector<std::string> pool_strings;
  std::vector<float> weights;  // per n-gram of the pool, or empty
  bool strings = false;
  int64_t output_size = 0;

  int64_t pool_size() const { return static_cast<int64_t>(strings ? pool_strings.size() : pool_int64s.size()); }
  // The tokens of the n-grams of `length` in the pool: [begin, end).
  std::pair<int64_t, int64_t> tokens_of(size_t length) const {
    return {ngram_counts[length - 1], length < ngram_counts.size() ? ngram_counts[length] : pool_size()};
  }
};

Status check_pool(const Attrs& a, const Params& p) {
  int64_t grams = 0;
  for (size_t length = 1; length <= p.ngram_counts.size(); ++length) {
    const auto [begin, end] = p.tokens_of(length);
    if (begin < 0 || end < begin || end > p.pool_size())
      return a.refuse("ngram_counts", format("ascending places in a pool of {} tokens", p.pool_size()));
    const auto n = static_cast<int64_t>(length);
    if ((end - begin) % n != 0)
      return a.refuse("ngram_counts", format("room for whole {}-grams, not for {} tokens", n, end - begin));
    grams += (end - begin) / n;
  }
  if (grams > static_cast<int64_t>(p.ngram_indexes.size()))
    return a.refuse("ngram_indexes", format("one index for each of {} n-grams", grams));
  return {};
}

Status parse(Attrs& a, Params& p) {
  constexpr std::string_view kModes[] = {"TF", "IDF", "TFIDF"};
  for (const char* name :
       {"mode", "min_gram_length", "max_gram_length", "max_skip_count", "ngram_counts", "ngram_indexes"})
    if (!a.has(name)) return invalid_graph("it has no attribute {}", quote(name));
  a.get_choice("mode", p.mode, kModes);
  a.get("min_gram_length", p.min_gram_length);
  a.get("max_gram_length", p.max_gram_length);
  a.get("max_skip_count", p.max_skip_count);
  a.get("ngram_counts", p.ngram_counts);
  a.get("ngram_indexes", p.ngram_indexes);
  a.get("pool_int64s", p.pool_int64s);
  a.get("pool_strings", p.pool_strings);
  a.get("weights", p.weights);
  TRY(a.done());
  if (p.min_gram_length < 1) return a.refuse("min_gram_length", "at least 1");
  if (p.max_gram_length < p.min_gram_length) return a.refuse("max_gram_length", "at least min_gram_length");
  if (p.max_skip_count < 0) return a.refuse("max_skip_count", "at least 0");
  if (p.ngram_indexes.empty()) return a.refuse("ngram_indexes", "at least one index");
  if (p.pool_int64s.empty() == p.pool_strings.empty())
    return invalid_graph("it has {} of the attributes 'pool_int64s' and 'pool_strings', wanted one",
                         p.pool_int64s.empty() ? "neither" : "both");
  p.strings = !p.pool_strings.empty();
  const auto [least, most] = std::minmax_element(p.ngram_indexes.begin(), p.ngram_indexes.end());
  if (*least < 0 || !checked_add(*most, 1, &p.output_size))
    return a.refuse("ngram_indexes", "indexes that are not negative and give a size");
  if (!p.weights.empty() && p.weights.size() != p.ngram_indexes.size())
    return a.refuse("weights", format("as many as ngram_indexes, {}", p.ngram_indexes.size()));
  return check_pool(a, p);
}

// The n-grams of the pool as a tree: tokens are numbered, a path from the root (node 0) spells an n-gram.
struct Tree {
  std::unordered_map<int64_t, uint32_t> integers;
  std::unordered_map<std::string, uint32_t> strings;
  std::unordered_map<uint64_t, uint32_t> children;  // parent << 32 | token, to the child
  std::vector<int64_t> gram{-1};                    // per node: the n-gram that ends there, or -1

  // Of equal n-grams the last one counts.
  void add(std::span<const uint32_t> tokens, int64_t id) {
    uint32_t node = 0;
    for (const uint32_t token : tokens) {
      const auto [child, fresh] =
          children.try_emplace(uint64_t{node} << 32 | token, static_cast<uint32_t>(gram.size()));
      if (fresh) gram.push_back(-1);
      node = child->second;
    }
    gram[node] = id;
  }
};

template <class T>
std::vector<uint32_t> number_tokens(const std::vector<T>& pool, std::unordered_map<T, uint32_t>& numbers) {
  std::vector<uint32_t> out;
  for (const T& token : pool)
    out.push_back(numbers.try_emplace(token, static_cast<uint32_t>(numbers.size())).first->second);
  return out;
}

Status prepare(const void* params, std::shared_ptr<const void>* out) {
  const Params& p = *static_cast<const Params*>(params);
  if (p.pool_size() > INT32_MAX) return invalid_graph("its pool has {} tokens, wanted at most 2^31", p.pool_size());
  auto tree = std::make_shared<Tree>();
  const std::vector<uint32_t> tokens =
      p.strings ? number_tokens(p.pool_strings, tree->strings) : number_tokens(p.pool_int64s, tree->integers);
  int64_t id = 0;
  for (size_t length = 1; length <= p.ngram_counts.size(); ++length) {
    const auto [begin, end] = p.tokens_of(length);
    const auto n = static_cast<int64_t>(length);
    const bool used = n >= p.min_gram_length && n <= p.max_gram_length;
    for (int64_t at = begin; at < end; at += n, ++id)
      if (used) tree->add(std::span(tokens).subspan(static_cast<size_t>(at), length), id);
  }
  *out = std::move(tree);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  if (rank != 1 && rank != 2) return c.refuse(0, "shape [C] or [N,C]");
  if (p.strings != (c.dtype(0) == DType::string))
    return c.refuse(0, p.strings ? "strings, as the pool has" : "integers, as the pool has");
  return rank == 1 ? c.set(0, DimVec<D>{D(p.output_size)}) : c.set(0, DimVec<D>{c.dim(0, 0), D(p.output_size)});
}

constexpr uint32_t kNoToken = UINT32_MAX;

uint32_t token_at(const Call& call, const Tree& tree, int64_t i) {
  if (call.dtype(0) == DType::string) {
    const auto it = tree.strings.find(call.in<std::string>(0)[i]);
    return it == tree.strings.end() ? kNoToken : it->second;
  }
  const auto it = tree.integers.find(call.integer(0, i));
  return it == tree.integers.end() ? kNoToken : it->second;
}

// Calls found(id) for every n-gram of at least `shortest` tokens that begins at `start` and takes each step-th token.
template <class F>
void walk(const Tree& tree, std::span<const uint32_t> row, size_t start, size_t step, int64_t shortest, F&& found) {
  uint32_t node = 0;
  int64_t length = 1;
  for (size_t i = start; i < row.size(); i += step, ++length) {
    const auto child = row[i] == kNoToken ? tree.children.end() : tree.children.find(uint64_t{node} << 32 | row[i]);
    if (child == tree.children.end()) return;
    node = child->second;
    if (length >= shortest && tree.gram[node] >= 0) found(tree.gram[node]);
  }
}

// Single tokens are counted once, whatever is skipped.
template <class F>
void each_gram(const Params& p, const Tree& tree, std::span<const uint32_t> row, const Call& call, F&& found) {
  int64_t shortest = p.min_gram_length;
  const auto length = static_cast<int64_t>(row.size());
  for (int64_t skip = 0; skip <= std::min(p.max_skip_count, length); ++skip) {
    const int64_t step = skip + 1;
    if (length == 0 || shortest - 1 > (length - 1) / step) return;  // no room for any
    for (int64_t start = 0; start < length - (shortest - 1) * step; ++start)
      walk(tree, row, static_cast<size_t>(start), static_cast<size_t>(step), shortest, found);
    if (shortest == 1 && ++shortest > p.max_gram_length) return;
    if (call.cancelled()) return;
  }
}

void count_row(const Params& p, const Tree& tree, const Call& call, int64_t row, int64_t length, float* y) {
  std::vector<uint32_t> tokens;
  for (int64_t i = 0; i < length; ++i) tokens.push_back(token_at(call, tree, row * length + i));
  std::unordered_map<int64_t, int64_t> counts;
  each_gram(p, tree, tokens, call, [&](int64_t id) { ++counts[id]; });
  // In the order of the pool: sums do not depend on the order of a hash table.
  std::vector<std::pair<int64_t, int64_t>> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end());
  std::fill_n(y, p.output_size, 0.0f);
  for (const auto& [id, count] : sorted) {
    const float weight = p.mode == kTf || p.weights.empty() ? 1.0f : p.weights[static_cast<size_t>(id)];
    float& cell = y[p.ngram_indexes[static_cast<size_t>(id)]];
    cell = p.mode == kIdf ? weight : cell + static_cast<float>(count) * weight;
  }
}

Status compute(const Params& p, Call& call) {
  const auto& tree = call.prepared<Tree>();
  const Shape& shape = call.shape(0);
  const bool one = shape.rank() == 1;
  const int64_t rows = one ? 1 : shape[0], length = one ? shape[0] : shape[1];
  auto* y = call.out<float>(0);
  call.parallel(rows, [&](int64_t row, int) { count_row(p, tree, call, row, length, y + row * p.output_size); });
  return call.cancelled() ? call.stopped() : Status{};
}

constexpr TypeRule kTypes[] = {{in_arg(0), set_of(DType::string, DType::i32, DType::i64)},
                               {out_arg(0), set_of(DType::f32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {9};

}  // namespace

extern constexpr Op kTfIdfVectorizer{.domain = "",
                                     .name = "TfIdfVectorizer",
                                     .versions = kVersions,
                                     .parse = parse_params<Params, parse>,
                                     .types = type_always<DType::f32>,
                                     .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                     .kernels = kKernels,
                                     .prepare = prepare};
extern constexpr OpInference kTfIdfVectorizerInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
