// What the operators on trees share: the rows of their input, and a walk over the scores of each.
#pragma once
#include "ops/ml/scores.h"
#include "ops/ml/trees.h"

namespace tessera::ml {

// The rows of input 0, which must have every feature the trees ask for.
template <class D>
Status tree_rows(const Trees& trees, ShapeCall<D>& c, D& rows) {
  D columns = 1;
  TRY(rows_of(c, rows, columns));
  if (known(columns) && number(columns) < trees.columns())
    return c.refuse(0, format("at least {} features", trees.columns()));
  return {};
}

// fn(row, score, seen) for every row of X, in parallel: a score for each target, and whether any leaf spoke of it.
template <class X, class F>
Status for_scores(Call& call, const Trees& trees, Aggregate aggregate, F&& fn) {
  const int64_t rows = rows_of(call), columns = columns_of(call), piece = trees.piece();
  const X* x = call.in<X>(0);
  call.parallel(ceil_div(rows, piece), [&](int64_t chunk, int) {
    if (call.cancelled()) return;
    const int64_t first = chunk * piece, n = std::min(piece, rows - first);
    TreeScores scores;
    trees.score(x + first * columns, n, columns, aggregate, scores);
    for (int64_t r = 0; r < n; ++r)
      fn(first + r, scores.score.data() + r * trees.targets(), scores.seen.data() + r * trees.targets());
  });
  return call.cancelled() ? call.stopped() : Status{};
}

}  // namespace tessera::ml
