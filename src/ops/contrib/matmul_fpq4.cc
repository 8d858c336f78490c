// MatMulFpQ4 — a product with a matrix of four-bit numbers. Its bytes hold column after column, each in blocks of a
// float scale, for blk_quant_type 1 a byte of zero point, and the numbers: of 32 of them the first 16 in the low
// halves of 16 bytes, the others in the high halves.
#include <cstring>

#include "ops/contrib/contrib.h"
#include "ops/nn/panel_room.h"

namespace tessera {
namespace {
using namespace contrib;

enum In { kA, kB, kShape };
constexpr Arity kArity{in_arg(kA) | in_arg(kB) | in_arg(kShape), 3};

struct Params {
  int64_t type = 1;

  int64_t length() const { return type == 2 ? 64 : 32; }
  int64_t header() const { return type == 1 ? 5 : 4; }
  int64_t block() const { return length() / 2 + header(); }
};
Status parse(Attrs& a, Params& p) {
  a.get("blk_quant_type", p.type);
  return p.type < 0 || p.type > 2 ? a.refuse("blk_quant_type", "0, 1 or 2") : Status{};
}

// The bytes of k rows and n columns; nothing if that overflows.
std::optional<int64_t> bytes_of(const Params& p, int64_t k, int64_t n) {
  int64_t bytes = 0;
  if (k < 1 || n < 1 || k > INT64_MAX - 64 || !checked_mul(ceil_div(k, p.length()), p.block(), &bytes) ||
      !checked_mul(bytes, n, &bytes))
    return {};
  return bytes;
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(kA);
  if (rank < 1) return c.refuse(kA, "a matrix");
  if (c.rank(kB) != 1) return c.refuse(kB, "a list of bytes");
  const auto content = c.content(kShape);
  if (!content) return c.unknown(0, rank);
  if (content->size() != 2) return c.refuse(kShape, "rows and columns");
  const D k = (*content)[0], n = (*content)[1];
  if (known(k) && known(n)) {
    const auto bytes = bytes_of(p, number(k), number(n));
    if (!bytes) return c.refuse(kShape, "sizes of at least 1");
    if (known(c.dim(kB, 0)) && number(c.dim(kB, 0)) != *bytes) return c.refuse(kB, format("{} bytes", *bytes));
  }
  if (known(k) && known(c.dim(kA, rank - 1)) && number(k) != number(c.dim(kA, rank - 1)))
    return c.refuse(kA, format("rows of {}", number(k)));
  DimVec<D> out(c.dims(kA).first(static_cast<size_t>(rank - 1)));
  out.push(n);
  return c.set(0, out);
}

// Column after column of floats.
void unpack(const Params& p, const uint8_t* from, int64_t k, int64_t columns, float* to) {
  for (int64_t n = 0; n < columns; ++n)
    for (int64_t first = 0; first < k; first += p.length(), from += p.block()) {
      float scale;
      std::memcpy(&scale, from, sizeof scale);
      const int zero = p.type == 1 ? from[4] : 8;
      for (int64_t i = first; i < std::min(k, first + p.length()); ++i) {
        const int64_t at = i - first;
        const int byte = from[p.header() + at / 32 * 16 + at % 16];
        *to++ = static_cast<float>((at % 32 < 16 ? byte & 15 : byte >> 4) - zero) * scale;
      }
    }
}

Status compute(const Params& p, Call& call) {
  const int64_t k = call.in<int64_t>(kShape)[0], n = call.in<int64_t>(kShape)[1], m = call.count(kA) / k;
  const auto* panels = static_cast<const float*>(call.packed(kB));
  PanelRoom room;
  if (!panels) {
    int64_t cells = 0;
    if (!checked_mul(k, round_up(n, kPanelWidth), &cells) || cells > INT64_MAX / 4)
      return call.refuse(kShape, "a smaller matrix");
    TRY_ASSIGN(floats, Tensor::allocate(DType::f32, Shape{n, k}));
    auto* data = static_cast<float*>(floats.mutable_data());
    unpack(p, call.in<uint8_t>(kB), k, n, data);
    // Never the scratch, which is not asked for.
    TRY_ASSIGN(own, room.get(call, std::max(static_cast<int64_t>(gemm_packed_bytes(n, k)), kMostPanelScratch + 1)));
    gemm_pack_b(data, k, true, k, n, own, call.threads());
    panels = own;
  }
  gemm_f32(call.target(), call.threads(), m, n, k, call.in<float>(kA), k, false, panels, call.out<float>(0), n, {});
  return {};
}

int64_t packed_bytes(const PackCall& c) {
  if (c.tensor(kShape).count() != 2) return 0;
  const int64_t k = c.in<int64_t>(kShape)[0], n = c.in<int64_t>(kShape)[1];
  const auto bytes = bytes_of(c.as<Params>(), k, n);
  if (!bytes || *bytes != c.tensor(kB).count()) return 0;
  return static_cast<int64_t>(gemm_packed_bytes(n, k));
}
void pack(const PackCall& c, void* out) {
  const int64_t k = c.in<int64_t>(kShape)[0], n = c.in<int64_t>(kShape)[1];
  std::vector<float> floats(static_cast<size_t>(n * k));
  unpack(c.as<Params>(), c.in<uint8_t>(kB), k, n, floats.data());
  gemm_pack_b(floats.data(), k, true, k, n, static_cast<float*>(out), c.threads);
}
int64_t variant(const void* params) { return static_cast<const Params*>(params)->type; }

constexpr TypeRule kTypes[] = {{in_arg(kA) | out_arg(0), set_of(DType::f32)},
                               {in_arg(kB), set_of(DType::u8)},
                               {in_arg(kShape), set_of(DType::i64)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr Packing kPacks[] = {{kB, "FPQ4.F32.P16", packed_bytes, pack, variant, set_of(DType::u8), in_arg(kShape)}};

}  // namespace

extern constexpr Op kMicrosoftMatMulFpQ4{.domain = kDomain,
                                         .name = "MatMulFpQ4",
                                         .versions = kVersions,
                                         .parse = parse_checked<Params, kArity, parse>,
                                         .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                         .kernels = kKernels,
                                         .shape_inputs = in_arg(kShape),
                                         .packs = kPacks};
extern constexpr OpInference kMicrosoftMatMulFpQ4Inference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
