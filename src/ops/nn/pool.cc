// MaxPool, AveragePool, LpPool: one number for each window of the input.
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/pool.h"
#include "ops/elementwise.h"
#include "ops/nn/window.h"

namespace tessera {
namespace {

struct Params {
  Window window;
  bool count_include_pad = false;  // AveragePool
  bool column_major = false;       // MaxPool: indices as if the last two spatial dimensions were stored the other way
  float p = 2;                     // LpPool
};

Status parse(Attrs& a, Params& p) {
  TRY(parse_window(a, p.window));
  if (p.window.kernel.empty()) return a.refuse("kernel_shape", "a size for each spatial dimension");
  a.get("count_include_pad", p.count_include_pad);
  a.get("storage_order", p.column_major);
  return {};
}

// Version 1 has a real exponent, later ones a whole one.
Status parse_lp(Attrs& a, Params& p) {
  TRY(parse(a, p));
  int64_t whole = 2;
  if (a.version() < 2)
    a.get("p", p.p);
  else
    a.get("p", whole), p.p = static_cast<float>(whole);
  if (!(p.p > 0)) return a.refuse("p", "a number above 0");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  TRY(check_spatial(p.window, c));
  DimVec<D> out{c.dim(0, 0), c.dim(0, 1)};
  TRY(slide_all(p.window, c, p.window.kernel, out));
  for (int o = 0; o < c.outputs(); ++o) TRY(c.set(o, out));
  return {};
}

// One output row of one plane: fn(offset, begin, end) for each tap that meets the input, in the order of the input.
// Positions o in [begin, end) of the row meet it at o * stride + offset. Taps in the padding cost nothing.
template <class F>
void for_taps(const Geometry& g, int64_t od, int64_t oh, F&& fn) {
  const int64_t d0 = od * g.stride[0] - g.pad[0], h0 = oh * g.stride[1] - g.pad[1];
  int64_t kd, kd_end, kh_begin, kh_end, kw_begin, kw_end;
  inside(d0, g.dilation[0], g.in[0], g.kernel[0], &kd, &kd_end);
  inside(h0, g.dilation[1], g.in[1], g.kernel[1], &kh_begin, &kh_end);
  // The row as a whole reaches from its first window's taps to its last one's.
  const int64_t last = (g.out[2] - 1) * g.stride[2];
  inside(last - g.pad[2], g.dilation[2], g.in[2] + last, g.kernel[2], &kw_begin, &kw_end);
  for (; kd < kd_end; ++kd)
    for (int64_t kh = kh_begin; kh < kh_end; ++kh) {
      const int64_t row = ((d0 + kd * g.dilation[0]) * g.in[1] + h0 + kh * g.dilation[1]) * g.in[2];
      for (int64_t kw = kw_begin; kw < kw_end; ++kw) {
        const int64_t at = kw * g.dilation[2] - g.pad[2];
        int64_t begin, end;
        inside(at, g.stride[2], g.in[2], g.out[2], &begin, &end);
        if (begin < end) fn(row + at, begin, end);
      }
    }
}

// fn(plane, od, oh) for every row of the output.
template <class F>
void for_rows(const Call& call, const Geometry& g, int64_t planes, F&& fn) {
  const int64_t rows = planes * g.out[0] * g.out[1];
  int64_t taps = 1;
  for (int i = 0; i < kMostSpatial; ++i) taps *= std::clamp<int64_t>(g.kernel[i], 1, 1 << 10);
  const int64_t per_chunk = std::max<int64_t>(1, (1 << 15) / taps / std::max<int64_t>(1, g.out[2]));
  call.parallel(ceil_div(rows, per_chunk), [&](int64_t chunk, int) {
    for (int64_t r = chunk * per_chunk, end = std::min(rows, r + per_chunk); r < end; ++r)
      fn(r / (g.out[0] * g.out[1]), r / g.out[1] % g.out[0], r % g.out[1]);
  });
}

// The map of a pool without depth, if its lines are of moderate size: what the kernels take.
bool is_flat(const Geometry& g, PoolShape* s) {
  constexpr int64_t kMost = 1 << 16;
  if (g.in[0] != 1 || g.out[0] != 1 || g.kernel[0] != 1 || g.pad[0] != 0) return false;
  for (int i = 0; i < 2; ++i) {
    s->in[i] = g.in[i + 1];
    s->out[i] = g.out[i + 1];
    s->kernel[i] = g.kernel[i + 1];
    s->stride[i] = g.stride[i + 1];
    s->dilation[i] = g.dilation[i + 1];
    s->pad[i] = g.pad[i + 1];
    for (const int64_t v : {s->out[i], s->kernel[i], s->stride[i], s->dilation[i], s->pad[i]})
      if (v > kMost || v < 0) return false;
  }
  return s->out[1] > 0 && (s->out[1] - 1) * s->stride[1] + s->kernel[1] * s->dilation[1] <= kMost;
}

// fn(plane, first row, end, lane) for blocks of output rows of every plane.
template <class F>
void for_row_blocks(const Call& call, const PoolShape& s, int64_t planes, F&& fn) {
  constexpr int64_t kWork = 1 << 15;
  const int64_t row_work = s.out[1] * (std::min<int64_t>(s.kernel[0], 1 << 8) + std::min<int64_t>(s.kernel[1], 1 << 8));
  const int64_t rows = std::clamp<int64_t>(kWork / row_work, 1, std::max<int64_t>(1, s.out[0]));
  const int64_t blocks = ceil_div(s.out[0], rows), per_chunk = std::max<int64_t>(1, kWork / (row_work * rows));
  call.parallel(ceil_div(planes * blocks, per_chunk), [&](int64_t chunk, int lane) {
    for (int64_t i = chunk * per_chunk, end = std::min(planes * blocks, i + per_chunk); i < end; ++i)
      fn(i / blocks, i % blocks * rows, std::min(s.out[0], (i % blocks + 1) * rows), lane);
  });
}

int64_t scratch(const void* params, const ScratchCall& in) {
  if (in[0]->count() == 0) return 0;
  const auto& p = *static_cast<const Params*>(params);
  PoolShape flat;
  return is_flat(geometry_of(p.window, *in[0], p.window.kernel), &flat) ? pool_scratch_bytes(flat) : 0;
}

template <class T>
constexpr T kLowest = std::numeric_limits<T>::has_infinity ? -std::numeric_limits<T>::infinity()
                                                           : std::numeric_limits<T>::lowest();

// NaN wins.
template <class T>
bool above(T x, T best) {
  return x > best || x != x;
}

// y[i] = max(y[i], x[i * stride]) for bytes, in vectors; returns how many of the n were done.
template <class T>
int64_t max_bytes(const T* x, int64_t stride, T* y, int64_t n) {
  typedef T Sixteen __attribute__((vector_size(16)));
  int64_t i = 0;
  // With a stride, sixteen outputs read one element more, which must lie before another output's.
  for (; stride <= 2 && (stride == 1 ? i + 16 <= n : i + 16 < n); i += 16) {
    Sixteen low, high, best;
    std::memcpy(&low, x + i * stride, sizeof low);
    std::memcpy(&best, y + i, sizeof best);
    if (stride == 2) {
      std::memcpy(&high, x + i * stride + 16, sizeof high);
      low = __builtin_shufflevector(low, high, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    }
    best = low > best ? low : best;
    std::memcpy(y + i, &best, sizeof best);
  }
  return i;
}

template <class T>
void max_row(const Geometry& g, const T* x, T* y, int64_t od, int64_t oh) {
  std::fill_n(y, g.out[2], kLowest<T>);
  for_taps(g, od, oh, [&](int64_t offset, int64_t begin, int64_t end) {
    const T* from = x + offset;
    if constexpr (sizeof(T) == 1) begin += max_bytes(from + begin * g.stride[2], g.stride[2], y + begin, end - begin);
    for (int64_t o = begin; o < end; ++o) {
      const T v = from[o * g.stride[2]];
      y[o] = above(v, y[o]) ? v : y[o];
    }
  });
}

// The index of an element of a plane in the layout that the attribute asks for.
int64_t stored_index(const Params& p, const Geometry& g, int64_t at) {
  if (!p.column_major) return at;
  const int64_t w = at % g.in[2], h = at / g.in[2] % g.in[1], d = at / g.in[2] / g.in[1];
  return d + g.in[0] * (h + g.in[1] * w);
}

template <class T>
void max_row_with_indices(const Params& p, const Geometry& g, const T* x, int64_t plane, T* y, int64_t* index,
                          int64_t od, int64_t oh) {
  std::fill_n(y, g.out[2], kLowest<T>);
  std::fill_n(index, g.out[2], int64_t{-1});
  for_taps(g, od, oh, [&](int64_t offset, int64_t begin, int64_t end) {
    for (int64_t o = begin; o < end; ++o) {
      const int64_t at = offset + o * g.stride[2];
      if (index[o] >= 0 && (y[o] != y[o] || !above(x[at], y[o]))) continue;
      y[o] = x[at];
      index[o] = at;
    }
  });
  for (int64_t o = 0; o < g.out[2]; ++o)
    if (index[o] >= 0) index[o] = plane * g.in_count() + stored_index(p, g, index[o]);
}

template <class T>
Status compute_max(const Params& p, Call& call) {
  const Shape& s = call.shape(0);
  const Geometry g = geometry_of(p.window, s, p.window.kernel);
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  int64_t* index = call.out<int64_t>(1);
  if constexpr (std::is_same_v<T, float>) {
    if (PoolShape flat; !index && is_flat(g, &flat)) {
      for_row_blocks(call, flat, s[0] * s[1], [&](int64_t plane, int64_t y0, int64_t y1, int lane) {
        pool_rows(call.target(), Pool::max, flat, {x + plane * g.in_count(), y + plane * g.out_count(), y0, y1},
                  call.scratch<std::byte>(lane));
      });
      return {};
    }
  }
  for_rows(call, g, s[0] * s[1], [&](int64_t plane, int64_t od, int64_t oh) {
    const T* from = x + plane * g.in_count();
    const int64_t row = plane * g.out_count() + (od * g.out[1] + oh) * g.out[2];
    if (index)
      max_row_with_indices(p, g, from, plane, y + row, index + row, od, oh);
    else
      max_row(g, from, y + row, od, oh);
  });
  return {};
}

// How many taps of window o of dimension i count: those inside the input, or the padded input.
int64_t taps_counted(const Geometry& g, int i, int64_t o, bool padding) {
  const int64_t first = padding ? -g.pad[i] : 0, last = g.in[i] + (padding ? g.pad_end[i] : 0);
  int64_t begin, end;
  inside(o * g.stride[i] - g.pad[i] - first, g.dilation[i], last - first, g.kernel[i], &begin, &end);
  return end - begin;
}

template <class T>
Status compute_average(const Params& p, Call& call) {
  const Shape& s = call.shape(0);
  const Geometry g = geometry_of(p.window, s, p.window.kernel);
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  if constexpr (std::is_same_v<T, float>) {
    if (PoolShape flat; is_flat(g, &flat)) {
      std::vector<float> counts[2];
      for (int i = 0; i < 2; ++i)
        for (int64_t o = 0; o < flat.out[i]; ++o)
          counts[i].push_back(static_cast<float>(taps_counted(g, i + 1, o, p.count_include_pad)));
      for_row_blocks(call, flat, s[0] * s[1], [&](int64_t plane, int64_t y0, int64_t y1, int lane) {
        pool_rows(call.target(), Pool::mean, flat,
                  {x + plane * g.in_count(), y + plane * g.out_count(), y0, y1, counts[0].data(), counts[1].data()},
                  call.scratch<std::byte>(lane));
      });
      return {};
    }
  }
  std::vector<int64_t> counted(static_cast<size_t>(g.out[2]));
  for (int64_t o = 0; o < g.out[2]; ++o) counted[static_cast<size_t>(o)] = taps_counted(g, 2, o, p.count_include_pad);
  for_rows(call, g, s[0] * s[1], [&](int64_t plane, int64_t od, int64_t oh) {
    const T* from = x + plane * g.in_count();
    T* row = y + plane * g.out_count() + (od * g.out[1] + oh) * g.out[2];
    std::fill_n(row, g.out[2], T{0});
    for_taps(g, od, oh, [&](int64_t offset, int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) row[o] += from[offset + o * g.stride[2]];
    });
    const int64_t outer = taps_counted(g, 0, od, p.count_include_pad) * taps_counted(g, 1, oh, p.count_include_pad);
    for (int64_t o = 0; o < g.out[2]; ++o)
      row[o] /= static_cast<T>(std::max<int64_t>(1, outer * counted[static_cast<size_t>(o)]));
  });
  return {};
}

template <class T>
Status compute_lp(const Params& p, Call& call) {
  const Shape& s = call.shape(0);
  const Geometry g = geometry_of(p.window, s, p.window.kernel);
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  const T power = static_cast<T>(p.p);
  for_rows(call, g, s[0] * s[1], [&](int64_t plane, int64_t od, int64_t oh) {
    const T* from = x + plane * g.in_count();
    T* row = y + plane * g.out_count() + (od * g.out[1] + oh) * g.out[2];
    std::fill_n(row, g.out[2], T{0});
    for_taps(g, od, oh, [&](int64_t offset, int64_t begin, int64_t end) {
      for (int64_t o = begin; o < end; ++o) {
        const T v = std::abs(from[offset + o * g.stride[2]]);
        row[o] += power == 2 ? v * v : power == 1 ? v : std::pow(v, power);
      }
    });
    for (int64_t o = 0; o < g.out[2]; ++o) row[o] = power == 2 ? std::sqrt(row[o]) : std::pow(row[o], 1 / power);
  });
  return {};
}

void max_types(TypeCall& c) {
  c.out[0] = c.in[0];
  if (c.out.size() > 1) c.out[1] = {Kind::tensor, DType::i64, Kind::tensor};
}

template <class T>
constexpr TypeRule kMaxTypes[] = {{in_arg(0) | out_arg(0), set_of(dtype_of<T>), widened_to<T>},
                                  {out_arg(1), set_of(DType::i64)}};
template <class T>
constexpr Kernel max_kernel{kMaxTypes<T>, compute_with<Params, compute_max<T>>};
constexpr Kernel kMaxKernels[] = {max_kernel<float>, max_kernel<double>, max_kernel<int8_t>, max_kernel<uint8_t>};
constexpr Kernel kAverageKernels[] = {{kAllSame<float>, compute_with<Params, compute_average<float>>},
                                      {kAllSame<double>, compute_with<Params, compute_average<double>>}};
constexpr Kernel kLpKernels[] = {{kAllSame<float>, compute_with<Params, compute_lp<float>>},
                                 {kAllSame<double>, compute_with<Params, compute_lp<double>>}};
constexpr int16_t kMaxVersions[] = {1, 8, 10, 11, 12, 22};
constexpr int16_t kAverageVersions[] = {1, 7, 10, 11, 19, 22};
constexpr int16_t kLpVersions[] = {1, 2, 11, 18, 22};

constexpr Op pool(const char* name, std::span<const int16_t> versions, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = versions,
          .parse = parse_params<Params, parse>,
          .shape = shape_with<Params, int64_t, shape<int64_t>>,
          .kernels = kernels,
          .scratch = scratch};
}
constexpr Op max_pool() {
  Op op = pool("MaxPool", kMaxVersions, kMaxKernels);
  op.types = max_types;
  return op;
}
constexpr Op lp_pool() {
  Op op = pool("LpPool", kLpVersions, kLpKernels);
  op.parse = parse_params<Params, parse_lp>;
  return op;
}

}  // namespace

extern constexpr Op kMaxPool = max_pool();
extern constexpr Op kAveragePool = pool("AveragePool", kAverageVersions, kAverageKernels);
extern constexpr Op kLpPool = lp_pool();
extern constexpr OpInference kMaxPoolInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kAveragePoolInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kLpPoolInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
