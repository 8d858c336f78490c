#include "ops/control/bodies.h"

#include <algorithm>

namespace tessera {

Status get_body(Attrs& attrs, std::string_view name, BodyRef& out) {
  attrs.get(name, out.graph);
  if (!out.graph) return invalid_graph("it lacks the attribute {}", quote(name));
  for (const ir::Attribute& a : attrs.node().attributes) {
    if (a.name == name) break;
    if (const auto* graphs = std::get_if<std::vector<std::shared_ptr<ir::Graph>>>(&a.value))
      out.index += static_cast<int>(graphs->size());
  }
  return {};
}

Status check_body(const BodyRef& body, std::string_view name, int inputs, int least_outputs) {
  if (body.inputs() != inputs) return invalid_graph("{} has {} inputs, wanted {}", quote(name), body.inputs(), inputs);
  if (body.outputs() < least_outputs)
    return invalid_graph("{} has {} outputs, wanted at least {}", quote(name), body.outputs(), least_outputs);
  return {};
}

Fact either(const Fact& a, const Fact& b, DimPool& dims) {
  Fact out;
  if (a.kind != b.kind) return out;
  out.kind = a.kind;
  out.dtype = a.dtype == b.dtype ? a.dtype : DType::undefined;
  out.key = a.key == b.key ? a.key : DType::undefined;
  if (a.element && b.element) out.element = std::make_shared<const Fact>(either(*a.element, *b.element, dims));
  if (!a.shape || !b.shape || a.shape->size() != b.shape->size()) return out;
  std::vector<Dim> shape;
  for (size_t i = 0; i < a.shape->size(); ++i)
    shape.push_back((*a.shape)[i] == (*b.shape)[i] ? (*a.shape)[i] : dims.fresh());
  out.shape = std::move(shape);
  return out;
}

TypeDesc either(const TypeDesc& a, const TypeDesc& b) {
  const auto says_nothing = [](const TypeDesc& t) {
    return t.kind == Kind::unknown || (t.kind == Kind::tensor && t.dtype == DType::undefined);
  };
  if (says_nothing(a)) return b;
  if (says_nothing(b)) return a;
  if (a.kind == b.kind) return a.dtype == DType::undefined ? b : a;
  return b.kind == Kind::optional ? b : a;
}

Fact form_of(const Fact* f) {
  if (!f) return {};
  Fact out = *f;
  out.content.reset();
  out.reals.reset();
  return out;
}

void Carry::lend(std::span<Value> in, std::span<Value> out) {
  for (size_t i = 0; i < values.size(); ++i) {
    previous_[i] = values[i].tensor() ? values[i] : Value();
    in[i] = std::move(values[i]);
    out[i] = std::move(spare_[i]);
  }
}

void Carry::collect(std::span<Value> out) {
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = std::move(out[i]);
    const Tensor* t = previous_[i].tensor();
    if (t && t->unique() && t->storage()->origin() == Bytes::Origin::owned) spare_[i] = std::move(previous_[i]);
    previous_[i] = Value();
  }
}

Status check_directions(const Attrs& attrs, std::string_view name, std::vector<int64_t>& list, int size) {
  const bool binary = std::all_of(list.begin(), list.end(), [](int64_t d) { return d == 0 || d == 1; });
  if (!binary || (!list.empty() && static_cast<int>(list.size()) != size))
    return attrs.refuse(name, format("{} times 0 or 1", size));
  list.resize(static_cast<size_t>(size), 0);
  return {};
}

}  // namespace tessera
