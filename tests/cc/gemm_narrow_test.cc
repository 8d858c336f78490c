// Products with panels of 16-bit floats have the bits that the widened panels give, on every target this CPU has.
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "kernels/convert.h"
#include "kernels/gemm.h"

namespace tessera {
namespace {

std::vector<Target> all_targets() {
  std::vector<Target> targets = {Target::scalar};
  for (Target t : {Target::sse4, Target::neon, Target::avx2, Target::avx3})
    if (t <= best_target() && (t == Target::neon) == (best_target() == Target::neon)) targets.push_back(t);
  return targets;
}

class Narrow : public testing::TestWithParam<std::tuple<Target, PanelType>> {
 protected:
  Target target() const { return std::get<0>(GetParam()); }
  PanelType type() const { return std::get<1>(GetParam()); }
};
INSTANTIATE_TEST_SUITE_P(Gemm, Narrow,
                         testing::Combine(testing::ValuesIn(all_targets()),
                                          testing::Values(PanelType::f16, PanelType::bf16)),
                         [](const auto& info) {
                           const bool f16 = std::get<1>(info.param) == PanelType::f16;
                           return std::string(target_name(std::get<0>(info.param))) + (f16 ? "_f16" : "_bf16");
                         });

// Exactly as many elements as asked for, so that a sanitizer sees reads beyond them; 64-byte aligned.
template <class T>
class Aligned {
 public:
  explicit Aligned(size_t count) : count_(count), data_(new (std::align_val_t{64}) T[count]) {}
  ~Aligned() { operator delete[](data_, std::align_val_t{64}); }
  Aligned(const Aligned&) = delete;
  Aligned& operator=(const Aligned&) = delete;
  T* data() { return data_; }
  size_t size() const { return count_; }

 private:
  size_t count_;
  T* data_;
};

void fill_random(float* out, size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (size_t i = 0; i < count; ++i) out[i] = uniform(random);
}

struct Case {
  int64_t m, n, k;
  bool trans_a = false, trans_b = false;
  GemmEpilogue epilogue = {};
};

void check(Target target, PanelType type, const Case& t) {
  SCOPED_TRACE(testing::Message() << t.m << "x" << t.n << "x" << t.k << " trans " << t.trans_a << t.trans_b);
  const bool f16 = type == PanelType::f16;
  const auto count = static_cast<size_t>(t.n * t.k), size = static_cast<size_t>(t.m * t.n);
  std::vector<float> a(static_cast<size_t>(t.m * t.k)), wide(count);
  std::vector<uint16_t> narrow(count);
  fill_random(a.data(), a.size(), 1);
  fill_random(wide.data(), count, 2);
  (f16 ? f32_to_f16 : f32_to_bf16)(Target::scalar, wide.data(), narrow.data(), t.n * t.k);
  (f16 ? f16_to_f32 : bf16_to_f32)(Target::scalar, narrow.data(), wide.data(), t.n * t.k);
  Aligned<float> wide_panels(gemm_packed_bytes(t.n, t.k) / 4);
  Aligned<uint16_t> panels(gemm_packed_bytes(t.n, t.k, type) / 2);
  const int64_t ldb = t.trans_b ? t.k : t.n, lda = t.trans_a ? t.m : t.k;
  gemm_pack_b(wide.data(), ldb, t.trans_b, t.k, t.n, wide_panels.data(), 1);
  gemm_pack_b(type, narrow.data(), ldb, t.trans_b, t.k, t.n, panels.data(), 2);
  std::vector<float> want(size, 0.25f), got;
  gemm_f32(target, 1, t.m, t.n, t.k, a.data(), lda, t.trans_a, wide_panels.data(), want.data(), t.n, t.epilogue);
  for (const int threads : {1, 2, 7}) {
    got.assign(size, 0.25f);
    gemm_f32(target, threads, t.m, t.n, t.k, a.data(), lda, t.trans_a, GemmPanels(panels.data(), type), got.data(), t.n,
             t.epilogue);
    for (size_t i = 0; i < size; ++i) ASSERT_EQ(got[i], want[i]) << i << " with " << threads << " threads";
    ASSERT_EQ(size ? std::memcmp(got.data(), want.data(), size * sizeof(float)) : 0, 0);
  }
}

TEST_P(Narrow, SizesAroundTileEdges) {
  for (const int64_t m : {1, 2, 3, 4, 5, 6, 7, 11, 12, 13, 17, 23, 24, 25, 49, 97})
    for (const int64_t n : {1, 7, 8, 15, 16, 17, 31, 32, 33, 65})
      for (const int64_t k : {0, 1, 2, 7, 9, 33}) check(target(), type(), {m, n, k});
}

TEST_P(Narrow, SeveralStepsOfK) {
  for (const Case& t :
       {Case{1, 70, 2100}, {2, 16, 1030}, {6, 40, 2100}, {30, 70, 1025}, {50, 80, 2048}, {100, 33, 1500}})
    for (const bool trans : {false, true}) check(target(), type(), {t.m, t.n, t.k, trans, trans});
}

TEST_P(Narrow, Epilogues) {
  std::vector<float> bias(37);
  fill_random(bias.data(), bias.size(), 3);
  for (const int64_t m : {1, 5, 14, 40})
    for (const int64_t k : {0, 5, 1100})
      for (const GemmActivation activation : {GemmActivation::none, GemmActivation::relu})
        for (const float alpha : {1.0f, 0.5f}) {
          check(target(), type(), {m, 37, k, false, true, {alpha, -2.0f, bias.data(), 0, 1, activation}});
          check(target(), type(), {m, 32, k, m == 5, false, {alpha, 1.0f, bias.data(), 0, 0, activation}});
        }
}

TEST_P(Narrow, KeepsWhatIsNoNumber) {
  const bool f16 = type() == PanelType::f16;
  const uint16_t infinite = f16 ? 0x7c00 : 0x7f80, nan = f16 ? 0x7e00 : 0x7fc0, least = 1;
  for (const int64_t m : {1, 4, 30}) {
    const int64_t n = 3, k = 2;
    const std::vector<float> a(static_cast<size_t>(m * k), 1.0f);
    const uint16_t b[] = {infinite, nan, least, 0, 0, 0};
    Aligned<uint16_t> panels(gemm_packed_bytes(n, k, type()) / 2);
    gemm_pack_b(type(), b, n, false, k, n, panels.data(), 1);
    std::vector<float> c(static_cast<size_t>(m * n));
    gemm_f32(target(), 1, m, n, k, a.data(), k, false, GemmPanels(panels.data(), type()), c.data(), n, {});
    for (size_t i = 0; i < c.size(); i += 3) {
      EXPECT_EQ(c[i], std::numeric_limits<float>::infinity());
      EXPECT_NE(c[i + 1], c[i + 1]);
      EXPECT_EQ(c[i + 2], f16 ? 0x1p-24f : 0x1p-133f);
    }
  }
}

}  // namespace
}  // namespace tessera
