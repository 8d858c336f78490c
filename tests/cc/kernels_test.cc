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

}  // namespace
}  // namespace tessera
