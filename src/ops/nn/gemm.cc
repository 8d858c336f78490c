// Gemm — alpha * A' * B' + beta * C, where A' and B' may be transposed and C broadcasts to the product.
// tessera.GemmRelu — Relu of it, in rewritten graphs.
#include "kernels/gemm.h"
#include "core/convert.h"
#include "kernels/gemm_generic.h"
#include "kernels/gemv.h"
#include "ops/elementwise.h"
#include "ops/nn/panel_room.h"

namespace tessera {
namespace {

struct Params {
  float alpha = 1, beta = 1;
  bool trans_a = false, trans_b = false;
};

// Until version 7 the attribute `broadcast` asked for what is the rule now.
Status parse(Attrs& a, Params& p) {
  a.get("alpha", p.alpha);
  a.get("beta", p.beta);
  a.get("transA", p.trans_a);
  a.get("transB", p.trans_b);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  if (c.rank(0) != 2) return c.refuse(0, "a matrix");
  if (c.rank(1) != 2) return c.refuse(1, "a matrix");
  const D m = c.dim(0, p.trans_a), ka = c.dim(0, !p.trans_a);
  const D n = c.dim(1, !p.trans_b), kb = c.dim(1, p.trans_b);
  if (known(ka) && known(kb) && number(ka) != number(kb))
    return c.refuse(1, format("a matrix that shares the inner size {} with input 0", number(ka)));
  if (c.has(2)) {
    const D wanted[] = {m, n};
    if (c.rank(2) > 2) return c.refuse(2, "at most two dimensions");
    for (int i = 0; i < c.rank(2); ++i) {
      const D d = c.dim(2, i), &w = wanted[2 - c.rank(2) + i];
      if (known(d) && known(w) && number(d) != 1 && number(d) != number(w))
        return c.refuse(2, format("a shape that broadcasts to the product's (dimension of {})", number(w)));
    }
  }
  return c.set(0, DimVec<D>{m, n});
}

struct Product {
  int64_t m, n, k, lda, ldb;
  int64_t c_row = 0, c_col = 0;  // steps in C

