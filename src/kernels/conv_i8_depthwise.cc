#include "kernels/conv_i8_depthwise.h"

#include <algorithm>
#include <cstring>

#include "base/checked.h"
#include "kernels/conv_stage.h"

#if defined(__x86_64__)
// The compiler's own header reads what it calls undefined.
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <immintrin.h>
#endif

namespace tessera {
namespace {

constexpr int64_t kTogether = 16;     // channels of a chunk
constexpr int64_t kMostWidth = 8;     // of a kernel: two groups of four taps
constexpr int64_t kMostHeight = 16;   // likewise
constexpr int64_t kMostStride = 4;    // along the width: sixteen pixels lie in 64 bytes
constexpr int64_t kSlackBytes = 128;  // that are read beyond a plane
constexpr int64_t kAtOnce = 16;       // pixels

bool fits(const ConvShape& s) {
  return s.groups > 1 && s.groups == s.channels && s.groups == s.out_channels && s.kernel[0] == 1 && s.in[0] == 1 &&
         s.out[0] == 1 && s.kernel[1] <= kMostHeight && s.kernel[2] <= kMostWidth && s.dilation[1] == 1 &&
         s.dilation[2] == 1 && s.stride[1] <= kMostStride && s.stride[2] <= kMostStride && s.pad[1] >= 0 &&
         s.pad[2] >= 0 && s.pad[0] == 0;
}

// The input of one channel with its padding, of unsigned numbers.
struct Plane {
  int64_t rows, width;
  explicit Plane(const ConvShape& s)
      : rows((s.out[1] - 1) * s.stride[1] + s.kernel[1]), width((s.out[2] - 1) * s.stride[2] + s.kernel[2]) {}
  int64_t bytes() const { return round_up(rows * width + kSlackBytes, 64); }
};

// Rows of output so short that they are computed together with what lies between them.
bool is_flat(const ConvShape& s) { return s.stride[1] == 1 && s.stride[2] == 1 && s.out[2] <= kAtOnce; }

#if defined(__x86_64__)
#define TESSERA_BYTES \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512vnni,avx2,fma,bmi,bmi2,avx512cd")))

// One channel's filter: rows of one or two groups of four taps, what sums start with, and how they become bytes.
struct Filter {
  int32_t taps[kMostHeight][2];
  int32_t start, zero;
};

struct Line {
  const uint8_t* x;
  int64_t width;  // from one row of x to the next
  int64_t rows, stride;
  const Filter* filter;
  __m512i dwords, bytes;  // which make four neighbours of each of sixteen pixels
  int32_t ones[2];
  float scale, low, high;
  int32_t y_zero;
};

TESSERA_BYTES __attribute__((noinline)) Line make_line(const ConvShape& s, const ConvI8Output& out) {
  alignas(64) int32_t dwords[16];
  alignas(64) uint8_t bytes[64];
  for (int i = 0; i < 16; ++i) dwords[i] = static_cast<int32_t>(i / 4 * s.stride[2] + i % 4);
  for (int i = 0; i < 64; ++i) bytes[i] = static_cast<uint8_t>(i / 4 % 4 * s.stride[2] + i % 4);
  Line l{};
  l.width = Plane(s).width;
  l.rows = s.kernel[1];
  l.stride = s.stride[2];
  l.dwords = _mm512_load_si512(dwords);
  l.bytes = _mm512_load_si512(bytes);
  for (int64_t t = 0; t < s.kernel[2]; ++t) l.ones[t / 4] |= 1 << 8 * (t % 4);
  l.low = (out.is_signed ? -128.0f : 0.0f) - out.zero;
  l.high = (out.is_signed ? 127.0f : 255.0f) - out.zero;
  l.y_zero = static_cast<int32_t>(out.zero);
  return l;
}

// `n` pixels from l.x on. kZero: the filter has a zero point.
template <int kGroups, bool kZero>
TESSERA_BYTES __attribute__((noinline)) void run_line(const Line& l, int64_t n, uint8_t* out) {
  const Filter& f = *l.filter;
  const __m512 scale = _mm512_set1_ps(l.scale), low = _mm512_set1_ps(l.low), high = _mm512_set1_ps(l.high);
  const __m512i y_zero = _mm512_set1_epi32(l.y_zero);
  for (int64_t i = 0; i < n; i += kAtOnce) {
    __m512i sum[kGroups], pixels = _mm512_setzero_si512();
    sum[0] = _mm512_set1_epi32(f.start);
    if (kGroups > 1) sum[kGroups - 1] = _mm512_setzero_si512();
    const uint8_t* x = l.x + i * l.stride;
    for (int64_t r = 0; r < l.rows; ++r, x += l.width)
#pragma GCC unroll 2
      for (int g = 0; g < kGroups; ++g) {
        const __m512i spread = _mm512_permutexvar_epi32(l.dwords, _mm512_loadu_si512(x + 4 * g));
        const __m512i four = _mm512_shuffle_epi8(spread, l.bytes);
        sum[g] = _mm512_dpbusd_epi32(sum[g], four, _mm512_set1_epi32(f.taps[r][g]));
        if (kZero) pixels = _mm512_dpbusd_epi32(pixels, four, _mm512_set1_epi32(l.ones[g]));
      }
    if (kGroups > 1) sum[0] = _mm512_add_epi32(sum[0], sum[kGroups - 1]);
    if (kZero) sum[0] = _mm512_sub_epi32(sum[0], _mm512_mullo_epi32(pixels, _mm512_set1_epi32(f.zero)));
    const __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(sum[0]), scale);
    const __m512i whole = _mm512_cvtps_epi32(_mm512_min_ps(_mm512_max_ps(v, low), high));
    const __m128i bytes = _mm512_cvtepi32_epi8(_mm512_add_epi32(whole, y_zero));
    const auto some = static_cast<__mmask16>(n - i >= kAtOnce ? 0xffff : (1 << (n - i)) - 1);
    _mm_mask_storeu_epi8(out + i, some, bytes);
  }
}

// The plane of one channel into the middle of its padding.
TESSERA_BYTES void place(const ConvShape& s, const Plane& p, const uint8_t* x, uint8_t flip, uint8_t* plane) {
  const __m512i f = _mm512_set1_epi8(static_cast<char>(flip));
  // Strides may leave the last rows and columns unread.
  const int64_t rows = std::min(s.in[1], p.rows - s.pad[1]), columns = std::min(s.in[2], p.width - s.pad[2]);
  for (int64_t y = 0; y < rows; ++y) {
    const uint8_t* from = x + y * s.in[2];
    uint8_t* to = plane + (y + s.pad[1]) * p.width + s.pad[2];
    for (int64_t i = 0; i < columns; i += 64) {
      const __mmask64 some = columns - i >= 64 ? ~__mmask64{0} : (__mmask64{1} << (columns - i)) - 1;
      _mm512_mask_storeu_epi8(to + i, some, _mm512_xor_si512(_mm512_maskz_loadu_epi8(some, from + i), f));
    }
  }
}

// As in conv_i8: x made unsigned, w made signed, and their zero points with them. `end`: of all weights.
void set_filter(const ConvI8& c, const uint8_t* w, const uint8_t* end, int64_t channel, Filter& f) {
  static_assert(kMostWidth == sizeof(uint64_t) && sizeof f.taps[0] == sizeof(uint64_t));
  constexpr uint64_t kTops = 0x8080808080808080, kEven = 0x00ff00ff00ff00ff;
  const ConvShape& s = *c.shape;
  const auto u = [](int64_t v) { return static_cast<uint32_t>(v); };
  const int64_t height = s.kernel[1], width = s.kernel[2];
  const uint64_t there = ~uint64_t{0} >> 8 * (kMostWidth - width);
  uint64_t sums = 0;  // of taps plus 128, in 16 bits each
  for (int64_t r = 0; r < height; ++r, w += width) {
    uint64_t taps = 0;
    std::memcpy(&taps, w, static_cast<size_t>(end - w >= kMostWidth ? kMostWidth : width));
    taps = (c.w_signed ? taps : taps ^ kTops) & there;
    std::memcpy(f.taps[r], &taps, sizeof taps);
    const uint64_t raised = (taps ^ kTops) & there;
    sums += (raised & kEven) + (raised >> 8 & kEven);
  }
  const uint32_t sum = u(static_cast<int64_t>(sums * 0x0001000100010001 >> 48) - 128 * height * width);
  f.zero = (c.w_zero ? c.w_zero[channel * c.w_zero_step] : 0) - (c.w_signed ? 0 : 128);
  const uint32_t x_zero = u(c.x_zero + (c.x_signed ? 128 : 0));
  const uint32_t both = x_zero * u(f.zero) * u(height * width);
  f.start = static_cast<int32_t>(u(c.out.bias ? c.out.bias[channel] : 0) - x_zero * sum + both);
}

// Rows of a few pixels from between others.
TESSERA_BYTES void take_rows(const uint8_t* from, int64_t step, int64_t rows, int64_t columns, uint8_t* to) {
  const auto some = static_cast<__mmask16>((1 << columns) - 1);
  for (int64_t r = 0; r < rows; ++r, from += step, to += columns)
    _mm_mask_storeu_epi8(to, some, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

using RunLine = void(const Line&, int64_t, uint8_t*);
RunLine* line_for(int64_t width, bool zero) {
  if (width <= 4) return zero ? run_line<1, true> : run_line<1, false>;
  return zero ? run_line<2, true> : run_line<2, false>;
}
#endif

}  // namespace

bool conv_i8_depthwise_takes(Target target, const ConvShape& s) {
  return target == Target::avx3 && cpu_has_vnni() && fits(s);
}

size_t conv_i8_depthwise_scratch_bytes(const ConvShape& s) {
  if (!fits(s)) return 0;
  const Plane p(s);
  return static_cast<size_t>(p.bytes() + (is_flat(s) ? p.bytes() : 0));
}

int64_t conv_i8_depthwise_chunks(const ConvShape& s) { return s.batch * ceil_div(s.channels, kTogether); }

#if defined(__x86_64__)
void conv_i8_depthwise_run(const ConvI8& c, const void* w, int64_t chunk, void* scratch) {
  const ConvShape& s = *c.shape;
  const Plane p(s);
  auto *plane = static_cast<uint8_t*>(scratch), *flat = plane + p.bytes();
  const uint8_t flip = c.x_signed ? 0x80 : 0;
  std::memset(plane, static_cast<uint8_t>(c.x_zero) ^ flip, static_cast<size_t>(p.bytes()));
  const int64_t parts = ceil_div(s.channels, kTogether), sample = chunk / parts, first = chunk % parts * kTogether;
  const int64_t in = conv::volume(s.in), out = conv::volume(s.out), taps = conv::volume(s.kernel);
  Filter filter;
  Line l = make_line(s, c.out);
  l.filter = &filter;
  for (int64_t channel = first; channel < std::min(s.channels, first + kTogether); ++channel) {
    const auto* weights = static_cast<const uint8_t*>(w);
    set_filter(c, weights + channel * taps, weights + s.channels * taps, channel, filter);
    place(s, p, static_cast<const uint8_t*>(c.x) + (sample * s.channels + channel) * in, flip, plane);
    l.scale = c.out.scale[channel];
    RunLine* run = line_for(s.kernel[2], filter.zero != 0);
    uint8_t* y = static_cast<uint8_t*>(c.out.bytes) + (sample * s.channels + channel) * out;
    l.x = plane;
    if (is_flat(s)) {
      run(l, (s.out[1] - 1) * p.width + s.out[2], flat);
      take_rows(flat, p.width, s.out[1], s.out[2], y);
      continue;
    }
    for (int64_t row = 0; row < s.out[1]; ++row, y += s.out[2], l.x += s.stride[1] * p.width) run(l, s.out[2], y);
  }
}
#else
void conv_i8_depthwise_run(const ConvI8&, const void*, int64_t, void*) {}
#endif

}  // namespace tessera
