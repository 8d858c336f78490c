// Kernels on bytes on every target this CPU has, against plain loops.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/conv_i8.h"
#include "kernels/conv_i8_depthwise.h"
#include "kernels/quantize.h"

namespace tessera {
namespace {

std::vector<Target> all_targets() {
  std::vector<Target> targets = {Target::scalar};
  for (Target t : {Target::sse4, Target::neon, Target::avx2, Target::avx3})
    if (t <= best_target() && (t == Target::neon) == (best_target() == Target::neon)) targets.push_back(t);
  return targets;
}

class Bytes : public testing::TestWithParam<Target> {};
INSTANTIATE_TEST_SUITE_P(Kernels, Bytes, testing::ValuesIn(all_targets()),
                         [](const auto& info) { return std::string(target_name(info.param)); });

// Random bytes that end at an unreadable page.
class Guarded {
 public:
  Guarded(int64_t bytes, uint32_t seed, int low = 0, int high = 255) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE)), n = static_cast<size_t>(bytes);
    length_ = (n + page - 1) / page * page + page;
    base_ = static_cast<char*>(mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + length_ - page, page, PROT_NONE) != 0) abort();
    data_ = reinterpret_cast<uint8_t*>(base_ + length_ - page - n);
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> any(low, high);
    for (size_t i = 0; i < n; ++i) data_[i] = static_cast<uint8_t>(any(random));
  }
  ~Guarded() { munmap(base_, length_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  uint8_t* data() { return data_; }

 private:
  size_t length_;
  char* base_;
  uint8_t* data_;
};

int64_t volume(const int64_t (&d)[3]) { return d[0] * d[1] * d[2]; }

// Batch, channels, out_channels, groups, then (depth, height, width) of input, kernel, stride, dilation and padding.
struct Layer {
  int64_t batch, channels, out_channels, groups;
  int64_t in[3], kernel[3], stride[3], dilation[3], pad[3];
};

ConvShape shape_of(const Layer& l) {
  ConvShape s;
  s.batch = l.batch;
  s.channels = l.channels;
  s.out_channels = l.out_channels;
  s.groups = l.groups;
  for (int d = 0; d < 3; ++d) {
    s.in[d] = l.in[d];
    s.kernel[d] = l.kernel[d];
    s.stride[d] = l.stride[d];
    s.dilation[d] = l.dilation[d];
    s.pad[d] = l.pad[d];
    s.out[d] = (l.in[d] + 2 * l.pad[d] - (l.kernel[d] - 1) * l.dilation[d] - 1) / l.stride[d] + 1;
  }
  return s;
}

struct Operands {
  const uint8_t *x, *w;
  bool x_signed, w_signed;
  int32_t x_zero;
  std::vector<int32_t> w_zero;
};

int32_t byte_of(const uint8_t* p, int64_t i, bool is_signed) { return is_signed ? static_cast<int8_t>(p[i]) : p[i]; }

// The sum of one output.
int32_t sum_at(const ConvShape& s, const Operands& o, int64_t b, int64_t c, const int64_t (&out)[3]) {
  const int64_t channels = s.channels / s.groups, group = c / (s.out_channels / s.groups);
  const int32_t w_zero = o.w_zero[o.w_zero.size() == 1 ? 0 : static_cast<size_t>(c)];
  int32_t sum = 0;
  for (int64_t k = 0; k < channels * volume(s.kernel); ++k) {
    const int64_t tap = k % volume(s.kernel);
    const int64_t taps[3] = {tap / s.kernel[2] / s.kernel[1], tap / s.kernel[2] % s.kernel[1], tap % s.kernel[2]};
    int64_t at = (b * s.channels + group * channels + k / volume(s.kernel));
    bool inside = true;
    for (int d = 0; d < 3; ++d) {
      const int64_t i = out[d] * s.stride[d] + taps[d] * s.dilation[d] - s.pad[d];
      inside = inside && i >= 0 && i < s.in[d];
      at = at * s.in[d] + i;
    }
    if (inside)
      sum += (byte_of(o.x, at, o.x_signed) - o.x_zero) *
             (byte_of(o.w, c * channels * volume(s.kernel) + k, o.w_signed) - w_zero);
  }
  return sum;
}

std::vector<int32_t> plain_sums(const ConvShape& s, const Operands& o) {
  std::vector<int32_t> sums;
  int64_t out[3];
  for (int64_t b = 0; b < s.batch; ++b)
    for (int64_t c = 0; c < s.out_channels; ++c)
      for (out[0] = 0; out[0] < s.out[0]; ++out[0])
        for (out[1] = 0; out[1] < s.out[1]; ++out[1])
          for (out[2] = 0; out[2] < s.out[2]; ++out[2]) sums.push_back(sum_at(s, o, b, c, out));
  return sums;
}

void run(Target target, const ConvI8& c) {
  std::vector<uint8_t> room(conv_i8_scratch_bytes(*c.shape) + 64);
  auto* scratch = reinterpret_cast<uint8_t*>((reinterpret_cast<uintptr_t>(room.data()) + 63) / 64 * 64);
  for (int64_t chunk = conv_i8_chunks(*c.shape); chunk-- > 0;) conv_i8_run(target, c, chunk, scratch);
}

void check_bytes(const ConvShape& s, const ConvI8& c, const std::vector<int32_t>& sums, const uint8_t* y) {
  const auto per_channel = static_cast<size_t>(volume(s.out));
  for (size_t i = 0; i < sums.size(); ++i) {
    const size_t channel = i / per_channel % static_cast<size_t>(s.out_channels);
    const auto sum = static_cast<float>(sums[i] + c.out.bias[channel]);
    const float real = std::nearbyint(sum * c.out.scale[channel]) + c.out.zero;
    const float byte = c.out.is_signed ? std::clamp(real, -128.0f, 127.0f) : std::clamp(real, 0.0f, 255.0f);
    ASSERT_EQ(byte_of(y, static_cast<int64_t>(i), c.out.is_signed), static_cast<int>(byte)) << i;
  }
}

std::vector<int32_t> some_bias(int64_t channels) {
  std::vector<int32_t> bias(static_cast<size_t>(channels));
  for (size_t i = 0; i < bias.size(); ++i) bias[i] = static_cast<int32_t>(i * 100) - 700;
  return bias;
}

// low, high: of the weights.
void check_conv(Target target, const Layer& layer, bool x_signed, bool w_signed, bool zeros, int low, int high) {
  const ConvShape s = shape_of(layer);
  const int64_t weights = s.out_channels * (s.channels / s.groups) * volume(s.kernel);
  Guarded x(s.batch * s.channels * volume(s.in), 1), w(weights, 2, low, high);
  Operands o{x.data(), w.data(), x_signed, w_signed, x_signed ? -3 : 140, {0}};
  if (zeros) o.w_zero.assign(static_cast<size_t>(s.out_channels), 5);
  std::vector<float> aligned(conv_i8_packed_bytes(s) / 4 + 16);
  void* packed = reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(aligned.data()) + 63) / 64 * 64);
  conv_i8_pack(s, w.data(), w_signed, packed, 2);
  ConvI8 c;
  c.shape = &s;
  c.x = x.data();
  c.x_signed = x_signed;
  c.x_zero = o.x_zero;
  c.packed = packed;
  c.w_signed = w_signed;
  c.w_zero = o.w_zero.data();
  c.w_zero_step = o.w_zero.size() > 1;
  const std::vector<int32_t> wanted = plain_sums(s, o);
  std::vector<int32_t> sums(wanted.size(), -1);
  c.out.sums = sums.data();
  run(target, c);
  ASSERT_EQ(sums, wanted);

  const std::vector<float> scale(static_cast<size_t>(s.out_channels), 0.37f / 512);
  const std::vector<int32_t> bias = some_bias(s.out_channels);
  Guarded y(static_cast<int64_t>(wanted.size()), 3);
  c.out = {nullptr, y.data(), scale.data(), bias.data(), x_signed ? -7.0f : 9.0f, x_signed};
  run(target, c);
  check_bytes(s, c, wanted, y.data());
}

