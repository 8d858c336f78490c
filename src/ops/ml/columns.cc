// Binarizer, Imputer, Scaler, Normalizer — each number of a table on its own, or in relation to its row.
#include "ops/ml/scores.h"

namespace tessera {
namespace {

// ------------------------------------------------------------------------------------------------------ Binarizer

struct Threshold {
  float value = 0;
};
Status parse_threshold(Attrs& a, Threshold& p) {
  a.get("threshold", p.value);
  return {};
}
template <class T>
Status binarize(const Threshold& p, Call& call) {
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  for (int64_t i = 0, n = call.count(0); i < n; ++i) y[i] = static_cast<double>(x[i]) > p.value ? T{1} : T{0};
  return {};
}

// ------------------------------------------------------------------------------------------------------ Imputer

struct Imputation {
  std::vector<float> floats;
  std::vector<int64_t> integers;
  float replaced_float = 0;
  int64_t replaced_integer = 0;

  template <class T>
  const auto& values() const {
    if constexpr (std::is_integral_v<T>)
      return integers;
    else
      return floats;
  }
  template <class T>
  bool replaces(T v) const {
    if constexpr (std::is_integral_v<T>)
      return v == replaced_integer;
    else
      return std::isnan(replaced_float) ? std::isnan(v) : v == static_cast<T>(replaced_float);
  }
};
Status parse_imputation(Attrs& a, Imputation& p) {
  a.get("imputed_value_floats", p.floats);
  a.get("imputed_value_int64s", p.integers);
  a.get("replaced_value_float", p.replaced_float);
  a.get("replaced_value_int64", p.replaced_integer);
  if (p.floats.empty() == p.integers.empty())
    return invalid_graph("it has {} floats and {} integers to impute, wanted either", p.floats.size(),
                         p.integers.size());
  return {};
}
template <class T>
Status impute(const Imputation& p, Call& call) {
  const auto& values = p.values<T>();
  if (values.empty()) return call.refuse(0, "the type of the imputed values");
  if (call.shape(0).rank() < 1) return call.refuse(0, "at least one dimension");
  const int64_t columns = ml::columns_of(call), size = static_cast<int64_t>(values.size());
  if (size != 1 && size != columns) return call.refuse(0, "{} columns, one per imputed value", size);
  const T* x = call.in<T>(0);
  T* y = call.out<T>(0);
  for (int64_t i = 0, n = call.count(0); i < n; ++i) {
    const auto at = static_cast<size_t>(size == 1 ? 0 : i % columns);
    y[i] = p.replaces(x[i]) ? static_cast<T>(values[at]) : x[i];
  }
  return {};
}

// ------------------------------------------------------------------------------------------------------ Scaler

struct Scaling {
  std::vector<float> scale, offset;
};
Status parse_scaling(Attrs& a, Scaling& p) {
  a.get("scale", p.scale);
  a.get("offset", p.offset);
  if (p.scale.empty()) p.scale = {1};
  if (p.offset.empty()) p.offset = {0};
  return {};
}
Status scale(const Scaling& p, Call& call) {
  if (call.shape(0).rank() < 1) return call.refuse(0, "at least one dimension");
  const int64_t columns = ml::columns_of(call);
  for (const auto* list : {&p.scale, &p.offset})
    if (list->size() != 1 && static_cast<int64_t>(list->size()) != columns)
      return call.refuse(0, "{} columns, one per scale or offset", list->size());
  const float* x = call.in<float>(0);
  float* y = call.out<float>(0);
  for (int64_t i = 0, n = call.count(0); i < n; ++i) {
    const auto c = static_cast<size_t>(i % columns);
    y[i] = (x[i] - p.offset[p.offset.size() == 1 ? 0 : c]) * p.scale[p.scale.size() == 1 ? 0 : c];
  }
  return {};
}

// ------------------------------------------------------------------------------------------------------ Normalizer

enum Norm { kMax, kL1, kL2 };
struct Normalization {
  int norm = kMax;
};
Status parse_normalization(Attrs& a, Normalization& p) {
  static constexpr std::string_view kNames[] = {"MAX", "L1", "L2"};
  a.get_choice("norm", p.norm, kNames);
  return {};
}
Status normalize(const Normalization& p, Call& call) {
  if (call.shape(0).rank() != 1 && call.shape(0).rank() != 2) return call.refuse(0, "a shape [N,C] or [C]");
  const int64_t rows = ml::rows_of(call), columns = ml::columns_of(call);
  for (int64_t r = 0; r < rows; ++r) {
    const float* x = call.in<float>(0) + r * columns;
    float* y = call.out<float>(0) + r * columns;
    float norm = p.norm == kMax ? -std::numeric_limits<float>::infinity() : 0;
    for (int64_t c = 0; c < columns; ++c)
      norm = p.norm == kMax ? std::max(norm, x[c]) : norm + (p.norm == kL1 ? std::fabs(x[c]) : x[c] * x[c]);
    if (p.norm == kL2) norm = std::sqrt(norm);
    for (int64_t c = 0; c < columns; ++c) y[c] = norm != 0 ? x[c] / norm : x[c];
  }
  return {};
}

template <class T>
constexpr TypeRule kSame[] = {{in_arg(0) | out_arg(0), set_of(dtype_of<T>)}};
constexpr TypeRule kToFloat[] = {{in_arg(0), set_of(DType::f32), set_of(DType::f64, DType::i32, DType::i64)},
                                 {out_arg(0), set_of(DType::f32)}};
constexpr Kernel kBinarize[] = {{kSame<float>, compute_with<Threshold, binarize<float>>},
                                {kSame<double>, compute_with<Threshold, binarize<double>>},
                                {kSame<int32_t>, compute_with<Threshold, binarize<int32_t>>},
                                {kSame<int64_t>, compute_with<Threshold, binarize<int64_t>>}};
constexpr Kernel kImpute[] = {{kSame<float>, compute_with<Imputation, impute<float>>},
                              {kSame<double>, compute_with<Imputation, impute<double>>},
                              {kSame<int32_t>, compute_with<Imputation, impute<int32_t>>},
                              {kSame<int64_t>, compute_with<Imputation, impute<int64_t>>}};
constexpr Kernel kScale[] = {{kToFloat, compute_with<Scaling, scale>}};
constexpr Kernel kNormalize[] = {{kToFloat, compute_with<Normalization, normalize>}};
constexpr int16_t kVersions[] = {1};

}  // namespace

extern constexpr Op kMlBinarizer{.domain = "ai.onnx.ml",
                                 .name = "Binarizer",
                                 .versions = kVersions,
                                 .parse = parse_params<Threshold, parse_threshold>,
                                 .shape = shape_of_input<int64_t>,
                                 .kernels = kBinarize};
extern constexpr OpInference kMlBinarizerInference{.shape = shape_of_input<Dim>};
extern constexpr Op kMlImputer{.domain = "ai.onnx.ml",
                               .name = "Imputer",
                               .versions = kVersions,
                               .parse = parse_params<Imputation, parse_imputation>,
                               .shape = shape_of_input<int64_t>,
                               .kernels = kImpute};
extern constexpr OpInference kMlImputerInference{.shape = shape_of_input<Dim>};
extern constexpr Op kMlScaler{.domain = "ai.onnx.ml",
                              .name = "Scaler",
                              .versions = kVersions,
                              .parse = parse_params<Scaling, parse_scaling>,
                              .types = type_always<DType::f32>,
                              .shape = shape_of_input<int64_t>,
                              .kernels = kScale};
extern constexpr OpInference kMlScalerInference{.shape = shape_of_input<Dim>};
extern constexpr Op kMlNormalizer{.domain = "ai.onnx.ml",
                                  .name = "Normalizer",
                                  .versions = kVersions,
                                  .parse = parse_params<Normalization, parse_normalization>,
                                  .types = type_always<DType::f32>,
                                  .shape = shape_of_input<int64_t>,
                                  .kernels = kNormalize};
extern constexpr OpInference kMlNormalizerInference{.shape = shape_of_input<Dim>};

}  // namespace tessera
