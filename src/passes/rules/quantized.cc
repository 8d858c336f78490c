#include "passes/rules/quantized.h"

#include <algorithm>
#include <cmath>

#include "core/convert.h"

namespace tessera {
namespace {

std::optional<BytePoint> point(const Match& m, DType type, const std::string& scale, const std::string& zero) {
  const std::vector<double> scales = numbers(m, scale), zeros = numbers(m, zero);
  if (!kByteTypes.has(type) || scales.size() != 1 || m.fact(scale).dtype != DType::f32) return {};
  if (!(scales[0] > 0) || !std::isfinite(scales[0]) || (m.has(zero) && zeros.size() != 1)) return {};
  return BytePoint{type, static_cast<float>(scales[0]), zeros.empty() ? 0 : static_cast<int64_t>(zeros[0])};
}

}  // namespace

std::vector<double> numbers(const Match& m, std::string_view name) {
  const Weight* w = m.weight(name);
  if (!w || !(kNumbers | kSubByteInts).has(w->dtype)) return {};
  const Tensor t = m.tensor(name);
  if (t.empty()) return {};
  std::vector<double> out(static_cast<size_t>(t.count()));
  decode(t.dtype(), t.data(), 0, t.count(), out.data());
  return out;
}

std::optional<BytePoint> dequantized(const Match& m, const std::string& x) {
  if (m.fact_of("d" + x).dtype != DType::f32) return {};
  return point(m, m.fact(x).dtype, x + "s", x + "z");
}

std::optional<BytePoint> quantized(const Match& m) { return point(m, m.fact_of("q").dtype, "ys", "yz"); }

std::optional<int> scale_axis(const Match& m, const std::string& x) {
  if (m.integer("d" + x, "block_size", 0) != 0 || m.fact(x).rank() < 0) return {};
  return normalize_axis(m.integer("d" + x, "axis", 1), m.fact(x).rank());
}

bool has_scales(const Match& m, const std::string& x, int axis) {
  const std::vector<double> scales = numbers(m, x + "s");
  if (m.fact(x + "s").dtype != DType::f32 || m.fact_of("d" + x).dtype != DType::f32) return false;
  if (!std::all_of(scales.begin(), scales.end(), [](double s) { return s > 0 && std::isfinite(s); })) return false;
  if (scales.size() == 1) return true;
  const Fact& fact = m.fact(x);
  return !scales.empty() && scale_axis(m, x) == axis && axis < fact.rank() &&
         (*fact.shape)[static_cast<size_t>(axis)] == Dim(static_cast<int64_t>(scales.size()));
}

ir::ValueId zero_or_new(const Match& m, Replacement& r, std::string_view name, DType type) {
  if (m.has(name)) return m.value(name);
  return type == DType::i8 ? scalar<int8_t>(r, 0, "zero_point") : scalar<uint8_t>(r, 0, "zero_point");
}

bool can_stand_for_root(const Match& m, ir::ValueId x) {
  const ir::ValueInfo& root = m.graph().value(m.graph().node(m.root()).outputs[0]);
  const ir::ValueInfo& v = m.graph().value(x);
  return !root.is_output || (v.source == ir::Source::node && !v.is_output);
}

}  // namespace tessera
