// Every kernel on every target this CPU has, against plain double-precision loops.
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "kernels/activation.h"
#include "kernels/conv.h"
#include "kernels/conv_stage.h"
#include "kernels/conv_transpose.h"
#include "kernels/conv_winograd.h"
#include "kernels/convert.h"
#include "kernels/gemm.h"
#include "kernels/gemm_generic.h"
#include "kernels/gemm_i8.h"
#include "kernels/gemv.h"
#include "kernels/pool.h"
#include "kernels/requantize.h"
#include "kernels/rows.h"
#include "kernels/transpose.h"
#include "kernels/vmath.h"

namespace tessera {
namespace {

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr int kThreadCounts[] = {1, 2, 7};

std::vector<Target> all_targets() {
  std::vector<Target> targets = {Target::scalar};
  for (Target t : {Target::sse4, Target::neon, Target::avx2, Target::avx3})
    if (t <= best_target() && (t == Target::neon) == (best_target() == Target::neon)) targets.push_back(t);
  return targets;
}

// An array that ends at an unreadable page, 64-byte aligned whenever its size allows.
template <class T>
class Guarded {
 public:
  explicit Guarded(int64_t count) : count_(count) {
    const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t bytes = static_cast<size_t>(count) * sizeof(T);
    length_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<char*>(mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + length_ - page, page, PROT_NONE) != 0) abort();
    data_ = reinterpret_cast<T*>(base_ + length_ - page - bytes);
  }
  ~Guarded() { munmap(base_, length_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  T* data() { return data_; }
  int64_t size() const { return count_; }
  T& operator[](int64_t i) { return data_[i]; }

 private:
  int64_t count_;
  size_t length_ = 0;
  char* base_ = nullptr;
  T* data_ = nullptr;
};

void fill_random(float* out, int64_t count, unsigned seed, float low = -1, float high = 1) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(low, high);
  for (int64_t i = 0; i < count; ++i) out[i] = uniform(random);
}

bool same_bits(const float* a, const float* b, int64_t count) {
  return count == 0 || std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
}

class OnTarget : public testing::TestWithParam<Target> {};
INSTANTIATE_TEST_SUITE_P(Kernels, OnTarget, testing::ValuesIn(all_targets()),
                         [](const auto& info) { return std::string(target_name(info.param)); });

struct GemmCase {
  int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  GemmEpilogue epilogue = {};
  int c_kind = 0;  // 0 none, 1 a scalar, 2 a row vector, 3 a column vector, 4 a matrix, 5 the output itself
};

void check_gemm(Target target, const GemmCase& t, bool in_place = false) {
  SCOPED_TRACE(testing::Message() << t.m << "x" << t.n << "x" << t.k << " trans " << t.trans_a << t.trans_b << " c "
                                  << t.c_kind << (in_place ? " B in place" : ""));
  Guarded<float> a(t.m * t.k), b(t.n * t.k), packed(static_cast<int64_t>(gemm_packed_bytes(t.n, t.k)) / 4),
      c(t.m * t.n), c_in(t.m * t.n);
  fill_random(a.data(), a.size(), 1);
  fill_random(b.data(), b.size(), 2);
  fill_random(c_in.data(), c_in.size(), 3);
  gemm_pack_b(b.data(), t.trans_b ? t.k : t.n, t.trans_b, t.k, t.n, packed.data(), 2);
  GemmEpilogue e = t.epilogue;
  const int64_t row_stride[] = {0, 0, 0, 1, t.n, t.n}, col_stride[] = {0, 0, 1, 0, 1, 1};
  if (t.c_kind) e.c_in = t.c_kind == 5 ? c.data() : c_in.data();
  e.c_row_stride = row_stride[t.c_kind];
  e.c_col_stride = col_stride[t.c_kind];
  std::vector<float> first;
  for (int threads : kThreadCounts) {
    for (int64_t i = 0; i < c.size(); ++i) c[i] = t.c_kind == 5 ? c_in[i] : kNan;
    if (in_place)
      gemv_f32(target, threads, t.m, t.n, t.k, a.data(), t.k, b.data(), t.trans_b ? t.k : t.n, t.trans_b, c.data(), t.n,
               e);
    else
      gemm_f32(target, threads, t.m, t.n, t.k, a.data(), t.trans_a ? t.m : t.k, t.trans_a, packed.data(), c.data(), t.n,
               e);
    if (threads == 1) first.assign(c.data(), c.data() + c.size());
    ASSERT_TRUE(same_bits(first.data(), c.data(), c.size())) << threads << " threads";
  }
  for (int64_t i = 0; i < t.m; ++i)
    for (int64_t j = 0; j < t.n; ++j) {
      double sum = 0;
      for (int64_t p = 0; p < t.k; ++p)
        sum += static_cast<double>(a[t.trans_a ? p * t.m + i : i * t.k + p]) * b[t.trans_b ? j * t.k + p : p * t.n + j];
      double want = e.alpha * sum;
      if (t.c_kind) want += static_cast<double>(e.beta) * c_in[i * e.c_row_stride + j * e.c_col_stride];
      if (e.activation == GemmActivation::relu) want = std::max(want, 0.0);
      ASSERT_NEAR(c[i * t.n + j], want, 2e-6 * (1 + std::sqrt(static_cast<double>(t.k)))) << i << "," << j;
    }
}

TEST_P(OnTarget, GemmSizesAroundTileEdges) {
  for (int64_t m : {1, 2, 3, 5, 6, 7, 11, 12, 13, 23, 24, 25, 49, 97})
    for (int64_t n : {1, 2, 7, 8, 15, 16, 17, 31, 32, 33, 47, 65})
      for (int64_t k : {0, 1, 2, 7, 8, 9, 33}) check_gemm(GetParam(), {m, n, k});
}

TEST_P(OnTarget, GemmEpilogues) {
  for (int64_t m : {1, 5, 14})
    for (int64_t n : {3, 16, 37})
      for (int64_t k : {0, 5, 1100})
        for (int c_kind : {0, 1, 2, 3, 4, 5})
          for (GemmActivation activation : {GemmActivation::none, GemmActivation::relu})
            check_gemm(GetParam(), {m, n, k, m == 5, n == 16, {0.5f, -2.0f, nullptr, 0, 0, activation}, c_kind});
}

TEST_P(OnTarget, FewRowsWithBInPlace) {
  for (const int64_t m : {1, 2, 3})
    for (const bool trans_b : {false, true}) {
      for (const int64_t n : {1, 7, 16, 33, 64, 255, 300})
        for (const int64_t k : {0, 1, 5, 16, 100, 257}) check_gemm(GetParam(), {m, n, k, false, trans_b}, true);
      for (const int c_kind : {1, 2, 3, 4, 5}) {
        GemmEpilogue e{.alpha = 0.5f, .beta = -2.0f};
        e.activation = GemmActivation::relu;
        check_gemm(GetParam(), {m, 270, 40, false, trans_b, e, c_kind}, true);
      }
      check_gemm(GetParam(), {m, 1000, 9000, false, trans_b}, true);
    }
}

TEST_P(OnTarget, GemmLarge) {
  for (const GemmCase& t :
       {GemmCase{130, 600, 70}, {50, 70, 2100}, {30, 100, 1024}, {100, 90, 2048}, {7, 1, 3000}, {1, 300, 1025}})
    for (bool trans : {false, true}) check_gemm(GetParam(), {t.m, t.n, t.k, trans, trans});
}

TEST_P(OnTarget, GemmKeepsNanAndReadsNoUnaskedC) {
  std::vector<float> a(3 * 4, 1.0f), c(3 * 5, kNan), c_in(3 * 5, kNan);
  Guarded<float> packed(static_cast<int64_t>(gemm_packed_bytes(5, 4)) / 4);
  std::vector<float> b(4 * 5, 2.0f);
  gemm_pack_b(b.data(), 5, false, 4, 5, packed.data(), 1);
  a[1] = kNan;
  a[4] = kInf;
  GemmEpilogue e{1.0f, 0.0f, c_in.data(), 5, 1, GemmActivation::relu};
  gemm_f32(GetParam(), 1, 3, 5, 4, a.data(), 4, false, packed.data(), c.data(), 5, e);
  for (int j = 0; j < 5; ++j) {
    EXPECT_TRUE(std::isnan(c[j]));
    EXPECT_EQ(c[5 + j], kInf);
    EXPECT_EQ(c[10 + j], 8.0f);
  }
}

// Equal rows times equal columns: every place gives the same bits.
TEST_P(OnTarget, GemmResultDoesNotDependOnPlace) {
  for (int64_t m : {1, 2, 3, 4, 7, 13, 51})
    for (int64_t n : {1, 5, 17, 33, 63, 100})
      for (int64_t k : {1, 9, 100, 1030}) {
        std::vector<float> row(static_cast<size_t>(k)), column(static_cast<size_t>(k));
        fill_random(row.data(), k, 30);
        fill_random(column.data(), k, 31);
        Guarded<float> a(m * k), b(n * k), packed(static_cast<int64_t>(gemm_packed_bytes(n, k)) / 4), c(m * n), bias(n);
        for (int64_t i = 0; i < m; ++i) std::copy(row.begin(), row.end(), a.data() + i * k);
        for (int64_t j = 0; j < n; ++j) std::copy(column.begin(), column.end(), b.data() + j * k), bias[j] = 0.7f;
        gemm_pack_b(b.data(), k, true, k, n, packed.data(), 1);
        const GemmEpilogue e{1, 1, bias.data(), 0, 1, GemmActivation::none};
        gemm_f32(GetParam(), 1, m, n, k, a.data(), k, false, packed.data(), c.data(), n, e);
        for (int64_t i = 0; i < m * n; ++i) ASSERT_EQ(c[i], c[0]) << m << "x" << n << "x" << k << " at " << i;
      }
}

TEST(Gemm, GenericTypes) {
  const int64_t m = 9, n = 70, k = 13;
  std::vector<int32_t> a(m * k), b(k * n), c(m * n), bt(k * n), ct(m * n);
  std::iota(a.begin(), a.end(), -50);
  std::iota(b.begin(), b.end(), -400);
  for (int64_t p = 0; p < k; ++p)
    for (int64_t j = 0; j < n; ++j) bt[j * k + p] = b[p * n + j];
  gemm_ref<int32_t, uint32_t>(2, m, n, k, a.data(), k, false, b.data(), n, false, c.data(), n);
  gemm_ref<int32_t, uint32_t>(1, m, n, k, a.data(), k, false, bt.data(), k, true, ct.data(), n);
  EXPECT_EQ(c, ct);
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < n; ++j) {
      int64_t want = 0;
      for (int64_t p = 0; p < k; ++p) want += int64_t{a[i * k + p]} * b[p * n + j];
      ASSERT_EQ(c[i * n + j], want);
    }
}

struct ByteCase {
  int64_t m, n, k;
  bool a_signed = false, b_signed = true, zeros = true, extremes = false;
  int most = 0;  // if not 0, B's distance from 0 or 128, by which two neighbouring products may just fit in 16 bits
};

void check_bytes(Target target, const ByteCase& t) {
  SCOPED_TRACE(testing::Message() << t.m << "x" << t.n << "x" << t.k << " signed " << t.a_signed << t.b_signed);
  Guarded<uint8_t> a(t.m * t.k), b(t.k * t.n), packed(static_cast<int64_t>(gemm_i8_packed_bytes(t.n, t.k)));
  Guarded<int32_t> c(t.m * t.n), a_zero(t.m), b_zero(t.n);
  std::mt19937 random(4);
  const auto byte = [&] { return static_cast<uint8_t>(t.extremes ? (random() % 2 ? 0x7f : 0x80) : random()); };
  const auto value = [](uint8_t v, bool is_signed) { return is_signed ? static_cast<int8_t>(v) : int{v}; };
  for (int64_t i = 0; i < a.size(); ++i) a[i] = byte();
  for (int64_t i = 0; i < b.size(); ++i) b[i] = byte();
  if (t.most)
    for (int64_t i = 0; i < a.size(); ++i) a[i] = t.a_signed ? 0x7f : 0xff;
  for (int64_t i = 0; t.most && i < b.size(); ++i)
    b[i] = static_cast<uint8_t>((t.b_signed ? 0 : 128) + (random() % 3 ? t.most : -t.most));
  for (int64_t i = 0; i < t.m; ++i) a_zero[i] = value(byte(), t.a_signed);
  for (int64_t i = 0; i < t.n; ++i) b_zero[i] = value(byte(), t.b_signed);
  gemm_i8_pack_b(target, 2, b.data(), t.n, t.k, t.n, packed.data());
  GemmI8 g{t.m, t.n, t.k, a.data(), t.k, t.a_signed, {}, packed.data(), t.b_signed, {}, c.data(), t.n};
  if (t.zeros) g.a_zero = {a_zero.data(), 1}, g.b_zero = {b_zero.data(), 1};
  for (int threads : kThreadCounts) {
    for (int64_t i = 0; i < c.size(); ++i) c[i] = -1;
    gemm_i8(target, threads, g);
    for (int64_t i = 0; i < t.m; ++i)
      for (int64_t j = 0; j < t.n; ++j) {
        int64_t want = 0;
        const int az = t.zeros ? a_zero[i] : 0, bz = t.zeros ? b_zero[j] : 0;
        for (int64_t p = 0; p < t.k; ++p)
          want += (value(a[i * t.k + p], t.a_signed) - az) * (value(b[p * t.n + j], t.b_signed) - bz);
        ASSERT_EQ(c[i * t.n + j], want) << i << "," << j << " with " << threads << " threads";
      }
  }
}

TEST_P(OnTarget, BytesAroundTileEdges) {
  for (int64_t m : {1, 2, 3, 5, 12, 13, 46, 47, 48, 95})
    for (int64_t n : {1, 15, 16, 17, 32, 33, 50})
      for (int64_t k : {0, 1, 3, 4, 5, 18, 65}) check_bytes(GetParam(), {m, n, k});
}

TEST_P(OnTarget, BytesOfAllTypes) {
  for (bool a_signed : {false, true})
    for (bool b_signed : {false, true})
      for (bool zeros : {false, true})
        for (bool extremes : {false, true})
          for (int64_t k : {30, 513, 1025, 2100})
            check_bytes(GetParam(), {9, 540, k, a_signed, b_signed, zeros, extremes});
}

// Sums of two products that just fit in 16 bits, and that just do not.
TEST_P(OnTarget, BytesAroundSixteenBits) {
  for (int most : {63, 64, 65, 127})
    for (bool a_signed : {false, true})
      for (bool b_signed : {false, true})
        for (int64_t m : {15, 16, 53}) check_bytes(GetParam(), {m, 35, 131, a_signed, b_signed, true, false, most});
}

TEST_P(OnTarget, Requantize) {
  const std::vector<int32_t> sums = {0, 1, -1, 3, 5, -3, 1000, -1000, INT32_MAX, INT32_MIN, 7, 9, 11, 13, 15, 17, 2, 6};
  std::vector<float> scale(sums.size(), 0.5f);
  scale[3] = kNan;
  scale[6] = kInf;
  for (bool is_signed : {false, true})
    for (int64_t step : {0, 1})
      for (int32_t bias : {0, 4, -4}) {
        const Requantize r{scale.data(), step, bias, 3.0f, is_signed};
        for (size_t n = 0; n <= sums.size(); ++n) {
          std::vector<uint8_t> out(n + 1, 77);
          requantize(GetParam(), r, sums.data(), static_cast<int64_t>(n), out.data());
          ASSERT_EQ(out[n], 77);
          for (size_t i = 0; i < n; ++i) {
            const auto sum = static_cast<int32_t>(static_cast<uint32_t>(sums[i]) + static_cast<uint32_t>(bias));
            const float v = std::nearbyint(static_cast<float>(sum) * scale[step ? i : 0]) + 3.0f;
            const float low = is_signed ? -128 : 0, high = is_signed ? 127 : 255;
            const int want = static_cast<int>(v > low ? std::min(v, high) : low);
            ASSERT_EQ(is_signed ? static_cast<int8_t>(out[i]) : int{out[i]}, want) << i << " of " << n;
          }
        }
      }
}

double ulps(float got, double want) {
  if (std::isnan(want)) return std::isnan(got) ? 0 : 1e9;
  const float rounded = static_cast<float>(want);
  if (std::isnan(got)) return 1e9;
  if (std::isinf(rounded) || std::isinf(got)) {
    // Just below the overflow threshold either side may already be infinite.
    const float edge = std::numeric_limits<float>::max();
    return got == rounded || (std::fabs(got) >= edge && std::fabs(want) > 0.9999999 * static_cast<double>(edge)) ? 0
                                                                                                                 : 1e9;
  }
  const float size = std::fabs(rounded);
  const double ulp = static_cast<double>(std::nextafter(size, kInf)) - size;
  return std::fabs(got - want) / ulp;
}

double reference(Unary op, float value) {
  const double x = value;
  switch (op) {
    case Unary::exp: return std::exp(x);
    case Unary::log: return std::log(x);
    case Unary::tanh: return std::tanh(x);
    case Unary::sigmoid: return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x));
    case Unary::erf: return std::erf(x);
    case Unary::relu: return x < 0 ? 0 : x;
    case Unary::gelu_erf: return 0.5 * x * (1 + std::erf(x * M_SQRT1_2));
    case Unary::gelu_tanh: return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case Unary::sqrt: return std::sqrt(x);
    case Unary::reciprocal: return 1 / x;
    case Unary::neg: return -x;
    case Unary::abs: return std::fabs(x);
    case Unary::floor: return std::floor(x);
    case Unary::ceil: return std::ceil(x);
    case Unary::round: return std::nearbyint(x);
    case Unary::sin: return std::sin(x);
    case Unary::cos: return std::cos(x);
    case Unary::softplus: return std::isnan(x) ? x : std::fmax(x, 0) + std::log1p(std::exp(-std::fabs(x)));
    case Unary::sign: return std::isnan(x) ? x : (x > 0) - (x < 0);
  }
  return 0;
}

