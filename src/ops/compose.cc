#include "ops/compose.h"

#include <algorithm>

#include "ops/resolve.h"

namespace tessera {

ir::ValueId Composer::scalar(float v, ir::ValueId like) {
  Result<Tensor> t = Tensor::scalar(v);
  if (!t.ok()) return ir::kNone;
  return op("CastLike", {constant(std::move(*t)), like});
}

ir::ValueId Composer::op(const char* type, std::vector<ir::ValueId> inputs, std::vector<ir::Attribute> attributes,
                         size_t outputs) {
  const std::string_view name = type;
  const size_t dot = name.rfind('.');
  ir::Node n;
  if (dot != name.npos) n.domain = name.substr(0, dot);
  n.op_type = name.substr(dot == name.npos ? 0 : dot + 1);
  // CastLike came with 15; nothing used in compositions changed its meaning between older sets and that one.
  n.version = node_.domain.empty() ? std::max(node_.version, 15) : kNewestOpset;
  if (!n.domain.empty()) n.version = 1;
  n.name = node_.name + "/" + type;
  n.attributes = std::move(attributes);
  return patch_.node(std::move(n), std::move(inputs), outputs, node_.name + "/" + type);
}

void Composer::out(int o, ir::ValueId value) {
  if (o < outputs() && node_.outputs[static_cast<size_t>(o)] != ir::kNone)
    patch_.replace(node_.outputs[static_cast<size_t>(o)], value);
}

}  // namespace tessera
