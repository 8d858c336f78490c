// Tensors of strings.
#include <cstring>

#include "capi/guard.h"
#include "capi/topics.h"
#include "capi/value.h"

namespace tessera::capi {
namespace {

// Of a sparse tensor: those that it stores.
Result<std::span<std::string>> strings_in(const OrtValue* value) {
  const SparseTensor* sparse = value->value.sparse();
  const Tensor* tensor = sparse ? &sparse->values : value->value.tensor();
  if (!tensor) return tensor_in(value).take_status();
  if (tensor->dtype() != DType::string)
    return error(Code::fail, "the value is {}, wanted a tensor of strings", value->value.describe());
  return std::span(static_cast<std::string*>(const_cast<void*>(tensor->data())), static_cast<size_t>(tensor->count()));
}

Result<std::string*> element(const OrtValue* value, size_t index) {
  TRY_ASSIGN(strings, strings_in(value));
  if (index >= strings.size()) return invalid("element {} of a tensor with {} strings", index, strings.size());
  return &strings[index];
}

size_t length_of(std::span<const std::string> strings) {
  size_t length = 0;
  for (const std::string& s : strings) length += s.size();
  return length;
}

Status fill(OrtValue* value, const char* const* texts, size_t count) {
  TRY(not_null({{"value", value}, {"s", texts}}));
  TRY_ASSIGN(strings, strings_in(value));
  if (count != strings.size()) return invalid("{} strings for a tensor with {}", count, strings.size());
  for (size_t i = 0; i < count; ++i) TRY(not_null({{"a string of s", texts[i]}}));
  for (size_t i = 0; i < count; ++i) strings[i] = texts[i];
  return {};
}

Status data_length(const OrtValue* value, size_t* out) {
  TRY(not_null({{"value", value}, {"len", out}}));
  TRY_ASSIGN(strings, strings_in(value));
  *out = length_of(strings);
  return {};
}

Status content(const OrtValue* value, void* text, size_t text_size, size_t* offsets, size_t offset_count) {
  TRY(not_null({{"value", value}}));
  TRY_ASSIGN(strings, strings_in(value));
  if (offset_count != strings.size())
    return error(Code::fail, "room for {} offsets, the tensor has {} strings", offset_count, strings.size());
  if (offset_count) TRY(not_null({{"offsets", offsets}}));
  const size_t wanted = length_of(strings);
  if (text_size < wanted) return error(Code::fail, "room for {} bytes, the strings have {}", text_size, wanted);
  if (wanted) TRY(not_null({{"s", text}}));
  size_t at = 0;
  for (size_t i = 0; i < strings.size(); ++i) {
    offsets[i] = at;
    if (!strings[i].empty()) std::memcpy(static_cast<char*>(text) + at, strings[i].data(), strings[i].size());
    at += strings[i].size();
  }
  return {};
}

Status element_length(const OrtValue* value, size_t index, size_t* out) {
  TRY(not_null({{"value", value}, {"out", out}}));
  TRY_ASSIGN(string, element(value, index));
  *out = string->size();
  return {};
}

Status get_element(const OrtValue* value, size_t size, size_t index, void* out) {
  TRY(not_null({{"value", value}}));
  TRY_ASSIGN(string, element(value, index));
  if (size < string->size()) return error(Code::fail, "room for {} bytes, the string has {}", size, string->size());
  if (string->empty()) return {};
  TRY(not_null({{"s", out}}));
  std::memcpy(out, string->data(), string->size());
  return {};
}

Status set_element(OrtValue* value, const char* text, size_t index) {
  TRY(not_null({{"value", value}, {"s", text}}));
  TRY_ASSIGN(string, element(value, index));
  *string = text;
  return {};
}

Status resize_element(OrtValue* value, size_t index, size_t length, char** out) {
  TRY(not_null({{"value", value}, {"buffer", out}}));
  TRY_ASSIGN(string, element(value, index));
  if (length > string->max_size()) return invalid("a string of {} bytes is too long", length);
  string->resize(length);
  *out = string->data();
  return {};
}

}  // namespace

void fill_string_tensor(OrtApi& api) {
  api.FillStringTensor = slot<fill>;
  api.GetStringTensorDataLength = slot<data_length>;
  api.GetStringTensorContent = slot<content>;
  api.GetStringTensorElementLength = slot<element_length>;
  api.GetStringTensorElement = slot<get_element>;
  api.FillStringTensorElement = slot<set_element>;
  api.GetResizedStringTensorElementBuffer = slot<resize_element>;
}

}  // namespace tessera::capi
