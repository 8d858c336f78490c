#include "formats/ort/tensors.h"

#include "core/convert.h"
#include "formats/ort/schema.h"

namespace tessera::ort {
namespace {

using flat::Table;

Result<Shape> read_dims(const flat::Vector<int64_t>& list) {
  if (list.size() > kMaxRank) return invalid_graph("a tensor has more than {} dimensions", kMaxRank);
  int64_t dims[kMaxRank];
  for (size_t i = 0; i < list.size(); ++i) dims[i] = list[i];
  Result<Shape> shape = Shape::checked({dims, list.size()});
  if (!shape.ok()) return invalid_graph("{}", shape.status().message());
  return shape;
}

Status attach_strings(const Table& t, Weight& w) {
  const auto list = t.list<std::string_view>(tensor::string_data);
  if (static_cast<int64_t>(list.size()) != w.shape.count())
    return invalid_graph("string{} wants {} elements, its string_data has {}", w.shape.dims(), w.shape.count(),
                         list.size());
  TRY_ASSIGN(tensor, Tensor::allocate(DType::string, w.shape));
  auto* out = static_cast<std::string*>(tensor.mutable_data());
  for (const std::string_view s : list) *out++ = s;
  w.decoded = std::move(tensor);
  return {};
}

Status attach_external(const Table& t, const Source& source, Weight& w) {
  const auto offset = t.number<int64_t>(tensor::external_data_offset, -1);
  const std::string location(t.text(tensor::external_data_location));
  if (offset < 0) return invalid_graph("{}{} has no data", name_of(w.dtype), w.shape.dims());
  const auto size = static_cast<uint64_t>(w.bytes());
  TRY_ASSIGN(range, source.external->range(location, static_cast<uint64_t>(offset), size));
  w.range = std::move(range);
  w.location = location;
  w.location_offset = static_cast<uint64_t>(offset);
  return {};
}

Status attach_data(const Table& t, const Source& source, Weight& w) {
  if (w.dtype == DType::string) return attach_strings(t, w);
  const auto raw = t.list<uint8_t>(tensor::raw_data);
  if (!t.has(tensor::raw_data) && w.bytes() != 0) return attach_external(t, source, w);
  if (static_cast<int64_t>(raw.size()) != w.bytes())
    return invalid_graph("{}{} wants {} bytes, its raw_data has {}", name_of(w.dtype), w.shape.dims(), w.bytes(),
                         raw.size());
  w.range = {source.bytes, raw.at(), raw.size()};
  return {};
}

// ONNX Runtime stores indices in the smallest type that holds them.
Status widen_indices(Weight& w) {
  if (!(kSignedInts - set_of(DType::i64)).has(w.dtype)) return {};
  TRY_ASSIGN(narrow, w.tensor());
  TRY_ASSIGN(wide, Tensor::allocate(DType::i64, w.shape));
  decode(w.dtype, narrow.data(), 0, narrow.count(), static_cast<int64_t*>(wide.mutable_data()));
  w = Weight::from(std::move(wide));
  return {};
}

Result<Dim> read_dim(const Table& d, DimPool& dims) {
  const Table v = d.table(dimension::value);
  const std::string_view denotation = d.text(dimension::denotation);
  switch (v.number<int8_t>(dimension_value::dim_type)) {
    case dimension_value::unknown: return dims.denoted(denotation, {}, dims.fresh());
    case dimension_value::number: {
      const auto n = v.number<int64_t>(dimension_value::dim_value);
      return n < 0 ? dims.fresh() : Dim(n);
    }
    case dimension_value::symbol: {
      const std::string_view name = v.text(dimension_value::dim_param);
      return dims.denoted(denotation, name, name.empty() ? dims.fresh() : dims.symbol(name));
    }
    default: return invalid_graph("a dimension is of a kind that the format does not know");
  }
}

Result<DType> read_element_type(const Table& t, int field, bool may_be_unknown) {
  const auto number = t.number<int32_t>(field);
  if (!is_known(number) && !(may_be_unknown && number == 0))
    return invalid_graph("element type {} is not one of ONNX's", number);
  return static_cast<DType>(number);
}

Result<Fact> read_tensor_type(const Table& t, Kind kind, DimPool& dims) {
  Fact out;
  out.kind = kind;
  TRY_ASSIGN(element, read_element_type(t, tensor_type::elem_type, true));
  out.dtype = element;
  const Table shape = t.table(tensor_type::shape);
  if (!shape) return out;
  const auto list = shape.list<Table>(shape::dim);
  if (list.size() > kMaxRank) return invalid_graph("a type has more than {} dimensions", kMaxRank);
  out.shape.emplace();
  for (const Table d : list) {
    TRY_ASSIGN(dim, read_dim(d, dims));
    out.shape->push_back(dim);
  }
  return out;
}

Result<Fact> read_element_of(const Table& t, Kind kind, DimPool& dims, int depth) {
  Fact out;
  out.kind = kind;
  if (kind == Kind::map) {
    TRY_ASSIGN(key, read_element_type(t, map_type::key_type, false));
    out.key = key;
  }
  const Table inner = t.table(kind == Kind::map ? static_cast<int>(map_type::value_type) : sequence_type::elem_type);
  if (!inner) return invalid_graph("a {} type has no element", kind == Kind::map ? "map" : "sequence");
  TRY_ASSIGN(element, read_type(inner, dims, depth + 1));
  out.element = std::make_shared<const Fact>(std::move(element));
  return out;
}

Result<Fact> read_value_of_type(const Table& t, DimPool& dims, int depth) {
  const Table value = t.table(type_info::value);
  if (!value) return invalid_graph("a type says nothing");
  switch (t.number<uint8_t>(type_info::value_type)) {
    case type_info::tensor: return read_tensor_type(value, Kind::tensor, dims);
    case type_info::sparse_tensor: return read_tensor_type(value, Kind::sparse_tensor, dims);
    case type_info::sequence: return read_element_of(value, Kind::sequence, dims, depth);
    case type_info::optional: return read_element_of(value, Kind::optional, dims, depth);
    case type_info::map: return read_element_of(value, Kind::map, dims, depth);
    default: return invalid_graph("a type is of a kind that the format does not know");
  }
}

}  // namespace

Result<Weight> read_tensor(const Table& table, const Source& source) {
  Weight out;
  const auto fill = [&]() -> Status {
    TRY_ASSIGN(element, read_element_type(table, tensor::data_type, false));
    out.dtype = element;
    TRY_ASSIGN(shape, read_dims(table.list<int64_t>(tensor::dims)));
    out.shape = std::move(shape);
    if (!bytes_for(out.dtype, out.shape.count()))
      return invalid_graph("{}{} has more bytes than 63 bits can count", name_of(out.dtype), out.shape.dims());
    return attach_data(table, source, out);
  };
  if (Status s = fill(); !s.ok()) return std::move(s).in(format("tensor {}", quote(table.text(tensor::name))));
  return out;
}

Result<SparseWeight> read_sparse_tensor(const Table& table, const Source& source) {
  const Table values = table.table(sparse::values), indices = table.table(sparse::indices);
  if (!values || !indices) return invalid_graph("a sparse tensor has no values or no indices");
  SparseWeight out;
  TRY_ASSIGN(v, read_tensor(values, source));
  TRY_ASSIGN(i, read_tensor(indices, source));
  TRY(widen_indices(i));
  TRY_ASSIGN(shape, read_dims(table.list<int64_t>(sparse::dims)));
  out.values = std::move(v);
  out.indices = std::move(i);
  out.shape = std::move(shape);
  out.limit += 4 * static_cast<int64_t>(source.bytes->size());
  return out;
}

Result<Fact> read_type(const Table& table, DimPool& dims, int depth) {
  if (depth > kMaxDepth) return error(Code::fail, "a type is nested more than {} deep", kMaxDepth);
  TRY_ASSIGN(fact, read_value_of_type(table, dims, depth));
  fact.denotation = table.text(type_info::denotation);
  return std::move(fact);
}

}  // namespace tessera::ort
