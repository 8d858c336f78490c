#include "kernels/transpose.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/checked.h"
#include "base/thread_pool.h"

namespace tessera {
namespace {

constexpr int64_t kChunkBytes = 1 << 16;
constexpr int64_t kTile = 64;  // elements along each side of the square that is turned at a time

// One dimension of the output: how many, and how far apart its neighbours lie, in elements.
struct Axis {
  int64_t size, in_stride, out_stride;
};

// The output's dimensions from the outermost to the innermost, without ones, and with those merged that lie together in
// both tensors.
struct Axes {
  Axis axis[kMaxTransposeRank];
  int rank = 0;
  size_t elem;  // bytes of what counts as an element

  void push(int64_t size, int64_t in_stride) {
    if (size == 1) return;
    if (rank > 0 && axis[rank - 1].in_stride == in_stride * size) {
      axis[rank - 1].size *= size;
      axis[rank - 1].in_stride = in_stride;
    } else {
      axis[rank++] = {size, in_stride, 0};
    }
  }

  void set_out_strides() {
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; stride *= axis[i--].size) axis[i].out_stride = stride;
  }

  // An innermost dimension that stays innermost and is as long as a wider element becomes that element.
  void widen() {
    if (rank < 2 || axis[rank - 1].in_stride != 1) return;
    const int64_t run = axis[rank - 1].size, bytes = run * static_cast<int64_t>(elem);
    if (bytes > 16 || (bytes & (bytes - 1)) != 0) return;
    elem = static_cast<size_t>(bytes);
    --rank;
    for (int i = 0; i < rank; ++i) axis[i].in_stride /= run;
  }

  void remove(int i) {
    std::copy(axis + i + 1, axis + rank, axis + i);
    --rank;
  }

  int64_t count() const {
    int64_t n = 1;
    for (int i = 0; i < rank; ++i) n *= axis[i].size;
    return n;
  }
};

// Walks all positions of some axes, keeping both offsets.
class Walk {
 public:
  Walk(const Axes& axes, int64_t start) : axes_(axes) {
    for (int i = axes.rank - 1; i >= 0; --i) {
      index_[i] = start % axes.axis[i].size;
      start /= axes.axis[i].size;
      in += index_[i] * axes.axis[i].in_stride;
      out += index_[i] * axes.axis[i].out_stride;
    }
  }
  void next() {
    for (int i = axes_.rank - 1; i >= 0; --i) {
      const Axis& a = axes_.axis[i];
      in += a.in_stride;
      out += a.out_stride;
      if (++index_[i] < a.size) return;
      index_[i] = 0;
      in -= a.in_stride * a.size;
      out -= a.out_stride * a.size;
    }
  }
  int64_t in = 0, out = 0;

 private:
  const Axes& axes_;
  int64_t index_[kMaxTransposeRank];
};

Axes output_axes(size_t elem, std::span<const int64_t> dims, std::span<const int> perm) {
  int64_t strides[kMaxTransposeRank];
  int64_t stride = 1;
  for (size_t i = dims.size(); i-- > 0; stride *= dims[i]) strides[i] = stride;
  Axes axes;
  axes.elem = elem;
  for (int p : perm) axes.push(dims[p], strides[p]);
  axes.widen();
  axes.set_out_strides();
  return axes;
}

struct Block16 {
  uint64_t half[2];
};

// A square of 16-byte rows, turned by interleaving the rows of its two halves once per bit of the row index.
template <class T>
struct Square {
  typedef T Row __attribute__((vector_size(16)));
  static constexpr int kSide = 16 / sizeof(T);

  template <int kFrom, size_t... kIndex>
  static Row interleave(Row a, Row b, std::index_sequence<kIndex...>) {
    return __builtin_shufflevector(a, b, (kFrom + static_cast<int>(kIndex) / 2 + (kIndex % 2 ? kSide : 0))...);
  }

