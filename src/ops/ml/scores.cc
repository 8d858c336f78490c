#include "ops/ml/scores.h"

#include <algorithm>

namespace tessera::ml {

Status get_post_transform(Attrs& attrs, PostTransform& out) {
  static constexpr std::string_view kNames[] = {"NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"};
  int choice = 0;
  attrs.get_choice("post_transform", choice, kNames);
  out = static_cast<PostTransform>(choice);
  return {};
}

Status get_labels(Attrs& attrs, std::string_view numbers, std::string_view names, Labels& out) {
  attrs.get(numbers, out.numbers);
  attrs.get(names, out.names);
  if (out.numbers.empty() == out.names.empty())
    return invalid_graph("it has {} class labels in {} and {} in {}, wanted either", out.numbers.size(), quote(numbers),
                         out.names.size(), quote(names));
  return {};
}

template <class T>
T logistic(T x) {
  const T v = 1 / (1 + std::exp(-std::abs(x)));
  return x < 0 ? 1 - v : v;
}

// Winitzki's closed form of the inverse error function, the one in common use for this transform.
template <class T>
T probit(T p) {
  const T x = 2 * p - 1;
  const T log = std::log((1 - x) * (1 + x));
  const T a = static_cast<T>(2 / (3.14159 * 0.147)) + log / 2;
  const T b = static_cast<T>(1 / 0.147) * log;
  const T inverse = std::sqrt(-a + std::sqrt(a * a - b));
  return static_cast<T>(1.41421356) * (x < 0 ? -inverse : inverse);
}

namespace {

template <class T>
void softmax(std::span<T> scores, bool keep_zeros) {
  const T most = *std::max_element(scores.begin(), scores.end());
  const T scale = std::exp(-most);
  T sum = 0;
  for (T& v : scores) {
    if (keep_zeros && std::abs(v) <= static_cast<T>(1e-7)) {
      v *= scale;
      continue;
    }
    v = std::exp(v - most);
    sum += v;
  }
  for (T& v : scores) v /= sum;
}

}  // namespace

template <class T>
void apply(PostTransform t, std::span<T> scores) {
  if (scores.empty()) return;
  switch (t) {
    case PostTransform::none: break;
    case PostTransform::softmax: softmax(scores, false); break;
    case PostTransform::softmax_zero: softmax(scores, true); break;
    case PostTransform::logistic:
      for (T& v : scores) v = logistic(v);
      break;
    case PostTransform::probit:
      for (T& v : scores) v = probit(v);
      break;
  }
}

template void apply(PostTransform, std::span<float>);
template void apply(PostTransform, std::span<double>);
template float logistic(float);
template float probit(float);

}  // namespace tessera::ml
