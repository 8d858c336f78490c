#include "ops/arity.h"

#include <algorithm>

namespace tessera {
namespace {

struct Arity {
  uint32_t name;  // hash of "domain:Name"
  uint8_t least_in, most_in, least_out, most_out;
  uint16_t required;  // bit i: input i may not be absent
};
constexpr uint8_t kMany = 255;

#include "ops/arity_data.inc"

constexpr uint32_t hash(std::string_view text, uint32_t from) {
  for (const char c : text) from = (from ^ static_cast<uint8_t>(c)) * 0x01000193u;
  return from;
}

const Arity* find_arity(const ir::Node& n) {
  const uint32_t name = hash(n.op_type, hash(":", hash(n.domain, 0x811c9dc5u)));
  const auto it = std::lower_bound(std::begin(kArities), std::end(kArities), name,
                                   [](const Arity& a, uint32_t wanted) { return a.name < wanted; });
  const bool ours = n.domain.empty() || n.domain.starts_with("ai.onnx") || n.domain == "tessera";
  return ours && it != std::end(kArities) && it->name == name ? it : nullptr;
}

Status check_count(const char* what, size_t got, uint8_t least, uint8_t most) {
  if (got < least) return invalid_graph("it has {} {}, wanted at least {}", got, what, static_cast<int>(least));
  if (got > most && most != kMany)
    return invalid_graph("it has {} {}, wanted at most {}", got, what, static_cast<int>(most));
  return {};
}

}  // namespace

Status check_arity(const ir::Node& n) {
  const Arity* a = find_arity(n);
  if (!a) return {};
  TRY(check_count("inputs", n.inputs.size(), a->least_in, a->most_in));
  TRY(check_count("outputs", n.outputs.size(), a->least_out, a->most_out));
  for (size_t i = 0; i < n.inputs.size() && i < 16; ++i)
    if (n.inputs[i] == ir::kNone && a->required >> i & 1) return invalid_graph("its input {} is absent", i);
  return {};
}

}  // namespace tessera