double allowed_ulps(Unary op) {
  switch (op) {
    case Unary::exp:
    case Unary::log: return 2;
    case Unary::tanh:
    case Unary::sigmoid:
    case Unary::erf:
    case Unary::sin:
    case Unary::cos:
    case Unary::softplus: return 4;
    default: return 0.5000001;
  }
}

// Every 4099th bit pattern, a fine sweep of the usual range, and the corners.
std::vector<float> unary_inputs() {
  std::vector<float> x = {0.0f,
                          -0.0f,
                          kInf,
                          -kInf,
                          kNan,
                          1.0f,
                          -1.0f,
                          0.5f,
                          -0.5f,
                          1.5f,
                          2.5f,
                          -2.5f,
                          1e-45f,
                          -1e-45f,
                          1e-39f,
                          0.625f,
                          0.92f,
                          4.0f,
                          -4.0f,
                          88.7228394f,
                          88.72284f,
                          -103.97f,
                          -104.0f,
                          8192.0f,
                          8193.0f,
                          1e10f,
                          std::numeric_limits<float>::max(),
                          std::numeric_limits<float>::min(),
                          8388607.5f,
                          3.14159274f};
  for (uint64_t bits = 0; bits < (uint64_t{1} << 32); bits += 4099) {
    const uint32_t word = static_cast<uint32_t>(bits);
    float value;
    std::memcpy(&value, &word, sizeof value);
    x.push_back(value);
  }
  for (int i = -100000; i <= 100000; ++i) x.push_back(static_cast<float>(i) * 1.27e-4f);
  return x;
}

