// Reductions over any set of axes: the dimensions collapsed to the fewest that matter, and folds that run over them in
// an order that depends on sizes alone.
#pragma once
#include <memory>
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

// Folds the elements behind every output. F has: Acc; start(); fold(Acc, T) -> Acc; merge(Acc, Acc) -> Acc; and
// finish(Acc, int64_t length) -> the output element.
template <class F, class T, class Y>
class Folder {
 public:
  using Acc = typename F::Acc;
  Folder(const Call& call, const ReductionLayout& layout, const T* x, Y* y)
      : call_(call), layout_(layout), x_(x), y_(y) {}

  void run() {
    if (layout_.outputs() == 0) return;
    if (layout_.length() == 0)
      std::fill_n(y_, layout_.outputs(), static_cast<Y>(F::finish(F::start(), 0)));
    else if (layout_.inner_reduced())
      fold_runs();
    else
      fold_columns();
  }

 private:
  static constexpr int64_t kWork = 1 << 15;    // elements in a chunk
  static constexpr int64_t kColumns = 256;     // outputs folded side by side
  static constexpr int64_t kEnoughTasks = 64;  // with as many, one output is never shared out
  static constexpr int kWays = 8;

  static Acc fold_run(Acc acc, const T* x, int64_t n) {
    if (n < 2 * kWays) {
      for (int64_t i = 0; i < n; ++i) acc = F::fold(acc, x[i]);
      return acc;
    }
    Acc ways[kWays];
    for (Acc& w : ways) w = F::start();
    int64_t i = 0;
    for (; i + kWays <= n; i += kWays)
      for (int w = 0; w < kWays; ++w) ways[w] = F::fold(ways[w], x[i + w]);
    for (; i < n; ++i) ways[0] = F::fold(ways[0], x[i]);
    for (int half = kWays / 2; half > 0; half /= 2)
      for (int w = 0; w < half; ++w) ways[w] = F::merge(ways[w], ways[w + half]);
    return F::merge(acc, ways[0]);
  }

  // Elements [begin, end) of those behind output o.
  Acc fold_part(int64_t o, int64_t begin, int64_t end) const {
    const T* x = x_ + layout_.kept_offset(o);
    Acc acc = F::start();
    while (begin < end) {
      const int64_t within = begin % layout_.inner(), n = std::min(end - begin, layout_.inner() - within);
      acc = fold_run(acc, x + layout_.reduced_offset(begin / layout_.inner()) + within, n);
      begin += n;
    }
    return acc;
  }

  void fold_runs() {
    const int64_t n = layout_.outputs(), length = layout_.length();
    const int64_t parts = n >= kEnoughTasks ? 1 : ceil_div(length, kWork);
    if (parts == 1) {
      const int64_t each = std::max<int64_t>(1, kWork / length);
      call_.parallel(ceil_div(n, each), [&](int64_t chunk, int) {
        for (int64_t o = chunk * each; o < std::min(n, (chunk + 1) * each) && !call_.cancelled(); ++o)
          y_[o] = static_cast<Y>(F::finish(fold_part(o, 0, length), length));
      });
      return;
    }
    const std::unique_ptr<Acc[]> partial(new Acc[static_cast<size_t>(n * parts)]);
    call_.parallel(n * parts, [&](int64_t task, int) {
      const int64_t begin = task % parts * kWork;
      partial[task] = fold_part(task / parts, begin, std::min(length, begin + kWork));
    });
    for (int64_t o = 0; o < n; ++o) {
      Acc acc = partial[o * parts];
      for (int64_t p = 1; p < parts; ++p) acc = F::merge(acc, partial[o * parts + p]);
      y_[o] = static_cast<Y>(F::finish(acc, length));
    }
  }

  void fold_columns() {
    const int64_t inner = layout_.inner(), length = layout_.length();
    const int64_t blocks = ceil_div(inner, kColumns), tasks = layout_.outputs() / inner * blocks;
    const int64_t rows = std::max<int64_t>(1, kWork / std::min(inner, kColumns));
    const int64_t parts = tasks >= kEnoughTasks ? 1 : ceil_div(length, rows);
    // Which outputs a task makes, and from which of the elements behind them.
    const auto fold = [&](int64_t task, int64_t begin, int64_t end, Acc* acc) {
      const int64_t column = task % blocks * kColumns, n = std::min(kColumns, inner - column);
      const T* x = x_ + layout_.kept_offset(task / blocks) + column;
      std::fill_n(acc, n, F::start());
      for (int64_t r = begin; r < end; ++r) {
        const T* row = x + layout_.reduced_offset(r);
        for (int64_t j = 0; j < n; ++j) acc[j] = F::fold(acc[j], row[j]);
      }
    };
    const auto finish = [&](int64_t task, const Acc* acc) {
      const int64_t column = task % blocks * kColumns, n = std::min(kColumns, inner - column);
      Y* y = y_ + task / blocks * inner + column;
      for (int64_t j = 0; j < n; ++j) y[j] = static_cast<Y>(F::finish(acc[j], length));
    };
    if (parts == 1) {
      const int64_t each = std::max<int64_t>(1, rows / length);
      call_.parallel(ceil_div(tasks, each), [&](int64_t chunk, int) {
        Acc acc[kColumns];
        for (int64_t t = chunk * each; t < std::min(tasks, (chunk + 1) * each) && !call_.cancelled(); ++t) {
          fold(t, 0, length, acc);
          finish(t, acc);
        }
      });
      return;
    }
    const int64_t width = std::min(inner, kColumns);
    const std::unique_ptr<Acc[]> partial(new Acc[static_cast<size_t>(tasks * parts * width)]);
    call_.parallel(tasks * parts, [&](int64_t i, int) {
      const int64_t begin = i % parts * rows;
      fold(i / parts, begin, std::min(length, begin + rows), partial.get() + i * width);
    });
    call_.parallel(tasks, [&](int64_t t, int) {
      Acc* acc = partial.get() + t * parts * width;
      const int64_t n = std::min(kColumns, inner - t % blocks * kColumns);
      for (int64_t p = 1; p < parts; ++p)
        for (int64_t j = 0; j < n; ++j) acc[j] = F::merge(acc[j], acc[p * width + j]);
      finish(t, acc);
    });
  }

  const Call& call_;
  const ReductionLayout& layout_;
  const T* x_;
  Y* y_;
};

template <class F, class T, class Y>
void fold_into(const Call& call, const ReductionLayout& layout, const T* x, Y* y) {
  Folder<F, T, Y>(call, layout, x, y).run();
}

}  // namespace tessera
