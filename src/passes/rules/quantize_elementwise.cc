// Arithmetic on quantised elements without a pass for each step:
//   QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b)))   becomes   tessera.QLinearBinary,
//   QuantizeLinear(Sigmoid(DequantizeLinear(x)))                    becomes   a look into a table of 256 bytes.
#include <algorithm>
#include <cmath>

#include "passes/rules/quantized.h"

namespace tessera {
namespace {

bool fuse_binary(const Match& m, Replacement& r) {
  const auto a = dequantized(m, "a"), b = dequantized(m, "b"), y = quantized(m);
  if (m.settings().keep_qdq || !a || !b || !y) return false;
  r.result(r.node("tessera.QLinearBinary",
                  {m.value("a"), m.value("as"), zero_or_new(m, r, "az", a->type), m.value("b"), m.value("bs"),
                   zero_or_new(m, r, "bz", b->type), m.value("ys"), zero_or_new(m, r, "yz", y->type)},
                  {ir::Attribute::text("op", m.node("f").op_type)}));
  return true;
}

using Function = double(const Match&, double);
struct Named {
  std::string_view name;
  Function* of;
};

// Attributes are those of the node "f".
constexpr Named kFunctions[] = {
    {"Sigmoid", [](const Match&, double x) { return 1 / (1 + std::exp(-x)); }},
    {"Tanh", [](const Match&, double x) { return std::tanh(x); }},
    {"Erf", [](const Match&, double x) { return std::erf(x); }},
    {"Relu", [](const Match&, double x) { return std::max(x, 0.0); }},
    {"LeakyRelu", [](const Match& m, double x) { return x < 0 ? x * m.real("f", "alpha", 0.01f) : x; }},
    {"HardSwish", [](const Match&, double x) { return x * std::clamp(x / 6 + 0.5, 0.0, 1.0); }},
    {"HardSigmoid",
     [](const Match& m, double x) {
       const float v = m.real("f", "alpha", 0.2f) * static_cast<float>(x) + m.real("f", "beta", 0.5f);
       return static_cast<double>(std::clamp(v, 0.0f, 1.0f));
     }},
    {"Softplus", [](const Match&, double x) { return std::log1p(std::exp(-std::abs(x))) + std::max(x, 0.0); }},
    {"Exp", [](const Match&, double x) { return std::exp(x); }},
};

// The 256 results, as bytes by the unsigned value of the element.
template <class T, class F>
Result<Tensor> table_of(const BytePoint& x, const BytePoint& y, F&& f) {
  T out[256];
  for (int byte = 0; byte < 256; ++byte) {
    const int element = x.type == DType::i8 ? static_cast<int8_t>(byte) : byte;
    const float v = static_cast<float>(element - x.zero) * x.scale;
    const double q = std::nearbyint(static_cast<float>(f(v)) / y.scale) + static_cast<double>(y.zero);
    const double low = std::numeric_limits<T>::lowest(), high = std::numeric_limits<T>::max();
    out[byte] = static_cast<T>(q > low ? std::min(q, high) : low);
  }
  return Tensor::of<T>(Shape{256}, std::span<const T>(out, 256));
}

bool fuse_unary(const Match& m, Replacement& r) {
  const auto x = dequantized(m, "x"), y = quantized(m);
  const std::vector<double> divisor = numbers(m, "c");
  if (m.settings().keep_qdq || !x || !y || (m.has("c") && (divisor.size() != 1 || m.fact("c").rank() != 0)))
    return false;
  const auto* named = std::find_if(std::begin(kFunctions), std::end(kFunctions),
                                   [&](const Named& n) { return n.name == m.node("f").op_type; });
  if (named == std::end(kFunctions)) return false;
  const auto f = [&](float v) { return named->of(m, divisor.empty() ? v : v / static_cast<float>(divisor[0])); };
  Result<Tensor> table = y->type == DType::i8 ? table_of<int8_t>(*x, *y, f) : table_of<uint8_t>(*x, *y, f);
  if (!table.ok()) return false;
  r.result(r.node("tessera.QLinearTable", {m.value("x"), r.constant(std::move(*table), "table")}));
  return true;
}

constexpr const char* kBinary[] = {
    "q: QuantizeLinear(f: Add(da: DequantizeLinear*(a, #as, #az?), db: DequantizeLinear*(b, #bs, #bz?)), #ys, #yz?)",
    "q: QuantizeLinear(f: Sub(da: DequantizeLinear*(a, #as, #az?), db: DequantizeLinear*(b, #bs, #bz?)), #ys, #yz?)",
    "q: QuantizeLinear(f: Mul(da: DequantizeLinear*(a, #as, #az?), db: DequantizeLinear*(b, #bs, #bz?)), #ys, #yz?)"};
constexpr const char* kUnary[] = {"q: QuantizeLinear(f: Sigmoid(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
                                  "q: QuantizeLinear(f: Tanh(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
                                  "q: QuantizeLinear(f: Erf(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
                                  "q: QuantizeLinear(f: Erf(Div(dx: DequantizeLinear*(x, #xs, #xz?), #c)), #ys, #yz?)",
                                  "q: QuantizeLinear(f: Relu(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
                                  "q: QuantizeLinear(f: LeakyRelu(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
                                  "q: QuantizeLinear(f: HardSwish(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
                                  "q: QuantizeLinear(f: HardSigmoid(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
                                  "q: QuantizeLinear(f: Softplus(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
                                  "q: QuantizeLinear(f: Exp(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)"};

}  // namespace

extern constexpr Rule kQuantizeBinary{"quantize_binary", 2, 0, kBinary, fuse_binary};
extern constexpr Rule kQuantizeUnary{"quantize_unary", 2, 0, kUnary, fuse_unary};

}  // namespace tessera
