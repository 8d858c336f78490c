// Reductions over any set of axes: the dimensions collapsed to the fewest that matter, and folds that run over them in
// an order that depends on sizes alone.
#pragma once
#include <algorithm>
#include <vector>

#include "ops/op.h"

namespace tessera {

// A tensor as runs of `inner` contiguous elements that are all reduced or all kept, around them the other dimensions.
class ReductionLayout {
 public:
  // reduced[k] says whether dimension k goes away.
  ReductionLayout(std::span<const int64_t> dims, const bool* reduced) {
    std::vector<Group> groups;
    for (size_t k = 0; k < dims.size(); ++k) {
      length_ *= reduced[k] ? dims[k] : 1;
      outputs_ *= reduced[k] ? 1 : dims[k];
      if (dims[k] == 1) continue;
      if (groups.empty() || groups.back().reduced != reduced[k])
        groups.push_back({dims[k], 0, reduced[k]});
      else
        groups.back().size *= dims[k];
    }
    int64_t stride = 1;
    for (size_t k = groups.size(); k-- > 0; stride *= groups[k].size) groups[k].stride = stride;
    if (!groups.empty()) {
      inner_ = groups.back().size;
      inner_reduced_ = groups.back().reduced;
      groups.pop_back();
    }
    for (const Group& g : groups) (g.reduced ? away_ : kept_).push_back(g);
  }

  int64_t outputs() const { return outputs_; }
  int64_t length() const { return length_; }  // elements behind one output
  int64_t inner() const { return inner_; }
  bool inner_reduced() const { return inner_reduced_; }
  // One contiguous row of the input per output.
  bool rows() const { return inner_reduced_ && away_.empty(); }
  // Where the i-th combination of the outer kept (reduced) dimensions starts in the input.
  int64_t kept_offset(int64_t i) const { return offset(kept_, i); }
  int64_t reduced_offset(int64_t i) const { return offset(away_, i); }

 private:
  struct Group {
    int64_t size, stride;
    bool reduced;
  };
  static int64_t offset(const std::vector<Group>& groups, int64_t i) {
    int64_t at = 0;
    for (size_t k = groups.size(); k-- > 0; i /= groups[k].size) at += i % groups[k].size * groups[k].stride;
    return at;
  }
  std::vector<Group> kept_, away_;
  int64_t outputs_ = 1, length_ = 1, inner_ = 1;
  bool inner_reduced_ = false;
};

// How elements become one: functions over arrays of accumulators, so that walking a tensor is written and compiled
// once.
struct FoldKind {
  int64_t element_bytes, output_bytes, state_bytes;
  void (*start)(void* states, int64_t n);
  // n contiguous elements into one state.
  void (*fold_run)(void* state, const void* x, int64_t n);
  // Element i into state i.
  void (*fold_each)(void* states, const void* x, int64_t n);
  // State i of `others` into state i.
  void (*merge)(void* states, const void* others, int64_t n);
  // `length`: elements behind each output.
  void (*finish)(const void* states, int64_t n, int64_t length, void* y);
};
inline constexpr int64_t kMostStateBytes = 16;

// Folds the elements behind every output.
void fold_into(const Call& call, const ReductionLayout& layout, const FoldKind& kind, const void* x, void* y);

// The functions of F, which has: Acc; start(); fold(Acc, T) -> Acc; merge(Acc, Acc) -> Acc; and
// finish(Acc, int64_t length) -> the output element.
template <class F, class T, class Y>
struct FoldFunctions {
  using Acc = typename F::Acc;
  static constexpr int kWays = 8;

  static void start(void* states, int64_t n) { std::fill_n(static_cast<Acc*>(states), n, F::start()); }
  static void fold_run(void* state, const void* from, int64_t n) {
    Acc& acc = *static_cast<Acc*>(state);
    const T* x = static_cast<const T*>(from);
    if (n < 2 * kWays) {
      for (int64_t i = 0; i < n; ++i) acc = F::fold(acc, x[i]);
      return;
    }
    Acc ways[kWays];
    for (Acc& w : ways) w = F::start();
    int64_t i = 0;
    for (; i + kWays <= n; i += kWays)
      for (int w = 0; w < kWays; ++w) ways[w] = F::fold(ways[w], x[i + w]);
    for (; i < n; ++i) ways[0] = F::fold(ways[0], x[i]);
    for (int half = kWays / 2; half > 0; half /= 2)
      for (int w = 0; w < half; ++w) ways[w] = F::merge(ways[w], ways[w + half]);
    acc = F::merge(acc, ways[0]);
  }
  static void fold_each(void* states, const void* from, int64_t n) {
    Acc* acc = static_cast<Acc*>(states);
    const T* x = static_cast<const T*>(from);
    for (int64_t i = 0; i < n; ++i) acc[i] = F::fold(acc[i], x[i]);
  }
  static void merge(void* states, const void* others, int64_t n) {
    Acc* acc = static_cast<Acc*>(states);
    for (int64_t i = 0; i < n; ++i) acc[i] = F::merge(acc[i], static_cast<const Acc*>(others)[i]);
  }
  static void finish(const void* states, int64_t n, int64_t length, void* y) {
    for (int64_t i = 0; i < n; ++i)
      static_cast<Y*>(y)[i] = static_cast<Y>(F::finish(static_cast<const Acc*>(states)[i], length));
  }
};
template <class F, class T, class Y>
inline constexpr FoldKind kFold{sizeof(T),
                                sizeof(Y),
                                sizeof(typename F::Acc),
                                FoldFunctions<F, T, Y>::start,
                                FoldFunctions<F, T, Y>::fold_run,
                                FoldFunctions<F, T, Y>::fold_each,
                                FoldFunctions<F, T, Y>::merge,
                                FoldFunctions<F, T, Y>::finish};

template <class F, class T, class Y>
void fold_into(const Call& call, const ReductionLayout& layout, const T* x, Y* y) {
  static_assert(sizeof(typename F::Acc) <= kMostStateBytes);
  fold_into(call, layout, kFold<F, T, Y>, x, y);
}

}  // namespace tessera
