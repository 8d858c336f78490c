#include "ops/tensor/padding.h"

namespace tessera {
namespace {

// Where the border element j of an axis comes from: a place among the `length` elements at `at`.
int64_t source_of(PadMode mode, int64_t j, int64_t at, int64_t length) {
  const int64_t i = j - at;
  if (mode == PadMode::edge) return at + std::clamp<int64_t>(i, 0, length - 1);
  if (mode == PadMode::reflect) return at + (i < 0 ? -i : 2 * (length - 1) - i);
  const int64_t r = i % length;
  return at + (r < 0 ? r + length : r);
}

}  // namespace

// The kept elements are copied first. Then the borders of each axis, the innermost first, are whole blocks: of the
// value, or copies of blocks that are complete by then.
Status pad_input(Call& call, const Padding& p, PadMode mode, const void* value) {
  TRY_ASSIGN(y, output_memory(call));
  if (!y || call.out_count(0) == 0) return {};
  const DType t = call.dtype(0);
  const Shape &in = call.shape(0), &out = call.out_shape(0);
  int64_t strides[kMaxRank], own[kMaxRank], from = 0, to = 0;
  strides_of(in.dims(), own);
  strides_of(out.dims(), strides);
  for (int i = 0; i < in.rank(); ++i) {
    from += p.from[i] * own[i];
    to += p.at[i] * strides[i];
  }
  const auto rank = static_cast<size_t>(in.rank());
  copy_strided(call, t, p.length.span(), call.in(0), {from, {own, rank}}, y, {to, {strides, rank}});
  for (int axis = in.rank(); axis-- > 0;) {
    const int64_t inner = strides[axis], at = p.at[axis], length = p.length[axis], size = out[axis];
    if (length == size) continue;
    int64_t outer = 1;
    for (int d = 0; d < axis; ++d) outer *= p.length[d];
    for_blocks(call, t, outer, size * inner, [&](int64_t begin, int64_t end) {
      for (int64_t k = begin; k < end; ++k) {
        int64_t base = 0;
        for (int64_t rest = k, d = axis - 1; d >= 0; --d) {
          const int64_t n = p.length[static_cast<int>(d)];
          base += (rest % n + p.at[static_cast<int>(d)]) * strides[d];
          rest /= n;
        }
        if (mode == PadMode::constant) {
          fill_elements(t, y, base, at * inner, value);
          fill_elements(t, y, base + (at + length) * inner, (size - at - length) * inner, value);
          continue;
        }
        for (int64_t j = 0; j < size; j = j + 1 == at ? at + length : j + 1)
          if (j < at || j >= at + length)
            copy_elements(t, y, base + source_of(mode, j, at, length) * inner, y, base + j * inner, inner);
      }
    });
  }
  return {};
}

}  // namespace tessera
