// DeformConv — convolution whose taps are moved by offsets and weighed by a mask, both given for every output pixel.
//
// Blocks of output pixels are worked on one by one: their samples are gathered as columns of a matrix, which is then
// multiplied with the weights of a group.
#include <cmath>

#include "kernels/gemm.h"
#include "kernels/gemm_generic.h"
#include "ops/agree.h"
#include "ops/elementwise.h"
#include "ops/nn/conv_shape.h"

namespace tessera {
namespace {

struct Params {
  ConvParams conv;
  int64_t offset_group = 1;
};
Status parse(Attrs& a, Params& p) {
  TRY(parse_conv(a, p.conv));
  a.get("offset_group", p.offset_group);
  if (p.offset_group < 1 || p.offset_group > INT32_MAX) return a.refuse("offset_group", "at least 1");
  return {};
}

// Input i is [batch, channels, out...].
template <class D>
Status check_per_pixel(const Params& p, ShapeCall<D>& c, int i, int64_t channels, const int64_t* kernel) {
  bool fits = c.rank(i) == c.rank(0) && agree(c.dim(i, 0), c.dim(0, 0)) && agree(c.dim(i, 1), D(channels));
  for (int k = 0; fits && k + 2 < c.rank(0); ++k) {
    D size, pad;
    slide(p.conv.window, k, c.dim(0, k + 2), kernel[k], &size, &pad);
    fits = agree(c.dim(i, k + 2), size);
  }
  return fits ? Status{} : c.refuse(i, format("{} channels for each output pixel of each sample", channels));
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  TRY((conv_output<D, 0, 1, 3>(p.conv, c)));
  int64_t kernel[kMostSpatial], groups = p.offset_group;
  TRY(kernel_sizes(p.conv.window, c, 1, kernel));
  for (int i = 0; i + 2 < c.rank(0); ++i) {
    if (kernel[i] < 0) return {};
    if (!checked_mul(groups, kernel[i], &groups)) return c.refuse(1, "a smaller kernel");
  }
  if (known(c.dim(0, 1)) && number(c.dim(0, 1)) % p.offset_group)
    return c.refuse(0, format("channels in {} equal groups", p.offset_group));
  if (groups > INT64_MAX / kMostSpatial) return c.refuse(1, "a smaller kernel");
  TRY(check_per_pixel(p, c, 2, groups * (c.rank(0) - 2), kernel));
  return c.has(4) ? check_per_pixel(p, c, 4, groups, kernel) : Status{};
}

// The pixels around a place, as offsets into a channel; none if it lies outside.
struct Corners {
  int count = 0;
  int64_t offset[1 << kMostSpatial];
  double weight[1 << kMostSpatial];

  // at: a coordinate for each of the last dimensions of the input from `first` on.
  void find(const ConvShape& s, int first, const double* at, double scale) {
    count = 1;
    offset[0] = 0;
    weight[0] = scale;
    for (int d = first; d < kMostSpatial; ++d) {
      if (!(at[d] > -1 && at[d] < static_cast<double>(s.in[d]))) {
        count = 0;
        return;
      }
      const double floor = std::floor(at[d]), part = at[d] - floor;
      split(s.in[d], static_cast<int64_t>(floor), part);
    }
  }

 private:
  // Each corner becomes those at i and i + 1 of the next dimension; what weighs nothing is left out.
  void split(int64_t length, int64_t i, double part) {
    const int before = count;
    int64_t from[1 << kMostSpatial];
    double w[1 << kMostSpatial];
    std::copy_n(offset, before, from);
    std::copy_n(weight, before, w);
    count = 0;
    for (int k = 0; k < before; ++k) {
      if (i >= 0) offset[count] = from[k] * length + i, weight[count++] = w[k] * (1 - part);
      if (i + 1 < length && part > 0) offset[count] = from[k] * length + i + 1, weight[count++] = w[k] * part;
    }
  }
};

template <class T>
class Samples {
 public:
  Samples(const Params& p, const Call& call)
      : s(conv_shape(p.conv, call.shape(0), call.shape(1))),
        depth(s.channels / s.groups),
        taps(s.kernel[0] * s.kernel[1] * s.kernel[2]),
        pixels(s.out[0] * s.out[1] * s.out[2]),
        first_(kMostSpatial + 2 - call.shape(0).rank()),
        offset_groups_(p.offset_group),
        x_(call.in<T>(0)),
        offset_(call.in<T>(2)),
        mask_(call.maybe<T>(4)) {}

  const ConvShape s;
  const int64_t depth, taps, pixels;  // channels of a group, taps of a kernel, pixels of the output

  // What the taps of one group see at output pixels [first, first + n), as a matrix [depth * taps, n].
  void gather(int64_t sample, int64_t group, int64_t first, int64_t n, T* out) const {
    const int64_t shared = s.channels / offset_groups_, end = (group + 1) * depth;
    for (int64_t c = group * depth, next; c < end; c = next) {
      const int64_t offsets = c / shared;
      next = std::min(end, (offsets + 1) * shared);
      T* to = out + (c - group * depth) * taps * n;
      for (int64_t tap = 0; tap < taps; ++tap)
        for (int64_t i = 0; i < n; i += kSome)
          gather_tap(sample, offsets, tap, c, next, first + i, std::min(kSome, n - i), to + tap * n + i, taps * n);
    }
  }

