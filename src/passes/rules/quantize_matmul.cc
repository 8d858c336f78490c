// Products of quantised matrices in integers:
//   QuantizeLinear(MatMul(DequantizeLinear(a), DequantizeLinear(b)))   becomes   QLinearMatMul,
//   MatMul(DequantizeLinear(a), DequantizeLinear(constant b))          becomes   MatMulInteger and its scale.
#include "passes/rules/quantized.h"

namespace tessera {
namespace {

// b may have a scale for each of its columns.
bool can_multiply(const Match& m) {
  const Fact& b = m.fact("b");
  return !m.settings().keep_qdq && dequantized(m, "a") && kByteTypes.has(b.dtype) && b.rank() >= 1 &&
         has_scales(m, "b", b.rank() == 2 ? 1 : -1);
}

bool fuse_quantized(const Match& m, Replacement& r) {
  const auto y = quantized(m);
  if (!y || !can_multiply(m)) return false;
  r.result(r.node("QLinearMatMul",
                  {m.value("a"), m.value("as"), zero_or_new(m, r, "az", m.fact("a").dtype), m.value("b"), m.value("bs"),
                   zero_or_new(m, r, "bz", m.fact("b").dtype), m.value("ys"), zero_or_new(m, r, "yz", y->type)}));
  return true;
}

bool fuse_float(const Match& m, Replacement& r) {
  const Fact& b = m.fact("b");
  if (!can_multiply(m) || b.rank() != 2) return false;
  // Sums of at most this many products of bytes fit into 32 bits.
  if (const Dim k = (*b.shape)[0]; !k.known() || k.value() > INT32_MAX / (255 * 255)) return false;
  const float a_scale = dequantized(m, "a")->scale;
  std::vector<float> scales;
  for (const double s : numbers(m, "bs")) scales.push_back(a_scale * static_cast<float>(s));
  const ir::ValueId scale = scales.size() == 1 ? scalar(r, scales[0], "scale") : list(r, scales, "scales");
  const ir::ValueId sums = r.node(
      "MatMulInteger", {m.value("a"), m.value("b"),
                        m.has("bz") ? zero_or_new(m, r, "az", m.fact("a").dtype) : m.value("az"), m.value("bz")});
  r.result(r.node("Mul", {r.node("Cast", {sums}, {ir::Attribute::integer("to", 1)}), scale}));
  return true;
}

constexpr const char* kQuantized[] = {
    "q: QuantizeLinear(MatMul(da: DequantizeLinear*(a, #as, #az?), db: DequantizeLinear*(b, #bs, #bz?)), #ys, #yz?)"};
constexpr const char* kFloat[] = {"MatMul(da: DequantizeLinear*(a, #as, #az?), db: DequantizeLinear*(#b, #bs, #bz?))"};

}  // namespace

extern constexpr Rule kQuantizeMatMul{"quantize_matmul", 2, 0, kQuantized, fuse_quantized};
extern constexpr Rule kQuantizeMatMulToFloat{"quantize_matmul_to_float", 2, 1, kFloat, fuse_float};

}  // namespace tessera
