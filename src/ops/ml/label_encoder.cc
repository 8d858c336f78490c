// LabelEncoder, CategoryMapper — values replaced by what a table says of them.
#include <bit>
#include <cmath>
#include <unordered_map>

#include "ops/movement.h"

namespace tessera {
namespace {

// Equal keys have equal codes: zeros of both signs are one key, and so are all NaN.
uint64_t code_of(DType t, const void* data, int64_t i) {
  if (t == DType::f32 || t == DType::f64) {
    double v;
    decode(t, data, i, 1, &v);
    if (std::isnan(v)) return ~uint64_t{0};
    return std::bit_cast<uint64_t>(v == 0 ? 0.0 : v);
  }
  int64_t v;
  decode(t, data, i, 1, &v);
  return static_cast<uint64_t>(v);
}

// Keys and what they stand for, one tensor each.
struct Table {
  Tensor keys, values, missing;  // missing: one element for everything else
  std::unordered_map<std::string, int64_t> by_text;
  std::unordered_map<uint64_t, int64_t> by_code;

  // The last of equal keys wins.
  Status index() {
    if (keys.count() != values.count())
      return invalid_graph("it has {} keys and {} values", keys.count(), values.count());
    if (missing.dtype() != values.dtype() || missing.count() != 1)
      return invalid_graph("its default is {}{}, wanted one {}", name_of(missing.dtype()), missing.shape().dims(),
                           name_of(values.dtype()));
    for (int64_t i = 0; i < keys.count(); ++i)
      if (keys.dtype() == DType::string)
        by_text[keys.values<std::string>()[static_cast<size_t>(i)]] = i;
      else
        by_code[code_of(keys.dtype(), keys.data(), i)] = i;
    return {};
  }
  // -1 for what is no key.
  int64_t find(const void* data, int64_t i) const {
    if (keys.dtype() == DType::string) {
      const auto it = by_text.find(static_cast<const std::string*>(data)[i]);
      return it == by_text.end() ? -1 : it->second;
    }
    const auto it = by_code.find(code_of(keys.dtype(), data, i));
    return it == by_code.end() ? -1 : it->second;
  }
};

// A table for each direction; CategoryMapper and the first LabelEncoder choose by the type of their input.
struct Params {
  Table tables[2];
  int count = 1;

