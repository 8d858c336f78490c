#include "kernels/conv_stage.h"

#include <algorithm>
#include <cstring>

namespace tessera::conv {
namespace {

int64_t floor_div(int64_t a, int64_t b) { return b == 1 ? a : a >= 0 ? a / b : -((-a + b - 1) / b); }

// to[i] = from[2 * i], for elements of four bytes.
template <class T>
void copy_every_second(const T* from, T* to, int64_t n) {
  typedef T Four __attribute__((vector_size(16)));
  int64_t i = 0;
  // Four outputs read eight elements, the last of which must lie before another output's.
  for (; i + 4 < n; i += 4) {
    Four low, high;
    std::memcpy(&low, from + 2 * i, sizeof low);
    std::memcpy(&high, from + 2 * i + 4, sizeof high);
    const Four even = __builtin_shufflevector(low, high, 0, 2, 4, 6);
    std::memcpy(to + i, &even, sizeof even);
  }
  for (; i < n; ++i) to[i] = from[2 * i];
}

void copy_every_second(const uint8_t* from, uint8_t* to, int64_t n) {
  typedef uint8_t Sixteen __attribute__((vector_size(16)));
  int64_t i = 0;
  for (; i + 16 < n; i += 16) {
    Sixteen low, high;
    std::memcpy(&low, from + 2 * i, sizeof low);
    std::memcpy(&high, from + 2 * i + 16, sizeof high);
    const Sixteen even = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    std::memcpy(to + i, &even, sizeof even);
  }
  for (; i < n; ++i) to[i] = from[2 * i];
}

// to[i] = from[i * step].
void copy_strided(const uint8_t* from, int64_t step, uint8_t* to, int64_t n) {
  if (step == 2) return copy_every_second(from, to, n);
  if (step != 1) {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
    return;
  }
  // Whole small vectors, the last one overlapping the one before it.
  int64_t i = 0;
  for (; i + 16 <= n; i += 16) std::memcpy(to + i, from + i, 16);
  if (i == n) return;
  if (n >= 16) return void(std::memcpy(to + n - 16, from + n - 16, 16));
  for (; i + 4 <= n; i += 4) std::memcpy(to + i, from + i, 4);
  for (; i < n; ++i) to[i] = from[i];
}
template <class T>
void copy_strided(const T* from, int64_t step, T* to, int64_t n) {
  static_assert(sizeof(T) == 4);
  if (step == 1 && n >= 16) {
    std::memcpy(to, from, static_cast<size_t>(n) * sizeof(T));
  } else if (step == 1) {
    // Whole small vectors, the last one overlapping the one before it.
    int64_t i = 0;
    for (; i + 4 <= n; i += 4) std::memcpy(to + i, from + i, 4 * sizeof(T));
    if (i < n && n >= 4) return void(std::memcpy(to + n - 4, from + n - 4, 4 * sizeof(T)));
    for (; i < n; ++i) to[i] = from[i];
  } else if (step == 2) {
    copy_every_second(from, to, n);
  } else {
    for (int64_t i = 0; i < n; ++i) to[i] = from[i * step];
  }
}

Classes plan_classes(const ConvShape& s, int d) {
  const int64_t span = (s.kernel[d] - 1) * s.dilation[d];
  if (s.stride[d] == 1 ? span <= 256 : s.dilation[d] == 1 && s.stride[d] <= std::min<int64_t>(s.kernel[d], 8))
    return {true, s.stride[d], span / s.stride[d]};
  return {false, s.kernel[d], 0};
}

}  // namespace

Range inside(int64_t in, int64_t out, int64_t stride, int64_t shift) {
  const int64_t begin = std::clamp<int64_t>(-floor_div(shift, stride), 0, out);
  return {begin, std::clamp<int64_t>(floor_div(in - 1 - shift, stride) + 1, begin, out)};
}

void set_zero(float* to, int64_t n) {
  if (n >= 8) return void(std::memset(to, 0, static_cast<size_t>(n) * sizeof(float)));
  for (int64_t i = 0; i < n; ++i) {
    to[i] = 0.0f;
    asm volatile("");  // keeps the loop as short as it is
  }
}

namespace {

void fill(float* to, float, int64_t n) { set_zero(to, n); }
void fill(uint32_t* to, uint32_t value, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    to[i] = value;
    asm volatile("");  // keeps the loop as short as it is
  }
}
void fill(uint8_t* to, uint8_t value, int64_t n) {
  if (n >= 8) return void(std::memset(to, value, static_cast<size_t>(n)));
  for (int64_t i = 0; i < n; ++i) {
    to[i] = value;
    asm volatile("");  // keeps the loop as short as it is
  }
}

template <class T>
void copy_within(const T* row, int64_t stride, int64_t shift, Range valid, T* to, int64_t n, T outside) {
  fill(to, outside, valid.begin);
  if (valid.begin < valid.end)
    copy_strided(row + valid.begin * stride + shift, stride, to + valid.begin, valid.end - valid.begin);
  fill(to + valid.end, outside, n - valid.end);
}

}  // namespace

void copy_padded(const float* row, int64_t stride, int64_t shift, Range valid, float* to, int64_t n) {
  copy_within(row, stride, shift, valid, to, n, 0.0f);
}

Stage plan_stage(const ConvShape& s, int64_t rows, int64_t columns) {
  return {plan_classes(s, 1), plan_classes(s, 2), rows, columns};
}

