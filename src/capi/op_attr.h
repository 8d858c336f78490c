// OrtOpAttr: one attribute of a node.
#pragma once
#include <string_view>

#include "session/session.h"
#include "tessera/c_api.h"

struct OrtOpAttr {
  tessera::ir::Attribute attribute;
};

namespace tessera::capi {

OrtOpAttrType type_of(const ir::Attribute& attribute);

// What the attribute holds, or an error that says that it holds something else.
template <class T>
Result<const T*> value_of(const ir::Attribute& attribute) {
  if (const T* value = std::get_if<T>(&attribute.value)) return value;
  return invalid("attribute {} is not of the type that was asked for", quote(attribute.name));
}
// The tensor that the attribute holds.
Result<Tensor> tensor_of(const ir::Attribute& attribute);

// Copies `text` and a zero byte to `out`. *size is the room there and becomes what is needed; a null `out` only asks.
Status copy_text(std::string_view text, char* out, size_t* size);

}  // namespace tessera::capi
