// SparseAttention — causal attention of which each head sees some blocks of keys only: for every block of queries, the
// blocks of keys that a list names. Keys and values are kept in buffers [batch, heads, room, size].
#include <cmath>

#include "ops/agree.h"
#include "ops/contrib/contrib.h"
#include "ops/nn/rotary.h"

namespace tessera {
namespace {
using namespace contrib;

enum In { kQuery, kKey, kValue, kPastK, kPastV, kRows, kCols, kTotal, kLengths, kCos, kSin };
constexpr Arity kArity{in_arg(kQuery) | in_arg(kPastK) | in_arg(kPastV) | in_arg(kRows) | in_arg(kCols) |
                           in_arg(kTotal) | in_arg(kLengths),
                       11, 3};

struct Params {
  int64_t heads = 0, kv_heads = 0, block = 0;
  float scale = 0;
  bool rotary = false, interleaved = false;
};

Status parse(Attrs& a, Params& p) {
  a.get("num_heads", p.heads);
  a.get("kv_num_heads", p.kv_heads);
  a.get("sparse_block_size", p.block);
  a.get("scale", p.scale);
  a.get("do_rotary", p.rotary);
  a.get("rotary_interleaved", p.interleaved);
  if (p.kv_heads < 1 || p.kv_heads > INT32_MAX) return a.refuse("kv_num_heads", "at least 1");
  if (p.heads < 1 || p.heads > INT32_MAX || p.heads % p.kv_heads)
    return a.refuse("num_heads", "a multiple of kv_num_heads");
  if (p.block < 1 || p.block > INT32_MAX) return a.refuse("sparse_block_size", "at least 1");
  const auto& in = a.node().inputs;
  const auto present = [&](size_t i) { return i < in.size() && in[i] != ir::kNone; };
  if (present(kKey) != present(kValue)) return invalid_graph("key and value go together");
  if (p.rotary && !(present(kCos) && present(kSin))) return invalid_graph("do_rotary wants cos_cache and sin_cache");
  return {};
}

template <class D>
Status check_lists(const Params& p, ShapeCall<D>& c, const D& batch, const D& size) {
  if (c.rank(kRows) != 2 || (known(c.dim(kRows, 1)) && number(c.dim(kRows, 1)) < 2) ||
      (known(c.dim(kRows, 0)) && (number(c.dim(kRows, 0)) < 1 || p.heads % number(c.dim(kRows, 0)))))
    return c.refuse(kRows, format("[layouts, blocks + 1] for {} heads", p.heads));
  if (c.rank(kCols) != 2 || !agree(c.dim(kCols, 0), c.dim(kRows, 0)))
    return c.refuse(kCols, "[layouts, blocks that are seen]");
  if (!agree(c.count(kTotal), D(1))) return c.refuse(kTotal, "one number");
  if (!is_list(c, kLengths, batch)) return c.refuse(kLengths, "a length for each sample");
  if (!p.rotary) return {};
  for (const int i : {kCos, kSin}) {
    const bool good = c.rank(i) == 2 && agree(c.dim(i, 0), c.dim(kCos, 0)) && agree(c.dim(i, 1), c.dim(kCos, 1));
    if (!good || (known(c.dim(i, 1)) && known(size) && 2 * number(c.dim(i, 1)) > number(size)))
      return c.refuse(i, "[positions, half of the rotated size], alike for both tables");
  }
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(kQuery) != 3) return c.refuse(kQuery, "[batch, length, width]");
  const D batch = c.dim(kQuery, 0), length = c.dim(kQuery, 1), width = c.dim(kQuery, 2);
  const int64_t parts = c.has(kKey) ? p.heads : p.heads + 2 * p.kv_heads;
  if (known(width) && (number(width) % parts || number(width) < parts))
    return c.refuse(kQuery, format("{} heads of equal size", parts));
  const D size = floor_div(width, D(parts));
  for (const int i : {kKey, kValue})
    if (c.has(i) && (c.rank(i) != 3 || !agree(c.dim(i, 0), batch) || !agree(c.dim(i, 1), length) ||
                     !agree(c.dim(i, 2), size * D(p.kv_heads))))
      return c.refuse(i, format("[batch, length, width of {} heads] as the query has them", p.kv_heads));
  for (const int i : {kPastK, kPastV})
    if (c.rank(i) != 4 || !agree(c.dim(i, 0), batch) || !agree(c.dim(i, 1), D(p.kv_heads)) ||
        !agree(c.dim(i, 2), c.dim(kPastK, 2)) || !agree(c.dim(i, 3), size))
      return c.refuse(i, "[batch, heads of keys, room, size]");
  TRY(check_lists(p, c, batch, size));
  TRY(c.set(0, DimVec<D>{batch, length, size * D(p.heads)}));
  for (int o = 1; o < c.outputs(); ++o) TRY(c.set(o, c.dims(kPastK)));
  return {};
}

class SparseRun {
 public:
  SparseRun(const Params& p, Call& call) : p_(p), call_(call) {
    const Shape &q = call.shape(kQuery), &past = call.shape(kPastK);
    batch_ = q[0];
    length_ = q[1];
    width_ = q[2];
    size_ = past[3];
    room_ = past[2];
    total_ = call.in<int32_t>(kTotal)[0];
    prompt_ = total_ == length_;
    scale_ = p.scale == 0 ? 1 / std::sqrt(static_cast<float>(size_)) : p.scale;
  }

