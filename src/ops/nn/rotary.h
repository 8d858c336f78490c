// Rotating pairs of elements of heads by angles of which tables hold cosines and sines.
#pragma once
#include "ops/elementwise.h"

namespace tessera {

struct Rotation {
  const float *cos, *sin;  // rows of `half`, one for each position
  int64_t half;            // pairs; they are the first 2 * half elements of a head
  bool interleaved;        // neighbours make a pair; else element i and element half + i

  // One head of `size` at one position; y may be x.
  void apply(int64_t position, const float* x, int64_t size, float* y) const {
    const float *c = cos + position * half, *s = sin + position * half;
    const int64_t step = interleaved ? 2 : 1, other = interleaved ? 1 : half;
    for (int64_t i = 0; i < half; ++i) {
      const float a = x[i * step], b = x[i * step + other];
      y[i * step] = c[i] * a - s[i] * b;
      y[i * step + other] = s[i] * a + c[i] * b;
    }
    if (y != x) std::copy(x + 2 * half, x + size, y + 2 * half);
  }
};

struct RotarySizes {
  int64_t batch, heads, length, size;
  bool four;  // [batch, heads, length, size]; else [batch, length, heads * size]
};

// All heads of a tensor; position(i) is that of row i of batch * length, checked by the caller.
template <class Position>
void rotate_all(const Call& call, const Rotation& rotation, const RotarySizes& s, const float* x, float* y,
                Position&& position) {
  const int64_t rows = s.batch * s.length;
  const int64_t per_chunk = std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(1, s.heads * s.size));
  call.parallel(ceil_div(rows, per_chunk), [&](int64_t chunk, int) {
    for (int64_t i = chunk * per_chunk, end = std::min(rows, i + per_chunk); i < end; ++i)
      for (int64_t h = 0; h < s.heads; ++h) {
        const int64_t row = s.four ? (i / s.length * s.heads + h) * s.length + i % s.length : i * s.heads + h;
        rotation.apply(position(i), x + row * s.size, s.size, y + row * s.size);
      }
  });
}

}  // namespace tessera