 private:
  static constexpr int64_t kSome = 64;

  // Channels [c, next) of one tap, which share their offsets; out advances by `step` for each channel.
  void gather_tap(int64_t sample, int64_t offsets, int64_t tap, int64_t c, int64_t next, int64_t first, int64_t n,
                  T* out, int64_t step) const {
    Corners corners[kSome];
    for (int64_t i = 0; i < n; ++i)
      locate((sample * offset_groups_ + offsets) * taps + tap, tap, first + i, corners[i]);
    const int64_t plane = s.in[0] * s.in[1] * s.in[2];
    for (const T* x = x_ + (sample * s.channels + c) * plane; c < next; ++c, x += plane, out += step)
      for (int64_t i = 0; i < n; ++i) {
        double sum = 0;
        for (int k = 0; k < corners[i].count; ++k) sum += corners[i].weight[k] * x[corners[i].offset[k]];
        out[i] = static_cast<T>(sum);
      }
  }

  // row: of the mask, which has one for each tap of each offset group of each sample.
  void locate(int64_t row, int64_t tap, int64_t pixel, Corners& out) const {
    double at[kMostSpatial];
    int64_t t = tap, o = pixel;
    for (int d = kMostSpatial; d-- > first_; t /= s.kernel[d], o /= s.out[d]) {
      const int64_t base = o % s.out[d] * s.stride[d] - s.pad[d] + t % s.kernel[d] * s.dilation[d];
      const int64_t moved = row * (kMostSpatial - first_) + d - first_;
      at[d] = static_cast<double>(base) + static_cast<double>(offset_[moved * pixels + pixel]);
    }
    out.find(s, first_, at, mask_ ? static_cast<double>(mask_[row * pixels + pixel]) : 1);
  }

  int first_;  // of the three dimensions that the input has
  int64_t offset_groups_;
  const T *x_, *offset_, *mask_;
};

// y = w * columns + bias; w has m rows of k, y rows are ldy apart. room: for the packed columns.
void multiply(const Call& call, int64_t m, int64_t n, int64_t k, const float* w, const float* columns,
              const float* bias, float* y, int64_t ldy, std::byte* room) {
  auto* packed = reinterpret_cast<float*>(room);
  gemm_pack_b(columns, n, false, k, n, packed, 1);
  gemm_f32(call.target(), 1, m, n, k, w, k, false, packed, y, ldy, {.c_in = bias, .c_row_stride = 1});
}
void multiply(const Call&, int64_t m, int64_t n, int64_t k, const double* w, const double* columns, const double* bias,
              double* y, int64_t ldy, std::byte*) {
  gemm_ref<double, double>(1, m, n, k, w, k, false, columns, n, false, y, ldy);
  for (int64_t i = 0; bias && i < m; ++i)
    for (int64_t j = 0; j < n; ++j) y[i * ldy + j] += bias[i];
}

template <class T>
Status compute(const Params& p, Call& call) {
  if (call.out_count(0) == 0) return {};
  const Samples<T> samples(p, call);
  const ConvShape& s = samples.s;
  const int64_t block = patch_block(s), blocks = ceil_div(samples.pixels, block);
  const int64_t m = s.out_channels / s.groups, k = samples.depth * samples.taps;
  const T* bias = call.maybe<T>(3);
  call.parallel(s.batch * s.groups * blocks, [&](int64_t chunk, int lane) {
    if (call.cancelled()) return;
    const int64_t first = chunk % blocks * block, n = std::min(block, samples.pixels - first);
    const int64_t sample = chunk / blocks / s.groups, group = chunk / blocks % s.groups;
    T* columns = call.scratch<T>(lane);
    auto* room = reinterpret_cast<std::byte*>(columns) + round_up(k * n * static_cast<int64_t>(sizeof(T)), 64);
    samples.gather(sample, group, first, n, columns);
    multiply(call, m, n, k, call.in<T>(1) + group * m * k, columns, bias ? bias + group * m : nullptr,
             call.out<T>(0) + (sample * s.out_channels + group * m) * samples.pixels + first, samples.pixels, room);
  });
  return call.cancelled() ? call.stopped() : Status{};
}

// Columns of doubles, or of floats and the same packed.
int64_t scratch(const void* params, const ScratchCall& in) {
  if (in[1]->count() == 0) return 0;
  const ConvShape s = conv_shape(static_cast<const Params*>(params)->conv, *in[0], *in[1]);
  const int64_t k = in[1]->count(1, in[1]->rank()), n = std::min(patch_block(s), s.out[0] * s.out[1] * s.out[2]);
  const int64_t floats = round_up(k * n * static_cast<int64_t>(sizeof(float)), 64);
  return std::max(k * n * static_cast<int64_t>(sizeof(double)), floats + static_cast<int64_t>(gemm_packed_bytes(n, k)));
}

constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute<float>>},
                               {kAllSame<double>, compute_with<Params, compute<double>>}};
constexpr int16_t kVersions[] = {19, 22};

}  // namespace

extern constexpr Op kDeformConv{.domain = "",
                                .name = "DeformConv",
                                .versions = kVersions,
                                .parse = parse_params<Params, parse>,
                                .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                .kernels = kKernels,
                                .scratch = scratch};
extern constexpr OpInference kDeformConvInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