  Status run() {
    if (call_.out_count(0) == 0 && batch_ * length_ > 0) return call_.refuse(kQuery, "heads that are not empty");
    TRY(check());
    TRY(copy_caches());
    // Keys are written once for all heads that share them.
    call_.parallel(batch_ * p_.kv_heads, [&](int64_t i, int) { add_rows(i / p_.kv_heads, i % p_.kv_heads); });
    call_.parallel(batch_ * p_.heads, [&](int64_t i, int) { attend(i / p_.heads, i % p_.heads); });
    return call_.cancelled() ? call_.stopped() : Status{};
  }

 private:
  int64_t past(int64_t b) const { return prompt_ ? 0 : call_.in<int32_t>(kLengths)[b] - length_; }
  int64_t blocks() const { return call_.shape(kRows)[1] - 1; }

  Status check() const {
    int64_t reach = room_;
    if (p_.rotary) reach = std::min(reach, call_.shape(kCos)[0]);
    int64_t listed = 0;
    if (checked_mul(blocks(), p_.block, &listed)) reach = std::min(reach, listed);
    if (total_ < length_ || total_ > reach)
      return call_.refuse(kTotal, "from {} to {} (got {})", length_, reach, total_);
    const int32_t* lengths = call_.in<int32_t>(kLengths);
    const int64_t least = prompt_ ? 1 : length_;
    for (int64_t b = 0; b < batch_; ++b)
      if (lengths[b] < least || lengths[b] > total_)
        return call_.refuse(kLengths, "lengths from {} to {} (sample {} has {})", least, total_, b, lengths[b]);
    const int64_t most = call_.shape(kCols)[1];
    for (int64_t l = 0; l < call_.shape(kRows)[0]; ++l) {
      const int32_t *rows = call_.in<int32_t>(kRows) + l * (blocks() + 1), *cols = call_.in<int32_t>(kCols) + l * most;
      bool good = rows[0] == 0;
      for (int64_t i = 0; i < blocks(); ++i) good = good && rows[i] <= rows[i + 1] && rows[i + 1] <= most;
      if (!good) return call_.refuse(kRows, "rising places of at most {} (layout {})", most, l);
      for (int64_t i = 0; i < rows[blocks()]; ++i)
        if (cols[i] < 0 || cols[i] >= blocks())
          return call_.refuse(kCols, "blocks from 0 to {} (layout {} has {})", blocks() - 1, l, cols[i]);
    }
    return {};
  }

  // The present caches begin as the past ones.
  Status copy_caches() {
    for (const int k : {0, 1}) {
      const auto* past = call_.in<float>(kPastK + k);
      cache_[k] = call_.out<float>(1 + k);
      if (!cache_[k]) {
        own_[k].assign(past, past + call_.count(kPastK + k));
        cache_[k] = own_[k].data();
      } else if (cache_[k] != past) {
        std::copy_n(past, call_.count(kPastK + k), cache_[k]);
      }
    }
    return {};
  }

  // Row i of a head of queries (part 0), keys or values.
  const float* row(int part, int64_t b, int64_t head, int64_t i) const {
    const int64_t at = b * length_ + i;
    if (!call_.has(kKey)) {
      const int64_t first = part == 0 ? 0 : p_.heads + (part - 1) * p_.kv_heads;
      return call_.in<float>(kQuery) + at * width_ + (first + head) * size_;
    }
    return call_.in<float>(part) + (at * (part == 0 ? p_.heads : p_.kv_heads) + head) * size_;
  }

