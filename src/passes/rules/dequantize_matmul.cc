// MatMul(a, DequantizeLinear(w)), or Gemm, with a constant w that may be transposed, cast or cut into blocks on its way
// becomes   tessera.DequantizeMatMul(a, w): the weights stay as they are, no matrix of floats is made.
#include "passes/rules/quantized.h"

namespace tessera {
namespace {

constexpr TypeSet kCodes = kSubByteInts | kByteTypes;
constexpr TypeSet kReals = set_of(DType::f32, DType::f16, DType::bf16);

// The quantised matrix as the operator takes it.
struct Matrix {
  ir::ValueId w = ir::kNone, scale = ir::kNone, zero = ir::kNone;
  int64_t columns = 0, axis = 0, block = 0;
  bool transposed = false;  // [N, K]
};

bool swaps_two(const Match& m) {
  const ir::Attribute* perm = m.node("t").find("perm");
  const auto* order = perm ? std::get_if<std::vector<int64_t>>(&perm->value) : nullptr;
  return !order || *order == std::vector<int64_t>{1, 0};
}

// Constants under another shape. The bytes stay where they are.
ir::ValueId reshaped(const Match& m, Replacement& r, const char* name, Shape shape) {
  if (!m.has(name)) return ir::kNone;
  const Tensor t = m.tensor(name);
  return r.constant(t.reshaped(std::move(shape)), m.graph().value(m.value(name)).name);
}

// Weights in blocks [rows, blocks, block] or [blocks, block, columns] that a Reshape joins to a matrix.
bool join_blocks(const Match& m, Replacement& r, const Shape& joined, Matrix& out) {
  const Weight &w = *m.weight("w"), &s = *m.weight("ws");
  const auto axis = normalize_axis(m.integer("dw", "axis", 1), 3);
  if (w.shape.rank() != 3 || s.shape.rank() != 3 || !axis || *axis == 0 || s.shape[*axis] != 1) return false;
  const int64_t block = w.shape[*axis];
  out.axis = *axis - 1;
  out.block = block;
  const bool rows = *axis == 2;
  const Shape codes = rows ? Shape{w.shape[0], w.shape[1] * block} : Shape{w.shape[0] * block, w.shape[2]};
  const Shape scales = rows ? Shape{s.shape[0], s.shape[1]} : Shape{s.shape[0], s.shape[2]};
  if (codes != joined || m.integer("dw", "block_size", 0) < block) return false;
  if (m.has("wz") && m.weight("wz")->shape != s.shape) return false;
  if (m.tensor("w").empty() || m.tensor("ws").empty() || (m.has("wz") && m.tensor("wz").empty())) return false;
  out.w = reshaped(m, r, "w", codes);
  out.scale = reshaped(m, r, "ws", scales);
  out.zero = reshaped(m, r, "wz", scales);
  out.columns = codes[1];
  return true;
}

bool read_matrix(const Match& m, Replacement& r, Matrix& out) {
  const Weight &w = *m.weight("w"), &s = *m.weight("ws");
  if (!kCodes.has(w.dtype) || !kReals.has(s.dtype) || !kReals.has(m.fact_of("dw").dtype)) return false;
  if (m.has_node("t") && !swaps_two(m)) return false;
  const bool transposed = m.has_node("t") != (m.integer("f", "transB", 0) != 0);
  out.transposed = transposed;
  Shape shape = w.shape;
  if (m.has_node("v")) {
    const auto joined = m.fact_of("v").static_shape();
    if (!joined || joined->rank() != 2 || !join_blocks(m, r, *joined, out)) return false;
    shape = *joined;
  } else {
    const auto axis = normalize_axis(m.integer("dw", "axis", 1), 2);
    if (shape.rank() != 2 || (s.shape.count() != 1 && !axis)) return false;
    out = {m.value("w"), m.value("ws"), m.value("wz"), 0, axis.value_or(0), m.integer("dw", "block_size", 0),
           transposed};
  }
  out.columns = shape[transposed ? 0 : 1];
  return true;
}

bool fuse(const Match& m, Replacement& r) {
  Matrix w;
  if (m.settings().keep_qdq || !kReals.has(m.fact("a").dtype) || m.fact("a").rank() < 1) return false;
  const bool gemm = m.node("f").op_type == "Gemm";
  if (gemm && (m.real("f", "alpha", 1) != 1 || m.integer("f", "transA", 0) != 0)) return false;
  if (!read_matrix(m, r, w)) return false;
  const bool bias = gemm && m.has("bias");
  if (bias &&
      (m.real("f", "beta", 1) != 1 || m.fact("bias").rank() != 1 || (*m.fact("bias").shape)[0] != Dim(w.columns)))
    return false;
  const bool bytes = bits_of(m.weight("w")->dtype) == 8 && w.block == 0;
  r.result(r.node("tessera.DequantizeMatMul", {m.value("a"), w.w, w.scale, w.zero, bias ? m.value("bias") : ir::kNone},
                  {ir::Attribute::integer("trans_w", w.transposed), ir::Attribute::integer("axis", w.axis),
                   ir::Attribute::integer("block_size", w.block),
                   ir::Attribute::integer("accuracy_level", m.settings().accuracy_level.value_or(bytes ? 0 : 4))}));
  return true;
}

bool add_bias(const Match& m, Replacement& r) {
  const Fact &c = m.fact("c"), &y = m.fact_of("f");
  if (c.rank() != 1 || y.rank() < 1 || !y.shape->back().known() || (*c.shape)[0] != y.shape->back()) return false;
  r.result(r.node("tessera.DequantizeMatMul", {m.value("a"), m.value("w"), m.value("s"), m.value("z"), m.value("c")},
                  m.node("f").attributes));
  return true;
}

constexpr const char* kPatterns[] = {
    "f: MatMul(a, dw: DequantizeLinear*(#w, #ws, #wz?))",
    "f: MatMul(a, Cast*(dw: DequantizeLinear*(#w, #ws, #wz?)))",
    "f: MatMul(a, t: Transpose*(dw: DequantizeLinear*(#w, #ws, #wz?)))",
    "f: MatMul(a, t: Transpose*(Cast*(dw: DequantizeLinear*(#w, #ws, #wz?))))",
    "f: MatMul(a, Cast*(t: Transpose*(dw: DequantizeLinear*(#w, #ws, #wz?))))",
    "f: MatMul(a, v: Reshape*(dw: DequantizeLinear*(#w, #ws, #wz?), #shape))",
    "f: MatMul(a, t: Transpose*(v: Reshape*(dw: DequantizeLinear*(#w, #ws, #wz?), #shape)))",
    "f: MatMul(a, Cast*(t: Transpose*(v: Reshape*(dw: DequantizeLinear*(#w, #ws, #wz?), #shape))))",
    "f: Gemm(a, dw: DequantizeLinear*(#w, #ws, #wz?), bias?)",
    "f: Gemm(a, Cast*(dw: DequantizeLinear*(#w, #ws, #wz?)), bias?)",
    "f: Gemm(a, t: Transpose*(dw: DequantizeLinear*(#w, #ws, #wz?)), bias?)",
    "f: Gemm(a, v: Reshape*(dw: DequantizeLinear*(#w, #ws, #wz?), #shape), bias?)",
    "f: Gemm(a, t: Transpose*(v: Reshape*(dw: DequantizeLinear*(#w, #ws, #wz?), #shape)), bias?)"};
constexpr const char* kBias[] = {"Add~(f: tessera.DequantizeMatMul(a, w, s, z?), #c)"};

}  // namespace

extern constexpr Rule kDequantizeMatMul{"dequantize_matmul", 2, 1, kPatterns, fuse};
extern constexpr Rule kDequantizeMatMulBias{"dequantize_matmul_bias", 2, 1, kBias, add_bias};

}  // namespace tessera
