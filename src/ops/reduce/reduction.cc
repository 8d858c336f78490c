#include "ops/reduce/reduction.h"

#include <memory>

namespace tessera {
namespace {

class Folder {
 public:
  Folder(const Call& call, const ReductionLayout& layout, const FoldKind& kind, const void* x, void* y)
      : call_(call),
        layout_(layout),
        kind_(kind),
        x_(static_cast<const std::byte*>(x)),
        y_(static_cast<std::byte*>(y)) {}

  void run() {
    if (layout_.outputs() == 0) return;
    if (layout_.length() == 0)
      finish_nothing();
    else if (layout_.inner_reduced())
      fold_runs();
    else
      fold_columns();
  }

 private:
  static constexpr int64_t kWork = 1 << 15;    // elements in a chunk
  static constexpr int64_t kColumns = 256;     // outputs folded side by side
  static constexpr int64_t kEnoughTasks = 64;  // with as many, one output is never shared out

  using States = std::unique_ptr<std::byte[]>;
  States states(int64_t n) const { return States(new std::byte[static_cast<size_t>(n * kind_.state_bytes)]); }
  const std::byte* x(int64_t at) const { return x_ + at * kind_.element_bytes; }
  std::byte* y(int64_t at) const { return y_ + at * kind_.output_bytes; }

  void finish_nothing() {
    alignas(kMostStateBytes) std::byte state[kMostStateBytes];
    kind_.start(state, 1);
    for (int64_t o = 0; o < layout_.outputs(); ++o) kind_.finish(state, 1, 0, y(o));
  }

  // Elements [begin, end) of those behind output o.
  void fold_part(int64_t o, int64_t begin, int64_t end, std::byte* state) const {
    const int64_t at = layout_.kept_offset(o);
    kind_.start(state, 1);
    while (begin < end) {
      const int64_t within = begin % layout_.inner(), n = std::min(end - begin, layout_.inner() - within);
      kind_.fold_run(state, x(at + layout_.reduced_offset(begin / layout_.inner()) + within), n);
      begin += n;
    }
  }

  void fold_runs() {
    const int64_t n = layout_.outputs(), length = layout_.length();
    const int64_t parts = n >= kEnoughTasks ? 1 : ceil_div(length, kWork);
    if (parts == 1) {
      const int64_t each = std::max<int64_t>(1, kWork / length);
      call_.parallel(ceil_div(n, each), [&](int64_t chunk, int) {
        alignas(kMostStateBytes) std::byte state[kMostStateBytes];
        for (int64_t o = chunk * each; o < std::min(n, (chunk + 1) * each) && !call_.cancelled(); ++o) {
          fold_part(o, 0, length, state);
          kind_.finish(state, 1, length, y(o));
        }
      });
      return;
    }
    const States partial = states(n * parts);
    const auto state = [&](int64_t i) { return partial.get() + i * kind_.state_bytes; };
    call_.parallel(n * parts, [&](int64_t task, int) {
      const int64_t begin = task % parts * kWork;
      fold_part(task / parts, begin, std::min(length, begin + kWork), state(task));
    });
    for (int64_t o = 0; o < n; ++o) {
      for (int64_t p = 1; p < parts; ++p) kind_.merge(state(o * parts), state(o * parts + p), 1);
      kind_.finish(state(o * parts), 1, length, y(o));
    }
  }

  void fold_columns() {
    const int64_t inner = layout_.inner(), length = layout_.length();
    const int64_t blocks = ceil_div(inner, kColumns), tasks = layout_.outputs() / inner * blocks;
    const int64_t rows = std::max<int64_t>(1, kWork / std::min(inner, kColumns));
    const int64_t parts = tasks >= kEnoughTasks ? 1 : ceil_div(length, rows);
    const auto column = [&](int64_t task) { return task % blocks * kColumns; };
    const auto width = [&](int64_t task) { return std::min(kColumns, inner - column(task)); };
    // Which outputs a task makes, and from which of the elements behind them.
    const auto fold = [&](int64_t task, int64_t begin, int64_t end, std::byte* state) {
      const int64_t at = layout_.kept_offset(task / blocks) + column(task);
      kind_.start(state, width(task));
      for (int64_t r = begin; r < end; ++r) kind_.fold_each(state, x(at + layout_.reduced_offset(r)), width(task));
    };
    const auto finish = [&](int64_t task, const std::byte* state) {
      kind_.finish(state, width(task), length, y(task / blocks * inner + column(task)));
    };
    if (parts == 1) {
      const int64_t each = std::max<int64_t>(1, rows / length);
      call_.parallel(ceil_div(tasks, each), [&](int64_t chunk, int) {
        alignas(kMostStateBytes) std::byte state[kColumns * kMostStateBytes];
        for (int64_t t = chunk * each; t < std::min(tasks, (chunk + 1) * each) && !call_.cancelled(); ++t) {
          fold(t, 0, length, state);
          finish(t, state);
        }
      });
      return;
    }
    const int64_t step = std::min(inner, kColumns) * kind_.state_bytes;
    const States partial = states(tasks * parts * std::min(inner, kColumns));
    call_.parallel(tasks * parts, [&](int64_t i, int) {
      const int64_t begin = i % parts * rows;
      fold(i / parts, begin, std::min(length, begin + rows), partial.get() + i * step);
    });
    call_.parallel(tasks, [&](int64_t t, int) {
      std::byte* state = partial.get() + t * parts * step;
      for (int64_t p = 1; p < parts; ++p) kind_.merge(state, state + p * step, width(t));
      finish(t, state);
    });
  }

  const Call& call_;
  const ReductionLayout& layout_;
  const FoldKind& kind_;
  const std::byte* x_;
  std::byte* y_;
};

}  // namespace

void fold_into(const Call& call, const ReductionLayout& layout, const FoldKind& kind, const void* x, void* y) {
  Folder(call, layout, kind, x, y).run();
}

}  // namespace tessera