  static void turn(const T* x, int64_t x_stride, T* y, int64_t y_stride) {
    Row rows[kSide], next[kSide];
    for (int i = 0; i < kSide; ++i) std::memcpy(&rows[i], x + i * x_stride, sizeof(Row));
#pragma GCC unroll 4
    for (int step = 1; step < kSide; step *= 2) {
#pragma GCC unroll 16
      for (int i = 0; i < kSide / 2; ++i) {
        next[2 * i] = interleave<0>(rows[i], rows[i + kSide / 2], std::make_index_sequence<kSide>());
        next[2 * i + 1] = interleave<kSide / 2>(rows[i], rows[i + kSide / 2], std::make_index_sequence<kSide>());
      }
#pragma GCC unroll 16
      for (int i = 0; i < kSide; ++i) rows[i] = next[i];
    }
    for (int i = 0; i < kSide; ++i) std::memcpy(y + i * y_stride, &rows[i], sizeof(Row));
  }
};

template <>
struct Square<Block16> {
  static constexpr int kSide = 1;
  static void turn(const Block16* x, int64_t, Block16* y, int64_t) { std::memcpy(y, x, sizeof(Block16)); }
};

// y[j * y_stride + r] = x[r * x_stride + j] for r < rows, j < columns.
template <class T>
void turn_tile(const T* x, int64_t x_stride, T* y, int64_t y_stride, int64_t rows, int64_t columns) {
  constexpr int kSide = Square<T>::kSide;
  const int64_t whole_rows = rows / kSide * kSide, whole_columns = columns / kSide * kSide;
  for (int64_t j = 0; j < whole_columns; j += kSide)
    for (int64_t r = 0; r < whole_rows; r += kSide)
      Square<T>::turn(x + r * x_stride + j, x_stride, y + j * y_stride + r, y_stride);
  for (int64_t j = 0; j < columns; ++j)
    for (int64_t r = j < whole_columns ? whole_rows : 0; r < rows; ++r)
      std::memcpy(y + j * y_stride + r, x + r * x_stride + j, sizeof(T));
}

template <class T>
void turn_all(const void* x, void* y, const Axes& axes, int threads) {
  const Axis inner = axes.axis[axes.rank - 1];
  int across = 0;
  while (axes.axis[across].in_stride != 1) ++across;
  const Axis row = axes.axis[across];
  Axes outer = axes;
  outer.remove(axes.rank - 1);
  outer.remove(across);
  // A unit is a strip of `row`, kTile wide, over the whole of `inner`, cut where that is long.
  constexpr int64_t kLongest = 16 * kTile;
  const int64_t strips = ceil_div(row.size, kTile), pieces = ceil_div(inner.size, kLongest);
  const int64_t units = outer.count() * strips * pieces;
  const int64_t unit_bytes =
      std::min(row.size, kTile) * std::min(inner.size, kLongest) * static_cast<int64_t>(sizeof(T));
  const int64_t per_chunk = std::max<int64_t>(1, kChunkBytes / unit_bytes);
  parallel_for(threads, ceil_div(units, per_chunk), [&](int64_t chunk, int) {
    int64_t unit = chunk * per_chunk;
    const int64_t end = std::min(units, unit + per_chunk);
    Walk walk(outer, unit / (strips * pieces));
    for (; unit < end; ++unit) {
      const int64_t part = unit % (strips * pieces);
      const int64_t j = part / pieces * kTile, r0 = part % pieces * kLongest, r1 = std::min(inner.size, r0 + kLongest);
      for (int64_t r = r0; r < r1; r += kTile)
        turn_tile(static_cast<const T*>(x) + walk.in + r * inner.in_stride + j, inner.in_stride,
                  static_cast<T*>(y) + walk.out + j * row.out_stride + r, row.out_stride, std::min(kTile, r1 - r),
                  std::min(kTile, row.size - j));
      if (part + 1 == strips * pieces) walk.next();
    }
  });
}

void copy_bytes(const char* x, char* y, int64_t bytes, int threads) {
  constexpr int64_t kPiece = 16 * kChunkBytes;
  parallel_for(threads, ceil_div(bytes, kPiece), [&](int64_t i, int) {
    std::memcpy(y + i * kPiece, x + i * kPiece, static_cast<size_t>(std::min(kPiece, bytes - i * kPiece)));
  });
}

// The innermost dimension stays: runs of bytes move.
void copy_runs(const char* x, char* y, const Axes& axes, int threads) {
  const int64_t elem = static_cast<int64_t>(axes.elem), run = axes.axis[axes.rank - 1].size * elem;
  Axes outer = axes;
  outer.remove(axes.rank - 1);
  const int64_t runs = outer.count(), per_chunk = std::max<int64_t>(1, kChunkBytes / run);
  parallel_for(threads, ceil_div(runs, per_chunk), [&](int64_t chunk, int) {
    Walk walk(outer, chunk * per_chunk);
    for (int64_t i = std::min(per_chunk, runs - chunk * per_chunk); i > 0; --i, walk.next())
      std::memcpy(y + walk.out * elem, x + walk.in * elem, static_cast<size_t>(run));
  });
}

}  // namespace

void transpose(const void* x, void* y, size_t elem, std::span<const int64_t> dims, std::span<const int> perm,
               int threads) {
  if (std::find(dims.begin(), dims.end(), 0) != dims.end()) return;
  const Axes axes = output_axes(elem, dims, perm);
  if (axes.rank <= 1) {
    return copy_bytes(static_cast<const char*>(x), static_cast<char*>(y),
                      axes.count() * static_cast<int64_t>(axes.elem), threads);
  }
  if (axes.axis[axes.rank - 1].in_stride == 1) {
    return copy_runs(static_cast<const char*>(x), static_cast<char*>(y), axes, threads);
  }
  switch (axes.elem) {
    case 1: return turn_all<uint8_t>(x, y, axes, threads);
    case 2: return turn_all<uint16_t>(x, y, axes, threads);
    case 4: return turn_all<uint32_t>(x, y, axes, threads);
    case 8: return turn_all<uint64_t>(x, y, axes, threads);
    default: return turn_all<Block16>(x, y, axes, threads);
  }
}

}  // namespace tessera