TEST_P(OnTarget, UnaryAccuracy) {
  const std::vector<float> x = unary_inputs();
  std::vector<float> y(x.size());
  for (int op = 0; op < kUnaryCount; ++op) {
    const Unary f = static_cast<Unary>(op);
    unary_f32(GetParam(), f, x.data(), y.data(), static_cast<int64_t>(x.size()));
    double worst = 0;
    size_t where = 0;
    for (size_t i = 0; i < x.size(); ++i) {
      const double want = reference(f, x[i]);
      double error = ulps(y[i], want);
      if (f == Unary::gelu_erf || f == Unary::gelu_tanh) {
        if (x[i] == -kInf) continue;  // -inf * 0
        if (std::isfinite(want)) error = std::fabs(y[i] - want) <= 4e-7 * (1 + std::fabs(want)) ? 0 : 1e9;
      }
      if (error > worst) worst = error, where = i;
    }
    EXPECT_LE(worst, allowed_ulps(f)) << "op " << op << " at " << x[where] << " gave " << y[where] << " wanted "
                                      << reference(f, x[where]);
  }
}

double reference(const Activation& f, double x) {
  const double v = f.alpha * x + f.beta;
  switch (f.kind) {
    case Activation::Kind::leaky_relu: return x < 0 ? f.alpha * x : x;
    case Activation::Kind::thresholded_relu: return x <= f.alpha ? 0 : x;
    case Activation::Kind::hard_sigmoid: return v < 0 ? 0 : v > 1 ? 1 : v;
    case Activation::Kind::hard_swish: return x * (v < 0 ? 0 : v > 1 ? 1 : v);
    case Activation::Kind::swish: return x / (1 + std::exp(-f.alpha * x));
  }
  return 0;
}

TEST_P(OnTarget, Activations) {
  constexpr int64_t kCount = 211;
  Guarded<float> x(kCount), y(kCount);
  fill_random(x.data(), kCount, 11, -9, 9);
  x[5] = kNan, x[6] = kInf, x[7] = -0.0f, x[210] = kNan, x[209] = 1.25f;
  for (int kind = 0; kind < kActivationCount; ++kind) {
    const Activation f{static_cast<Activation::Kind>(kind), 1.25f, 0.5f};
    activate_f32(GetParam(), f, x.data(), y.data(), kCount);
    for (int64_t i = 0; i < kCount; ++i) {
      const double want = reference(f, x[i]);
      if (std::isfinite(want))
        EXPECT_NEAR(y[i], want, 4e-6 * (1 + std::fabs(want))) << kind << " of " << x[i];
      else
        EXPECT_EQ(std::isnan(y[i]), std::isnan(want)) << kind << " of " << x[i];
    }
    // An element's place, and whether it is replaced, change nothing.
    std::vector<float> again(x.data() + 1, x.data() + kCount);
    activate_f32(GetParam(), f, again.data(), again.data(), kCount - 1);
    EXPECT_EQ(std::memcmp(again.data(), y.data() + 1, (kCount - 1) * sizeof(float)), 0) << kind;
  }
}

TEST_P(OnTarget, UnarySignedZeros) {
  for (Unary f :
       {Unary::tanh, Unary::erf, Unary::sqrt, Unary::floor, Unary::ceil, Unary::round, Unary::sin, Unary::gelu_erf}) {
    const float x[] = {-0.0f, 0.0f};
    float y[2];
    unary_f32(GetParam(), f, x, y, 2);
    EXPECT_TRUE(y[0] == 0 && std::signbit(y[0]) && y[1] == 0 && !std::signbit(y[1])) << static_cast<int>(f);
  }
  const float x[] = {-0.3f, -0.5f, -0.0f};
  float y[3];
  unary_f32(GetParam(), Unary::round, x, y, 3);
  for (float v : y) EXPECT_TRUE(v == 0 && std::signbit(v));
  unary_f32(GetParam(), Unary::sign, x + 2, y, 1);
  EXPECT_FALSE(std::signbit(y[0]));
}

TEST_P(OnTarget, UnaryResultDoesNotDependOnPlace) {
  std::vector<float> x(200), whole(200);
  fill_random(x.data(), 200, 5, -12, 12);
  x[17] = kNan, x[30] = 1e9f, x[31] = kInf;
  for (int op = 0; op < kUnaryCount; ++op) {
    const Unary f = static_cast<Unary>(op);
    unary_f32(GetParam(), f, x.data(), whole.data(), 200);
    for (int64_t n = 0; n < 70; ++n) {
      Guarded<float> in(n), out(n);
      const int64_t from = n * 7 % 64;
      std::copy_n(x.data() + from, n, in.data());
      unary_f32(GetParam(), f, in.data(), out.data(), n);
      ASSERT_TRUE(same_bits(out.data(), whole.data() + from, n)) << "op " << op << " n " << n;
      unary_f32(GetParam(), f, in.data(), in.data(), n);
      ASSERT_TRUE(same_bits(in.data(), out.data(), n)) << "in place, op " << op << " n " << n;
    }
  }
}