Stage fit_stage(const ConvShape& s, int64_t floats) {
  Stage g = plan_stage(s, 1, 1);
  const int64_t per_column = s.kernel[0] * g.height.count * g.width.count * g.class_rows();
  const int64_t room = floats / per_column - g.width.reach;
  g.columns = std::clamp<int64_t>(room, 32, std::max<int64_t>(s.out[2], 32));
  const int64_t per_row = s.kernel[0] * g.height.count * g.width.count * g.length();
  g.columns = std::min(g.columns, std::max<int64_t>(s.out[2], 1));
  g.rows = std::clamp<int64_t>(floats / per_row - g.height.reach, 1, std::max<int64_t>(s.out[1], 1));
  return g;
}

namespace {

// Stages one class of columns: `rows` rows from input row iy0 on, element i of each being the input at i * stride +
// shift. A null plane lies outside.
template <class T>
void stage_class(const ConvShape& s, const Stage& g, const T* plane, int64_t iy0, int64_t rows, int64_t shift, T* to,
                 T outside) {
  const int64_t length = g.length();
  const Range valid = inside(s.in[2], length, s.stride[2], shift);
  for (int64_t r = 0; r < rows; ++r, to += length) {
    const int64_t iy = iy0 + r * s.stride[1];
    if (plane && iy >= 0 && iy < s.in[1])
      copy_within(plane + iy * s.in[2], s.stride[2], shift, valid, to, length, outside);
    else
      fill(to, outside, length);
  }
}

}  // namespace

template <class T>
void stage(const ConvShape& s, const Stage& g, const T* x, int64_t oz, int64_t oy, int64_t rows, int64_t ox, T* to,
           T outside) {
  for (int64_t z = 0; z < s.kernel[0]; ++z) {
    const int64_t iz = oz * s.stride[0] + z * s.dilation[0] - s.pad[0];
    const T* plane = iz >= 0 && iz < s.in[0] ? x + iz * s.in[1] * s.in[2] : nullptr;
    for (int64_t c = 0; c < g.height.count; ++c) {
      const int64_t iy0 = oy * s.stride[1] + c * (g.height.by_phase ? 1 : s.dilation[1]) - s.pad[1];
      for (int64_t w = 0; w < g.width.count; ++w, to += g.class_floats()) {
        const int64_t shift = ox * s.stride[2] + w * (g.width.by_phase ? 1 : s.dilation[2]) - s.pad[2];
        stage_class(s, g, plane, iy0, rows + g.height.reach, shift, to, outside);
      }
    }
  }
}

template void stage(const ConvShape&, const Stage&, const float*, int64_t, int64_t, int64_t, int64_t, float*, float);
template void stage(const ConvShape&, const Stage&, const uint8_t*, int64_t, int64_t, int64_t, int64_t, uint8_t*,
                    uint8_t);

template void stage(const ConvShape&, const Stage&, const uint32_t*, int64_t, int64_t, int64_t, int64_t, uint32_t*,
                    uint32_t);

bool can_stage_again(const ConvShape& s, const Stage& g) {
  return s.kernel[0] == 1 && s.in[0] == 1 && s.out[0] == 1 && g.rows >= s.out[1] && g.columns >= s.out[2] &&
         g.height.by_phase && g.width.by_phase && s.pad[1] >= 0 && s.pad[2] >= 0 && s.stride[2] <= 2;
}

namespace {

// Where tap t of a dimension lies: its class, and its place in it.
struct Place {
  int64_t index, shift;
};
Place place_of(const ConvShape& s, const Classes& classes, int d, int64_t t) {
  const int64_t at = t * s.dilation[d];
  return classes.by_phase ? Place{at % s.stride[d], at / s.stride[d]} : Place{t, 0};
}

}  // namespace

void set_offsets(const ConvShape& s, const Stage& g, int64_t* offset) {
  for (int64_t z = 0; z < s.kernel[0]; ++z)
    for (int64_t y = 0; y < s.kernel[1]; ++y)
      for (int64_t x = 0; x < s.kernel[2]; ++x) {
        const Place row = place_of(s, g.height, 1, y), column = place_of(s, g.width, 2, x);
        const int64_t index = (z * g.height.count + row.index) * g.width.count + column.index;
        *offset++ = index * g.class_floats() + row.shift * g.length() + column.shift;
      }
}

void gather_bytes(const ConvShape& s, const Stage& g, const int64_t* offset, const uint8_t* x, int64_t channels,
                  uint8_t outside, int64_t first, int64_t count, uint8_t* staged, uint8_t* out) {
  const int64_t y = first / s.out[2], rows = (first + count - 1) / s.out[2] - y + 1, taps = volume(s.kernel);
  for (int64_t c = 0; c < channels; ++c, x += volume(s.in)) {
    stage(s, g, x, 0, y, rows, 0, staged, outside);
    for (int64_t tap = 0; tap < taps; ++tap, out += count) {
      const uint8_t* from = staged + offset[tap];
      int64_t column = first % s.out[2];
      // Whole vectors: what is written beyond a row's end, its successor writes again.
      for (int64_t done = 0; done < count; column = 0, from += g.length()) {
        const int64_t n = std::min(s.out[2] - column, count - done);
        for (int64_t i = 0; i < n; i += 16) std::memcpy(out + done + i, from + column + i, 16);
        done += n;
      }
    }
  }
}

}  // namespace tessera::conv
