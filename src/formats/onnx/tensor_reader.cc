#include "formats/onnx/tensor_reader.h"

#include <bit>
#include <charconv>
#include <cstring>
#include <vector>

#include "core/convert.h"
#include "formats/onnx/fields.h"
#include "formats/onnx/wire.h"

namespace tessera::onnx {
namespace {

static_assert(std::endian::native == std::endian::little, "raw tensors are used in place");

// Repeated numbers of one field: the range itself when it is one packed run, decoded numbers otherwise.
struct Numbers {
  std::string_view packed;  // fixed-width types in one run
  std::vector<int64_t> varints;
  std::string fixed;  // fixed-width types in several runs
  bool seen = false;
};

struct Parts {
  std::vector<int64_t> dims;
  int64_t type = 0;
  bool segment = false, external = false, has_raw = false;
  std::string_view raw;
  Numbers floats, doubles, ints32, ints64, uints64;
  std::vector<std::string_view> strings;
  std::vector<std::pair<std::string, std::string>> external_data;
  std::string name;
};

void read_fixed(Fields& f, Numbers& n, size_t width) {
  std::string_view run;
  char one[8];
  if (f.packed()) {
    run = f.bytes();
  } else {
    const uint64_t bits = f.fixed(width);
    std::memcpy(one, &bits, width);
    run = {one, width};
  }
  if (!n.seen && f.packed()) {
    n.packed = run;
  } else {
    if (!n.packed.empty()) n.fixed.assign(n.packed);
    n.packed = {};
    n.fixed += run;
  }
  n.seen = true;
}

void read_varints(Fields& f, Numbers& n) {
  n.seen = true;
  f.integers(n.varints);
}

Result<std::pair<std::string, std::string>> read_entry(std::string_view message) {
  std::pair<std::string, std::string> out;
  for (Fields f(message); f.next();) switch (f.tag()) {
      case entry::key: out.first = f.text(); break;
      case entry::value: out.second = f.text(); break;
      default: f.skip();
    }
  return out;
}

Result<Parts> read_parts(std::string_view message) {
  Parts p;
  for (Fields f(message); f.next();) switch (f.tag()) {
      case tensor::dims:
        f.integers(p.dims);
        if (p.dims.size() > kMaxRank) return invalid_graph("a tensor has more than {} dimensions", kMaxRank);
        break;
      case tensor::data_type: p.type = static_cast<int32_t>(f.integer()); break;
      case tensor::segment:
        p.segment = true;
        f.skip();
        break;
      case tensor::float_data: read_fixed(f, p.floats, 4); break;
      case tensor::double_data: read_fixed(f, p.doubles, 8); break;
      case tensor::int32_data: read_varints(f, p.ints32); break;
      case tensor::int64_data: read_varints(f, p.ints64); break;
      case tensor::uint64_data: read_varints(f, p.uints64); break;
      case tensor::string_data: p.strings.push_back(f.bytes()); break;
      case tensor::name: p.name = f.text(); break;
      case tensor::raw_data:
        p.raw = f.bytes();
        p.has_raw = true;
        break;
      case tensor::external_data: {
        TRY_ASSIGN(e, read_entry(f.bytes()));
        p.external_data.push_back(std::move(e));
        break;
      }
      case tensor::data_location: p.external = f.integer() == 1; break;
      default: f.skip();
    }
  return p;
}

Result<uint64_t> parse_number(std::string_view key, std::string_view text) {
  uint64_t v = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (ec != std::errc() || end != text.data() + text.size())
    return error(Code::fail, "external data has {} {}, wanted a number of bytes", key, quote(text));
  return v;
}

Status attach_external(const Parts& p, const Source& source, Weight& w) {
  std::optional<std::string> location;
  std::optional<uint64_t> offset, length;
  for (const auto& [key, value] : p.external_data) {
    if (key == "location") {
      if (location) return error(Code::fail, "external data names two locations");
      location = value;
    } else if (key == "offset" || key == "length") {
      TRY_ASSIGN(v, parse_number(key, value));
      (key == "offset" ? offset : length) = v;
    } else if (key == "checksum") {
      w.checksum = value;
    }
  }
  if (!location) return error(Code::fail, "external data has no location");
  if (w.dtype == DType::string) return error(Code::fail, "string tensors cannot be external");
  if (!source.external) return error(Code::fail, "external data {} cannot be read here", quote(*location));
  const auto size = static_cast<uint64_t>(w.bytes());
  if (length && *length != size)
    return error(Code::fail, "external data {} has length {}, but {}{} takes {} bytes", quote(*location), *length,
                 name_of(w.dtype), w.shape.dims(), size);
  TRY_ASSIGN(range, source.external->range(*location, offset.value_or(0), size));
  w.range = std::move(range);
  w.location = *location;
  w.location_offset = offset.value_or(0);
  return {};
}

// The client's tensor, in place of what the model says.
Status attach_given(const Tensor& given, Weight& w) {
  if (given.dtype() != w.dtype || given.shape() != w.shape)
    return invalid("the tensor given for it is {}{}, wanted {}{}", name_of(given.dtype()), given.shape().dims(),
                   name_of(w.dtype), w.shape.dims());
  w = Weight::from(given);
  return {};
}

Status wrong_count(const Weight& w, uint64_t got, std::string_view what) {
  return invalid_graph("{}{} wants {} elements, its {} gives {}", name_of(w.dtype), w.shape.dims(), w.shape.count(),
                       what, got);
}

Status attach_fixed(const Numbers& n, size_t width, int per_element, const Source& source, Weight& w) {
  const uint64_t wanted = static_cast<uint64_t>(w.shape.count()) * static_cast<uint64_t>(per_element) * width;
  const uint64_t got = n.packed.size() + n.fixed.size();
  if (got != wanted) return wrong_count(w, got / width / static_cast<uint64_t>(per_element), "data field");
  if (!n.packed.empty()) {
    w.range = source.range_of(n.packed);
    return {};
  }
  TRY_ASSIGN(t, Tensor::allocate(w.dtype, w.shape));
  if (got) std::memcpy(t.mutable_data(), n.fixed.data(), got);
  w.decoded = std::move(t);
  return {};
}

// int32_data carries bits for types of up to 16 bits, packed bytes for sub-byte types; numbers for the rest.
Status attach_varints(const Numbers& n, Weight& w) {
  const int bits = bits_of(w.dtype);
  const auto count = static_cast<uint64_t>(w.shape.count());
  const uint64_t per_entry = bits < 8 && bits != 6 ? 8 / static_cast<uint64_t>(bits) : 1;
  const uint64_t entries = bits == 6 ? static_cast<uint64_t>(w.bytes()) : (count + per_entry - 1) / per_entry;
  if (n.varints.size() != entries) return wrong_count(w, n.varints.size() * per_entry, "data field");
  TRY_ASSIGN(t, Tensor::allocate(w.dtype, w.shape));
  const size_t width = std::max<size_t>(1, static_cast<size_t>(bits) / 8);
  auto* out = static_cast<char*>(t.mutable_data());
  for (size_t i = 0; i < n.varints.size(); ++i) std::memcpy(out + i * width, &n.varints[i], width);
  w.decoded = std::move(t);
  return {};
}

Status attach_strings(const Parts& p, Weight& w) {
  if (p.strings.size() != static_cast<size_t>(w.shape.count())) return wrong_count(w, p.strings.size(), "string_data");
  TRY_ASSIGN(t, Tensor::allocate(DType::string, w.shape));
  std::copy(p.strings.begin(), p.strings.end(), static_cast<std::string*>(t.mutable_data()));
  w.decoded = std::move(t);
  return {};
}

Status attach_data(const Parts& p, const Source& source, Weight& w) {
  const Numbers* const fields[] = {&p.floats, &p.doubles, &p.ints32, &p.ints64, &p.uints64};
  int filled = p.has_raw + !p.strings.empty();
  for (const Numbers* n : fields) filled += n->seen;
  if (filled > 1) return invalid_graph("a tensor has its data in {} fields at once", filled);
  if (p.has_raw) {
    if (w.dtype == DType::string) return invalid_graph("a string tensor has raw_data");
    if (p.raw.size() != static_cast<size_t>(w.bytes()))
      return invalid_graph("{}{} wants {} bytes, its raw_data has {}", name_of(w.dtype), w.shape.dims(), w.bytes(),
                           p.raw.size());
    w.range = source.range_of(p.raw);
    return {};
  }
  if (filled == 0 && w.shape.count() != 0)
    return invalid_graph("{}{} wants {} elements, but has no data", name_of(w.dtype), w.shape.dims(), w.shape.count());
  switch (w.dtype) {
    case DType::string: return attach_strings(p, w);
    case DType::f32:
      if (filled && !p.floats.seen) break;
      return attach_fixed(p.floats, 4, 1, source, w);
    case DType::c64:
      if (filled && !p.floats.seen) break;
      return attach_fixed(p.floats, 4, 2, source, w);
    case DType::f64:
      if (filled && !p.doubles.seen) break;
      return attach_fixed(p.doubles, 8, 1, source, w);
    case DType::c128:
      if (filled && !p.doubles.seen) break;
      return attach_fixed(p.doubles, 8, 2, source, w);
    case DType::i64:
      if (filled && !p.ints64.seen) break;
      return attach_varints(p.ints64, w);
    case DType::u64:
    case DType::u32:
      if (filled && !p.uints64.seen) break;
      return attach_varints(p.uints64, w);
    default:
      if (filled && !p.ints32.seen) break;
      return attach_varints(p.ints32, w);
  }
  return invalid_graph("a {} tensor has its data in the field of another type", name_of(w.dtype));
}

Result<Dim> read_dim(std::string_view message, DimPool& dims) {
  std::optional<Dim> out;
  for (Fields f(message); f.next();) switch (f.tag()) {
      case dimension::dim_value: {
        const int64_t v = f.integer();
        // Exporters write -1 (and some 0 with a parameter) for "unknown".
        out = v < 0 ? dims.fresh() : Dim(v);
        break;
      }
      case dimension::dim_param: {
        // Some exporters call every dimension they do not know "?".
        const std::string_view name = f.bytes();
        if (!name.empty()) out = name == "?" ? dims.fresh() : dims.symbol(name);
        break;
      }
      default: f.skip();
    }
  return out ? *out : dims.fresh();
}

Status read_tensor_type(std::string_view message, DimPool& dims, Fact& out) {
  for (Fields f(message); f.next();) switch (f.tag()) {
      case tensor_type::elem_type: {
        const auto t = static_cast<int32_t>(f.integer());
        if (t != 0 && !is_known(t)) return invalid_graph("element type {} is not one of ONNX's", t);
        out.dtype = static_cast<DType>(t);
        break;
      }
      case tensor_type::shape: {
        std::vector<Dim> shape;
        for (Fields d(f.bytes()); d.next();) {
          if (d.tag() != shape::dim) {
            d.skip();
            continue;
          }
          TRY_ASSIGN(dim, read_dim(d.bytes(), dims));
          shape.push_back(dim);
          if (shape.size() > kMaxRank) return invalid_graph("a type has more than {} dimensions", kMaxRank);
        }
        out.shape = std::move(shape);
        break;
      }
      default: f.skip();
    }
  return {};
}

}  // namespace

Result<NamedWeight> read_tensor_proto(std::string_view message, const Source& source) {
  TRY_ASSIGN(p, read_parts(message));
  NamedWeight out;
  out.name = std::move(p.name);
  const auto fill = [&]() -> Status {
    if (p.segment) return not_implemented("tensor segments are not supported");
    if (!is_known(static_cast<int>(p.type))) return invalid_graph("element type {} is not one of ONNX's", p.type);
    out.weight.dtype = static_cast<DType>(p.type);
    Result<Shape> dims = Shape::checked(p.dims);
    if (!dims.ok()) return invalid_graph("{}", dims.status().message());
    out.weight.shape = std::move(*dims);
    if (!bytes_for(out.weight.dtype, out.weight.shape.count()))
      return invalid_graph("{}{} has more bytes than 63 bits can count", name_of(out.weight.dtype),
                           out.weight.shape.dims());
    if (const Tensor* given = source.takes_given && source.external ? source.external->given(out.name) : nullptr)
      return attach_given(*given, out.weight);
    return p.external ? attach_external(p, source, out.weight) : attach_data(p, source, out.weight);
  };
  if (Status s = fill(); !s.ok()) return std::move(s).in(format("tensor {}", quote(out.name)));
  return out;
}

Result<NamedSparseWeight> read_sparse_tensor_proto(std::string_view message, const Source& source) {
  NamedSparseWeight out;
  std::vector<int64_t> dims;
  for (Fields f(message); f.next();) switch (f.tag()) {
      case sparse::values: {
        TRY_ASSIGN(v, read_tensor_proto(f.bytes(), source));
        out.name = std::move(v.name);
        out.weight.values = std::move(v.weight);
        break;
      }
      case sparse::indices: {
        TRY_ASSIGN(v, read_tensor_proto(f.bytes(), source));
        out.weight.indices = std::move(v.weight);
        break;
      }
      case sparse::dims:
        f.integers(dims);
        if (dims.size() > kMaxRank) return invalid_graph("a sparse tensor has more than {} dimensions", kMaxRank);
        break;
      default: f.skip();
    }
  Result<Shape> shape = Shape::checked(dims);
  if (!shape.ok()) return invalid_graph("sparse tensor {}: {}", quote(out.name), shape.status().message());
  out.weight.shape = std::move(*shape);
  return out;
}

Result<Fact> read_type_proto(std::string_view message, DimPool& dims, int depth) {
  if (depth > kMaxNesting) return error(Code::invalid_protobuf, "a type is nested more than {} deep", kMaxNesting);
  Fact out;
  const auto element_of = [&](std::string_view inner, Kind kind) -> Status {
    out.kind = kind;
    for (Fields f(inner); f.next();) {
      const bool key = kind == Kind::map && f.tag() == map_type::key_type;
      const bool element = kind == Kind::map ? f.tag() == map_type::value_type : f.tag() == sequence_type::elem_type;
      if (key) {
        const auto t = static_cast<int32_t>(f.integer());
        if (!is_known(t)) return invalid_graph("map key type {} is not one of ONNX's", t);
        out.key = static_cast<DType>(t);
      } else if (element) {
        TRY_ASSIGN(e, read_type_proto(f.bytes(), dims, depth + 1));
        out.element = std::make_shared<const Fact>(std::move(e));
      } else {
        f.skip();
      }
    }
    return {};
  };
  for (Fields f(message); f.next();) switch (f.tag()) {
      case type::tensor_type:
      case type::sparse_tensor_type:
        out.kind = f.tag() == type::tensor_type ? Kind::tensor : Kind::sparse_tensor;
        TRY(read_tensor_type(f.bytes(), dims, out));
        break;
      case type::sequence_type: TRY(element_of(f.bytes(), Kind::sequence)); break;
      case type::optional_type: TRY(element_of(f.bytes(), Kind::optional)); break;
      case type::map_type: TRY(element_of(f.bytes(), Kind::map)); break;
      case type::opaque_type:
        out.kind = Kind::opaque;
        f.skip();
        break;
      case type::denotation: out.denotation = f.text(); break;
      default: f.skip();
    }
  return out;
}

}  // namespace tessera::onnx