float reference(Binary op, float a, float b) {
  switch (op) {
    case Binary::add: return a + b;
    case Binary::sub: return a - b;
    case Binary::mul: return a * b;
    case Binary::div: return a / b;
    case Binary::min: return std::isnan(a) || std::isnan(b) ? kNan : std::min(a, b);
    case Binary::max: return std::isnan(a) || std::isnan(b) ? kNan : std::max(a, b);
    case Binary::pow: return std::pow(a, b);
  }
  return 0;
}

TEST_P(OnTarget, Binary) {
  const float corners[] = {0.0f, -0.0f, 1.0f, -2.0f, 0.5f, 2.0f, kInf, -kInf, kNan, 1e-40f, 3e38f};
  for (int op = 0; op < kBinaryCount; ++op)
    for (int steps = 0; steps < 4; ++steps)
      for (int64_t n : {0, 1, 3, 4, 15, 16, 17, 33, 121}) {
        const int64_t a_step = steps & 1, b_step = steps >> 1;
        for (float fixed : corners) {
          Guarded<float> a(a_step ? n : 1), b(b_step ? n : 1), y(n);
          for (int64_t i = 0; i < a.size(); ++i) a[i] = a_step ? corners[i / 11 % 11] : fixed;
          for (int64_t i = 0; i < b.size(); ++i) b[i] = b_step ? corners[i % 11] : fixed;
          binary_f32(GetParam(), static_cast<Binary>(op), a.data(), a_step, b.data(), b_step, y.data(), n);
          for (int64_t i = 0; i < n; ++i) {
            const float want = reference(static_cast<Binary>(op), a[i * a_step], b[i * b_step]);
            ASSERT_TRUE(y[i] == want || (std::isnan(y[i]) && std::isnan(want)))
                << op << " of " << a[i * a_step] << ", " << b[i * b_step] << " gave " << y[i];
          }
        }
      }
}

uint32_t bits_of(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  return bits;
}

double f16_value(uint32_t half) {
  const int exponent = half >> 10 & 31;
  const double mantissa = half & 0x3ff, sign = half & 0x8000 ? -1 : 1;
  if (exponent == 31) return mantissa != 0 ? kNan : sign * kInf;
  return sign * (exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024 + mantissa, exponent - 25));
}

