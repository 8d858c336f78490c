// Constant   becomes   an initializer.
#include "passes/rules/quantized.h"

namespace tessera {
namespace {

bool lift(const Match& m, Replacement& r) {
  const ir::Node& c = m.node("c");
  if (c.attributes.size() != 1 || m.graph().value(c.outputs[0]).is_output) return false;
  const ir::Attribute& a = c.attributes[0];
  Result<Tensor> t = Tensor();
  if (const auto* w = std::get_if<std::vector<Weight>>(&a.value); w && a.name == "value" && w->size() == 1)
    t = (*w)[0].tensor();
  else if (const auto* i = std::get_if<int64_t>(&a.value); i && a.name == "value_int")
    t = Tensor::scalar(*i);
  else if (const auto* f = std::get_if<float>(&a.value); f && a.name == "value_float")
    t = Tensor::scalar(*f);
  else if (const auto* is = std::get_if<std::vector<int64_t>>(&a.value); is && a.name == "value_ints")
    t = Tensor::of<int64_t>(Shape{static_cast<int64_t>(is->size())}, *is);
  else if (const auto* fs = std::get_if<std::vector<float>>(&a.value); fs && a.name == "value_floats")
    t = Tensor::of<float>(Shape{static_cast<int64_t>(fs->size())}, *fs);
  if (!t.ok() || t->empty()) return false;
  r.result(r.constant(std::move(*t), m.graph().value(c.outputs[0]).name + "/value"));
  return true;
}

constexpr const char* kPatterns[] = {"c: Constant()"};

}  // namespace

extern constexpr Rule kLiftConstant{"lift_constant", 1, 0, kPatterns, lift};

}  // namespace tessera
