// DequantizeLinear of a small constant   becomes   a constant.
#include "core/convert.h"
#include "passes/rules/quantized.h"

namespace tessera {
namespace {

constexpr int64_t kMost = 1 << 14;  // elements: what is larger stays quantised until it is read

bool fold(const Match& m, Replacement& r) {
  const Weight& x = *m.weight("x");
  if (m.settings().keep_qdq || x.shape.count() > kMost || m.fact_of("dx").dtype != DType::f32) return false;
  if (m.graph().value(m.node("dx").outputs[0]).is_output) return false;
  const std::vector<double> values = numbers(m, "x"), scales = numbers(m, "xs"), zeros = numbers(m, "xz");
  const bool each = x.shape.rank() == 1 && scales.size() == values.size() && m.integer("dx", "block_size", 0) == 0;
  if (values.empty() || m.fact("xs").dtype != DType::f32 || (scales.size() != 1 && !each)) return false;
  if (m.has("xz") && zeros.size() != scales.size()) return false;
  std::vector<float> out;
  for (size_t i = 0; i < values.size(); ++i) {
    const size_t at = scales.size() == 1 ? 0 : i;
    out.push_back(static_cast<float>(values[i] - (zeros.empty() ? 0 : zeros[at])) * static_cast<float>(scales[at]));
  }
  Result<Tensor> t = Tensor::of<float>(x.shape, out);
  if (!t.ok()) return false;
  r.result(r.constant(std::move(*t), "dequantized"));
  return true;
}

constexpr const char* kPatterns[] = {"dx: DequantizeLinear(#x, #xs, #xz?)"};

}  // namespace

extern constexpr Rule kFoldDequantize{"fold_dequantize", 2, 2, kPatterns, fold};

}  // namespace tessera
