// Random numbers by counter: number i of a stream depends on the stream's key and i alone, so any cut of the work gives
// the same values.
#pragma once
#include <cmath>
#include <cstring>
#include <numbers>

#include "ops/op.h"

namespace tessera {

class RandomStream {
 public:
  explicit RandomStream(uint64_t key) : key_(mix(key ^ 0x9e6c63d0676a9a99)) {}
  // The stream of one call: of its own seed if it has one, else of the run's, another one for each node.
  RandomStream(const Call& call, const std::optional<float>& seed) : RandomStream(key_of(call, seed)) {}

  uint64_t bits(int64_t i) const { return mix(mix(static_cast<uint64_t>(i) * 0x9e3779b97f4a7c15 + key_) ^ key_); }
  // In [0, 1).
  double uniform(int64_t i) const { return static_cast<double>(bits(i) >> 11) * 0x1p-53; }
  float uniform_f32(int64_t i) const { return static_cast<float>(bits(i) >> 40) * 0x1p-24f; }
  // Mean 0, variance 1 (Box and Muller): numbers 2k and 2k + 1 are one pair.
  double normal(int64_t i) const {
    const int64_t pair = i & ~int64_t{1};
    const double radius = std::sqrt(-2 * std::log(1 - uniform(pair)));
    const double angle = 2 * std::numbers::pi * uniform(pair + 1);
    return radius * (i & 1 ? std::sin(angle) : std::cos(angle));
  }

 private:
  static uint64_t mix(uint64_t v) {
    v = (v ^ (v >> 31)) * 0xd6e8feb86659fd93;
    v = (v ^ (v >> 29)) * 0xa0761d6478bd642f;
    return v ^ (v >> 32);
  }
  static uint64_t key_of(const Call& call, const std::optional<float>& seed) {
    if (!seed) return mix(call.seed()) + call.node().outputs[0];
    uint32_t bits;
    std::memcpy(&bits, &*seed, sizeof bits);
    return bits;
  }
  uint64_t key_;
};

}  // namespace tessera
