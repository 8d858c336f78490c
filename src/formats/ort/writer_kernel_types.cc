#include <algorithm>
#include <charconv>

#include "formats/ort/kernel_types.h"
#include "ops/signatures.h"

namespace tessera::ort {
namespace {

#include "formats/ort/writer_contrib_types.inc"
static_assert(std::is_sorted(std::begin(kTypes), std::end(kTypes)));

int number_at(std::string_view text) {
  int out = 0;
  std::from_chars(text.data(), text.data() + text.size(), out);
  return out;
}

// The line of ONNX Runtime's own operator in its newest version that this operator set has; empty if it has none.
std::string_view contrib_line(std::string_view domain, std::string_view op_type, int opset) {
  std::string key;
  key.append(domain).append(":").append(op_type).append(":");
  std::string_view out;
  for (auto it = std::lower_bound(std::begin(kTypes), std::end(kTypes), key); it != std::end(kTypes); ++it) {
    if (!it->starts_with(key)) break;
    if (number_at(it->substr(key.size())) <= opset) out = it->substr(key.size());
  }
  return out;
}

// "1 T=i0,o0 axis=i1"
std::optional<KernelTypes> contrib_types(std::string_view domain, std::string_view op_type, int opset) {
  const std::string_view line = contrib_line(domain, op_type, opset);
  if (line.empty()) return {};
  KernelTypes out;
  out.since = number_at(line);
  out.of_standard = false;
  std::vector<ArgumentPlace>* places = nullptr;
  for (size_t at = line.find(' '); at < line.size(); ++at) {
    const size_t end = std::min(line.find_first_of("=, ", at + 1), line.size());
    const std::string_view word = line.substr(at + 1, end - at - 1);
    if (line[at] == ' ')
      places = &out.places[std::string(word)];
    else
      places->push_back({word[0] == 'o', static_cast<uint32_t>(number_at(word.substr(1)))});
    at = end - 1;
  }
  return out;
}

}  // namespace

std::optional<KernelTypes> kernel_types(std::string_view domain, std::string_view op_type, int opset) {
  const spec::Signature* s = spec::find_signature(domain, op_type, opset);
  if (!s) return contrib_types(domain, op_type, opset);
  KernelTypes out;
  out.since = s->since_version;
  for (const bool output : {false, true}) {
    uint32_t index = 0;
    for (const spec::Argument& a : output ? s->outputs() : s->inputs()) {
      const bool fixed = a.constraint == spec::Argument::kFixedType;
      out.places[std::string(fixed ? a.name() : a.type_text())].push_back({output, index++});
    }
  }
  return out;
}

}  // namespace tessera::ort
