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
#include "kernels/gemm.h"
#include "kernels/gemm_generic.h"
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
  return std::memcmp(a, b, static_cast<size_t>(count) * sizeof(float)) == 0;
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

void check_gemm(Target target, const GemmCase& t) {
  SCOPED_TRACE(testing::Message() << t.m << "x" << t.n << "x" << t.k << " trans " << t.trans_a << t.trans_b << " c "
                                  << t.c_kind);
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

}  // namespace
}  // namespace tessera
