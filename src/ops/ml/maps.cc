// CastMap, DictVectorizer, ZipMap — between maps and tensors.
#include <charconv>
#include <cmath>

#include "core/convert.h"
#include "ops/ml/scores.h"
#include "ops/movement.h"

namespace tessera {
namespace {

Result<Value> read_map(const Call& call) {
  if (call.is_tensor(0)) return call.refuse(0, "a map");
  TRY_ASSIGN(v, call.value(0));
  if (!v.map()) return call.refuse(0, "a map");
  return std::move(v);
}

// The tensor that a map holds at one key: one element of the map's type.
const Tensor* single(const Value& v, DType wanted) {
  const Tensor* t = v.tensor();
  return t && t->count() == 1 && t->dtype() == wanted ? t : nullptr;
}

// ------------------------------------------------------------------------------------------------------ CastMap

struct Cast {
  int to = 0;
  int form = 0;  // 1: keys are positions in a row of max_map
  int64_t max_map = 1;
  DType dtype() const { return to == 0 ? DType::f32 : to == 1 ? DType::string : DType::i64; }
};
constexpr int64_t kLargestMap = int64_t{1} << 28;

Status parse_cast(Attrs& a, Cast& p) {
  static constexpr std::string_view kTo[] = {"TO_FLOAT", "TO_STRING", "TO_INT64"}, kForms[] = {"DENSE", "SPARSE"};
  a.get_choice("cast_to", p.to, kTo);
  a.get_choice("map_form", p.form, kForms);
  a.get("max_map", p.max_map);
  if (p.form == 1 && (p.max_map < 1 || p.max_map > kLargestMap))
    return a.refuse("max_map", format("1 to {}", kLargestMap));
  return {};
}
void cast_type(TypeCall& c) { c.out[0] = {Kind::tensor, static_cast<const Cast*>(c.params)->dtype(), Kind::tensor}; }

// One element of a map in the type that the cast wants.
Status cast_element(const Cast& p, const Call& call, const Value& v, void* out, int64_t i) {
  double number = 0;
  std::string text;
  if (const Tensor* t = single(v, DType::string)) {
    text = t->values<std::string>()[0];
    if (p.dtype() != DType::string) {
      const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (failed != std::errc() || end != text.data() + text.size())
        return call.refuse(0, "texts that are numbers ({} is none)", quote(text));
    }
  } else if (const Tensor* f = single(v, DType::f32)) {
    number = f->values<float>()[0];
    char digits[64];
    const auto written = std::to_chars(digits, std::end(digits), number, std::chars_format::fixed, 6);
    text.assign(digits, written.ptr);
  } else {
    return call.refuse(0, "a map to float or string");
  }
  switch (p.to) {
    case 0: static_cast<float*>(out)[i] = static_cast<float>(number); break;
    case 1: static_cast<std::string*>(out)[i] = std::move(text); break;
    default: static_cast<int64_t*>(out)[i] = to_integer<int64_t>(number);
  }
  return {};
}

Status cast_map(const Cast& p, Call& call) {
  TRY_ASSIGN(v, read_map(call));
  const auto* entries = std::get_if<std::map<int64_t, Value>>(&v.map()->entries);
  if (!entries) return call.refuse(0, "a map with integer keys");
  const int64_t size = p.form == 1 ? p.max_map : static_cast<int64_t>(entries->size());
  TRY(call.allocate(0, p.dtype(), Shape{1, size}));
  void* y = call.out(0);
  if (!y) return {};
  if (p.dtype() != DType::string && size) std::memset(y, 0, static_cast<size_t>(*bytes_for(p.dtype(), size)));
  int64_t i = 0;
  for (const auto& [key, value] : *entries) {
    if (p.form == 1 && (key < 0 || key >= size)) return call.refuse(0, "keys from 0 to {} (one is {})", size - 1, key);
    TRY(cast_element(p, call, value, y, p.form == 1 ? key : i++));
  }
  return {};
}

// ------------------------------------------------------------------------------------------------------ DictVectorizer

struct Vocabulary {
  ml::Labels words;
};
Status parse_vocabulary(Attrs& a, Vocabulary& p) {
  return ml::get_labels(a, "int64_vocabulary", "string_vocabulary", p.words);
}

template <class Key>
Status vectorize_with(const std::vector<Key>& words, const Value& v, Call& call) {
  const auto* entries = std::get_if<std::map<Key, Value>>(&v.map()->entries);
  if (!entries) return call.refuse(0, "a map whose keys have the type of the vocabulary");
  const DType dtype = call.out_dtype(0);
  TRY(call.allocate(0, dtype, Shape{1, static_cast<int64_t>(words.size())}));
  void* y = call.out(0);
  if (!y) return {};
  if (dtype != DType::string && !words.empty())
    std::memset(y, 0, static_cast<size_t>(call.out_count(0) * bits_of(dtype) / 8));
  for (size_t k = 0; k < words.size(); ++k) {
    const auto it = entries->find(words[k]);
    if (it == entries->end()) continue;
    const Tensor* t = single(it->second, dtype);
    if (!t) return call.refuse(0, "a map to {}", name_of(dtype));
    copy_elements(dtype, t->data(), 0, y, static_cast<int64_t>(k), 1);
  }
  return {};
}

Status vectorize(const Vocabulary& p, Call& call) {
  TRY_ASSIGN(v, read_map(call));
  return p.words.are_strings() ? vectorize_with(p.words.names, v, call) : vectorize_with(p.words.numbers, v, call);
}
void vectorize_type(TypeCall& c) { c.out[0] = {Kind::tensor, c.in[0].dtype, Kind::tensor}; }

// ------------------------------------------------------------------------------------------------------ ZipMap

void zip_type(TypeCall& c) { c.out[0] = {Kind::sequence, DType::f32, Kind::map}; }

Status zip(const Vocabulary& p, Call& call) {
  const int rank = call.shape(0).rank();
  if ((rank != 1 && rank != 2) || ml::columns_of(call) != p.words.size())
    return call.refuse(0, "rows of {} numbers, one per class label", p.words.size());
  auto out = std::make_shared<Sequence>();
  for (int64_t r = 0; r < ml::rows_of(call); ++r) {
    auto map = std::make_shared<Map>();
    if (p.words.are_strings()) map->entries.emplace<1>();
    for (int64_t k = 0; k < p.words.size(); ++k) {
      TRY_ASSIGN(t, Tensor::scalar<float>(call.in<float>(0)[r * p.words.size() + k]));
      if (p.words.are_strings())
        std::get<1>(map->entries)[p.words.names[static_cast<size_t>(k)]] = std::move(t);
      else
        std::get<0>(map->entries)[p.words.numbers[static_cast<size_t>(k)]] = std::move(t);
    }
    out->items.push_back(Value(std::move(map)));
  }
  call.set(0, std::move(out));
  return {};
}
Status parse_zip(Attrs& a, Vocabulary& p) {
  return ml::get_labels(a, "classlabels_int64s", "classlabels_strings", p.words);
}
Status infer_zip(const ir::Node&, const void* params, DimPool&, std::span<const Fact* const>, std::span<Fact> out) {
  Fact map;
  map.kind = Kind::map;
  map.key = static_cast<const Vocabulary*>(params)->words.dtype();
  map.element = std::make_shared<const Fact>(Fact::tensor(DType::f32, std::vector<Dim>{}));
  out[0] = Fact::sequence(std::move(map));
  return {};
}

constexpr TypeRule kZipTypes[] = {{in_arg(0), set_of(DType::f32)}};
constexpr Kernel kCast[] = {{{}, compute_with<Cast, cast_map>}};
constexpr Kernel kVectorize[] = {{{}, compute_with<Vocabulary, vectorize>}};
constexpr Kernel kZip[] = {{kZipTypes, compute_with<Vocabulary, zip>}};
constexpr int16_t kVersions[] = {1};

}  // namespace

extern constexpr Op kMlCastMap{.domain = "ai.onnx.ml",
                               .name = "CastMap",
                               .versions = kVersions,
                               .parse = parse_params<Cast, parse_cast>,
                               .types = cast_type,
                               .kernels = kCast};
extern constexpr OpInference kMlCastMapInference{};
extern constexpr Op kMlDictVectorizer{.domain = "ai.onnx.ml",
                                      .name = "DictVectorizer",
                                      .versions = kVersions,
                                      .parse = parse_params<Vocabulary, parse_vocabulary>,
                                      .types = vectorize_type,
                                      .kernels = kVectorize};
extern constexpr OpInference kMlDictVectorizerInference{};
extern constexpr Op kMlZipMap{.domain = "ai.onnx.ml",
                              .name = "ZipMap",
                              .versions = kVersions,
                              .parse = parse_params<Vocabulary, parse_zip>,
                              .types = zip_type,
                              .kernels = kZip};
extern constexpr OpInference kMlZipMapInference{.infer = infer_zip};

}  // namespace tessera
