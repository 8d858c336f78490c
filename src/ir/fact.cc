#include "ir/fact.h"

namespace tessera {

Fact Fact::tensor(DType dtype, std::optional<std::vector<Dim>> shape) {
  Fact f;
  f.kind = Kind::tensor;
  f.dtype = dtype;
  f.shape = std::move(shape);
  return f;
}
Fact Fact::sequence(Fact element) {
  Fact f;
  f.kind = Kind::sequence;
  f.element = std::make_shared<const Fact>(std::move(element));
  return f;
}
Fact Fact::optional(Fact element) {
  Fact f = sequence(std::move(element));
  f.kind = Kind::optional;
  return f;
}

std::optional<Shape> Fact::static_shape() const {
  if (!shape) return {};
  std::vector<int64_t> dims;
  for (const Dim& d : *shape) {
    if (!d.known() || d.value() < 0) return {};
    dims.push_back(d.value());
  }
  Result<Shape> s = Shape::checked(dims);
  if (!s.ok()) return {};
  return std::move(*s);
}

std::string Fact::str() const {
  switch (kind) {
    case Kind::tensor:
    case Kind::sparse_tensor: {
      std::string out(name_of(dtype));
      if (shape) {
        out += '[';
        for (size_t i = 0; i < shape->size(); ++i) out += (i ? "," : "") + (*shape)[i].str();
        out += ']';
      } else {
        out += "[...]";
      }
      return kind == Kind::tensor ? out : "sparse_tensor(" + out + ")";
    }
    case Kind::sequence: return "seq(" + (element ? element->str() : "") + ")";
    case Kind::optional: return "optional(" + (element ? element->str() : "") + ")";
    case Kind::map: return format("map({},{})", name_of(key), element ? element->str() : "");
    case Kind::opaque: return "opaque";
    case Kind::unknown: break;
  }
  return "?";
}

bool compatible(const Fact& got, const Fact& want) {
  if (got.kind == Kind::unknown || want.kind == Kind::unknown) return true;
  if (got.kind != want.kind) return want.kind == Kind::optional && want.element && compatible(got, *want.element);
  if (got.dtype != want.dtype && got.dtype != DType::undefined && want.dtype != DType::undefined) return false;
  if (got.element && want.element) return compatible(*got.element, *want.element);
  if (got.shape && want.shape) {
    if (got.shape->size() != want.shape->size()) return false;
    for (size_t i = 0; i < got.shape->size(); ++i) {
      const Dim &a = (*got.shape)[i], &b = (*want.shape)[i];
      if (a.known() && b.known() && a.value() != b.value()) return false;
    }
  }
  return true;
}

Fact merge(const Fact& a, const Fact& b) {
  if (a.kind == Kind::unknown) return b;
  if (b.kind == Kind::unknown || a.kind != b.kind) return a;
  Fact out = a;
  if (out.dtype == DType::undefined) out.dtype = b.dtype;
  if (!out.element) out.element = b.element;
  if (!out.content) out.content = b.content;
  if (!out.shape) {
    out.shape = b.shape;
  } else if (b.shape && b.shape->size() == out.shape->size()) {
    for (size_t i = 0; i < out.shape->size(); ++i)
      if (!(*out.shape)[i].known() && (*b.shape)[i].known()) (*out.shape)[i] = (*b.shape)[i];
  }
  return out;
}

}  // namespace tessera