  const Table& table_for(DType key) const {
    return count == 2 && tables[1].keys.dtype() == key ? tables[1] : tables[0];
  }
};

template <class T>
Result<Tensor> list_of(const std::vector<T>& list) {
  return Tensor::of<T>(Shape{static_cast<int64_t>(list.size())}, list);
}

// Strings and integers that stand for each other.
Status two_ways(Attrs& a, const std::vector<std::string>& texts, const std::vector<int64_t>& numbers, Params& p) {
  std::string text = "_Unused";
  int64_t number = -1;
  a.get("default_string", text);
  a.get("default_int64", number);
  TRY_ASSIGN(strings, list_of(texts));
  TRY_ASSIGN(integers, list_of(numbers));
  TRY_ASSIGN(no_string, Tensor::scalar(text));
  TRY_ASSIGN(no_number, Tensor::scalar(number));
  p.count = 2;
  p.tables[0].keys = p.tables[1].values = strings;
  p.tables[0].values = p.tables[1].keys = integers;
  p.tables[0].missing = no_number;
  p.tables[1].missing = no_string;
  TRY(p.tables[0].index());
  return p.tables[1].index();
}

Status parse_mapper(Attrs& a, Params& p) {
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  a.get("cats_strings", texts);
  a.get("cats_int64s", numbers);
  return two_ways(a, texts, numbers, p);
}

// The list among `stem` + "_strings", "_int64s", "_floats" and "_tensor" that is there.
Status read_list(Attrs& a, const std::string& stem, Tensor& out) {
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  std::vector<float> reals;
  a.get(stem + "_strings", texts);
  a.get(stem + "_int64s", numbers);
  a.get(stem + "_floats", reals);
  a.get(stem + "_tensor", out);
  const int given = !texts.empty() + !numbers.empty() + !reals.empty() + !out.empty();
  if (given != 1) return invalid_graph("it has {} of the attributes {}, wanted one", given, quote(stem + "_*"));
  if (!out.empty()) return {};
  Result<Tensor> list = !texts.empty() ? list_of(texts) : !numbers.empty() ? list_of(numbers) : list_of(reals);
  if (!list.ok()) return list.take_status();
  out = std::move(*list);
  return {};
}

Status read_default(Attrs& a, DType dtype, Tensor& out) {
  a.get("default_tensor", out);
  if (!out.empty()) return {};
  std::string text = "_Unused";
  int64_t number = -1;
  float real = -0.0f;
  a.get("default_string", text);
  a.get("default_int64", number);
  a.get("default_float", real);
  TRY_ASSIGN(t, Tensor::allocate(dtype, Shape{}));
  if (dtype == DType::string)
    *static_cast<std::string*>(t.mutable_data()) = text;
  else if (kInts.has(dtype))
    encode(dtype, t.mutable_data(), 0, 1, &number);
  else
    encode(dtype, t.mutable_data(), 0, 1, &real);
  out = std::move(t);
  return {};
}

Status parse_encoder(Attrs& a, Params& p) {
  if (a.version() == 1) {
    std::vector<std::string> texts;
    a.get("classes_strings", texts);
    std::vector<int64_t> numbers;
    for (size_t i = 0; i < texts.size(); ++i) numbers.push_back(static_cast<int64_t>(i));
    return two_ways(a, texts, numbers, p);
  }
  TRY(read_list(a, "keys", p.tables[0].keys));
  TRY(read_list(a, "values", p.tables[0].values));
  TRY(read_default(a, p.tables[0].values.dtype(), p.tables[0].missing));
  constexpr TypeSet kKeys = set_of(DType::string, DType::i64, DType::f32, DType::i32, DType::i16, DType::f64);
  if (!kKeys.has(p.tables[0].keys.dtype())) return invalid_graph("its keys are {}", name_of(p.tables[0].keys.dtype()));
  return p.tables[0].index();
}

void types(TypeCall& c) {
  const Params& p = *static_cast<const Params*>(c.params);
  c.out[0] = {Kind::tensor, p.table_for(c.in[0].dtype).values.dtype(), Kind::tensor};
}

Status compute(const Params& p, Call& call) {
  const Table& table = p.table_for(call.dtype(0));
  if (table.keys.dtype() != call.dtype(0)) return call.refuse(0, "a tensor of type {}", name_of(table.keys.dtype()));
  const DType out = table.values.dtype();
  void* y = call.out(0);
  for (int64_t i = 0, n = call.count(0); i < n; ++i) {
    const int64_t at = table.find(call.in(0), i);
    copy_elements(out, at < 0 ? table.missing.data() : table.values.data(), std::max<int64_t>(at, 0), y, i, 1);
  }
  return {};
}

constexpr TypeSet kTypes = set_of(DType::string, DType::i64, DType::f32, DType::i32, DType::i16, DType::f64);
constexpr TypeRule kRules[] = {{in_arg(0), kTypes}, {out_arg(0), kTypes}};
constexpr Kernel kKernels[] = {{kRules, compute_with<Params, compute>}};
constexpr int16_t kEncoderVersions[] = {1, 2, 4}, kMapperVersions[] = {1};

}  // namespace

extern constexpr Op kMlLabelEncoder{.domain = "ai.onnx.ml",
                                    .name = "LabelEncoder",
                                    .versions = kEncoderVersions,
                                    .parse = parse_params<Params, parse_encoder>,
                                    .types = types,
                                    .shape = shape_of_input<int64_t>,
                                    .kernels = kKernels};
extern constexpr OpInference kMlLabelEncoderInference{.shape = shape_of_input<Dim>};
extern constexpr Op kMlCategoryMapper{.domain = "ai.onnx.ml",
                                      .name = "CategoryMapper",
                                      .versions = kMapperVersions,
                                      .parse = parse_params<Params, parse_mapper>,
                                      .types = types,
                                      .shape = shape_of_input<int64_t>,
                                      .kernels = kKernels};
extern constexpr OpInference kMlCategoryMapperInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
