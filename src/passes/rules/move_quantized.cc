// Elements that are only moved or compared stay quantised:
//   QuantizeLinear(Reshape(DequantizeLinear(x), shape)) with equal parameters   becomes   Reshape(x, shape),
// and so on; Gather from a quantised table takes the quantised rows; Shape needs no numbers at all.
#include "passes/rules/quantized.h"

namespace tessera {
namespace {

bool move(const Match& m, Replacement& r) {
  const auto x = dequantized(m, "x"), y = quantized(m);
  if (m.settings().keep_qdq || !x || !y || *x != *y) return false;
  const ir::Node& f = m.node("f");
  std::vector<ir::ValueId> inputs = f.inputs;
  inputs[0] = m.value("x");
  r.result(r.node(f.op_type, std::move(inputs), f.attributes));
  return true;
}

bool concat(const Match& m, Replacement& r) {
  const auto y = quantized(m);
  if (m.settings().keep_qdq || !y) return false;
  std::vector<ir::ValueId> inputs;
  for (const char* x : {"x0", "x1", "x2", "x3"}) {
    if (!m.has(x)) break;
    if (dequantized(m, x) != y) return false;
    inputs.push_back(m.value(x));
  }
  r.result(r.node("Concat", std::move(inputs), m.node("f").attributes));
  return true;
}

bool drop_pair(const Match& m, Replacement& r) {
  const auto x = dequantized(m, "x"), y = quantized(m);
  if (m.settings().keep_qdq || !x || !y || *x != *y || !can_stand_for_root(m, m.value("x"))) return false;
  r.result(m.value("x"));
  return true;
}

bool shape_of(const Match& m, Replacement& r) {
  r.result(r.node("Shape", {m.value("x")}, m.node("f").attributes));
  return true;
}

// Rows of a table; scales that differ from row to row are gathered with them.
bool gather(const Match& m, Replacement& r) {
  const Fact &x = m.fact("x"), &scale = m.fact("xs"), &i = m.fact("i");
  if (m.settings().keep_qdq || x.rank() < 1 || i.rank() < 0 || m.integer("f", "axis", 0) != 0) return false;
  const int64_t block = m.integer("dx", "block_size", 0);
  const auto axis = normalize_axis(m.integer("dx", "axis", 1), x.rank());
  const bool one = scale.rank() == 0 || (scale.rank() == 1 && (*scale.shape)[0] == Dim(1));
  if (!one && (!axis || *axis == 0 || scale.rank() < 0)) return false;
  const auto rows = [&](const char* name) {
    return block && !one && m.has(name) ? r.node("Gather", {m.value(name), m.value("i")}) : m.value(name);
  };
  std::vector<ir::Attribute> attributes;
  for (const ir::Attribute& a : m.node("dx").attributes)
    if (a.name != "axis") attributes.push_back(a);
  if (!one) attributes.push_back(ir::Attribute::integer("axis", *axis - 1 + i.rank()));
  const ir::ValueId picked = r.node("Gather", {m.value("x"), m.value("i")});
  r.result(r.node("DequantizeLinear", {picked, rows("xs"), rows("xz")}, std::move(attributes)));
  return true;
}

// Relu does nothing before numbers that are cut off at zero anyway.
bool drop_relu(const Match& m, Replacement& r) {
  const auto y = quantized(m);
  if (m.settings().keep_qdq || !y || y->zero != (y->type == DType::i8 ? -128 : 0)) return false;
  r.result(r.node("QuantizeLinear", {m.value("x"), m.value("ys"), m.value("yz")}, m.node("q").attributes));
  return true;
}

constexpr const char* kMove[] = {
    "q: QuantizeLinear(f: Reshape(dx: DequantizeLinear*(x, #xs, #xz?), shape), #ys, #yz?)",
    "q: QuantizeLinear(f: Transpose(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
    "q: QuantizeLinear(f: Flatten(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
    "q: QuantizeLinear(f: Squeeze(dx: DequantizeLinear*(x, #xs, #xz?), axes?), #ys, #yz?)",
    "q: QuantizeLinear(f: Unsqueeze(dx: DequantizeLinear*(x, #xs, #xz?), axes), #ys, #yz?)",
    "q: QuantizeLinear(f: Slice(dx: DequantizeLinear*(x, #xs, #xz?), starts, ends, axes?, steps?), #ys, #yz?)",
    "q: QuantizeLinear(f: Gather(dx: DequantizeLinear*(x, #xs, #xz?), i), #ys, #yz?)",
    "q: QuantizeLinear(f: Expand(dx: DequantizeLinear*(x, #xs, #xz?), shape), #ys, #yz?)",
    "q: QuantizeLinear(f: MaxPool(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
    "q: QuantizeLinear(f: DepthToSpace(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)",
    "q: QuantizeLinear(f: SpaceToDepth(dx: DequantizeLinear*(x, #xs, #xz?)), #ys, #yz?)"};
constexpr const char* kConcat[] = {
    "q: QuantizeLinear(f: Concat(dx0: DequantizeLinear*(x0, #x0s, #x0z?), dx1: DequantizeLinear*(x1, #x1s, #x1z?)), "
    "#ys, "
    "#yz?)",
    "q: QuantizeLinear(f: Concat(dx0: DequantizeLinear*(x0, #x0s, #x0z?), dx1: DequantizeLinear*(x1, #x1s, #x1z?), "
    "dx2: "
    "DequantizeLinear*(x2, #x2s, #x2z?)), #ys, #yz?)",
    "q: QuantizeLinear(f: Concat(dx0: DequantizeLinear*(x0, #x0s, #x0z?), dx1: DequantizeLinear*(x1, #x1s, #x1z?), "
    "dx2: "
    "DequantizeLinear*(x2, #x2s, #x2z?), dx3: DequantizeLinear*(x3, #x3s, #x3z?)), #ys, #yz?)"};
constexpr const char* kPair[] = {"q: QuantizeLinear(dx: DequantizeLinear*(x, #xs, #xz?), #ys, #yz?)"};
constexpr const char* kShape[] = {"f: Shape(DequantizeLinear*(x, s, z?))"};
constexpr const char* kGather[] = {"f: Gather(dx: DequantizeLinear*(#x, #xs, #xz?), i)"};
constexpr const char* kRelu[] = {"q: QuantizeLinear(Relu(x), #ys, #yz?)"};

}  // namespace

extern constexpr Rule kMoveQuantized{"move_quantized", 2, 0, kMove, move};
extern constexpr Rule kConcatQuantized{"concat_quantized", 2, 0, kConcat, concat};
extern constexpr Rule kDropQuantizedPair{"drop_quantized_pair", 2, 0, kPair, drop_pair};
extern constexpr Rule kShapeOfQuantized{"shape_of_quantized", 2, 0, kShape, shape_of};
extern constexpr Rule kGatherQuantized{"gather_quantized", 2, 0, kGather, gather};
extern constexpr Rule kDropReluBeforeQuantize{"drop_relu_before_quantize", 2, 0, kRelu, drop_relu};

}  // namespace tessera
