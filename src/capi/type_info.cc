#include "capi/type_info.h"

#include "base/checked.h"
#include "capi/guard.h"
#include "capi/topics.h"
#include "capi/value.h"

namespace tessera::capi {
namespace {

// The name of a dimension that is one symbol of the model; nothing for sums, products and symbols we made up.
std::string symbol_of(const Dim& d) {
  if (d.known() || d.expr()->terms.size() != 1) return {};
  const DimTerm& term = d.expr()->terms[0];
  if (term.coefficient != 1 || term.atoms.size() != 1 || term.atoms[0]->kind != DimAtom::Kind::symbol) return {};
  const std::string& name = term.atoms[0]->name;
  return name.starts_with("unknown_") ? std::string() : name;
}

OrtTensorTypeAndShapeInfo tensor_info_of(const Fact& fact) {
  OrtTensorTypeAndShapeInfo info;
  info.type = onnx_of_dtype(fact.dtype);
  info.has_shape = fact.shape.has_value();
  if (!fact.shape) return info;
  for (const Dim& d : *fact.shape) {
    info.dims.push_back(d.known() ? d.value() : -1);
    info.symbols.push_back(symbol_of(d));
  }
  return info;
}

OrtTensorTypeAndShapeInfo tensor_info_of(DType dtype, const Shape& shape) {
  OrtTensorTypeAndShapeInfo info;
  info.type = onnx_of_dtype(dtype);
  info.dims.assign(shape.dims().begin(), shape.dims().end());
  info.symbols.resize(info.dims.size());
  return info;
}

OrtTypeInfo unknown_shape(DType dtype) {
  OrtTypeInfo info;
  info.kind = ONNX_TYPE_TENSOR;
  info.tensor.type = onnx_of_dtype(dtype);
  info.tensor.has_shape = false;
  return info;
}

std::shared_ptr<const OrtTypeInfo> share(OrtTypeInfo info) {
  return std::make_shared<const OrtTypeInfo>(std::move(info));
}

// Of any entry: a map's values have one type.
OrtMapTypeInfo map_info_of(const Map& map) {
  return std::visit(
      [](const auto& entries) -> OrtMapTypeInfo {
        using Key = typename std::remove_cvref_t<decltype(entries)>::key_type;
        OrtTypeInfo value;
        if (!entries.empty()) value = type_info_of(entries.begin()->second);
        return {onnx_of_dtype(dtype_of<Key>), share(std::move(value))};
      },
      map.entries);
}

}  // namespace

OrtTypeInfo type_info_of(const Fact& fact) {
  OrtTypeInfo info;
  info.denotation = fact.denotation;
  const auto element = [&] { return fact.element ? share(type_info_of(*fact.element)) : share({}); };
  switch (fact.kind) {
    case Kind::tensor:
      info.kind = ONNX_TYPE_TENSOR;
      info.tensor = tensor_info_of(fact);
      break;
    case Kind::sparse_tensor:
      info.kind = ONNX_TYPE_SPARSETENSOR;
      info.tensor = tensor_info_of(fact);
      break;
    case Kind::sequence:
      info.kind = ONNX_TYPE_SEQUENCE;
      info.sequence.element = element();
      break;
    case Kind::optional:
      info.kind = ONNX_TYPE_OPTIONAL;
      info.optional.contained = element();
      break;
    case Kind::map:
      info.kind = ONNX_TYPE_MAP;
      info.map = {onnx_of_dtype(fact.key), element()};
      break;
    case Kind::opaque: info.kind = ONNX_TYPE_OPAQUE; break;
    case Kind::unknown: break;
  }
  return info;
}

OrtTypeInfo type_info_of(const Value& value) {
  OrtTypeInfo info;
  if (const Tensor* t = value.tensor()) {
    info.kind = ONNX_TYPE_TENSOR;
    info.tensor = tensor_info_of(t->dtype(), t->shape());
  } else if (const SparseTensor* s = value.sparse()) {
    info.kind = ONNX_TYPE_SPARSETENSOR;
    info.tensor = tensor_info_of(s->values.dtype(), s->shape);
  } else if (const Sequence* s = value.sequence()) {
    info.kind = ONNX_TYPE_SEQUENCE;
    const bool of_maps = !s->items.empty() && !s->items[0].tensor();
    info.sequence.element = share(of_maps ? type_info_of(s->items[0]) : unknown_shape(s->element));
  } else if (const Map* m = value.map()) {
    info.kind = ONNX_TYPE_MAP;
    info.map = map_info_of(*m);
  } else if (value.is_none()) {
    info.kind = ONNX_TYPE_OPTIONAL;
    info.optional.contained = share({});
  }
  return info;
}

namespace {

Status get_type_info(const OrtValue* value, OrtTypeInfo** out) {
  TRY(not_null({{"value", value}, {"out", out}}));
  *out = new OrtTypeInfo(type_info_of(value->value));
  return {};
}

Status get_value_type(const OrtValue* value, ONNXType* out) {
  TRY(not_null({{"value", value}, {"out", out}}));
  *out = type_info_of(value->value).kind;
  return {};
}

Status get_tensor_type_and_shape(const OrtValue* value, OrtTensorTypeAndShapeInfo** out) {
  TRY(not_null({{"value", value}, {"out", out}}));
  OrtTypeInfo info = type_info_of(value->value);
  if (info.kind != ONNX_TYPE_TENSOR && info.kind != ONNX_TYPE_SPARSETENSOR)
    return error(Code::fail, "the value is {}, wanted a tensor", value->value.describe());
  *out = new OrtTensorTypeAndShapeInfo(std::move(info.tensor));
  return {};
}

void release_type_info(OrtTypeInfo* info) { delete info; }
void release_tensor_info(OrtTensorTypeAndShapeInfo* info) { delete info; }
// Clients only ever see these two inside an OrtTypeInfo, which owns them.
void release_map_info(OrtMapTypeInfo*) {}
void release_sequence_info(OrtSequenceTypeInfo*) {}

Status onnx_type(const OrtTypeInfo* info, ONNXType* out) {
  TRY(not_null({{"type_info", info}, {"out", out}}));
  *out = info->kind;
  return {};
}

Status denotation(const OrtTypeInfo* info, const char** const out, size_t* length) {
  TRY(not_null({{"type_info", info}, {"denotation", out}, {"len", length}}));
  *out = info->denotation.c_str();
  *length = info->denotation.size();
  return {};
}

Status cast_to_tensor(const OrtTypeInfo* info, const OrtTensorTypeAndShapeInfo** out) {
  TRY(not_null({{"type_info", info}, {"out", out}}));
  const bool fits = info->kind == ONNX_TYPE_TENSOR || info->kind == ONNX_TYPE_SPARSETENSOR;
  *out = fits ? &info->tensor : nullptr;
  return {};
}

// The part of `info` that goes with `kind`, or null.
template <auto Member, ONNXType kind, class T>
Status cast_to(const OrtTypeInfo* info, const T** out) {
  TRY(not_null({{"type_info", info}, {"out", out}}));
  *out = info->kind == kind ? &(info->*Member) : nullptr;
  return {};
}

// The type inside a container, as an object of the client's own.
template <auto Member, class T>
Status inner_type(const T* info, OrtTypeInfo** out) {
  TRY(not_null({{"the type", info}, {"out", out}}));
  *out = new OrtTypeInfo(*(info->*Member));
  return {};
}

Status map_key_type(const OrtMapTypeInfo* info, ONNXTensorElementDataType* out) {
  TRY(not_null({{"map_type_info", info}, {"out", out}}));
  *out = info->key;
  return {};
}

Status create_tensor_info(OrtTensorTypeAndShapeInfo** out) {
  TRY(not_null({{"out", out}}));
  *out = new OrtTensorTypeAndShapeInfo;
  return {};
}

Status set_element_type(OrtTensorTypeAndShapeInfo* info, ONNXTensorElementDataType type) {
  TRY(not_null({{"info", info}}));
  info->type = type;
  return {};
}

Status set_dimensions(OrtTensorTypeAndShapeInfo* info, const int64_t* dims, size_t count) {
  TRY(not_null({{"info", info}}));
  if (count) TRY(not_null({{"dim_values", dims}}));
  info->dims.assign(dims, dims + count);
  info->symbols.resize(count);
  info->has_shape = true;
  return {};
}

Status set_symbols(OrtTensorTypeAndShapeInfo* info, const char* names[], size_t count) {
  TRY(not_null({{"info", info}}));
  if (count) TRY(not_null({{"dim_params", names}}));
  info->symbols.assign(info->dims.size(), {});
  for (size_t i = 0; i < std::min(count, info->symbols.size()); ++i)
    if (names[i]) info->symbols[i] = names[i];
  return {};
}

Status element_type(const OrtTensorTypeAndShapeInfo* info, ONNXTensorElementDataType* out) {
  TRY(not_null({{"info", info}, {"out", out}}));
  *out = info->type;
  return {};
}

Status rank(const OrtTensorTypeAndShapeInfo* info, size_t* out) {
  TRY(not_null({{"info", info}, {"out", out}}));
  *out = info->dims.size();
  return {};
}

// As many as there is room for.
Status dimensions(const OrtTensorTypeAndShapeInfo* info, int64_t* out, size_t room) {
  TRY(not_null({{"info", info}}));
  if (room) TRY(not_null({{"dim_values", out}}));
  std::copy_n(info->dims.begin(), std::min(room, info->dims.size()), out);
  return {};
}

Status symbols(const OrtTensorTypeAndShapeInfo* info, const char* out[], size_t room) {
  TRY(not_null({{"info", info}}));
  if (room) TRY(not_null({{"dim_params", out}}));
  for (size_t i = 0; i < std::min(room, info->symbols.size()); ++i) out[i] = info->symbols[i].c_str();
  return {};
}

Status element_count(const OrtTensorTypeAndShapeInfo* info, size_t* out) {
  TRY(not_null({{"info", info}, {"out", out}}));
  int64_t count = info->has_shape ? 1 : 0;
  for (const int64_t d : info->dims)
    if (d < 0 || !checked_mul(count, d, &count))
      return error(Code::fail, "shape {} has no number of elements", std::span<const int64_t>(info->dims));
  *out = static_cast<size_t>(count);
  return {};
}

bool has_shape(const OrtTensorTypeAndShapeInfo* info) noexcept { return info && info->has_shape; }

}  // namespace

void fill_type_info(OrtApi& api) {
  api.GetTypeInfo = slot<get_type_info>;
  api.GetValueType = slot<get_value_type>;
  api.GetTensorTypeAndShape = slot<get_tensor_type_and_shape>;
  api.ReleaseTypeInfo = release_type_info;
  api.ReleaseTensorTypeAndShapeInfo = release_tensor_info;
  api.ReleaseMapTypeInfo = release_map_info;
  api.ReleaseSequenceTypeInfo = release_sequence_info;
  api.GetOnnxTypeFromTypeInfo = slot<onnx_type>;
  api.GetDenotationFromTypeInfo = slot<denotation>;
  api.CastTypeInfoToTensorInfo = slot<cast_to_tensor>;
  api.CastTypeInfoToMapTypeInfo = slot<cast_to<&OrtTypeInfo::map, ONNX_TYPE_MAP, OrtMapTypeInfo>>;
  api.CastTypeInfoToSequenceTypeInfo = slot<cast_to<&OrtTypeInfo::sequence, ONNX_TYPE_SEQUENCE, OrtSequenceTypeInfo>>;
  api.CastTypeInfoToOptionalTypeInfo = slot<cast_to<&OrtTypeInfo::optional, ONNX_TYPE_OPTIONAL, OrtOptionalTypeInfo>>;
  api.GetMapKeyType = slot<map_key_type>;
  api.GetMapValueType = slot<inner_type<&OrtMapTypeInfo::value, OrtMapTypeInfo>>;
  api.GetSequenceElementType = slot<inner_type<&OrtSequenceTypeInfo::element, OrtSequenceTypeInfo>>;
  api.GetOptionalContainedTypeInfo = slot<inner_type<&OrtOptionalTypeInfo::contained, OrtOptionalTypeInfo>>;
  api.CreateTensorTypeAndShapeInfo = slot<create_tensor_info>;
  api.SetTensorElementType = slot<set_element_type>;
  api.SetDimensions = slot<set_dimensions>;
  api.SetSymbolicDimensions = slot<set_symbols>;
  api.GetTensorElementType = slot<element_type>;
  api.GetDimensionsCount = slot<rank>;
  api.GetDimensions = slot<dimensions>;
  api.GetSymbolicDimensions = slot<symbols>;
  api.GetTensorShapeElementCount = slot<element_count>;
  api.TensorTypeAndShape_HasShape = has_shape;
}

}  // namespace tessera::capi
