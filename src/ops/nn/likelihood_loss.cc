// NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss: minus the log probability of the right class, times the weight
// of that class, for each sample or reduced to one number.
#include <cmath>
#include <limits>

#include "kernels/vmath.h"
#include "ops/agree.h"
#include "ops/elementwise.h"

namespace tessera {
namespace {

enum class Reduce : int { none, sum, mean };

struct Params {
  Reduce reduction = Reduce::mean;
  std::optional<int64_t> ignore_index;
};
Status parse(Attrs& a, Params& p) {
  static constexpr std::string_view kReductions[] = {"none", "sum", "mean"};
  int choice = static_cast<int>(p.reduction);
  a.get_choice("reduction", choice, kReductions);
  p.reduction = static_cast<Reduce>(choice);
  a.get("ignore_index", p.ignore_index);
  return {};
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  if (rank < 2) return c.refuse(0, "a batch and classes");
  bool same = c.rank(1) == rank - 1;
  for (int i = 0; same && i < rank - 1; ++i) same = agree(c.dim(0, i == 0 ? 0 : i + 1), c.dim(1, i));
  if (!same) return c.refuse(1, "the shape of input 0 without the classes");
  if (c.has(2) && !is_list(c, 2, c.dim(0, 1))) return c.refuse(2, "one weight for each class");
  TRY(p.reduction == Reduce::none ? c.set(0, c.dims(1)) : c.set(0, DimVec<D>{}));
  return c.outputs() > 1 ? c.set(1, c.dims(0)) : Status{};
}

Status check_labels(const Params& p, const Call& call) {
  const int64_t classes = call.shape(0)[1];
  for (int64_t k = 0, n = call.count(1); k < n; ++k)
    if (const int64_t label = call.integer(1, k); (label < 0 || label >= classes) && label != p.ignore_index)
      return call.refuse(1, "classes from 0 to {} (element {} is {})", classes - 1, k, label);
  return {};
}

// log_p: the log probability of each sample's class. The mean is over the weights of what is not ignored.
template <class T>
void finish(const Params& p, Call& call, const double* log_p) {
  const T* weight = call.maybe<T>(2);
  T* y = call.out<T>(0);
  if (!y) return;
  double sum = 0, total = 0;
  for (int64_t k = 0, n = call.count(1); k < n; ++k) {
    const int64_t label = call.integer(1, k);
    const bool ignored = label == p.ignore_index;
    const double w = ignored ? 0 : weight ? weight[label] : 1, loss = ignored ? 0 : -log_p[k] * w;
    if (p.reduction == Reduce::none) y[k] = static_cast<T>(loss);
    sum += loss;
    total += w;
  }
  if (p.reduction != Reduce::none) y[0] = static_cast<T>(p.reduction == Reduce::mean ? sum / total : sum);
}

// x seen as [batch, classes, inner]; a sample is a column of it.
struct Scores {
  Slices s;
  explicit Scores(const Call& call) : s(call.shape(0).around(1)) {}
  // Element of x that belongs to class c of sample k.
  int64_t at(int64_t k, int64_t c) const { return (k / s.inner * s.length + c) * s.inner + k % s.inner; }
};

template <class T>
Status likelihood(const Params& p, Call& call) {
  TRY(check_labels(p, call));
  const int64_t samples = call.count(1);
  TRY_ASSIGN(memory, Tensor::allocate(DType::f64, Shape{samples}));
  auto* log_p = static_cast<double*>(memory.mutable_data());
  const Scores scores(call);
  for_pieces(call, samples, [&](int64_t begin, int64_t count) {
    for (int64_t k = begin; k < begin + count; ++k)
      if (const int64_t label = call.integer(1, k); label != p.ignore_index)
        log_p[k] = call.in<T>(0)[scores.at(k, label)];
  });
  finish<T>(p, call, log_p);
  return {};
}

constexpr int64_t kColumns = 256;

// out[i] = log(sum of exp(x)) over the classes of column i, for at most kColumns columns side by side.
void log_sum_exp(Target, const double* x, const Slices& s, int64_t columns, double* out) {
  for (int64_t i = 0; i < columns; ++i) {
    double most = -std::numeric_limits<double>::infinity(), sum = 0;
    for (int64_t c = 0; c < s.length; ++c) most = std::max(most, x[c * s.inner + i]);
    for (int64_t c = 0; c < s.length; ++c) sum += std::exp(x[c * s.inner + i] - most);
    out[i] = most + std::log(sum);
  }
}
double log_sum_exp(Target target, const float* x, int64_t classes) {
  float most = -std::numeric_limits<float>::infinity(), part[kColumns];
  for (int64_t c = 0; c < classes; ++c) most = std::max(most, x[c]);
  double sum = 0;
  for (int64_t c = 0; c < classes; c += kColumns) {
    const int64_t n = std::min(kColumns, classes - c);
    binary_f32(target, Binary::sub, x + c, 1, &most, 0, part, n);
    unary_f32(target, Unary::exp, part, part, n);
    for (int64_t i = 0; i < n; ++i) sum += part[i];
  }
  return static_cast<double>(most) + std::log(sum);
}
void log_sum_exp(Target target, const float* x, const Slices& s, int64_t columns, double* out) {
  if (s.inner == 1) {
    out[0] = log_sum_exp(target, x, s.length);
    return;
  }
  float most[kColumns], part[kColumns];
  std::fill_n(most, columns, -std::numeric_limits<float>::infinity());
  std::fill_n(out, columns, 0.0);
  for (int64_t c = 0; c < s.length; ++c)
    for (int64_t i = 0; i < columns; ++i) most[i] = std::max(most[i], x[c * s.inner + i]);
  for (int64_t c = 0; c < s.length; ++c) {
    binary_f32(target, Binary::sub, x + c * s.inner, 1, most, 1, part, columns);
    unary_f32(target, Unary::exp, part, part, columns);
    for (int64_t i = 0; i < columns; ++i) out[i] += part[i];
  }
  for (int64_t i = 0; i < columns; ++i) out[i] = static_cast<double>(most[i]) + std::log(out[i]);
}

// Samples [first, first + n), which lie side by side.
template <class T>
void entropy_block(const Params& p, Call& call, const Scores& scores, int64_t first, int64_t n, double* log_p) {
  double norm[kColumns];
  const int64_t at = scores.at(first, 0);
  const T* x = call.in<T>(0) + at;
  log_sum_exp(call.target(), x, scores.s, n, norm);
  for (int64_t i = 0; i < n; ++i)
    if (const int64_t label = call.integer(1, first + i); label != p.ignore_index)
      log_p[first + i] = x[label * scores.s.inner + i] - norm[i];
  T* y = call.out<T>(1);
  for (int64_t c = 0; y && c < scores.s.length; ++c)
    for (int64_t i = 0; i < n; ++i) {
      const int64_t k = c * scores.s.inner + i;
      y[at + k] = static_cast<T>(x[k] - norm[i]);
    }
}

template <class T>
Status cross_entropy(const Params& p, Call& call) {
  TRY(check_labels(p, call));
  const int64_t samples = call.count(1);
  TRY_ASSIGN(memory, Tensor::allocate(DType::f64, Shape{samples}));
  auto* log_p = static_cast<double*>(memory.mutable_data());
  const Scores scores(call);
  const Slices& s = scores.s;
  const int64_t blocks = ceil_div(s.inner, kColumns), tasks = s.outer * blocks;
  const int64_t each = std::max<int64_t>(1, (1 << 13) / std::max<int64_t>(1, s.length * std::min(s.inner, kColumns)));
  call.parallel(ceil_div(tasks, each), [&](int64_t chunk, int) {
    for (int64_t t = chunk * each; t < std::min(tasks, (chunk + 1) * each) && !call.cancelled(); ++t) {
      const int64_t column = t % blocks * kColumns;
      entropy_block<T>(p, call, scores, t / blocks * s.inner + column, std::min(kColumns, s.inner - column), log_p);
    }
  });
  if (call.cancelled()) return call.stopped();
  finish<T>(p, call, log_p);
  return {};
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0) | in_arg(2) | out_arg(0) | out_arg(1), set_of(dtype_of<T>), widened_to<T>},
                               {in_arg(1), kIndexTypes}};
