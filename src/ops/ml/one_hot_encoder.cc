// OneHotEncoder — a new last axis with a one at the category of each element.
#include <unordered_map>

#include "core/convert.h"
#include "ops/op.h"

namespace tessera {
namespace {

struct Params {
  std::unordered_map<std::string, int64_t> texts;
  std::unordered_map<int64_t, int64_t> numbers;
  int64_t count = 0;
  bool zeros = true;  // what is no category has no one, instead of being refused
};
Status parse(Attrs& a, Params& p) {
  std::vector<std::string> texts;
  std::vector<int64_t> numbers;
  a.get("cats_strings", texts);
  a.get("cats_int64s", numbers);
  a.get("zeros", p.zeros);
  if (texts.empty() == numbers.empty())
    return invalid_graph("it has {} strings and {} integers as categories, wanted either", texts.size(),
                         numbers.size());
  p.count = static_cast<int64_t>(texts.size() + numbers.size());
  for (size_t i = 0; i < texts.size(); ++i) p.texts.emplace(texts[i], i);
  for (size_t i = 0; i < numbers.size(); ++i) p.numbers.emplace(numbers[i], i);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  DimVec<D> out(c.dims(0));
  out.push(D(p.count));
  return c.set(0, out);
}

// The category of element i, or -1.
int64_t category(const Params& p, const Call& call, int64_t i) {
  if (call.dtype(0) == DType::string) {
    const auto it = p.texts.find(call.in<std::string>(0)[i]);
    return it == p.texts.end() ? -1 : it->second;
  }
  int64_t v;
  decode(call.dtype(0), call.in(0), i, 1, &v);
  const auto it = p.numbers.find(v);
  return it == p.numbers.end() ? -1 : it->second;
}

Status compute(const Params& p, Call& call) {
  if ((call.dtype(0) == DType::string) == p.texts.empty()) return call.refuse(0, "the type of the categories");
  float* y = call.out<float>(0);
  std::fill_n(y, call.out_count(0), 0.0f);
  for (int64_t i = 0, n = call.count(0); i < n; ++i) {
    const int64_t at = category(p, call, i);
    if (at >= 0)
      y[i * p.count + at] = 1;
    else if (!p.zeros)
      return call.refuse(0, "known categories only (element {} is none)", i);
  }
  return {};
}

constexpr TypeRule kTypes[] = {{in_arg(0), set_of(DType::string, DType::i64, DType::i32, DType::f32, DType::f64)},
                               {out_arg(0), set_of(DType::f32)}};
constexpr Kernel kKernels[] = {{kTypes, compute_with<Params, compute>}};
constexpr int16_t kVersions[] = {1};

}  // namespace

extern constexpr Op kMlOneHotEncoder{.domain = "ai.onnx.ml",
                                     .name = "OneHotEncoder",
                                     .versions = kVersions,
                                     .parse = parse_params<Params, parse>,
                                     .types = type_always<DType::f32>,
                                     .shape = shape_with<Params, int64_t, shape<int64_t>>,
                                     .kernels = kKernels};
extern constexpr OpInference kMlOneHotEncoderInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
