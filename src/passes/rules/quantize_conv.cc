// QuantizeLinear(Conv(DequantizeLinear(x), DequantizeLinear(w), bias))   becomes   QLinearConv.
#include <cmath>

#include "passes/rules/quantized.h"

namespace tessera {
namespace {

// The bias in units of the products, x_scale * w_scale; kNone if it does not fit.
ir::ValueId integer_bias(const Match& m, Replacement& r, float x_scale, size_t channels) {
  const std::vector<double> w_scales = numbers(m, "ws");
  const bool whole = m.has("b");
  const std::vector<double> values = numbers(m, whole ? "b" : "bias"), scales = numbers(m, "bs"),
                            zeros = numbers(m, "bz");
  if (values.size() != channels || (whole && !has_scales(m, "b", 0))) return ir::kNone;
  const auto at = [](const std::vector<double>& v, size_t i) { return v.empty() ? 0 : v[v.size() == 1 ? 0 : i]; };
  std::vector<int32_t> out(channels);
  bool same = whole && m.fact("b").dtype == DType::i32;
  for (size_t i = 0; i < channels; ++i) {
    const double unit = x_scale * at(w_scales, i), scale = whole ? at(scales, i) : 1, zero = at(zeros, i);
    const bool in_units = std::abs(scale - unit) <= 1e-6 * unit;
    const double v = in_units ? values[i] - zero : std::nearbyint((values[i] - zero) * scale / unit);
    if (!(std::abs(v) < 1 << 30)) return ir::kNone;
    same = same && in_units && zero == 0;
    out[i] = static_cast<int32_t>(v);
  }
  return same ? m.value("b") : list(r, out, "bias_quantized");
}

bool fuse(const Match& m, Replacement& r) {
  const auto x = dequantized(m, "x"), y = quantized(m);
  const Fact& w = m.fact("w");
  if (m.settings().keep_qdq || !x || !y || !kByteTypes.has(w.dtype) || w.rank() < 3 || !has_scales(m, "w", 0))
    return false;
  if (!(*w.shape)[0].known()) return false;
  ir::ValueId bias = ir::kNone;
  if (m.has("b") || m.has("bias")) {
    bias = integer_bias(m, r, x->scale, static_cast<size_t>((*w.shape)[0].value()));
    if (bias == ir::kNone) return false;
  }
  r.result(r.node("QLinearConv",
                  {m.value("x"), m.value("xs"), zero_or_new(m, r, "xz", x->type), m.value("w"), m.value("ws"),
                   zero_or_new(m, r, "wz", w.dtype), m.value("ys"), zero_or_new(m, r, "yz", y->type), bias},
                  m.node("conv").attributes));
  return true;
}

constexpr const char* kPatterns[] = {
    "q: QuantizeLinear(conv: Conv(dx: DequantizeLinear*(x, #xs, #xz?), dw: DequantizeLinear*(#w, #ws, #wz?), "
    "db: DequantizeLinear*(#b, #bs, #bz?)), #ys, #yz?)",
    "q: QuantizeLinear(conv: Conv(dx: DequantizeLinear*(x, #xs, #xz?), dw: DequantizeLinear*(#w, #ws, #wz?), #bias?), "
    "#ys, #yz?)"};

}  // namespace

extern constexpr Rule kQuantizeConv{"quantize_conv", 2, 0, kPatterns, fuse};

}  // namespace tessera