std::vector<uint16_t> all_halves() {
  std::vector<uint16_t> all(1 << 16);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

TEST_P(OnTarget, F16Exhaustive) {
  const std::vector<uint16_t> all = all_halves();
  std::vector<float> wide(all.size());
  std::vector<uint16_t> back(all.size());
  f16_to_f32(GetParam(), all.data(), wide.data(), 1 << 16);
  f32_to_f16(GetParam(), wide.data(), back.data(), 1 << 16);
  for (uint32_t h = 0; h < all.size(); ++h) {
    const double want = f16_value(h);
    if (std::isnan(want)) {
      ASSERT_TRUE(std::isnan(wide[h]));
      ASSERT_EQ(bits_of(wide[h]), (h & 0x8000) << 16 | 0x7fc00000 | (h & 0x3ff) << 13);
      ASSERT_EQ(back[h], h | 0x200);
    } else {
      ASSERT_EQ(wide[h], want);
      ASSERT_EQ(std::signbit(wide[h]), (h & 0x8000) != 0);
      ASSERT_EQ(back[h], h);
    }
  }
}

// Midpoints between neighbours go to the even one, anything off the midpoint to the nearer one.
TEST_P(OnTarget, F16Rounding) {
  std::vector<float> x;
  std::vector<uint16_t> want;
  for (uint32_t h = 0; h < 0x7c00; ++h) {
    const double low = f16_value(h), high = h + 1 == 0x7c00 ? 65536.0 : f16_value(h + 1);
    const float middle = static_cast<float>((low + high) / 2);
    for (const float sign : {1.0f, -1.0f}) {
      const uint16_t bit = sign < 0 ? 0x8000 : 0;
      x.push_back(sign * middle), want.push_back(static_cast<uint16_t>((h % 2 ? h + 1 : h) | bit));
      x.push_back(sign * std::nextafter(middle, 0.0f)), want.push_back(static_cast<uint16_t>(h | bit));
      x.push_back(sign * std::nextafter(middle, kInf)), want.push_back(static_cast<uint16_t>((h + 1) | bit));
    }
  }
  for (float big : {1e6f, 3e38f, kInf}) x.push_back(big), want.push_back(0x7c00);
  x.push_back(1e-45f), want.push_back(0);
  std::vector<uint16_t> got(x.size());
  f32_to_f16(GetParam(), x.data(), got.data(), static_cast<int64_t>(x.size()));
  for (size_t i = 0; i < x.size(); ++i) ASSERT_EQ(got[i], want[i]) << x[i];
}

TEST_P(OnTarget, Bf16) {
  const std::vector<uint16_t> all = all_halves();
  std::vector<float> wide(all.size()), x;
  std::vector<uint16_t> back(all.size()), want;
  bf16_to_f32(GetParam(), all.data(), wide.data(), 1 << 16);
  f32_to_bf16(GetParam(), wide.data(), back.data(), 1 << 16);
  for (uint32_t h = 0; h < all.size(); ++h) {
    const bool is_nan = (h & 0x7fff) > 0x7f80;
    ASSERT_EQ(bits_of(wide[h]), h << 16);
    ASSERT_EQ(back[h], is_nan ? h | 0x40 : h);
    for (uint32_t low : {0x1u, 0x7fffu, 0x8000u, 0x8001u, 0xffffu}) {
      const uint32_t bits = h << 16 | low;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      x.push_back(value);
      const bool up = low > 0x8000 || (low == 0x8000 && h % 2);
      want.push_back(static_cast<uint16_t>(std::isnan(value) ? h | 0x40 : h + up));
    }
  }
  std::vector<uint16_t> got(x.size());
  f32_to_bf16(GetParam(), x.data(), got.data(), static_cast<int64_t>(x.size()));
  ASSERT_EQ(got, want);
}

TEST_P(OnTarget, ConvertTails) {
  for (int64_t n = 0; n < 40; ++n) {
    Guarded<uint16_t> half(n), back(n);
    Guarded<float> wide(n);
    for (int64_t i = 0; i < n; ++i) half[i] = static_cast<uint16_t>(0x3c00 + 37 * i);
    f16_to_f32(GetParam(), half.data(), wide.data(), n);
    f32_to_f16(GetParam(), wide.data(), back.data(), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(back[i], half[i]);
    bf16_to_f32(GetParam(), half.data(), wide.data(), n);
    f32_to_bf16(GetParam(), wide.data(), back.data(), n);
    for (int64_t i = 0; i < n; ++i) ASSERT_EQ(back[i], half[i]);
  }
}

constexpr int64_t kRowLengths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17, 31, 63, 64, 65, 100, 257};

TEST_P(OnTarget, Softmax) {
  for (int64_t cols : kRowLengths) {
    const int64_t rows = 600;
    Guarded<float> x(rows * cols), y(rows * cols), z(rows * cols);
    fill_random(x.data(), x.size(), 8, -20, 20);
    softmax_rows(GetParam(), 1, x.data(), y.data(), rows, cols);
    log_softmax_rows(GetParam(), 1, x.data(), z.data(), rows, cols);
    for (int64_t r = 0; r < rows; ++r) {
      const float* row = x.data() + r * cols;
      const double largest = *std::max_element(row, row + cols);
      double sum = 0;
      for (int64_t i = 0; i < cols; ++i) sum += std::exp(row[i] - largest);
      for (int64_t i = 0; i < cols; ++i) {
        const double want = std::exp(row[i] - largest) / sum;
        // The difference itself is rounded: half an ulp of up to 40.
        ASSERT_NEAR(y[r * cols + i], want, 4e-6 * want + 1e-30);
        ASSERT_NEAR(z[r * cols + i], row[i] - largest - std::log(sum), 1e-5);
      }
    }
    for (int threads : {2, 7}) {
      std::vector<float> other(static_cast<size_t>(x.size()));
      softmax_rows(GetParam(), threads, x.data(), other.data(), rows, cols);
      ASSERT_TRUE(same_bits(other.data(), y.data(), y.size()));
    }
    softmax_rows(GetParam(), 1, x.data(), x.data(), rows, cols);
    ASSERT_TRUE(same_bits(x.data(), y.data(), y.size()));
  }
}

TEST_P(OnTarget, SoftmaxCorners) {
  float x[3 * 3] = {-kInf, -kInf, -kInf, 0, kNan, 1, -kInf, 5, -kInf}, y[9];
  softmax_rows(GetParam(), 1, x, y, 3, 3);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(std::isnan(y[i])) << i;
  EXPECT_EQ(y[6], 0.0f);
  EXPECT_EQ(y[7], 1.0f);
  EXPECT_EQ(y[8], 0.0f);
  softmax_rows(GetParam(), 1, x, y, 0, 3);
  softmax_rows(GetParam(), 1, x, y, 3, 0);
}

TEST_P(OnTarget, Norms) {
  for (int64_t cols : kRowLengths)
    for (bool affine : {false, true}) {
      const int64_t rows = 300;
      Guarded<float> x(rows * cols), y(rows * cols), z(rows * cols), scale(cols), bias(cols), mean(rows), inv_std(rows);
      fill_random(x.data(), x.size(), 9, 3, 5);
      fill_random(scale.data(), cols, 10);
      fill_random(bias.data(), cols, 11);
      NormRows norm{affine ? scale.data() : nullptr, affine ? bias.data() : nullptr, 1e-3f, mean.data(),
                    inv_std.data()};
      rms_norm_rows(GetParam(), 2, x.data(), z.data(), rows, cols, norm);
      layer_norm_rows(GetParam(), 2, x.data(), y.data(), rows, cols, norm);
      for (int64_t r = 0; r < rows; ++r) {
        const float* row = x.data() + r * cols;
        double sum = 0, squares = 0, plain = 0;
        for (int64_t i = 0; i < cols; ++i) sum += row[i], plain += double{row[i]} * row[i];
        const double centre = sum / static_cast<double>(cols);
        for (int64_t i = 0; i < cols; ++i) squares += (row[i] - centre) * (row[i] - centre);
        const double inverse = 1 / std::sqrt(squares / static_cast<double>(cols) + 1e-3);
        const double rms = 1 / std::sqrt(plain / static_cast<double>(cols) + 1e-3);
        ASSERT_NEAR(mean[r], centre, 2e-6);
        ASSERT_NEAR(inv_std[r], inverse, 1e-5 * inverse);
        for (int64_t i = 0; i < cols; ++i) {
          const double s = affine ? scale[i] : 1, b = affine ? bias[i] : 0;
          ASSERT_NEAR(y[r * cols + i], (row[i] - centre) * inverse * s + b, 4e-5);
          ASSERT_NEAR(z[r * cols + i], row[i] * rms * s + b, 1e-6);
        }
      }
    }
}

TEST_P(OnTarget, ReduceRows) {
  for (int64_t cols : {0, 1, 3, 16, 17, 63, 64, 100, 5000, 70001})
    for (int64_t rows : {0, 1, 3, 9}) {
      Guarded<float> x(rows * cols), y(rows), again(rows);
      fill_random(x.data(), x.size(), 12);
      for (int op = 0; op < 6; ++op) {
        const RowReduce f = static_cast<RowReduce>(op);
        reduce_rows(GetParam(), 1, f, x.data(), y.data(), rows, cols);
        for (int threads : {2, 7}) {
          reduce_rows(GetParam(), threads, f, x.data(), again.data(), rows, cols);
          ASSERT_TRUE(same_bits(y.data(), again.data(), rows));
        }
        for (int64_t r = 0; r < rows; ++r) {
          double sum = 0, magnitudes = 0, squares = 0, largest = -kInf, smallest = kInf;
          for (int64_t i = 0; i < cols; ++i) {
            const double v = x[r * cols + i];
            sum += v, magnitudes += std::fabs(v), squares += v * v;
            largest = std::max(largest, v), smallest = std::min(smallest, v);
          }
          const double want[] = {sum, sum / static_cast<double>(cols), magnitudes, squares, largest, smallest};
          if (std::isnan(want[op]) || std::isinf(want[op]))
            ASSERT_TRUE(std::isnan(want[op]) ? std::isnan(y[r]) : y[r] == want[op]);
          else
            ASSERT_NEAR(y[r], want[op], 1e-6 * (1 + magnitudes)) << op << " of " << cols;
        }
      }
    }
  std::vector<float> x(100, 1.0f);
  x[70] = kNan;
  for (int op = 0; op < 6; ++op) {
    float y;
    reduce_rows(GetParam(), 1, static_cast<RowReduce>(op), x.data(), &y, 1, 100);
    EXPECT_TRUE(std::isnan(y)) << op;
  }
}

void check_transpose(size_t elem, const std::vector<int64_t>& dims, const std::vector<int>& perm) {
  int64_t count = 1;
  for (int64_t d : dims) count *= d;
  const int64_t bytes = count * static_cast<int64_t>(elem);
  Guarded<uint8_t> x(bytes), y(bytes);
  std::mt19937 random(3);
  for (int64_t i = 0; i < bytes; ++i) x[i] = static_cast<uint8_t>(random());
  const size_t rank = dims.size();
  std::vector<int64_t> strides(rank, 1), index(rank, 0);
  for (size_t i = rank; i-- > 1;) strides[i - 1] = strides[i] * dims[i];
  for (int threads : {1, 2, 7}) {
    std::memset(y.data(), 0xee, static_cast<size_t>(bytes));
    transpose(x.data(), y.data(), elem, dims, perm, threads);
    std::fill(index.begin(), index.end(), 0);
    for (int64_t i = 0; i < count; ++i) {
      int64_t from = 0;
      for (size_t d = 0; d < rank; ++d) from += index[d] * strides[static_cast<size_t>(perm[d])];
      ASSERT_EQ(std::memcmp(&x[from * static_cast<int64_t>(elem)], &y[i * static_cast<int64_t>(elem)], elem), 0)
          << "element " << i << " of size " << elem;
      for (size_t d = rank; d-- > 0;) {
        if (++index[d] < dims[static_cast<size_t>(perm[d])]) break;
        index[d] = 0;
      }
    }
  }
}

TEST(Transpose, AllOrders) {
  for (size_t elem : {1, 2, 4, 8, 16}) {
    for (const std::vector<int64_t>& dims : {std::vector<int64_t>{},
                                             {5},
                                             {1, 1},
                                             {3, 70},
                                             {64, 33},
                                             {100, 130},
                                             {16, 16},
                                             {2, 3, 4},
                                             {17, 1, 19},
                                             {65, 2, 40},
                                             {2, 3, 4, 5},
                                             {3, 20, 7, 2},
                                             {1, 3, 33, 34},
                                             {2, 2, 2, 2, 3},
                                             {4, 0, 3}}) {
      std::vector<int> perm(dims.size());
      std::iota(perm.begin(), perm.end(), 0);
      do check_transpose(elem, dims, perm);
      while (std::next_permutation(perm.begin(), perm.end()));
    }
  }
}

TEST(Transpose, RankOf64) {
  std::vector<int64_t> dims(64, 1);
  for (int i : {0, 5, 9, 20, 40, 63}) dims[static_cast<size_t>(i)] = 3;
  std::vector<int> perm(64);
  std::iota(perm.begin(), perm.end(), 0);
  std::reverse(perm.begin(), perm.end());
  check_transpose(4, dims, perm);
}

TEST(Transpose, LongStrips) { check_transpose(4, {2500, 70}, {1, 0}), check_transpose(2, {2, 3, 3000}, {2, 0, 1}); }

double conv_at(const ConvShape& s, Guarded<float>& x, Guarded<float>& w, int64_t n, int64_t m, const int64_t (&o)[3]) {
  const int64_t group_in = s.channels / s.groups, first = m / (s.out_channels / s.groups) * group_in;
  double sum = 0;
  for (int64_t c = 0; c < group_in; ++c)
    for (int64_t z = 0; z < s.kernel[0]; ++z)
      for (int64_t y = 0; y < s.kernel[1]; ++y)
        for (int64_t v = 0; v < s.kernel[2]; ++v) {
          const int64_t k[3] = {z, y, v};
          int64_t i[3];
          bool in = true;
          for (int d = 0; d < 3; ++d) {
            i[d] = o[d] * s.stride[d] + k[d] * s.dilation[d] - s.pad[d];
            in = in && i[d] >= 0 && i[d] < s.in[d];
          }
          if (!in) continue;
          const int64_t from = (((n * s.channels + first + c) * s.in[0] + i[0]) * s.in[1] + i[1]) * s.in[2] + i[2];
          const int64_t weight = (((m * group_in + c) * s.kernel[0] + z) * s.kernel[1] + y) * s.kernel[2] + v;
          sum += static_cast<double>(x[from]) * w[weight];
        }
  return sum;
}

// The largest absolute number among the inputs times what a kernel's absolute weights sum up to, of output channel m.
double conv_scale(const ConvShape& s, Guarded<float>& x, Guarded<float>& w, int64_t m) {
  const int64_t taps = w.size() / s.out_channels;
  double largest = 0, sum = 0;
  for (int64_t i = 0; i < x.size(); ++i) largest = std::max(largest, std::fabs(double{x[i]}));
  for (int64_t i = 0; i < taps; ++i) sum += std::fabs(double{w[m * taps + i]});
  return largest * sum;
}

void check_conv(Target target, const ConvShape& s, bool with_bias, GemmActivation activation) {
  const int64_t pixels_in = s.in[0] * s.in[1] * s.in[2], pixels = s.out[0] * s.out[1] * s.out[2];
  Guarded<float> x(s.batch * s.channels * pixels_in), y(s.batch * s.out_channels * pixels), bias(s.out_channels);
  Guarded<float> w(s.out_channels * (s.channels / s.groups) * s.kernel[0] * s.kernel[1] * s.kernel[2]);
  Guarded<float> packed(static_cast<int64_t>(conv_packed_bytes(s)) / 4);
  fill_random(x.data(), x.size(), 20);
  fill_random(w.data(), w.size(), 21);
  fill_random(bias.data(), bias.size(), 22);
  conv_pack(s, w.data(), packed.data(), 2);
  std::vector<float> before;
  for (int threads : kThreadCounts) {
    Guarded<float> scratch(static_cast<int64_t>(conv_scratch_bytes(s)) / 4 * threads);
    for (int64_t i = 0; i < scratch.size(); ++i) scratch[i] = kNan;
    for (int64_t i = 0; i < y.size(); ++i) y[i] = kNan;
    conv_f32(target, threads, s, x.data(), packed.data(), with_bias ? bias.data() : nullptr, activation, y.data(),
             scratch.data());
    if (threads == 1) before.assign(y.data(), y.data() + y.size());
    ASSERT_TRUE(same_bits(before.data(), y.data(), y.size())) << threads << " threads";
  }
  const double taps = static_cast<double>(s.channels / s.groups * s.kernel[0] * s.kernel[1] * s.kernel[2]);
  const int64_t every = static_cast<double>(y.size()) * taps > 1e7 ? 11 : 1;  // a sample of many outputs
  int64_t at = 0;
  for (int64_t n = 0; n < s.batch; ++n)
    for (int64_t m = 0; m < s.out_channels; ++m) {
      const double allowed = conv::is_winograd(s) ? 5e-7 * conv_scale(s, x, w, m) + 1e-6 : 2e-6 * (1 + std::sqrt(taps));
      for (int64_t p = 0; p < pixels; ++p, ++at) {
        ASSERT_FALSE(std::isnan(y[at]));
        if (at % every) continue;
        const int64_t o[3] = {p / (s.out[1] * s.out[2]), p / s.out[2] % s.out[1], p % s.out[2]};
        double want = conv_at(s, x, w, n, m, o) + (with_bias ? bias[m] : 0);
        if (activation == GemmActivation::relu) want = std::max(want, 0.0);
        ASSERT_NEAR(y[at], want, allowed) << "image " << n << " channel " << m << " pixel " << p;
      }
    }
}

// {batch, channels, out_channels, groups}, then in, kernel, stride, dilation, pad before and after, per dimension.
ConvShape conv_shape(std::vector<int64_t> head, std::vector<int64_t> in, std::vector<int64_t> kernel,
                     std::vector<int64_t> stride = {}, std::vector<int64_t> dilation = {},
                     std::vector<int64_t> pad = {}, std::vector<int64_t> pad_after = {}) {
  ConvShape s{head[0], head[1], head[2], head[3]};
  const size_t rank = in.size();
  for (size_t i = 0; i < rank; ++i) {
    const size_t d = 3 - rank + i;
    s.in[d] = in[i];
    s.kernel[d] = kernel[i];
    if (!stride.empty()) s.stride[d] = stride[i];
    if (!dilation.empty()) s.dilation[d] = dilation[i];
    if (!pad.empty()) s.pad[d] = pad[i];
    const int64_t after = pad_after.empty() ? s.pad[d] : pad_after[i];
    const int64_t room = s.in[d] + s.pad[d] + after - (s.dilation[d] * (s.kernel[d] - 1) + 1);
    s.out[d] = room < 0 ? 0 : room / s.stride[d] + 1;
  }
  return s;
}

std::vector<ConvShape> conv_shapes() {
  return {
      conv_shape({1, 3, 8, 1}, {9, 11}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),
      conv_shape({2, 5, 17, 1}, {7, 7}, {1, 1}),
      conv_shape({1, 4, 33, 1}, {8, 9}, {1, 1}, {2, 3}),
      conv_shape({1, 3, 20, 1}, {23, 21}, {7, 7}, {2, 2}, {1, 1}, {3, 3}),
      conv_shape({1, 4, 6, 2}, {10, 13}, {3, 2}, {2, 1}, {2, 3}, {1, 0}, {0, 2}),
      conv_shape({1, 6, 12, 3}, {6, 6}, {3, 3}, {1, 1}, {1, 1}, {5, 4}, {6, 7}),
      conv_shape({1, 70, 140, 1}, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),
      conv_shape({1, 2, 3, 1}, {40, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),
      conv_shape({2, 3, 5, 1}, {50}, {4}, {3}, {2}, {4}, {1}),
      conv_shape({1, 2, 4, 1}, {5, 6, 7}, {3, 2, 3}, {1, 2, 1}, {1, 1, 2}, {1, 0, 2}),
      conv_shape({1, 1, 1, 1}, {1, 1}, {1, 1}),
      conv_shape({1, 2, 2, 1}, {2, 2}, {3, 3}),
      conv_shape({0, 2, 2, 1}, {4, 4}, {3, 3}),
      conv_shape({1, 2, 3, 1}, {1, 1}, {3, 3}, {1, 1}, {1, 1}, {9, 9}),
      conv_shape({1, 8, 8, 8}, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),
      conv_shape({2, 5, 5, 5}, {15, 18}, {3, 3}, {2, 2}, {1, 1}, {1, 1}),
      conv_shape({1, 3, 6, 3}, {20, 37}, {5, 5}, {2, 2}, {1, 1}, {2, 2}, {1, 3}),
      conv_shape({1, 3, 3, 3}, {12, 70}, {3, 3}, {1, 1}, {2, 2}, {2, 2}),
      conv_shape({1, 3, 3, 3}, {17, 33}, {3, 3}, {2, 2}, {3, 3}, {4, 4}),
      conv_shape({1, 2, 2, 2}, {9, 30}, {2, 2}, {4, 5}),
      conv_shape({1, 2, 2, 2}, {3000}, {9}, {1}, {1}, {4}),
      conv_shape({1, 2, 2, 2}, {4000}, {3}, {1}, {300}, {300}),
      conv_shape({1, 2, 4, 2}, {5, 6, 20}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}),
      conv_shape({1, 2, 2, 2}, {6, 9, 9}, {2, 3, 3}, {2, 2, 2}, {2, 1, 1}, {1, 4, 4}),
      conv_shape({1, 2, 2, 2}, {200, 100}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),
      conv_shape({1, 2, 2, 2}, {2, 2}, {5, 5}),
      conv_shape({3, 20, 33, 1}, {4, 5}, {4, 5}),
      conv_shape({2, 8, 6, 2}, {1, 1}, {1, 1}),
      conv_shape({1, 130, 290, 1}, {7, 7}, {1, 1}),
      conv_shape({2, 40, 48, 2}, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}),
      conv_shape({1, 90, 64, 1}, {15, 13}, {3, 3}, {2, 2}, {1, 1}, {1, 1}),
      conv_shape({1, 70, 32, 1}, {13, 11}, {3, 3}, {1, 1}, {2, 2}, {2, 2}),
      conv_shape({1, 30, 64, 1}, {30, 29}, {5, 5}, {3, 2}, {1, 2}, {2, 1}),
      conv_shape({1, 40, 17, 1}, {300}, {9}, {1}, {1}, {4}),
      conv_shape({1, 6, 32, 1}, {3, 5, 5}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}),
  };
}