  Product(const Params& p, const Call& call) {
    const Shape &a = call.shape(0), &b = call.shape(1);
    m = a[p.trans_a];
    k = a[!p.trans_a];
    n = b[!p.trans_b];
    lda = a[1];
    ldb = b[1];
    if (!call.has(2)) return;
    const Shape& c = call.shape(2);
    if (c.rank() > 0 && c[c.rank() - 1] != 1) c_col = 1;
    if (c.rank() == 2 && c[0] != 1) c_row = c[1];
  }
};

template <GemmActivation kActivation>
Status compute_float(const Params& p, Call& call) {
  const Product s(p, call);
  GemmEpilogue e;
  e.alpha = p.alpha;
  e.beta = p.beta;
  e.c_in = call.maybe<float>(2);
  e.c_row_stride = s.c_row;
  e.c_col_stride = s.c_col;
  e.activation = kActivation;
  std::optional<GemmPanels> b = packed_panels(call, 1);
  if (!b && s.m <= kGemvRows && (!p.trans_a || s.m == 1)) {
    gemv_f32(call.target(), call.threads(), s.m, s.n, s.k, call.in<float>(0), s.k, call.in<float>(1), s.ldb, p.trans_b,
             call.out<float>(0), s.n, e);
    return {};
  }
  PanelRoom room;
  if (!b) {
    TRY_ASSIGN(panel, room.get(call, static_cast<int64_t>(gemm_packed_bytes(s.n, s.k))));
    gemm_pack_b(call.in<float>(1), s.ldb, p.trans_b, s.k, s.n, panel, call.threads());
    b = panel;
  }
  gemm_f32(call.target(), call.threads(), s.m, s.n, s.k, call.in<float>(0), s.lda, p.trans_a, *b, call.out<float>(0),
           s.n, e);
  return {};
}

// x * factor; whole numbers are truncated after a product with a factor that is none.
template <class T>
T scaled(T x, float factor) {
  if constexpr (std::is_integral_v<T>) {
    if (factor == 1) return x;
    return to_integer<T>(static_cast<double>(x) * factor);
  } else {
    return x * static_cast<T>(factor);
  }
}

template <class T, class Acc>
Status compute(const Params& p, Call& call) {
  const Product s(p, call);
  T* y = call.out<T>(0);
  const T* c = p.beta == 0 ? nullptr : call.maybe<T>(2);
  gemm_ref<T, Acc>(call.threads(), s.m, s.n, s.k, call.in<T>(0), s.lda, p.trans_a, call.in<T>(1), s.ldb, p.trans_b, y,
                   s.n);
  for_pieces(call, s.m * s.n, [&](int64_t begin, int64_t count) {
    for (int64_t i = begin; i < begin + count; ++i) {
      Acc v = static_cast<Acc>(scaled(y[i], p.alpha));
      if (c) v += static_cast<Acc>(scaled(c[i / s.n * s.c_row + i % s.n * s.c_col], p.beta));
      y[i] = static_cast<T>(v);
    }
  });
  return {};
}

int64_t variant(const void* params) { return static_cast<const Params*>(params)->trans_b; }
int64_t panel_bytes(const Params& p, const Shape& b, PanelType type) {
  return b.rank() == 2 ? static_cast<int64_t>(gemm_packed_bytes(b[!p.trans_b], b[p.trans_b], type)) : 0;
}
int64_t packed_bytes(const PackCall& c) { return panel_bytes(c.as<Params>(), c.shape(1), panel_type(c.dtype(1))); }
void pack(const PackCall& c, void* out) {
  const Shape& b = c.shape(1);
  const bool trans = c.as<Params>().trans_b;
  gemm_pack_b(panel_type(c.dtype(1)), c.in<void>(1), b[1], trans, b[trans], b[!trans], out, c.threads);
}
int64_t scratch(const void* params, const ScratchCall& in) {
  const auto& p = *static_cast<const Params*>(params);
  return in.is_packed(1) ? 0 : panel_scratch(panel_bytes(p, *in[1], PanelType::f32));
}

template <class T, class Acc>
constexpr Kernel kernel{kAllSame<T>, compute_with<Params, compute<T, Acc>>};
constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute_float<GemmActivation::none>>},
                               kernel<double, double>,
                               kernel<int32_t, uint32_t>,
                               kernel<int64_t, uint64_t>,
                               kernel<uint32_t, uint32_t>,
                               kernel<uint64_t, uint64_t>};
constexpr Packing kPacks[] = {{1, "F32.P16", packed_bytes, pack, variant},
                              {1, "F16.P16", packed_bytes, pack, variant, set_of(DType::f16)},
                              {1, "BF16.P16", packed_bytes, pack, variant, set_of(DType::bf16)}};
constexpr Kernel kReluKernels[] = {{kAllSame<float>, compute_with<Params, compute_float<GemmActivation::relu>>}};
constexpr int16_t kVersions[] = {1, 6, 7, 9, 11, 13}, kReluVersions[] = {1};

}  // namespace

extern constexpr Op kGemm{.domain = "",
                          .name = "Gemm",
                          .versions = kVersions,
                          .parse = parse_params<Params, parse>,
                          .shape = shape_with<Params, int64_t, shape<int64_t>>,
                          .kernels = kKernels,
                          .scratch = scratch,
                          .packs = kPacks};
extern constexpr OpInference kGemmInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr Op kTesseraGemmRelu{.domain = "tessera",
                                     .name = "GemmRelu",
                                     .versions = kReluVersions,
                                     .parse = parse_params<Params, parse>,
                                     .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                     .kernels = kReluKernels,
                                     .scratch = scratch,
                                     .packs = kPacks};
extern constexpr OpInference kTesseraGemmReluInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
