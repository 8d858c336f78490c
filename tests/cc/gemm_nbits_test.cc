// Block-quantized products on every target this CPU has, against plain double-precision loops over the source.
#include "kernels/gemm_nbits.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>
#include <vector>

#include "base/cpu.h"
#include "kernels/gemm.h"

namespace tessera {
namespace {

std::vector<Target> all_targets() {
  std::vector<Target> targets = {Target::scalar};
  for (Target t : {Target::sse4, Target::neon, Target::avx2, Target::avx3})
    if (t <= best_target() && (t == Target::neon) == (best_target() == Target::neon)) targets.push_back(t);
  return targets;
}

// Memory that ends at an unreadable page.
class Guarded {
 public:
  explicit Guarded(size_t bytes) : bytes_(bytes) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    length_ = (bytes + page - 1) / page * page + page;
    base_ = static_cast<char*>(mmap(nullptr, length_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    if (base_ == MAP_FAILED || mprotect(base_ + length_ - page, page, PROT_NONE) != 0) abort();
    data_ = base_ + length_ - page - bytes;
  }
  ~Guarded() { munmap(base_, length_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  void* data() const { return data_; }
  float* floats() const { return reinterpret_cast<float*>(data_); }
  bool operator==(const Guarded& o) const { return bytes_ == o.bytes_ && std::memcmp(data_, o.data_, bytes_) == 0; }

 private:
  size_t bytes_, length_ = 0;
  char *base_ = nullptr, *data_ = nullptr;
};

enum class Zeros { implied_middle, implied_nothing, codes, floats };

struct Form {
  int bits = 4;
  int64_t block = 32, n = 17, k = 65;
  Zeros zeros = Zeros::implied_middle;
  NBitsFloat scale_type = NBitsFloat::f32;
  bool is_signed = false, k_first = false;  // k_first: rows of n elements
};

// A random matrix in the form of a model, and its elements.
struct Matrix {
  NBitsSource source;
  std::vector<uint8_t> codes, zero_codes;
  std::vector<float> scales, zero_floats, values;  // values: [k][n]
  std::vector<uint16_t> narrow_scales;

  explicit Matrix(const Form& f) {
    std::mt19937 random(static_cast<unsigned>(f.bits + 7 * f.block + 31 * f.n + 101 * f.k));
    const int64_t blocks = (f.k + f.block - 1) / f.block;
    NBitsFormat& to = source.format;
    to.n = f.n;
    to.k = f.k;
    to.bits = f.bits;
    to.block = f.block;
    to.scale_type = f.scale_type;
    const int middle = 1 << (f.bits - 1);
    to.implied_zero = f.zeros == Zeros::implied_nothing ? 0 : middle;
    to.zero = f.zeros == Zeros::codes    ? NBitsZero::codes
              : f.zeros == Zeros::floats ? NBitsZero::floats
                                         : NBitsZero::implied;
    source.is_signed = f.is_signed;
    source.code_k = f.k_first ? f.n : 1;
    source.code_n = f.k_first ? 1 : f.k;
    source.scale_block = source.zero_block = f.k_first ? f.n : 1;
    source.scale_n = source.zero_n = f.k_first ? 1 : blocks;
    codes.resize(static_cast<size_t>(f.n * f.k * f.bits / 8 + 1));
    zero_codes.resize(static_cast<size_t>(f.n * blocks * f.bits / 8 + 1));
    for (uint8_t& c : codes) c = static_cast<uint8_t>(random());
    for (uint8_t& c : zero_codes) c = static_cast<uint8_t>(random());
    std::uniform_real_distribution<float> uniform(0.25f, 1.0f);
    for (int64_t i = 0; i < f.n * blocks; ++i) {
      // Few bits, so that narrow types hold them.
      scales.push_back(std::bit_cast<float>(std::bit_cast<uint32_t>(uniform(random)) & 0xffff0000));
      const float s = scales.back();
      const uint32_t bits = std::bit_cast<uint32_t>(s);
      narrow_scales.push_back(static_cast<uint16_t>(
          f.scale_type == NBitsFloat::bf16 ? bits >> 16 : ((bits >> 23) - 112) << 10 | (bits >> 13 & 0x3ff)));
      zero_floats.push_back(uniform(random) * static_cast<float>(2 * middle));
    }
    source.codes = codes.data();
    source.scales = f.scale_type == NBitsFloat::f32 ? static_cast<void*>(scales.data()) : narrow_scales.data();
    source.zeros = f.zeros == Zeros::floats ? static_cast<void*>(zero_floats.data()) : zero_codes.data();
    for (int64_t k = 0; k < f.k; ++k)
      for (int64_t n = 0; n < f.n; ++n) {
        const int64_t at = k / f.block * source.scale_block + n * source.scale_n;
        const int sign = f.is_signed ? middle : 0;
        float zero = static_cast<float>(to.implied_zero - sign);
        if (f.zeros == Zeros::codes) zero = static_cast<float>((element(zero_codes, f.bits, at) ^ sign) - sign);
        if (f.zeros == Zeros::floats) zero = zero_floats[static_cast<size_t>(at)] - static_cast<float>(sign);
        const int code = (element(codes, f.bits, k * source.code_k + n * source.code_n) ^ sign) - sign;
        values.push_back((static_cast<float>(code) - zero) * scales[static_cast<size_t>(at)]);
      }
  }

  static int element(const std::vector<uint8_t>& data, int bits, int64_t i) {
    return data[static_cast<size_t>(i * bits / 8)] >> (i * bits % 8) & ((1 << bits) - 1);
  }
};

void check(const Form& form, int64_t m) {
  SCOPED_TRACE(testing::Message() << form.bits << " bits, block " << form.block << ", " << m << "x" << form.n << "x"
                                  << form.k << " zeros " << static_cast<int>(form.zeros) << " scales "
                                  << static_cast<int>(form.scale_type) << " signed " << form.is_signed << " k first "
                                  << form.k_first);
  const Matrix w(form);
  std::mt19937 random(5);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<float> a(static_cast<size_t>(m * form.k)), bias(static_cast<size_t>(form.n)),
      first(static_cast<size_t>(m * form.n)), c(first.size());
  for (float& v : a) v = uniform(random);
  for (float& v : bias) v = uniform(random);
  const Guarded packed(nbits_packed_bytes(w.source.format)), again(nbits_packed_bytes(w.source.format));
  nbits_pack(1, w.source, packed.data());
  nbits_pack(7, w.source, again.data());
  ASSERT_TRUE(packed == again);
  const Guarded rows(a.size() * sizeof(float)), out(c.size() * sizeof(float));
  std::copy(a.begin(), a.end(), rows.floats());
  std::vector<double> want, norm;
  for (int64_t i = 0; i < m; ++i)
    for (int64_t j = 0; j < form.n; ++j) {
      double sum = bias[static_cast<size_t>(j)], squares = 0;
      for (int64_t k = 0; k < form.k; ++k) {
        const double term = static_cast<double>(a[static_cast<size_t>(i * form.k + k)]) *
                            static_cast<double>(w.values[static_cast<size_t>(k * form.n + j)]);
        sum += term;
        squares += term * term;
      }
      want.push_back(sum);
      norm.push_back(std::sqrt(squares));
    }
  const Guarded floats(gemm_nbits_workspace(m, form.k, false)), bytes(gemm_nbits_workspace(m, form.k, true));
  for (const Target target : all_targets())
    for (const bool int8 : {false, true}) {
      SCOPED_TRACE(testing::Message() << target_name(target) << (int8 ? " int8" : " exact"));
      for (const int threads : {1, 2, 7}) {
        std::fill_n(out.floats(), c.size(), -99.0f);
        gemm_nbits(target, threads,
                   {m, rows.floats(), form.k, &w.source.format, packed.data(), bias.data(), out.floats(), form.n, int8},
                   int8 ? bytes.data() : floats.data());
        std::copy_n(out.floats(), c.size(), c.begin());
        if (threads == 1) first = c;
        ASSERT_EQ(std::memcmp(first.data(), c.data(), c.size() * sizeof(float)), 0) << threads << " threads";
      }
      for (size_t i = 0; i < c.size(); ++i)
        ASSERT_NEAR(c[i], want[i], int8 ? 2e-2 * (1 + norm[i]) : 2e-6 * (1 + std::abs(bias[0]) + 4 * norm[i]))
            << "at " << i;
    }
}

TEST(GemmNBits, EveryFormOfWeights) {
  for (const int bits : {2, 4, 8})
    for (const int64_t block : {16, 32, 64, 96, 128, 256, 1000})
      for (const Zeros zeros : {Zeros::implied_middle, Zeros::implied_nothing, Zeros::codes, Zeros::floats})
        for (const NBitsFloat type : {NBitsFloat::f32, NBitsFloat::f16, NBitsFloat::bf16})
          for (const bool is_signed : {false, true})
            for (const bool k_first : {false, true})
              check({bits, block, 21, 300, zeros, type, is_signed, k_first}, is_signed ? 1 : 5);
}

TEST(GemmNBits, PackedBytesAreTheSameOnEveryTarget) {
  for (const int bits : {2, 4, 8})
    for (const bool k_first : {false, true})
      for (const int64_t n : {1, 15, 16, 64, 84, 144, 344})
        for (const int64_t k : {8, 31, 32, 100, 160, 416})
          for (const bool is_signed : {false, true}) {
            const Matrix w({bits, k > 100 ? 16 : 32, n, k, Zeros::codes, NBitsFloat::f32, is_signed, k_first});
            const Guarded want(nbits_packed_bytes(w.source.format)), got(nbits_packed_bytes(w.source.format));
            nbits_pack(1, w.source, want.data(), Target::scalar);
            for (const Target target : all_targets()) {
              std::memset(got.data(), 0xee, nbits_packed_bytes(w.source.format));
              nbits_pack(2, w.source, got.data(), target);
              EXPECT_TRUE(want == got) << bits << " bits, " << n << "x" << k << (k_first ? " k first " : " ")
                                       << target_name(target);
            }
          }
}

TEST(GemmNBits, SizesAroundTheEdges) {
  for (const int bits : {2, 4, 8})
    for (int64_t m = 1; m <= 70; m += m < 14 ? 1 : 7)
      for (const int64_t n : {1, 16, 33})
        for (const int64_t k : {1, 15, 32, 130})
          check({bits, m % 2 ? 32 : 16, n, k, m % 3 ? Zeros::implied_middle : Zeros::codes}, m);
  for (const int64_t k : {511, 512, 513, 1100}) check({4, 128, 40, k, Zeros::codes}, 9);
}

TEST(GemmNBits, ManyRowsAreCutIntoPasses) { check({4, 32, 18, 40, Zeros::codes}, 1100); }

TEST(GemmNBits, EqualRowsGiveEqualRows) {
  const Form form{4, 32, 50, 200, Zeros::codes};
  const Matrix w(form);
  const Guarded packed(nbits_packed_bytes(w.source.format));
  nbits_pack(1, w.source, packed.data());
  constexpr int64_t kM = 23;
  std::vector<float> a(kM * 200), c(kM * 50);
  for (int64_t i = 0; i < kM; ++i)
    for (int64_t k = 0; k < 200; ++k) a[static_cast<size_t>(i * 200 + k)] = std::sin(static_cast<float>(k));
  for (const Target target : all_targets())
    for (const bool int8 : {false, true}) {
      const Guarded work(gemm_nbits_workspace(kM, 200, int8));
      gemm_nbits(target, 1, {kM, a.data(), 200, &w.source.format, packed.data(), nullptr, c.data(), 50, int8},
                 work.data());
      for (int64_t i = 1; i < kM; ++i)
        ASSERT_EQ(std::memcmp(c.data(), c.data() + i * 50, 50 * sizeof(float)), 0)
            << target_name(target) << " row " << i;
    }
}

TEST(GemmNBits, ZerosTinyAndStrangeNumbersInA) {
  const Form form{4, 32, 16, 64};
  const Matrix w(form);
  const Guarded packed(nbits_packed_bytes(w.source.format));
  nbits_pack(1, w.source, packed.data());
  for (const Target target : all_targets())
    for (const float v : {0.0f, 1e-44f, 1e-38f, 3e38f, INFINITY, NAN}) {
      SCOPED_TRACE(testing::Message() << target_name(target) << " " << v);
      std::vector<float> a(64), c(16);
      a[3] = v;
      const Guarded work(gemm_nbits_workspace(1, 64, true));
      gemm_nbits(target, 1, {1, a.data(), 64, &w.source.format, packed.data(), nullptr, c.data(), 16, true},
                 work.data());
      for (size_t j = 0; j < 16; ++j) {
        const float weight = w.values[3 * 16 + j];
        if (!std::isfinite(v))
          EXPECT_TRUE(std::isnan(c[j]));
        else if (v > 1)
          EXPECT_TRUE(c[j] == v * weight || std::abs(c[j] / (v * weight) - 1) < 1e-5f);
        else
          EXPECT_NEAR(c[j], 0, 1e-30);
      }
    }
}

TEST(GemmNBits, AnyBlockUnpacksToFloats) {
  for (const int bits : {2, 4, 8})
    for (const int64_t block : {1, 3, 16, 48}) {
      const Form form{bits, block, 19, 37, Zeros::codes, NBitsFloat::f16, true};
      const Matrix w(form);
      std::vector<float> panels(gemm_packed_bytes(19, 37) / 4);
      nbits_unpack(2, w.source, nullptr, panels.data());
      for (int64_t k = 0; k < 37; ++k)
        for (int64_t n = 0; n < 19; ++n)
          ASSERT_EQ(panels[static_cast<size_t>((n / 16 * 37 + k) * 16 + n % 16)],
                    w.values[static_cast<size_t>(k * 19 + n)]);
    }
}

}  // namespace
}  // namespace tessera