TEST_P(OnTarget, Conv) {
  int number = 0;
  for (const ConvShape& s : conv_shapes()) {
    SCOPED_TRACE(testing::Message() << "shape " << number++);
    check_conv(GetParam(), s, false, GemmActivation::none);
    check_conv(GetParam(), s, true, GemmActivation::relu);
    if (HasFatalFailure()) return;
  }
}

TEST_P(OnTarget, ConvWinograd) {
  const std::vector<ConvShape> shapes = {
      conv_shape({1, 32, 32, 1}, {16, 16}, {3, 3}, {}, {}, {1, 1}),
      conv_shape({1, 40, 49, 1}, {14, 15}, {3, 3}, {}, {}, {1, 1}),
      conv_shape({3, 33, 48, 1}, {13, 17}, {3, 3}, {}, {}, {0, 2}, {2, 0}),
      conv_shape({1, 32, 70, 1}, {28, 28}, {3, 3}, {}, {}, {1, 1}),
      conv_shape({5, 33, 32, 1}, {30, 29}, {3, 3}, {}, {}, {1, 1}),
      conv_shape({1, 32, 33, 1}, {70, 66}, {3, 3}, {}, {}, {1, 1}),
      conv_shape({1, 32, 32, 1}, {18, 1100}, {3, 3}),
      conv_shape({1, 300, 32, 1}, {18, 15}, {3, 3}, {}, {}, {4, 3}, {2, 5}),
      conv_shape({2, 520, 34, 1}, {16, 40}, {3, 3}, {}, {}, {1, 1}),
  };
  for (const ConvShape& s : shapes) {
    SCOPED_TRACE(testing::Message() << s.channels << " to " << s.out_channels << " @ " << s.in[1] << "x" << s.in[2]);
    ASSERT_TRUE(conv::is_winograd(s));
    check_conv(GetParam(), s, true, GemmActivation::relu);
    if (HasFatalFailure()) return;
  }
}

