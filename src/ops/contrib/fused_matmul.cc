// FusedMatMul and TransposeMatMul — alpha times the product of two stacks of matrices, each of which may lie
// transposed: in its last two dimensions, or with its first dimension before those of the stack.
#include "kernels/gemm.h"
#include "kernels/gemm_generic.h"
#include "ops/contrib/contrib.h"
#include "ops/elementwise.h"
#include "ops/nn/panel_room.h"

namespace tessera {
namespace {
using namespace contrib;

constexpr Arity kArity{in_arg(0) | in_arg(1), 2};

struct Side {
  bool trans = false, trans_batch = false;
};
struct Params {
  float alpha = 1;
  Side a, b;
};

Status parse(Attrs& a, Params& p) {
  a.get("alpha", p.alpha);
  a.get("transA", p.a.trans);
  a.get("transB", p.b.trans);
  a.get("transBatchA", p.a.trans_batch);
  a.get("transBatchB", p.b.trans_batch);
  return {};
}

// The dimensions of one side as a stack of matrices. A vector is a row on the left, a column on the right, and cannot
// be transposed.
template <class D>
struct Stack {
  DimVec<D> batch;
  D rows{1}, cols{1};

  Stack(std::span<const D> dims, const Side& side, bool right) {
    const int rank = static_cast<int>(dims.size());
    const auto dim = [&](int i) { return dims[static_cast<size_t>(i)]; };
    if (rank == 1) {
      (right ? rows : cols) = dim(0);
      return;
    }
    const bool moved = side.trans_batch && rank > 2;
    for (int i = moved ? 1 : 0; i < (moved ? rank - 1 : rank - 2); ++i) batch.push(dim(i));
    rows = dim(moved ? 0 : rank - 2);
    cols = dim(rank - 1);
    if (side.trans) std::swap(rows, cols);
  }
};

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  for (const int i : {0, 1})
    if (c.rank(i) == 0) return c.refuse(i, "at least one dimension");
  const Stack<D> a(c.dims(0), p.a, false), b(c.dims(1), p.b, true);
  if (known(a.cols) && known(b.rows) && number(a.cols) != number(b.rows))
    return c.refuse(1, format("{} rows, as many as input 0 has columns", number(a.cols)));
  DimVec<D> out(a.batch);
  if (!broadcast_into(out, b.batch.span(), c)) return c.refuse(1, "a stack that broadcasts with that of input 0");
  if (c.rank(0) > 1) out.push(a.rows);
  if (c.rank(1) > 1) out.push(b.cols);
  return c.set(0, out);
}

// Where the matrices of one side lie: matrix i starts at i * step, its rows as stored are `ld` apart.
struct Lay {
  int64_t step, ld;
  Lay(const Shape& s, const Side& side) {
    const int64_t width = s[s.rank() - 1];
    if (side.trans_batch && s.rank() > 2) {
      step = width;
      ld = s.count(1, s.rank());
    } else {
      step = s.rank() > 1 ? s[s.rank() - 2] * width : width;
      ld = width;
    }
  }
};

// fn(i, a_index, b_index) for every matrix of the output.
template <class F>
void each_matrix(const Stack<int64_t>& a, const Stack<int64_t>& b, const Shape& y, F&& fn) {
  const std::span<const int64_t> inputs[] = {a.batch.span(), b.batch.span()};
  const Shape batch(y.dims().first(static_cast<size_t>(std::max(a.batch.size(), b.batch.size()))));
  BroadcastRows(batch, inputs).run(1, [&](const BroadcastRows::Row& r) {
    for (int64_t i = 0; i < r.n; ++i) fn(r.out + i, r.in[0] + i * r.step[0], r.in[1] + i * r.step[1]);
  });
}

Status compute_float(const Params& p, Call& call) {
  const Stack<int64_t> a(call.shape(0).dims(), p.a, false), b(call.shape(1).dims(), p.b, true);
  const Lay at_a(call.shape(0), p.a), at_b(call.shape(1), p.b);
  const int64_t m = a.rows, k = a.cols, n = b.cols;
  const bool trans_a = p.a.trans && call.shape(0).rank() > 1, trans_b = p.b.trans && call.shape(1).rank() > 1;
  const float* packed = static_cast<const float*>(call.packed(1));
  PanelRoom room;
  float* panel = nullptr;
  if (!packed) {
    TRY_ASSIGN(fresh, room.get(call, static_cast<int64_t>(gemm_packed_bytes(n, k))));
    packed = panel = fresh;
  }
  GemmEpilogue e;
  e.alpha = p.alpha;
  int64_t held = -1;
  // A vector on the right is a column: rows of one element.
  const int64_t ldb = call.shape(1).rank() == 1 ? 1 : at_b.ld;
  each_matrix(a, b, call.out_shape(0), [&](int64_t i, int64_t ia, int64_t ib) {
    if (panel && held != ib) gemm_pack_b(call.in<float>(1) + ib * at_b.step, ldb, trans_b, k, n, panel, call.threads());
    held = ib;
    gemm_f32(call.target(), call.threads(), m, n, k, call.in<float>(0) + ia * at_a.step, at_a.ld, trans_a, packed,
             call.out<float>(0) + i * m * n, n, e);
  });
  return {};
}

Status compute_double(const Params& p, Call& call) {
  const Stack<int64_t> a(call.shape(0).dims(), p.a, false), b(call.shape(1).dims(), p.b, true);
  const Lay at_a(call.shape(0), p.a), at_b(call.shape(1), p.b);
  const int64_t m = a.rows, n = b.cols, ldb = call.shape(1).rank() == 1 ? 1 : at_b.ld;
  const bool trans_a = p.a.trans && call.shape(0).rank() > 1, trans_b = p.b.trans && call.shape(1).rank() > 1;
  each_matrix(a, b, call.out_shape(0), [&](int64_t i, int64_t ia, int64_t ib) {
    double* y = call.out<double>(0) + i * m * n;
    gemm_ref<double, double>(call.threads(), m, n, a.cols, call.in<double>(0) + ia * at_a.step, at_a.ld, trans_a,
                             call.in<double>(1) + ib * at_b.step, ldb, trans_b, y, n);
    for (int64_t e = 0; e < m * n; ++e) y[e] *= static_cast<double>(p.alpha);
  });
  return {};
}

int64_t scratch(const void* params, const ScratchCall& in) {
  if (in.is_packed(1) || in[1]->rank() == 0) return 0;
  const Stack<int64_t> b(in[1]->dims(), static_cast<const Params*>(params)->b, true);
  return panel_scratch(static_cast<int64_t>(gemm_packed_bytes(b.cols, b.rows)));
}

int64_t packed_bytes(const PackCall& c) {
  if (c.shape(1).rank() != 2) return 0;
  const Stack<int64_t> b(c.shape(1).dims(), c.as<Params>().b, true);
  return static_cast<int64_t>(gemm_packed_bytes(b.cols, b.rows));
}
void pack(const PackCall& c, void* out) {
  const Side& side = c.as<Params>().b;
  const Stack<int64_t> b(c.shape(1).dims(), side, true);
  gemm_pack_b(c.in<float>(1), c.shape(1)[1], side.trans, b.rows, b.cols, static_cast<float*>(out), c.threads);
}
int64_t variant(const void* params) { return static_cast<const Params*>(params)->b.trans; }

constexpr Packing kPacks[] = {{1, "F32.P16", packed_bytes, pack, variant}};
constexpr Kernel kKernels[] = {{kAllSame<float>, compute_with<Params, compute_float>},
                               {kAllSame<double>, compute_with<Params, compute_double>}};

constexpr Op matmul_op(const char* name) {
  return {.domain = kDomain,
          .name = name,
          .versions = kVersions,
          .parse = parse_checked<Params, kArity, parse>,
          .shape = shape_with<Params, int64_t, shape<int64_t>>,
          .kernels = kKernels,
          .rounded = in_arg(0) | in_arg(1),
          .scratch = scratch,
          .packs = kPacks};
}

}  // namespace

extern constexpr Op kMicrosoftFusedMatMul = matmul_op("FusedMatMul");
extern constexpr Op kMicrosoftTransposeMatMul = matmul_op("TransposeMatMul");
extern constexpr OpInference kMicrosoftFusedMatMulInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kMicrosoftTransposeMatMulInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
