// Sequences and maps.
#include "capi/guard.h"
#include "capi/topics.h"
#include "capi/value.h"

namespace tessera::capi {
namespace {

// The entries of a map as two tensors: the keys, and the values where those are single elements.
template <class K>
Result<Tensor> keys_of(const std::map<K, Value>& entries) {
  TRY_ASSIGN(out, Tensor::allocate(dtype_of<K>, Shape{static_cast<int64_t>(entries.size())}));
  K* at = static_cast<K*>(out.mutable_data());
  for (const auto& [key, value] : entries) *at++ = key;
  return std::move(out);
}

template <class K>
Result<Tensor> values_of(const std::map<K, Value>& entries) {
  DType dtype = DType::f32;  // of a map without entries, nobody knows
  if (!entries.empty())
    if (const Tensor* first = entries.begin()->second.tensor()) dtype = first->dtype();
  if (is_sub_byte(dtype)) return not_implemented("maps to {} are not supported", name_of(dtype));
  TRY_ASSIGN(out, Tensor::allocate(dtype, Shape{static_cast<int64_t>(entries.size())}));
  const int64_t size = bits_of(dtype) / 8;
  int64_t at = 0;
  for (const auto& [key, value] : entries) {
    const Tensor* t = value.tensor();
    if (!t || t->dtype() != dtype || t->count() != 1)
      return not_implemented("a map to {} cannot be read as a tensor", value.describe());
    Tensor element(dtype, Shape{}, out.storage(), static_cast<uint64_t>(at++ * size));
    copy_elements(*t, element);
  }
  return std::move(out);
}

// Element `i` of a 1-D tensor, as a scalar with storage of its own.
Result<Tensor> scalar_at(const Tensor& t, int64_t i) {
  const auto offset = t.offset() + static_cast<uint64_t>(i * (bits_of(t.dtype()) / 8));
  return copy_of(Tensor(t.dtype(), Shape{}, t.storage(), offset));
}

template <class K>
Result<Value> make_map(const Tensor& keys, const Tensor& values) {
  std::map<K, Value> entries;
  for (int64_t i = 0; i < keys.count(); ++i) {
    TRY_ASSIGN(value, scalar_at(values, i));
    entries[keys.values<K>()[static_cast<size_t>(i)]] = std::move(value);
  }
  auto map = std::make_shared<Map>();
  map->entries = std::move(entries);
  return Value(std::move(map));
}

Result<Value> create_map(std::span<const OrtValue* const> in) {
  if (in.size() != 2) return error(Code::fail, "a map is made of 2 values, keys and values; got {}", in.size());
  TRY_ASSIGN(keys, tensor_in(in[0]));
  TRY_ASSIGN(values, tensor_in(in[1]));
  if (keys->shape().rank() > 1 || values->shape().rank() > 1 || keys->count() != values->count())
    return error(Code::fail, "keys are {} and values {}, wanted two lists of one length", in[0]->value.describe(),
                 in[1]->value.describe());
  if (is_sub_byte(values->dtype())) return not_implemented("maps to {} are not supported", name_of(values->dtype()));
  if (keys->dtype() == DType::i64) return make_map<int64_t>(*keys, *values);
  if (keys->dtype() == DType::string) return make_map<std::string>(*keys, *values);
  return error(Code::fail, "keys are {}, wanted int64 or string", name_of(keys->dtype()));
}

// Elements are shared with the values they were made of.
Result<Value> create_sequence(std::span<const OrtValue* const> in) {
  auto sequence = std::make_shared<Sequence>();
  for (const OrtValue* v : in) {
    const Value& value = v->value;
    const Tensor* t = value.tensor();
    if (!t && !value.map()) return error(Code::fail, "a sequence of {} is not supported", value.describe());
    const Value& first = in[0]->value;
    if (!t != !first.tensor() || (t && t->dtype() != first.tensor()->dtype()))
      return error(Code::fail, "a sequence of {} cannot also hold {}", first.describe(), value.describe());
    if (t) sequence->element = t->dtype();
    sequence->items.push_back(value);
  }
  return Value(std::move(sequence));
}

Status create_value(const OrtValue* const* in, size_t count, ONNXType type, OrtValue** out) {
  TRY(not_null({{"in", in}, {"out", out}}));
  if (count == 0) return error(Code::fail, "no values were given, wanted at least 1");
  for (size_t i = 0; i < count; ++i) TRY(not_null({{"a value of in", in[i]}}));
  if (type != ONNX_TYPE_SEQUENCE && type != ONNX_TYPE_MAP)
    return error(Code::fail, "type {} was asked for, wanted a sequence or a map", static_cast<int>(type));
  TRY_ASSIGN(value, type == ONNX_TYPE_MAP ? create_map({in, count}) : create_sequence({in, count}));
  *out = new OrtValue{std::move(value)};
  return {};
}

Status value_count(const OrtValue* value, size_t* out) {
  TRY(not_null({{"value", value}, {"out", out}}));
  if (const Sequence* s = value->value.sequence())
    *out = s->items.size();
  else if (value->value.map())
    *out = 2;
  else
    return error(Code::fail, "the value is {}, wanted a sequence or a map", value->value.describe());
  return {};
}

Result<Value> part(const Value& value, int index) {
  if (const Sequence* s = value.sequence()) {
    if (index < 0 || static_cast<size_t>(index) >= s->items.size())
      return error(Code::fail, "element {} of a sequence of {}", index, s->items.size());
    const Value& item = s->items[static_cast<size_t>(index)];
    if (!item.tensor()) return item;
    TRY_ASSIGN(copy, copy_of(*item.tensor()));
    return Value(std::move(copy));
  }
  const Map* map = value.map();
  if (!map) return error(Code::fail, "the value is {}, wanted a sequence or a map", value.describe());
  if (index != 0 && index != 1) return error(Code::fail, "part {} of a map, wanted 0 (keys) or 1 (values)", index);
  TRY_ASSIGN(tensor, std::visit([&](const auto& e) { return index == 0 ? keys_of(e) : values_of(e); }, map->entries));
  return Value(std::move(tensor));
}

Status get_value(const OrtValue* value, int index, OrtAllocator* allocator, OrtValue** out) {
  TRY(not_null({{"value", value}, {"allocator", allocator}, {"out", out}}));
  TRY_ASSIGN(result, part(value->value, index));
  *out = new OrtValue{std::move(result)};
  return {};
}

}  // namespace

void fill_container(OrtApi& api) {
  api.CreateValue = slot<create_value>;
  api.GetValueCount = slot<value_count>;
  api.GetValue = slot<get_value>;
}

}  // namespace tessera::capi