  Rotation rotation() const {
    return {call_.in<float>(kCos), call_.in<float>(kSin), call_.shape(kCos)[1], p_.interleaved};
  }

  void add_rows(int64_t b, int64_t head) {
    for (int64_t i = 0; i < length_; ++i) {
      const int64_t at = ((b * p_.kv_heads + head) * room_ + past(b) + i) * size_;
      const float *k = row(1, b, head, i), *v = row(2, b, head, i);
      if (p_.rotary)
        rotation().apply(past(b) + i, k, size_, cache_[0] + at);
      else
        std::copy_n(k, size_, cache_[0] + at);
      std::copy_n(v, size_, cache_[1] + at);
    }
  }

  void attend(int64_t b, int64_t head) const {
    const int64_t layouts = call_.shape(kRows)[0], layout = head % layouts, first = past(b);
    const int32_t* rows = call_.in<int32_t>(kRows) + layout * (blocks() + 1);
    const int32_t* cols = call_.in<int32_t>(kCols) + layout * call_.shape(kCols)[1];
    const int64_t start = (b * p_.kv_heads + head / (p_.heads / p_.kv_heads)) * room_ * size_;
    std::vector<float> q(static_cast<size_t>(size_)), scores;
    std::vector<int64_t> seen;
    for (int64_t i = 0; i < length_ && !call_.cancelled(); ++i) {
      const int64_t position = first + i, block = position / p_.block;
      seen.clear();
      for (int32_t c = rows[block]; c < rows[block + 1]; ++c)
        for (int64_t k = cols[c] * p_.block; k < std::min((cols[c] + 1) * p_.block, position + 1); ++k)
          seen.push_back(k);
      // A query that sees nothing sees all before it alike.
      const bool blind = seen.empty();
      for (int64_t k = 0; blind && k <= position; ++k) seen.push_back(k);
      const float* x = row(0, b, head, i);
      if (p_.rotary)
        rotation().apply(position, x, size_, q.data());
      else
        std::copy_n(x, size_, q.data());
      score(q, seen, blind, cache_[0] + start, scores);
      float* y = call_.out<float>(0) + ((b * length_ + i) * p_.heads + head) * size_;
      std::fill_n(y, size_, 0.f);
      for (size_t k = 0; k < seen.size(); ++k)
        for (int64_t e = 0; e < size_; ++e) y[e] += scores[k] * cache_[1][start + seen[k] * size_ + e];
    }
  }

  // The softmax of the scaled products with the keys that are seen.
  void score(const std::vector<float>& q, const std::vector<int64_t>& seen, bool blind, const float* keys,
             std::vector<float>& out) const {
    out.assign(seen.size(), 0.f);
    float most = -INFINITY, sum = 0;
    for (size_t k = 0; k < seen.size(); ++k) {
      float dot = 0;
      for (size_t e = 0; e < q.size() && !blind; ++e) dot += q[e] * keys[seen[k] * size_ + static_cast<int64_t>(e)];
      most = std::max(most, out[k] = dot * scale_);
    }
    for (float& s : out) sum += s = std::exp(s - most);
    for (float& s : out) s /= sum;
  }

  const Params& p_;
  Call& call_;
  int64_t batch_, length_, width_, size_, room_, total_;
  bool prompt_;
  float scale_;
  float* cache_[2] = {};
  std::vector<float> own_[2];
};

Status compute(const Params& p, Call& call) { return SparseRun(p, call).run(); }

constexpr TypeRule kTypes[] = {{in_arg(kQuery) | in_arg(kKey) | in_arg(kValue) | in_arg(kPastK) | in_arg(kPastV) |
                                    in_arg(kCos) | in_arg(kSin) | out_arg(0) | out_arg(1) | out_arg(2),
                                set_of(DType::f32), kHalfFloats},
                               {in_arg(kRows) | in_arg(kCols) | in_arg(kTotal) | in_arg(kLengths), set_of(DType::i32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};

}  // namespace

extern constexpr Op kMicrosoftSparseAttention{.domain = kDomain,
                                              .name = "SparseAttention",
                                              .versions = kVersions,
                                              .parse = parse_checked<Params, kArity, parse>,
                                              .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                              .kernels = kKernels};
extern constexpr OpInference kMicrosoftSparseAttentionInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
