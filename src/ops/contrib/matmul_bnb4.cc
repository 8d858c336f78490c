// MatMulBnb4 — the product with a matrix of 4-bit floats (FP4 or NF4 of bitsandbytes), scaled in blocks.
#include "kernels/gemm.h"
#include "ops/agree.h"
#include "ops/contrib/contrib.h"
#include "ops/nn/panel_room.h"

namespace tessera {
namespace {
using namespace contrib;

enum Input { kA, kB, kMost };
constexpr Arity kArity{in_arg(kA) | in_arg(kB) | in_arg(kMost), 3};

struct Params {
  int64_t k = 0, n = 0, block = 0;
  int type = 0;       // 0 FP4, 1 NF4
  bool trans = true;  // A has k columns, the result n; else the other way round

  int64_t inner() const { return trans ? k : n; }
  int64_t outer() const { return trans ? n : k; }
};

Status parse(Attrs& a, Params& p) {
  a.get("K", p.k);
  a.get("N", p.n);
  a.get("block_size", p.block);
  a.get("quant_type", p.type);
  a.get("transB", p.trans);
  int64_t elements;
  if (p.k < 1 || p.n < 1 || !checked_mul(p.k, p.n, &elements) || elements > int64_t{1} << 48)
    return a.refuse("K", "the sizes K and N of a matrix");
  if (p.block < 16 || p.block > INT32_MAX || (p.block & (p.block - 1)))
    return a.refuse("block_size", "a power of two from 16 on");
  if (p.type != 0 && p.type != 1) return a.refuse("quant_type", "0 or 1");
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(kA);
  if (rank < 1 || !agree(c.dim(kA, rank - 1), D(p.inner()))) return c.refuse(kA, format("rows of {}", p.inner()));
  if (!agree(c.count(kB), D((p.n * p.k + 1) / 2))) return c.refuse(kB, "half a byte for each of N * K elements");
  if (!agree(c.count(kMost), D(ceil_div(p.n * p.k, p.block)))) return c.refuse(kMost, "a scale for each block");
  DimVec<D> out(c.dims(kA));
  out[rank - 1] = D(p.outer());
  return c.set(0, out);
}

constexpr float kValues[2][16] = {
    {0.f, 0.0052083333f, 0.66666667f, 1.f, 0.33333333f, 0.5f, 0.16666667f, 0.25f, -0.f, -0.0052083333f, -0.66666667f,
     -1.f, -0.33333333f, -0.5f, -0.16666667f, -0.25f},
    {-1.f, -0.6961928009986877f, -0.5250730514526367f, -0.39491748809814453f, -0.28444138169288635f,
     -0.18477343022823334f, -0.09105003625154495f, 0.f, 0.07958029955625534f, 0.16093020141124725f,
     0.24611230194568634f, 0.33791524171829224f, 0.44070982933044434f, 0.5626170039176941f, 0.7229568362236023f, 1.f}};

// The matrix, n rows of k.
std::vector<float> unpacked(const Params& p, const uint8_t* b, const float* most) {
  std::vector<float> out(static_cast<size_t>(p.n * p.k));
  for (int64_t i = 0; i < p.n * p.k; ++i)
    out[static_cast<size_t>(i)] = kValues[p.type][b[i / 2] >> (i % 2 ? 0 : 4) & 15] * most[i / p.block];
  return out;
}

void pack_matrix(const Params& p, const uint8_t* b, const float* most, int threads, float* out) {
  gemm_pack_b(unpacked(p, b, most).data(), p.k, p.trans, p.inner(), p.outer(), out, threads);
}

Status compute(const Params& p, Call& call) {
  const auto* panel = static_cast<const float*>(call.packed(kB));
  PanelRoom room;
  if (!panel) {
    TRY_ASSIGN(fresh, room.get(call, static_cast<int64_t>(gemm_packed_bytes(p.outer(), p.inner()))));
    pack_matrix(p, call.in<uint8_t>(kB), call.in<float>(kMost), call.threads(), fresh);
    panel = fresh;
  }
  gemm_f32(call.target(), call.threads(), call.count(kA) / p.inner(), p.outer(), p.inner(), call.in<float>(kA),
           p.inner(), false, panel, call.out<float>(0), p.outer(), {});
  return {};
}

int64_t scratch(const void* params, const ScratchCall& in) {
  const auto& p = *static_cast<const Params*>(params);
  return in.is_packed(kB) ? 0 : panel_scratch(static_cast<int64_t>(gemm_packed_bytes(p.outer(), p.inner())));
}

int64_t packed_bytes(const PackCall& c) {
  const auto& p = c.as<Params>();
  const bool whole = c.has(kMost) && c.dtype(kMost) == DType::f32 && c.tensor(kB).count() == (p.n * p.k + 1) / 2 &&
                     c.tensor(kMost).count() == ceil_div(p.n * p.k, p.block);
  return whole ? static_cast<int64_t>(gemm_packed_bytes(p.outer(), p.inner())) : 0;
}
void pack(const PackCall& c, void* out) {
  pack_matrix(c.as<Params>(), c.in<uint8_t>(kB), c.in<float>(kMost), c.threads, static_cast<float*>(out));
}
int64_t variant(const void* params) {
  const auto& p = *static_cast<const Params*>(params);
  return ((p.k << 7 | p.type << 6 | int64_t{p.trans} << 5) ^ p.n << 24) + p.block;
}

constexpr Packing kPacks[] = {{kB, "F32.P16.bnb4", packed_bytes, pack, variant, set_of(DType::u8), in_arg(kMost)}};
constexpr TypeRule kTypes[] = {{in_arg(kA) | in_arg(kMost) | out_arg(0), set_of(DType::f32), kHalfFloats},
                               {in_arg(kB), set_of(DType::u8)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};

}  // namespace

extern constexpr Op kMicrosoftMatMulBnb4{.domain = kDomain,
                                         .name = "MatMulBnb4",
                                         .versions = kVersions,
                                         .parse = parse_checked<Params, kArity, parse>,
                                         .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                         .kernels = kKernels,
                                         .scratch = scratch,
                                         .packs = kPacks};
extern constexpr OpInference kMicrosoftMatMulBnb4Inference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
