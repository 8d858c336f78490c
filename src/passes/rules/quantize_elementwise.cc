// Arithmetic on quantised elements without a pass for each step:
//   QuantizeLinear(Add(DequantizeLinear(a), DequantizeLinear(b)))   becomes   tessera.QLinearBinary,
//   QuantizeLinear(Sigmoid(DequantizeLinear(x)))                    becomes   a look into a table of 256 bytes,
//   tessera.QLinearBinary(x, a table's entry for x)                  becomes   a look into another table.
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

float real_of(const BytePoint& p, uint8_t byte) {
  const int element = p.type == DType::i8 ? static_cast<int8_t>(byte) : byte;
  return static_cast<float>(element - p.zero) * p.scale;
}

// The 256 results f(byte), quantised.
template <class T, class F>
Result<Tensor> table_of(const BytePoint& y, F&& f) {
  T out[256];
  for (int byte = 0; byte < 256; ++byte) {
    const float v = f(static_cast<uint8_t>(byte));
    const double q = std::nearbyint(v / y.scale) + static_cast<double>(y.zero);
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
  const auto f = [&](uint8_t byte) {
    const float v = real_of(*x, byte);
    return static_cast<float>(named->of(m, divisor.empty() ? v : v / static_cast<float>(divisor[0])));
  };
  Result<Tensor> table = y->type == DType::i8 ? table_of<int8_t>(*y, f) : table_of<uint8_t>(*y, f);
  if (!table.ok()) return false;
  r.result(r.node("tessera.QLinearTable", {m.value("x"), r.constant(std::move(*table), "table")}));
  return true;
}

// The one number of a constant float.
std::optional<float> one_scale(const Match& m, std::string_view name) {
  const std::vector<double> v = numbers(m, name);
  return v.size() == 1 && m.fact(name).dtype == DType::f32 ? std::optional(static_cast<float>(v[0])) : std::nullopt;
}

// Of the binary operator's operand or result `x`, whose elements have the type of its zero point.
std::optional<BytePoint> byte_point(const Match& m, const std::string& x) {
  const std::optional<float> scale = one_scale(m, x + "s");
  const std::vector<double> zero = numbers(m, x + "z");
  const DType type = m.fact(x + "z").dtype;
  if (!scale || zero.size() != 1 || !kByteTypes.has(type)) return {};
  return BytePoint{type, *scale, static_cast<int64_t>(zero[0])};
}

bool fuse_with_table(const Match& m, Replacement& r) {
  const auto x = byte_point(m, "x"), t = byte_point(m, "t"), y = byte_point(m, "y");
  const Tensor table = m.tensor("t");
  if (m.settings().keep_qdq || !x || !t || !y || table.empty() || table.count() != 256) return false;
  const bool first = m.node("f").inputs[0] == m.value("x");
  const ir::Attribute* attribute = m.node("f").find("op");
  const auto* op = attribute ? std::get_if<std::string>(&attribute->value) : nullptr;
  if (!op) return false;
  const auto* entries = static_cast<const uint8_t*>(table.data());
  const auto combine = [&](uint8_t byte) {
    const float v = real_of(*x, byte), w = real_of(*t, entries[byte]);
    if (*op == "Add") return v + w;
    return *op == "Mul" ? v * w : first ? v - w : w - v;
  };
  Result<Tensor> result = y->type == DType::i8 ? table_of<int8_t>(*y, combine) : table_of<uint8_t>(*y, combine);
  if (!result.ok()) return false;
  r.result(r.node("tessera.QLinearTable", {m.value("x"), r.constant(std::move(*result), "table")}));
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

constexpr const char* kWithTable[] = {
    "f: tessera.QLinearBinary(x, #xs, #xz, tessera.QLinearTable(x, #t), #ts, #tz, #ys, #yz)",
    "f: tessera.QLinearBinary(tessera.QLinearTable(x, #t), #ts, #tz, x, #xs, #xz, #ys, #yz)"};

}  // namespace

extern constexpr Rule kQuantizeBinary{"quantize_binary", 2, 0, kBinary, fuse_binary};
extern constexpr Rule kQuantizeUnary{"quantize_unary", 2, 0, kUnary, fuse_unary};
extern constexpr Rule kQuantizeWithTable{"quantize_with_table", 2, 0, kWithTable, fuse_with_table};

}  // namespace tessera
