// The steps of attention over rows of a head against plain sums, on every target this CPU has and for every type.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "base/checked.h"
#include "core/convert.h"
#include "kernels/attention.h"

namespace tessera {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

std::vector<Target> all_targets() {
  std::vector<Target> targets = {Target::scalar};
  for (Target t : {Target::sse4, Target::neon, Target::avx2, Target::avx3})
    if (t <= best_target() && (t == Target::neon) == (best_target() == Target::neon)) targets.push_back(t);
  return targets;
}

// Rows of a head among others, and the same numbers as floats.
struct Head {
  std::vector<float> wide;
  std::vector<uint16_t> narrow;
  HeadRows rows;

  Head(PanelType type, int64_t n, int64_t size, unsigned seed) : rows{nullptr, type, size + 3} {
    std::mt19937 random(seed);
    std::uniform_real_distribution<float> uniform(-1, 1);
    wide.resize(static_cast<size_t>(n * rows.step));
    narrow.resize(wide.size());
    for (size_t i = 0; i < wide.size(); ++i) {
      wide[i] = uniform(random);
      narrow[i] = type == PanelType::bf16 ? float_to_bf16(wide[i]) : float_to_f16(wide[i]);
      if (type != PanelType::f32)
        wide[i] = type == PanelType::bf16 ? bf16_to_float(narrow[i]) : f16_to_float(narrow[i]);
    }
    rows.data = type == PanelType::f32 ? static_cast<const void*>(wide.data()) : narrow.data();
  }
  float at(int64_t i, int64_t d) const { return wide[static_cast<size_t>(i * rows.step + d)]; }
};

std::vector<float> random_floats(int64_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> out(static_cast<size_t>(n));
  for (float& v : out) v = uniform(random);
  return out;
}

class Attention : public testing::TestWithParam<std::tuple<Target, PanelType>> {
 protected:
  Target target() const { return std::get<0>(GetParam()); }
  PanelType type() const { return std::get<1>(GetParam()); }
};
std::string name_of_case(const testing::TestParamInfo<std::tuple<Target, PanelType>>& info) {
  constexpr const char* kNames[] = {"_f32", "_f16", "_bf16"};
  return std::string(target_name(std::get<0>(info.param))) + kNames[static_cast<int>(std::get<1>(info.param))];
}
INSTANTIATE_TEST_SUITE_P(Kernels, Attention,
                         testing::Combine(testing::ValuesIn(all_targets()),
                                          testing::Values(PanelType::f32, PanelType::f16, PanelType::bf16)),
                         name_of_case);

constexpr int64_t kSizes[] = {1, 5, 16, 24, 64, 67, 128};

TEST_P(Attention, ProductsAndSums) {
  for (const int64_t size : kSizes)
    for (const int64_t n : {1, 3, 4, 17})
      for (const int64_t rows : {1, 4, 7}) {
        const Head head(type(), n, size, 3);
        const std::vector<float> q = random_floats(rows * size, 4), w = random_floats(rows * (n + 2), 5);
        std::vector<float> scores(static_cast<size_t>(rows * (n + 1)), 7), y = random_floats(rows * size, 6), was = y;
        head_products(target(), q.data(), rows, size, head.rows, n, scores.data(), n + 1);
        head_sums(target(), w.data(), n + 2, rows, head.rows, n, size, y.data());
        for (int64_t r = 0; r < rows; ++r) {
          for (int64_t i = 0; i < n; ++i) {
            double sum = 0;
            for (int64_t d = 0; d < size; ++d)
              sum += static_cast<double>(q[static_cast<size_t>(r * size + d)]) * head.at(i, d);
            EXPECT_NEAR(scores[static_cast<size_t>(r * (n + 1) + i)], sum, 2e-5) << size << " " << n << " " << rows;
          }
          EXPECT_EQ(scores[static_cast<size_t>(r * (n + 1) + n)], 7) << "written behind a row";
          for (int64_t d = 0; d < size; ++d) {
            double sum = was[static_cast<size_t>(r * size + d)];
            for (int64_t i = 0; i < n; ++i)
              sum += static_cast<double>(w[static_cast<size_t>(r * (n + 2) + i)]) * head.at(i, d);
            EXPECT_NEAR(y[static_cast<size_t>(r * size + d)], sum, 2e-5) << size << " " << n << " " << rows;
          }
        }
      }
}

TEST_P(Attention, Panels) {
  for (const int64_t size : kSizes)
    for (const int64_t n : {1, 16, 33}) {
      const Head head(type(), n, size, 8);
      std::vector<float> keys(static_cast<size_t>(round_up(n, 16) * size), 7),
          values(static_cast<size_t>(round_up(size, 16) * n), 7);
      pack_keys(target(), head.rows, n, size, keys.data());
      pack_values(target(), head.rows, n, size, values.data());
      for (int64_t j = 0; j < round_up(n, 16); ++j)
        for (int64_t d = 0; d < size; ++d)
          EXPECT_EQ(keys[static_cast<size_t>((j / 16 * size + d) * 16 + j % 16)], j < n ? head.at(j, d) : 0);
      for (int64_t j = 0; j < round_up(size, 16); ++j)
        for (int64_t i = 0; i < n; ++i)
          EXPECT_EQ(values[static_cast<size_t>((j / 16 * n + i) * 16 + j % 16)], j < size ? head.at(i, j) : 0);
    }
}

TEST_P(Attention, RowsInAndOut) {
  for (const int64_t size : kSizes) {
    const Head head(type(), 5, size, 9);
    const std::vector<float> factors = {1, 0.5f, -2, 0, 4};
    std::vector<float> wide(static_cast<size_t>(5 * (size + 1)), 7);
    load_rows(target(), head.rows, 5, size, factors.data(), 1, wide.data(), size + 1);
    for (int64_t r = 0; r < 5; ++r) {
      for (int64_t d = 0; d < size; ++d)
        EXPECT_EQ(wide[static_cast<size_t>(r * (size + 1) + d)], head.at(r, d) * factors[static_cast<size_t>(r)]);
      EXPECT_EQ(wide[static_cast<size_t>(r * (size + 1) + size)], 7);
    }
    Head back(type(), 5, size, 10);
    void* to = const_cast<void*>(back.rows.data);
    const float one = 1;
    store_rows(target(), head.wide.data(), head.rows.step, 5, size, &one, 0, type(), to, back.rows.step);
    for (int64_t r = 0; r < 5; ++r)
      for (int64_t d = 0; d < size; ++d) {
        const auto i = static_cast<size_t>(r * back.rows.step + d);
        if (type() == PanelType::f32)
          EXPECT_EQ(back.wide[i], head.wide[i]);
        else
          EXPECT_EQ(back.narrow[i], head.narrow[i]);
      }
  }
}

class AttentionRows : public testing::TestWithParam<Target> {};
INSTANTIATE_TEST_SUITE_P(Kernels, AttentionRows, testing::ValuesIn(all_targets()),
                         [](const auto& info) { return std::string(target_name(info.param)); });

TEST_P(AttentionRows, Exponentials) {
  for (const int64_t n : {1, 7, 64, 131})
    for (const float start : {-kInfinity, 1.5f}) {
      std::vector<float> x = random_floats(2 * n, 11), was = x;
      for (float& v : x) v *= 30;
      was = x;
      float factors[2];
      exp_rows(GetParam(), x.data(), n, 2, n, start, factors);
      for (int64_t r = 0; r < 2; ++r) {
        float most = start;
        double sum = 0;
        for (int64_t i = 0; i < n; ++i) most = std::max(most, was[static_cast<size_t>(r * n + i)]);
        for (int64_t i = 0; i < n; ++i) {
          const double want = std::exp(static_cast<double>(was[static_cast<size_t>(r * n + i)] - most));
          sum += want;
          EXPECT_NEAR(x[static_cast<size_t>(r * n + i)], want, 3e-7 * want + 1e-38);
        }
        EXPECT_NEAR(factors[r], 1 / (sum + std::exp(static_cast<double>(start - most))), 1e-5);
      }
    }
}

TEST_P(AttentionRows, ExponentialsOfOddNumbers) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float factor;
  std::vector<float> x(37, -kInfinity);
  exp_rows(GetParam(), x.data(), 37, 1, 37, -kInfinity, &factor);
  EXPECT_EQ(factor, 0);
  EXPECT_EQ(x, std::vector<float>(37, 0));
  x.assign(37, -kInfinity);
  x[35] = 2;
  exp_rows(GetParam(), x.data(), 37, 1, 37, -kInfinity, &factor);
  EXPECT_EQ(factor, 1);
  EXPECT_EQ(x[35], 1);
  EXPECT_EQ(x[0], 0);
  for (const float odd : {nan, kInfinity})
    for (const float rest : {0.0f, -kInfinity})
      for (const size_t at : {0, 20, 36}) {
        x.assign(37, rest);
        x[at] = odd;
        exp_rows(GetParam(), x.data(), 37, 1, 37, -kInfinity, &factor);
        EXPECT_TRUE(std::isnan(factor)) << odd << " " << rest << " " << at;
      }
}

TEST_P(AttentionRows, Rotation) {
  for (const int64_t half : {1, 8, 19, 64})
    for (const bool interleaved : {false, true}) {
      const std::vector<float> cos = random_floats(half, 12), sin = random_floats(half, 13),
                               x = random_floats(2 * half, 14);
      std::vector<float> y = x;
      rotate_head(GetParam(), y.data(), cos.data(), sin.data(), half, interleaved);
      for (int64_t i = 0; i < half; ++i) {
        const auto a = static_cast<size_t>(interleaved ? 2 * i : i),
                   b = static_cast<size_t>(interleaved ? 2 * i + 1 : half + i);
        const auto k = static_cast<size_t>(i);
        EXPECT_NEAR(y[a], cos[k] * x[a] - sin[k] * x[b], 1e-6);
        EXPECT_NEAR(y[b], sin[k] * x[a] + cos[k] * x[b], 1e-6);
      }
    }
}

}  // namespace
}  // namespace tessera
