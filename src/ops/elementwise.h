// Broadcasting: shapes, and loops over rows of elements that any inner kernel can work on.
#pragma once
#include <array>

#include "ops/op.h"

namespace tessera {

// Merges one dimension into *out by ONNX's (numpy's) rule; false if the two cannot meet.
inline bool broadcast_dim(int64_t a, int64_t b, ShapeCall<int64_t>&, int64_t* out) {
  *out = a == 1 ? b : a;
  return a == b || a == 1 || b == 1;
}
// True if d is min(other, n) with a number n >= 2: then d is 1 only where other is, and the two broadcast to other.
inline bool is_capped(const Dim& d, const Dim& other) {
  if (d.known() || d.expr()->terms.size() != 1) return false;
  const DimTerm& t = d.expr()->terms[0];
  if (t.coefficient != 1 || t.atoms.size() != 1 || t.atoms[0]->kind != DimAtom::Kind::min) return false;
  const Dim &x = t.atoms[0]->a, &y = t.atoms[0]->b;
  return (x == other && y.known() && y.value() >= 2) || (y == other && x.known() && x.value() >= 2);
}
inline bool broadcast_dim(const Dim& a, const Dim& b, ShapeCall<Dim>& c, Dim* out) {
  if (is_capped(b, a)) return *out = a, true;
  if (is_capped(a, b)) return *out = b, true;
  if (a == b || (b.known() && b.value() == 1)) return *out = a, true;
  if (a.known() && a.value() == 1) return *out = b, true;
  if (a.known() && b.known()) return false;
  *out = a.known() ? a : b.known() ? b : c.fresh();
  return true;
}

// The shape that `dims` and `acc` broadcast to, into acc.
template <class D>
bool broadcast_into(DimVec<D>& acc, std::span<const D> dims, ShapeCall<D>& c) {
  const int rank = static_cast<int>(dims.size());
  while (acc.size() < rank) acc.insert(0, D(1));
  for (int i = 0; i < rank; ++i) {
    D& d = acc[acc.size() - rank + i];
    if (!broadcast_dim(d, dims[static_cast<size_t>(i)], c, &d)) return false;
  }
  return true;
}

// Output 0 has the shape that all present inputs broadcast to.
template <class D>
Status shape_broadcast(const void*, ShapeCall<D>& c) {
  DimVec<D> out;
  for (int i = 0; i < c.inputs(); ++i) {
    if (!c.has(i)) continue;
    if (!broadcast_into(out, c.dims(i), c)) return c.refuse(i, "a shape that broadcasts with the other inputs");
  }
  return c.set(0, out);
}

// Rows: the output cut into runs of elements in which every input advances by a fixed step of 0 or 1.
class BroadcastRows {
 public:
  static constexpr int kMostInputs = 4;
  struct Row {
    int64_t out;                            // element offset of the run in the output
    int64_t n;                              // elements in the run
    std::array<int64_t, kMostInputs> in;    // element offset in each input
    std::array<int64_t, kMostInputs> step;  // 0 or 1
  };

  BroadcastRows(const Shape& out, std::span<const std::span<const int64_t>> inputs);

  // Calls fn(const Row&) for all runs, cut so that a chunk has about kChunk elements whatever the number of threads.
  template <class F>
  void run(int threads, F&& fn) const {
    if (chunks_ <= 1) return run_chunk(0, fn);
    parallel_for(threads, chunks_, [&](int64_t chunk, int) { run_chunk(chunk, fn); });
  }

 private:
  static constexpr int64_t kChunk = 1 << 14;

  template <class F>
  void run_chunk(int64_t chunk, F& fn) const {
    if (inner_ == 0) return;
    int64_t at = chunk * kChunk;
    const int64_t end = std::min(total_, at + kChunk);
    while (at < end) {
      Row row;
      const int64_t within = at % inner_;
      int64_t index = at / inner_;
      row.out = at;
      row.n = std::min(inner_ - within, end - at);
      for (int k = 0; k < inputs_; ++k) row.in[k] = within * inner_step_[k];
      row.step = inner_step_;
      for (int d = outer_rank_; d-- > 0; index /= outer_[d])
        for (int k = 0; k < inputs_; ++k) row.in[k] += index % outer_[d] * stride_[k][d];
      fn(static_cast<const Row&>(row));
      at += row.n;
    }
  }

  int inputs_;
  int outer_rank_ = 0;
  int64_t total_, inner_ = 1, chunks_;
  std::array<int64_t, kMostInputs> inner_step_{};
  int64_t outer_[kMaxRank];
  int64_t stride_[kMostInputs][kMaxRank];
};

// Cuts [0, n) into pieces for element-wise work; fn(begin, count).
template <class F>
void for_pieces(const Call& call, int64_t n, F&& fn) {
  constexpr int64_t kPiece = 1 << 14;
  call.parallel(ceil_div(n, kPiece),
                [&](int64_t chunk, int) { fn(chunk * kPiece, std::min(kPiece, n - chunk * kPiece)); });
}

// Type rules shared by arithmetic: T on both sides, the half floats widened to float, the small integers to int32.
inline constexpr TypeSet kSmallInts = set_of(DType::i8, DType::i16, DType::u8, DType::u16);
template <class T>
constexpr TypeSet widened_to = {};
template <>
inline constexpr TypeSet widened_to<float> = kHalfFloats;
template <>
inline constexpr TypeSet widened_to<int32_t> = kSmallInts;

// All arguments of type T (or widened to it).
template <class T>
inline constexpr TypeRule kAllSame[] = {{in_arg(0) | kRestIn | out_arg(0), set_of(dtype_of<T>), widened_to<T>}};

}  // namespace tessera
