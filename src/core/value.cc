#include "core/value.h"

namespace tessera {

Sequence* Value::own_sequence() {
  auto* p = std::get_if<std::shared_ptr<Sequence>>(&v_);
  if (!p) return nullptr;
  if (p->use_count() != 1) *p = std::make_shared<Sequence>(**p);
  return p->get();
}

std::string Value::describe() const {
  if (const Tensor* t = tensor()) return format("tensor({}){}", name_of(t->dtype()), t->shape().dims());
  if (const SparseTensor* s = sparse())
    return format("sparse tensor({}){}", name_of(s->values.dtype()), s->shape.dims());
  if (const Sequence* s = sequence()) return format("sequence of {}", s->items.size());
  if (map()) return "map";
  return is_none() ? "empty optional" : "nothing";
}

}  // namespace tessera
