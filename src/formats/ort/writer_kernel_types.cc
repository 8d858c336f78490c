#include "formats/ort/kernel_types.h"
#include "ops/signatures.h"

namespace tessera::ort {

std::optional<KernelTypes> kernel_types(std::string_view domain, std::string_view op_type, int opset) {
  const spec::Signature* s = spec::find_signature(domain, op_type, opset);
  if (!s) return {};
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