void check_depthwise(Target target, const Layer& layer, bool x_signed, bool w_signed, bool zeros) {
  const ConvShape s = shape_of(layer);
  if (!conv_i8_depthwise_takes(target, s)) return;
  Guarded x(s.batch * s.channels * volume(s.in), 1), w(s.channels * volume(s.kernel), 2);
  Operands o{x.data(), w.data(), x_signed, w_signed, x_signed ? -3 : 140, {zeros ? 5 : 0}};
  const std::vector<float> scale(static_cast<size_t>(s.out_channels), 0.0037f);
  const std::vector<int32_t> bias = some_bias(s.out_channels), wanted = plain_sums(s, o);
  Guarded y(static_cast<int64_t>(wanted.size()), 3),
      scratch(static_cast<int64_t>(conv_i8_depthwise_scratch_bytes(s)), 4);
  ConvI8 c;
  c.shape = &s;
  c.x = x.data();
  c.x_signed = x_signed;
  c.x_zero = o.x_zero;
  c.w_signed = w_signed;
  c.w_zero = o.w_zero.data();
  c.out = {nullptr, y.data(), scale.data(), bias.data(), x_signed ? -7.0f : 9.0f, x_signed};
  for (int64_t i = 0; i < conv_i8_depthwise_chunks(s); ++i) conv_i8_depthwise_run(c, w.data(), i, scratch.data());
  check_bytes(s, c, wanted, y.data());
}