// A number that is not finite shows in the outputs that it meets, and nowhere else.
TEST_P(OnTarget, ConvKeepsStrangeNumbersInTheirPlace) {
  const ConvShape s = conv_shape({1, 32, 32, 1}, {16, 16}, {3, 3}, {}, {}, {1, 1});
  for (const float strange : {kNan, kInf, 1e30f})
    for (const bool in_weights : {false, true}) {
      std::vector<float> x(32 * 256, 1.0f), w(32 * 32 * 9, 1.0f), y(32 * 256),
          packed(conv_packed_bytes(s) / sizeof(float)), scratch(conv_scratch_bytes(s) / sizeof(float) + 16);
      if (in_weights)
        w[5 * 32 * 9] = strange;  // output channel 5, the tap above and to the left
      else
        x[3 * 256 + 5 * 16 + 6] = strange;
      conv_pack(s, w.data(), packed.data(), 1);
      float* aligned = scratch.data() + (64 - reinterpret_cast<uintptr_t>(scratch.data()) % 64) % 64 / sizeof(float);
      conv_f32(GetParam(), 1, s, x.data(), packed.data(), nullptr, GemmActivation::none, y.data(), aligned);
      for (int64_t i = 0; i < 32 * 256; ++i) {
        const int64_t channel = i / 256, row = i / 16 % 16, column = i % 16;
        const bool met =
            in_weights ? channel == 5 && row > 0 && column > 0 : std::abs(row - 5) <= 1 && std::abs(column - 6) <= 1;
        if (in_weights && channel == 5 && !met) continue;  // padding times the strange number
        if (met)
          ASSERT_TRUE(std::isnan(strange) ? std::isnan(y[i]) : y[i] >= strange) << i;
        else
          ASSERT_EQ(y[i],
                    32.0f * static_cast<float>((1 + (row > 0) + (row < 15)) * (1 + (column > 0) + (column < 15))));
      }
    }
}

double pool_at(Pool pool, const PoolShape& s, Guarded<float>& x, int64_t row, int64_t column, double count) {
  double best = -kInf, sum = 0;
  for (int64_t k = 0; k < s.kernel[0]; ++k)
    for (int64_t l = 0; l < s.kernel[1]; ++l) {
      const int64_t iy = row * s.stride[0] + k * s.dilation[0] - s.pad[0];
      const int64_t ix = column * s.stride[1] + l * s.dilation[1] - s.pad[1];
      if (iy < 0 || iy >= s.in[0] || ix < 0 || ix >= s.in[1]) continue;
      const double v = x[iy * s.in[1] + ix];
      if (std::isnan(v) || v > best) best = v;
      sum += v;
    }
  return pool == Pool::max ? best : sum / std::max(1.0, count);
}

TEST_P(OnTarget, Pool) {
  std::mt19937 random(11);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 600; ++i) {
    PoolShape s;
    for (int d = 0; d < 2; ++d) {
      s.kernel[d] = pick(1, 5);
      s.stride[d] = pick(1, 3);
      s.dilation[d] = pick(0, 3) ? 1 : pick(1, 3);
      s.pad[d] = pick(0, 3);
      s.in[d] = pick(1, i % 2 ? 12 : 70);
      const int64_t room = s.in[d] + s.pad[d] + pick(0, 3) - (s.kernel[d] - 1) * s.dilation[d] - 1;
      s.out[d] = room < 0 ? 0 : room / s.stride[d] + 1;
    }
    Guarded<float> x(s.in[0] * s.in[1]), y(s.out[0] * s.out[1]), rows(s.out[0]), columns(s.out[1]);
    Guarded<std::byte> scratch(pool_scratch_bytes(s));
    fill_random(x.data(), x.size(), static_cast<unsigned>(i));
    if (i % 5 == 0) x[pick(0, x.size() - 1)] = kNan;
    for (int64_t o = 0; o < rows.size(); ++o) rows[o] = static_cast<float>(o % 4);
    for (int64_t o = 0; o < columns.size(); ++o) columns[o] = static_cast<float>(o % 3);
    for (const Pool pool : {Pool::max, Pool::mean}) {
      const int64_t middle = s.out[0] / 2;
      for (const auto& [from, to] : {std::pair{int64_t{0}, middle}, std::pair{middle, s.out[0]}})
        pool_rows(GetParam(), pool, s, {x.data(), y.data(), from, to, rows.data(), columns.data()}, scratch.data());
      for (int64_t o = 0; o < y.size(); ++o) {
        const int64_t row = o / s.out[1], column = o % s.out[1];
        const double want = pool_at(pool, s, x, row, column, double{rows[row]} * columns[column]);
        if (std::isnan(want) || std::isinf(want))
          ASSERT_TRUE(std::isnan(want) ? std::isnan(y[o]) : y[o] == want) << i << " at " << o;
        else
          ASSERT_NEAR(y[o], want, 4e-6) << i << " at " << o;
      }
    }
  }
  for (int64_t n = 1; n < 100; ++n) {
    Guarded<float> x(3 * n), y(3);
    fill_random(x.data(), x.size(), 5);
    pool_means(GetParam(), x.data(), 3, n, y.data());
    for (int64_t m = 0; m < 3; ++m)
      ASSERT_NEAR(y[m], std::accumulate(x.data() + m * n, x.data() + (m + 1) * n, 0.0) / static_cast<double>(n), 1e-6);
  }
}