constexpr Kernel kLikelihood[] = {{kTypes<float>, compute_with<Params, likelihood<float>>},
                                  {kTypes<double>, compute_with<Params, likelihood<double>>}};
constexpr Kernel kCrossEntropy[] = {{kTypes<float>, compute_with<Params, cross_entropy<float>>},
                                    {kTypes<double>, compute_with<Params, cross_entropy<double>>}};
constexpr int16_t kLikelihoodVersions[] = {12, 13, 22}, kCrossEntropyVersions[] = {12, 13};

constexpr Op loss(const char* name, std::span<const int16_t> versions, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = versions,
          .parse = parse_params<Params, parse>,
          .shape = shape_with<Params, int64_t, shape<int64_t>>,
          .kernels = kernels};
}

}  // namespace

extern constexpr Op kNegativeLogLikelihoodLoss = loss("NegativeLogLikelihoodLoss", kLikelihoodVersions, kLikelihood);
extern constexpr Op kSoftmaxCrossEntropyLoss = loss("SoftmaxCrossEntropyLoss", kCrossEntropyVersions, kCrossEntropy);
extern constexpr OpInference kNegativeLogLikelihoodLossInference{.shape = shape_with<Params, Dim, shape<Dim>>};
extern constexpr OpInference kSoftmaxCrossEntropyLossInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace tessera
