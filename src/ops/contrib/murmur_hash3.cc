// MurmurHash3 — the 32-bit hash (x86 variant) of each element's bytes.
#include <bit>
#include <cstring>
#include <string>

#include "ops/contrib/contrib.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kArity{in_arg(0), 1};

struct Params {
  uint32_t seed = 0;
  bool positive = true;  // uint32, else int32
};

Status parse(Attrs& a, Params& p) {
  int64_t seed = 0;
  a.get("seed", seed);
  a.get("positive", p.positive);
  p.seed = static_cast<uint32_t>(seed);
  return {};
}

void types(TypeCall& c) {
  const bool positive = static_cast<const Params*>(c.params)->positive;
  c.out[0] = {Kind::tensor, positive ? DType::u32 : DType::i32, Kind::tensor};
}

uint32_t scrambled(uint32_t k) { return std::rotl(k * 0xcc9e2d51u, 15) * 0x1b873593u; }

uint32_t hash(const void* data, size_t bytes, uint32_t h) {
  const auto* at = static_cast<const uint8_t*>(data);
  const size_t whole = bytes / 4;
  for (size_t i = 0; i < whole; ++i) {
    uint32_t k;
    std::memcpy(&k, at + 4 * i, 4);
    h = std::rotl(h ^ scrambled(k), 13) * 5 + 0xe6546b64u;
  }
  uint32_t rest = 0;
  for (size_t i = bytes; i-- > 4 * whole;) rest = rest << 8 | at[i];
  if (bytes % 4) h ^= scrambled(rest);
  h ^= static_cast<uint32_t>(bytes);
  h = (h ^ h >> 16) * 0x85ebca6bu;
  h = (h ^ h >> 13) * 0xc2b2ae35u;
  return h ^ h >> 16;
}

Status compute(const Params& p, Call& call) {
  const DType t = call.dtype(0);
  auto* y = call.out<uint32_t>(0);
  const auto bytes = static_cast<size_t>(t == DType::string ? 0 : bits_of(t) / 8);
  for_pieces(call, call.count(0), [&](int64_t begin, int64_t n) {
    for (int64_t i = begin; i < begin + n; ++i) {
      if (t == DType::string) {
        const std::string& s = call.in<std::string>(0)[i];
        y[i] = hash(s.data(), s.size(), p.seed);
      } else {
        y[i] = hash(call.in<std::byte>(0) + static_cast<size_t>(i) * bytes, bytes, p.seed);
      }
    }
  });
  return {};
}

constexpr TypeRule kTypes[] = {
    {in_arg(0), set_of(DType::u32, DType::i32, DType::u64, DType::i64) | set_of(DType::f32, DType::f64, DType::string)},
    {out_arg(0), set_of(DType::u32, DType::i32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};

}  // namespace

extern constexpr Op kMicrosoftMurmurHash3{.domain = kDomain,
                                          .name = "MurmurHash3",
                                          .versions = kVersions,
                                          .parse = parse_checked<Params, kArity, parse>,
                                          .types = types,
                                          .shape = shape_of_input<int64_t>,
                                          .kernels = kKernels};
extern constexpr OpInference kMicrosoftMurmurHash3Inference{.shape = shape_of_input<Dim>};

}  // namespace tessera
