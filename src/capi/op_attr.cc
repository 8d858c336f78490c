#include "capi/op_attr.h"

#include <cstring>

#include "capi/guard.h"
#include "capi/topics.h"
#include "capi/value.h"

namespace tessera::capi {

OrtOpAttrType type_of(const ir::Attribute& attribute) {
  switch (attribute.type) {
    case ir::AttrType::i: return ORT_OP_ATTR_INT;
    case ir::AttrType::ints: return ORT_OP_ATTR_INTS;
    case ir::AttrType::f: return ORT_OP_ATTR_FLOAT;
    case ir::AttrType::floats: return ORT_OP_ATTR_FLOATS;
    case ir::AttrType::s: return ORT_OP_ATTR_STRING;
    case ir::AttrType::strings: return ORT_OP_ATTR_STRINGS;
    case ir::AttrType::g: return ORT_OP_ATTR_GRAPH;
    case ir::AttrType::t: return ORT_OP_ATTR_TENSOR;
    default: return ORT_OP_ATTR_UNDEFINED;
  }
}

Result<Tensor> tensor_of(const ir::Attribute& attribute) {
  const auto* weights = std::get_if<std::vector<Weight>>(&attribute.value);
  if (!weights || weights->size() != 1) return error(Code::fail, "attribute {} is no tensor", quote(attribute.name));
  TRY_ASSIGN(shared, weights->front().tensor());
  return copy_of(shared);
}

Status copy_text(std::string_view text, char* out, size_t* size) {
  const size_t room = *size, needed = text.size() + 1;
  *size = needed;
  if (!out) return {};
  if (room < needed) return invalid("room for {} bytes, {} are needed", room, needed);
  if (!text.empty()) std::memcpy(out, text.data(), text.size());
  out[text.size()] = '\0';
  return {};
}

namespace {

template <class T>
std::vector<T> list_of(const void* data, int length) {
  const T* first = static_cast<const T*>(data);
  return {first, first + length};
}

// The length of a string may or may not count a zero byte at its end, or be left out.
std::string text_of(const void* data, int length) {
  const char* text = static_cast<const char*>(data);
  return length > 0 ? std::string(text, strnlen(text, static_cast<size_t>(length))) : std::string(text);
}

Result<std::vector<std::string>> texts_of(const void* data, int length) {
  std::vector<std::string> out;
  for (int i = 0; i < length; ++i) {
    const char* text = static_cast<const char* const*>(data)[i];
    TRY(not_null({{"a string of data", text}}));
    out.emplace_back(text);
  }
  return out;
}

Status fill(ir::Attribute& a, const void* data, int length, OrtOpAttrType type) {
  switch (type) {
    case ORT_OP_ATTR_INT:
      a.type = ir::AttrType::i;
      a.value = *static_cast<const int64_t*>(data);
      return {};
    case ORT_OP_ATTR_INTS:
      a.type = ir::AttrType::ints;
      a.value = list_of<int64_t>(data, length);
      return {};
    case ORT_OP_ATTR_FLOAT:
      a.type = ir::AttrType::f;
      a.value = *static_cast<const float*>(data);
      return {};
    case ORT_OP_ATTR_FLOATS:
      a.type = ir::AttrType::floats;
      a.value = list_of<float>(data, length);
      return {};
    case ORT_OP_ATTR_STRING:
      a.type = ir::AttrType::s;
      a.value = text_of(data, length);
      return {};
    case ORT_OP_ATTR_STRINGS: {
      a.type = ir::AttrType::strings;
      TRY_ASSIGN(texts, texts_of(data, length));
      a.value = std::move(texts);
      return {};
    }
    case ORT_OP_ATTR_GRAPH:
      return not_implemented("attributes cannot be made of graphs; load a model that has the node");
    case ORT_OP_ATTR_TENSOR:
      return not_implemented("attributes cannot be made of tensors; add the tensor with AddInitializerToGraph");
    default: return invalid("{} is no type of an attribute", static_cast<int>(type));
  }
}

Status create(const char* name, const void* data, int length, OrtOpAttrType type, OrtOpAttr** out) {
  TRY(not_null({{"name", name}, {"op_attr", out}}));
  const bool list = type == ORT_OP_ATTR_INTS || type == ORT_OP_ATTR_FLOATS || type == ORT_OP_ATTR_STRINGS;
  if (length < 0) return invalid("attribute {} has {} elements", quote(name), length);
  if (!list || length > 0) TRY(not_null({{"data", data}}));
  auto made = std::make_unique<OrtOpAttr>();
  made->attribute.name = name;
  TRY(fill(made->attribute, data, length, type));
  *out = made.release();
  return {};
}

void release(OrtOpAttr* attribute) { delete attribute; }

// *out becomes the bytes needed.
Status give(const void* from, size_t needed, void* data, size_t room, size_t* out) {
  *out = needed;
  if (room < needed) return invalid("room for {} bytes, {} are needed", room, needed);
  if (needed) {
    TRY(not_null({{"data", data}}));
    std::memcpy(data, from, needed);
  }
  return {};
}

template <class T>
Status give_one(const ir::Attribute& a, void* data, size_t room, size_t* out) {
  TRY_ASSIGN(value, value_of<T>(a));
  return give(value, sizeof(T), data, room, out);
}
template <class T>
Status give_list(const ir::Attribute& a, void* data, size_t room, size_t* out) {
  TRY_ASSIGN(value, value_of<std::vector<T>>(a));
  return give(value->data(), value->size() * sizeof(T), data, room, out);
}

// One after the other, each with a zero byte.
Status give_texts(const ir::Attribute& a, void* data, size_t room, size_t* out) {
  TRY_ASSIGN(texts, value_of<std::vector<std::string>>(a));
  std::string all;
  for (const std::string& t : *texts) all.append(t).push_back('\0');
  return give(all.data(), all.size(), data, room, out);
}

Status read(const OrtOpAttr* attribute, OrtOpAttrType type, void* data, size_t room, size_t* out) {
  TRY(not_null({{"op_attr", attribute}, {"out", out}}));
  const ir::Attribute& a = attribute->attribute;
  switch (type) {
    case ORT_OP_ATTR_INT: return give_one<int64_t>(a, data, room, out);
    case ORT_OP_ATTR_INTS: return give_list<int64_t>(a, data, room, out);
    case ORT_OP_ATTR_FLOAT: return give_one<float>(a, data, room, out);
    case ORT_OP_ATTR_FLOATS: return give_list<float>(a, data, room, out);
    case ORT_OP_ATTR_STRINGS: return give_texts(a, data, room, out);
    case ORT_OP_ATTR_STRING: {
      TRY_ASSIGN(text, value_of<std::string>(a));
      return give(text->data(), text->size(), data, room, out);
    }
    default: return invalid("attributes of type {} cannot be read into memory", static_cast<int>(type));
  }
}

Status get_type(const OrtOpAttr* attribute, OrtOpAttrType* out) {
  TRY(not_null({{"attribute", attribute}, {"type", out}}));
  *out = type_of(attribute->attribute);
  return {};
}

Status get_name(const OrtOpAttr* attribute, const char** out) {
  TRY(not_null({{"attribute", attribute}, {"name", out}}));
  *out = attribute->attribute.name.c_str();
  return {};
}

Status get_tensor(const OrtOpAttr* attribute, OrtValue** out) {
  TRY(not_null({{"attribute", attribute}, {"attr_tensor", out}}));
  TRY_ASSIGN(tensor, tensor_of(attribute->attribute));
  *out = new OrtValue{std::move(tensor)};
  return {};
}

}  // namespace

void fill_op_attr(OrtApi& api) {
  api.CreateOpAttr = slot<create>;
  api.ReleaseOpAttr = release;
  api.ReadOpAttr = slot<read>;
  api.OpAttr_GetType = slot<get_type>;
  api.OpAttr_GetName = slot<get_name>;
  api.OpAttr_GetTensorAttributeAsOrtValue = slot<get_tensor>;
}

}  // namespace tessera::capi
