#include "ops/elementwise.h"

namespace tessera {

BroadcastRows::BroadcastRows(const Shape& out, std::span<const std::span<const int64_t>> inputs)
    : inputs_(static_cast<int>(inputs.size())), total_(out.count()) {
  assert(inputs_ <= kMostInputs);
  const int rank = out.rank();
  // Strides of every input over the output's dimensions, 0 where it is repeated.
  int64_t stride[kMostInputs][kMaxRank];
  for (int k = 0; k < inputs_; ++k) {
    int64_t step = 1;
    const int lead = rank - static_cast<int>(inputs[k].size());
    for (int d = rank; d-- > 0;) {
      const int64_t dim = d >= lead ? inputs[k][static_cast<size_t>(d - lead)] : 1;
      stride[k][d] = dim == 1 ? 0 : step;
      step *= dim;
    }
  }
  // Merge from the innermost outwards: a dimension joins the one inside it if every input just goes on.
  int64_t dims[kMaxRank];
  int merged = 0;
  int64_t steps[kMostInputs][kMaxRank];
  for (int d = rank; d-- > 0;) {
    if (out[d] == 1) continue;
    bool joins = merged > 0;
    for (int k = 0; k < inputs_ && joins; ++k) joins = stride[k][d] == steps[k][merged - 1] * dims[merged - 1];
    if (joins) {
      dims[merged - 1] *= out[d];
      continue;
    }
    dims[merged] = out[d];
    for (int k = 0; k < inputs_; ++k) steps[k][merged] = stride[k][d];
    ++merged;
  }
  if (merged > 0) {
    inner_ = dims[0];
    for (int k = 0; k < inputs_; ++k) inner_step_[static_cast<size_t>(k)] = steps[k][0];
  }
  outer_rank_ = std::max(0, merged - 1);
  for (int d = 0; d < outer_rank_; ++d) {
    outer_[d] = dims[merged - 1 - d];
    for (int k = 0; k < inputs_; ++k) stride_[k][d] = steps[k][merged - 1 - d];
  }
  chunks_ = ceil_div(total_, kChunk);
}

}  // namespace tessera