constexpr Layer kDepthwise[] = {
    {2, 5, 5, 5, {1, 7, 7}, {1, 5, 5}, {1, 1, 1}, {1, 1, 1}, {0, 2, 2}},
    {1, 20, 20, 20, {1, 9, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {1, 4, 4, 4, {1, 5, 16}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {1, 3, 3, 3, {1, 30, 33}, {1, 3, 3}, {1, 2, 2}, {1, 1, 1}, {0, 1, 1}},
    {1, 18, 18, 18, {1, 17, 70}, {1, 4, 8}, {1, 3, 4}, {1, 1, 1}, {0, 0, 3}},
    {1, 2, 2, 2, {1, 1, 100}, {1, 1, 7}, {1, 1, 1}, {1, 1, 1}, {0, 0, 9}},
};

constexpr Layer kLayers[] = {
    {1, 4, 8, 1, {1, 1, 16}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
    {2, 5, 9, 1, {1, 7, 7}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
    {1, 9, 600, 1, {1, 5, 9}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
    {1, 8, 8, 1, {1, 40, 41}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}},
    {1, 6, 17, 1, {1, 9, 7}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {2, 3, 16, 1, {1, 30, 31}, {1, 7, 7}, {1, 2, 2}, {1, 1, 1}, {0, 3, 3}},
    {1, 12, 8, 1, {1, 14, 15}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}},
    {1, 8, 4, 2, {1, 10, 20}, {1, 3, 2}, {1, 1, 3}, {1, 2, 1}, {0, 2, 1}},
    {1, 20, 10, 5, {1, 6, 50}, {1, 2, 5}, {1, 3, 1}, {1, 1, 4}, {0, 0, 8}},
    {1, 2, 3, 1, {4, 5, 6}, {3, 2, 3}, {2, 1, 1}, {1, 1, 2}, {1, 1, 2}},
    {1, 4, 8, 1, {1, 1, 900}, {1, 1, 5}, {1, 1, 2}, {1, 1, 3}, {0, 0, 6}},
    {1, 256, 2, 1, {1, 1, 330}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {1, 300, 2, 1, {1, 8, 12}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}},
    {1, 3, 2, 1, {1, 2, 3}, {1, 2, 2}, {1, 1, 1}, {1, 300, 300}, {0, 300, 300}},
};

TEST_P(Bytes, Convolution) {
  for (const Layer& l : kLayers) {
    SCOPED_TRACE(testing::Message() << "channels " << l.channels << " of " << l.out_channels << ", kernel "
                                    << l.kernel[1] << "x" << l.kernel[2] << ", input " << l.in[1] << "x" << l.in[2]);
    for (int form = 0; form < 8; ++form) {
      check_conv(GetParam(), l, form & 1, form & 2, form & 4, 0, 255);
      if (HasFatalFailure()) return;
    }
    check_conv(GetParam(), l, false, true, false, -64, 63);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Bytes, OneFilterPerChannel) {
  for (const Layer& l : kDepthwise)
    for (int form = 0; form < 8; ++form) {
      SCOPED_TRACE(testing::Message() << "kernel " << l.kernel[1] << "x" << l.kernel[2] << ", form " << form);
      check_depthwise(GetParam(), l, form & 1, form & 2, form & 4);
      if (HasFatalFailure()) return;
    }
}

float quotient(const ByteScale& to, float x) {
  const float low = to.is_signed ? -128.0f : 0.0f, high = to.is_signed ? 127.0f : 255.0f;
  const float q = std::nearbyint(x / to.scale) + to.zero;
  return q > low ? std::min(q, high) : low;
}

TEST_P(Bytes, QuantizedAreQuotients) {
  std::vector<float> x;
  const float scales[] = {1.0f, 0.1f, 0.3f, 0.00392157f, 1e-30f, 1e-42f, 3e38f, 7.7f};
  for (const float s : scales) {
    x.clear();
    // Halves and their neighbours.
    for (int i = -600; i <= 600; ++i) {
      const float half = static_cast<float>(i) * 0.5f * s;
      for (const float v : {half, std::nextafter(half, -1e30f), std::nextafter(half, 1e30f)}) x.push_back(v);
    }
    const float inf = std::numeric_limits<float>::infinity();
    for (const float v : {inf, -inf, std::numeric_limits<float>::quiet_NaN(), 1e38f, -1e38f, 0.0f, -0.0f})
      x.push_back(v);
    for (const bool is_signed : {false, true}) {
      const ByteScale to{s, is_signed ? -5.0f : 100.0f, is_signed};
      Guarded y(static_cast<int64_t>(x.size()), 1);
      quantize_bytes(GetParam(), to, x.data(), static_cast<int64_t>(x.size()), y.data());
      for (size_t i = 0; i < x.size(); ++i)
        ASSERT_EQ(static_cast<float>(byte_of(y.data(), static_cast<int64_t>(i), is_signed)), quotient(to, x[i]))
            << x[i] << " / " << s;
    }
  }
}

TEST_P(Bytes, TableAndRange) {
  for (const int64_t n : {0, 1, 63, 64, 65, 300}) {
    Guarded table(256, 1), x(n, 2), y(n, 3);
    look_up_bytes(GetParam(), table.data(), x.data(), n, y.data());
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(y.data()[i], table.data()[x.data()[i]]);
    std::vector<float> values(static_cast<size_t>(n));
    float low = 0, high = 0, least = 0, most = 0;
    for (int64_t i = 0; i < n; ++i) {
      const float v = static_cast<float>(x.data()[i]) - 100.0f;
      values[static_cast<size_t>(i)] = i % 7 == 3 ? std::numeric_limits<float>::quiet_NaN() : v;
      if (i % 7 != 3) least = std::min(least, v), most = std::max(most, v);
    }
    float_range(GetParam(), values.data(), n, &low, &high);
    EXPECT_EQ(low, least);
    EXPECT_EQ(high, most);
  }
}

}  // namespace
}  // namespace tessera
