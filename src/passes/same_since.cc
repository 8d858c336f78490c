#include "passes/same_since.h"

#include <algorithm>

#include "ops/resolve.h"
#include "ops/signatures.h"

namespace tessera {
namespace {

bool is_same(std::span<const spec::Argument> a, std::span<const spec::Argument> b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](const spec::Argument& x, const spec::Argument& y) {
    return x.name() == y.name() && x.option == y.option;
  });
}
bool is_same(const spec::Attribute& a, const spec::Attribute* b) {
  return b && a.type == b->type && a.required == b->required && a.has_default == b->has_default &&
         a.count == b->count && a.value == b->value;
}

}  // namespace

bool is_same_since(const Op& op, int opset) {
  const spec::Signature *then = spec::find_signature(op.domain, op.name, opset),
                        *now = spec::find_signature(op.domain, op.name, kNewestOpset);
  return then && now && is_same(then->inputs(), now->inputs()) && is_same(then->outputs(), now->outputs()) &&
         then->attributes().size() == now->attributes().size() &&
         std::all_of(then->attributes().begin(), then->attributes().end(),
                     [&](const spec::Attribute& a) { return is_same(a, now->attribute(a.name())); });
}

}  // namespace tessera
