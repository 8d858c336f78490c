#include "capi/kernel_info.h"

#include <cstring>

#include "capi/allocator.h"
#include "capi/guard.h"
#include "capi/key_values.h"
#include "capi/topics.h"

const OrtOpAttr* OrtKernelInfo::find(std::string_view name) const {
  for (const OrtOpAttr& a : attributes)
    if (a.attribute.name == name) return &a;
  return nullptr;
}

namespace tessera::capi {

Result<const OrtValue*> ConstantInput::value() {
  std::lock_guard lock(mutex_);
  if (value_.value.empty()) {
    TRY_ASSIGN(tensor, weight_.tensor());
    value_.value = std::move(tensor);
  }
  return static_cast<const OrtValue*>(&value_);
}

namespace {

KernelArgument argument_of(const Scope* scope, ir::ValueId id) {
  KernelArgument out;
  if (!scope || id == ir::kNone) return out;
  const ir::ValueInfo& v = scope->graph.value(id);
  out.name = v.name;
  out.type = type_info_of(v.fact);
  if (const Weight* w = scope->constant(id)) out.constant = std::make_shared<ConstantInput>(*w);
  return out;
}

}  // namespace

std::unique_ptr<OrtKernelInfo> kernel_info_of(std::shared_ptr<const CustomSession> session, const Scope* scope,
                                              const ir::Node& node, int since) {
  auto info = std::make_unique<OrtKernelInfo>();
  info->session = std::move(session);
  info->node = node.name;
  info->domain = node.domain;
  info->op_type = node.op_type;
  info->since = since;
  for (const ir::Attribute& a : node.attributes) info->attributes.push_back({a});
  for (const ir::ValueId id : node.inputs) info->inputs.push_back(argument_of(scope, id));
  for (const ir::ValueId id : node.outputs) info->outputs.push_back(argument_of(scope, id));
  for (KernelArgument& o : info->outputs) o.constant.reset();
  return info;
}

namespace {

Result<const ir::Attribute*> attribute(const OrtKernelInfo* info, const char* name) {
  TRY(not_null({{"info", info}, {"name", name}}));
  if (const OrtOpAttr* a = info->find(name)) return &a->attribute;
  return error(Code::fail, "node {} ({}) has no attribute {}", quote(info->node), info->op_type, quote(name));
}

template <class T>
Status get_one(const OrtKernelInfo* info, const char* name, T* out) {
  TRY_ASSIGN(a, attribute(info, name));
  TRY(not_null({{"out", out}}));
  TRY_ASSIGN(value, value_of<T>(*a));
  *out = *value;
  return {};
}

// *size is the room, in elements, and becomes what is needed; a null `out` only asks.
template <class T>
Status get_list(const OrtKernelInfo* info, const char* name, T* out, size_t* size) {
  TRY_ASSIGN(a, attribute(info, name));
  TRY(not_null({{"size", size}}));
  TRY_ASSIGN(list, value_of<std::vector<T>>(*a));
  const size_t room = *size;
  *size = list->size();
  if (!out) return {};
  if (room < list->size())
    return invalid("attribute {} has {} elements, room for {} was given", quote(name), list->size(), room);
  std::copy(list->begin(), list->end(), out);
  return {};
}

Status get_text(const OrtKernelInfo* info, const char* name, char* out, size_t* size) {
  TRY_ASSIGN(a, attribute(info, name));
  TRY(not_null({{"size", size}}));
  TRY_ASSIGN(text, value_of<std::string>(*a));
  return copy_text(*text, out, size);
}

// A list and its strings, each an allocation of the client's allocator.
Status get_texts(const OrtKernelInfo* info, const char* name, OrtAllocator* allocator, char*** out, size_t* size) {
  TRY_ASSIGN(a, attribute(info, name));
  TRY(not_null({{"allocator", allocator}, {"out", out}, {"size", size}}));
  TRY_ASSIGN(texts, value_of<std::vector<std::string>>(*a));
  *size = texts->size();
  *out = nullptr;
  if (texts->empty()) return {};
  TRY_ASSIGN(memory, allocate_with(allocator, texts->size() * sizeof(char*)));
  char** list = static_cast<char**>(memory);
  for (size_t i = 0; i < texts->size(); ++i) {
    Status status = give_text(allocator, (*texts)[i], &list[i]);
    if (status.ok()) continue;
    while (i > 0) allocator->Free(allocator, list[--i]);
    allocator->Free(allocator, list);
    return status;
  }
  *out = list;
  return {};
}

Status get_tensor(const OrtKernelInfo* info, const char* name, OrtAllocator* allocator, OrtValue** out) {
  TRY_ASSIGN(a, attribute(info, name));
  TRY(not_null({{"allocator", allocator}, {"out", out}}));
  TRY_ASSIGN(tensor, tensor_of(*a));
  *out = new OrtValue{std::move(tensor)};
  return {};
}

using Arguments = std::vector<KernelArgument> OrtKernelInfo::*;

template <Arguments list>
Status count(const OrtKernelInfo* info, size_t* out) {
  TRY(not_null({{"info", info}, {"out", out}}));
  *out = (info->*list).size();
  return {};
}

template <Arguments list>
Result<const KernelArgument*> argument(const OrtKernelInfo* info, size_t index) {
  TRY(not_null({{"info", info}}));
  const auto& all = info->*list;
  if (index >= all.size()) return invalid("argument {} of a node that has {}", index, all.size());
  return &all[index];
}

template <Arguments list>
Status name(const OrtKernelInfo* info, size_t index, char* out, size_t* size) {
  TRY_ASSIGN(a, argument<list>(info, index));
  TRY(not_null({{"size", size}}));
  return copy_text(a->name, out, size);
}

template <Arguments list>
Status type(const OrtKernelInfo* info, size_t index, OrtTypeInfo** out) {
  TRY_ASSIGN(a, argument<list>(info, index));
  TRY(not_null({{"type_info", out}}));
  if (a->type.kind == ONNX_TYPE_UNKNOWN) return error(Code::fail, "the type of argument {} is not known", index);
  *out = new OrtTypeInfo(a->type);
  return {};
}

Status constant_input(const OrtKernelInfo* info, size_t index, int* is_constant, const OrtValue** out) {
  TRY_ASSIGN(a, argument<&OrtKernelInfo::inputs>(info, index));
  TRY(not_null({{"is_constant", is_constant}, {"out", out}}));
  *is_constant = a->constant != nullptr;
  *out = nullptr;
  if (!a->constant) return {};
  TRY_ASSIGN(value, a->constant->value());
  *out = value;
  return {};
}

template <std::string OrtKernelInfo::*text>
Status get_member(const OrtKernelInfo* info, char* out, size_t* size) {
  TRY(not_null({{"info", info}, {"size", size}}));
  return copy_text(info->*text, out, size);
}

Status since_version(const OrtKernelInfo* info, int* out) {
  TRY(not_null({{"info", info}, {"since_version", out}}));
  *out = info->since;
  return {};
}

Status logger(const OrtKernelInfo* info, const OrtLogger** out) {
  TRY(not_null({{"info", info}, {"logger", out}}));
  *out = &info->session->logger;
  return {};
}

Status allocator(const OrtKernelInfo* info, OrtMemType, OrtAllocator** out) {
  TRY(not_null({{"info", info}, {"out", out}}));
  *out = default_allocator();
  return {};
}

Status config_entries(const OrtKernelInfo* info, OrtKeyValuePairs** out) {
  TRY(not_null({{"info", info}, {"out", out}}));
  auto pairs = std::make_unique<OrtKeyValuePairs>();
  pairs->entries = info->session->config;
  pairs->refresh();
  *out = pairs.release();
  return {};
}

Status copy(const OrtKernelInfo* info, OrtKernelInfo** out) {
  TRY(not_null({{"info", info}, {"info_copy", out}}));
  *out = new OrtKernelInfo(*info);
  return {};
}

void release(OrtKernelInfo* info) { delete info; }

}  // namespace

void fill_kernel_info(OrtApi& api) {
  constexpr Arguments kInputs = &OrtKernelInfo::inputs, kOutputs = &OrtKernelInfo::outputs;
  api.KernelInfoGetAttribute_float = slot<get_one<float>>;
  api.KernelInfoGetAttribute_int64 = slot<get_one<int64_t>>;
  api.KernelInfoGetAttribute_string = slot<get_text>;
  api.KernelInfoGetAttribute_tensor = slot<get_tensor>;
  api.KernelInfoGetAttributeArray_float = slot<get_list<float>>;
  api.KernelInfoGetAttributeArray_int64 = slot<get_list<int64_t>>;
  api.KernelInfoGetAttributeArray_string = slot<get_texts>;
  api.KernelInfo_GetInputCount = slot<count<kInputs>>;
  api.KernelInfo_GetOutputCount = slot<count<kOutputs>>;
  api.KernelInfo_GetInputName = slot<name<kInputs>>;
  api.KernelInfo_GetOutputName = slot<name<kOutputs>>;
  api.KernelInfo_GetInputTypeInfo = slot<type<kInputs>>;
  api.KernelInfo_GetOutputTypeInfo = slot<type<kOutputs>>;
  api.KernelInfoGetConstantInput_tensor = slot<constant_input>;
  api.KernelInfo_GetNodeName = slot<get_member<&OrtKernelInfo::node>>;
  api.KernelInfo_GetOperatorDomain = slot<get_member<&OrtKernelInfo::domain>>;
  api.KernelInfo_GetOperatorType = slot<get_member<&OrtKernelInfo::op_type>>;
  api.KernelInfo_GetOperatorSinceVersion = slot<since_version>;
  api.KernelInfo_GetLogger = slot<logger>;
  api.KernelInfoGetAllocator = slot<allocator>;
  api.KernelInfo_GetConfigEntries = slot<config_entries>;
  api.CopyKernelInfo = slot<copy>;
  api.ReleaseKernelInfo = release;
}

}  // namespace tessera::capi