// Patches of bytes, against a look at every tap.
TEST(ConvStage, GatherBytes) {
  for (const ConvShape& s :
       {conv_shape({1, 3, 1, 1}, {9, 40}, {3, 3}, {1, 1}, {1, 1}, {1, 1}), conv_shape({1, 2, 1, 1}, {7, 7}, {3, 3}),
        conv_shape({1, 2, 1, 1}, {30, 41}, {5, 3}, {2, 2}, {1, 1}, {2, 1}),
        conv_shape({1, 2, 1, 1}, {20, 70}, {3, 2}, {2, 3}, {1, 2}, {4, 0}, {0, 5}),
        conv_shape({1, 4, 1, 1}, {300}, {9}, {1}, {2}, {4})}) {
    const int64_t pixels = s.out[1] * s.out[2], taps = s.kernel[1] * s.kernel[2];
    Guarded<uint8_t> x(s.channels * s.in[1] * s.in[2]);
    for (int64_t i = 0; i < x.size(); ++i) x[i] = static_cast<uint8_t>(1 + i * 37 % 200);
    for (const int64_t first : {int64_t{0}, pixels / 3}) {
      const int64_t count = std::min<int64_t>(pixels - first, 77);
      const conv::Stage g = conv::plan_stage(s, std::min(s.out[1], (count - 1) / s.out[2] + 2), s.out[2]);
      Guarded<uint8_t> staged(g.floats(1)), out(s.channels * taps * count + 15);
      std::vector<int64_t> offset(static_cast<size_t>(taps));
      conv::set_offsets(s, g, offset.data());
      conv::gather_bytes(s, g, offset.data(), x.data(), s.channels, 250, first, count, staged.data(), out.data());
      for (int64_t k = 0; k < s.channels * taps; ++k)
        for (int64_t p = 0; p < count; ++p) {
          const int64_t tap = k % taps, o = first + p;
          const int64_t iy = o / s.out[2] * s.stride[1] + tap / s.kernel[2] * s.dilation[1] - s.pad[1];
          const int64_t ix = o % s.out[2] * s.stride[2] + tap % s.kernel[2] * s.dilation[2] - s.pad[2];
          const bool in = iy >= 0 && iy < s.in[1] && ix >= 0 && ix < s.in[2];
          ASSERT_EQ(out[k * count + p], in ? x[(k / taps * s.in[1] + iy) * s.in[2] + ix] : 250);
        }
    }
  }
}

TEST_P(OnTarget, ConvRandomShapes) {
  std::mt19937 random(7);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 150; ++i) {
    const size_t rank = static_cast<size_t>(pick(1, 3));
    const int64_t groups = pick(1, 4), per_group = pick(0, 2) ? pick(1, 6) : 1, m = groups * pick(1, 20);
    std::vector<int64_t> in, kernel, stride, dilation, pad, after;
    for (size_t d = 0; d < rank; ++d) {
      in.push_back(pick(1, rank == 1 ? 90 : rank == 2 ? 24 : 9));
      kernel.push_back(pick(1, 4));
      stride.push_back(pick(1, 3));
      dilation.push_back(pick(1, 3));
      pad.push_back(pick(0, 4));
      after.push_back(pick(0, 4));
    }
    SCOPED_TRACE(testing::Message() << "shape " << i);
    check_conv(GetParam(),
               conv_shape({pick(1, 2), groups * per_group, m, groups}, in, kernel, stride, dilation, pad, after), i % 2,
               i % 3 ? GemmActivation::none : GemmActivation::relu);
    if (HasFatalFailure()) return;
  }
}

// What every element of x spreads, by its definition.
std::vector<double> transposed(const ConvShape& s, Guarded<float>& x, Guarded<float>& w, Guarded<float>& bias) {
  const int64_t from = s.out[0] * s.out[1] * s.out[2], plane = s.in[0] * s.in[1] * s.in[2];
  const int64_t taps = s.kernel[0] * s.kernel[1] * s.kernel[2], m = s.out_channels / s.groups;
  std::vector<double> y(static_cast<size_t>(s.batch * s.out_channels * plane));
  for (size_t i = 0; i < y.size(); ++i) y[i] = bias[static_cast<int64_t>(i) / plane % s.out_channels];
  for (int64_t i = 0; i < x.size(); ++i) {
    const int64_t channel = i / from % s.channels, group = channel / (s.channels / s.groups);
    const int64_t o[3] = {i % from / (s.out[1] * s.out[2]), i / s.out[2] % s.out[1], i % s.out[2]};
    for (int64_t k = 0; k < m * taps; ++k) {
      const int64_t t[3] = {k % taps / (s.kernel[1] * s.kernel[2]), k / s.kernel[2] % s.kernel[1], k % s.kernel[2]};
      int64_t at = i / from / s.channels * s.out_channels + group * m + k / taps;
      bool inside = true;
      for (int d = 0; d < 3; ++d) {
        const int64_t place = o[d] * s.stride[d] + t[d] * s.dilation[d] - s.pad[d];
        inside = inside && place >= 0 && place < s.in[d];
        at = at * s.in[d] + place;
      }
      if (inside) y[static_cast<size_t>(at)] += static_cast<double>(x[i]) * w[channel * m * taps + k];
    }
  }
  return y;
}

void check_conv_transpose(Target target, const ConvShape& s) {
  const int64_t k = s.channels / s.groups, n = s.out_channels / s.groups * s.kernel[0] * s.kernel[1] * s.kernel[2];
  const auto group_floats = static_cast<int64_t>(gemm_packed_bytes(n, k) / 4);
  Guarded<float> x(s.batch * s.channels * s.out[0] * s.out[1] * s.out[2]), w(s.channels * n), bias(s.out_channels);
  Guarded<float> y(s.batch * s.out_channels * s.in[0] * s.in[1] * s.in[2]), packed(s.groups * group_floats);
  fill_random(x.data(), x.size(), 30);
  fill_random(w.data(), w.size(), 31);
  fill_random(bias.data(), bias.size(), 32);
  for (int64_t g = 0; g < s.groups; ++g)
    gemm_pack_b(w.data() + g * k * n, n, false, k, n, packed.data() + g * group_floats, 1);
  const std::vector<double> want = transposed(s, x, w, bias);
  std::vector<float> before;
  for (int threads : kThreadCounts) {
    Guarded<float> scratch(static_cast<int64_t>(conv_transpose_scratch_bytes(s)) / 4 * threads);
    for (int64_t i = 0; i < scratch.size(); ++i) scratch[i] = kNan;
    conv_transpose_f32(target, threads, s, x.data(), packed.data(), bias.data(), y.data(), scratch.data());
    if (threads == 1) before.assign(y.data(), y.data() + y.size());
    ASSERT_TRUE(same_bits(before.data(), y.data(), y.size())) << threads << " threads";
  }
  const double allowed = 2e-6 * (2 + std::sqrt(static_cast<double>(s.channels / s.groups * 16)));
  for (int64_t i = 0; i < y.size(); ++i) ASSERT_NEAR(y[i], want[static_cast<size_t>(i)], allowed) << i;
}

TEST_P(OnTarget, ConvTranspose) {
  std::mt19937 random(9);
  const auto pick = [&](int64_t low, int64_t high) {
    return low + static_cast<int64_t>(random() % static_cast<uint64_t>(high - low + 1));
  };
  for (int i = 0; i < 160; ++i) {
    ConvShape s;
    s.batch = pick(1, 2), s.groups = pick(0, 2) ? 1 : pick(1, 3);
    s.channels = s.groups * pick(1, i % 10 ? 9 : 300), s.out_channels = s.groups * pick(1, i % 7 ? 20 : 70);
    for (int d = static_cast<int>(pick(0, 2)); d < 3; ++d) {
      s.kernel[d] = pick(1, 4);
      s.stride[d] = pick(1, 3);
      s.dilation[d] = pick(0, 3) ? 1 : pick(1, 3);
      s.pad[d] = pick(0, 2);
      s.out[d] = pick(1, d == 0 ? 3 : d == 1 ? 40 : i % 9 ? 20 : 90);
      s.in[d] = std::max<int64_t>(
          1, (s.out[d] - 1) * s.stride[d] + (s.kernel[d] - 1) * s.dilation[d] + 1 - s.pad[d] - pick(0, 2) + pick(0, 1));
    }
    const int64_t work = s.batch * s.channels * (s.out_channels / s.groups) * s.out[0] * s.out[1] * s.out[2];
    if (work * s.kernel[0] * s.kernel[1] * s.kernel[2] > 2'000'000) continue;  // slow to check
    SCOPED_TRACE(testing::Message() << "shape " << i);
    check_conv_transpose(GetParam(), s);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace tessera
