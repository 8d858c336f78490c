// ReduceSum, ReduceMean, ReduceMax, ReduceMin, ReduceProd, ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp,
// ReduceSumSquare: the elements along some axes become one.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <type_traits>

#include "core/convert.h"
#include "ir/patch.h"
#include "kernels/rows.h"
#include "kernels/vmath.h"
#include "ops/elementwise.h"
#include "ops/reduce/reduction.h"

namespace tessera {
namespace {

struct Params {
  bool keepdims = true;
  bool noop_with_empty_axes = false;
};
Status parse(Attrs& a, Params& p) {
  a.get("keepdims", p.keepdims);
  a.get("noop_with_empty_axes", p.noop_with_empty_axes);
  return {};
}

// Before version `Since` the axes are an attribute.
template <int Since>
Status upgrade(ir::Annotator& graph, ir::NodeId id, int since) {
  if (since >= Since) return {};
  ir::Node& n = graph.node(id);
  std::vector<int64_t> axes;
  Attrs a(n, since);
  a.get("axes", axes);
  TRY(a.done());
  std::erase_if(n.attributes, [](const ir::Attribute& x) { return x.name == "axes"; });
  n.inputs.resize(1);
  if (axes.empty()) return {};
  const std::string name = n.name + "/axes";
  TRY_ASSIGN(t, Tensor::of<int64_t>(Shape{static_cast<int64_t>(axes.size())}, axes));
  const ir::ValueId value = graph.add_constant(std::move(t), name);
  graph.node(id).inputs.push_back(value);
  return {};
}

// Marks the axes that go away; -1 or the first axis that is none.
template <class D>
int mark_axes(const Params& p, std::span<const D> axes, int rank, bool* reduced) {
  std::fill_n(reduced, kMaxRank, axes.empty() && !p.noop_with_empty_axes);
  for (size_t i = 0; i < axes.size(); ++i) {
    const auto axis = normalize_axis(number(axes[i]), rank);
    if (!axis) return static_cast<int>(i);
    reduced[*axis] = true;
  }
  return -1;
}

template <class D>
Status shape(const Params& p, ShapeCall<D>& c) {
  const int rank = c.rank(0);
  std::span<const D> axes;
  if (c.has(1)) {
    if (c.rank(1) != 1) return c.refuse(1, "a list of axes");
    const auto content = c.content(1);
    if (!content || !std::all_of(content->begin(), content->end(), [](const D& d) { return known(d); })) {
      const D n = c.dim(1, 0);
      const bool exact = known(n) && number(n) > 0 && number(n) <= rank;
      return c.unknown(0, p.keepdims ? rank : exact ? rank - static_cast<int>(number(n)) : -1);
    }
    axes = *content;
  }
  bool reduced[kMaxRank];
  if (mark_axes(p, axes, rank, reduced) >= 0) return c.refuse(1, format("axes from -{} to {}", rank, rank - 1));
  DimVec<D> out;
  for (int k = 0; k < rank; ++k) {
    if (!reduced[k])
      out.push(c.dim(0, k));
    else if (p.keepdims)
      out.push(D(1));
  }
  return c.set(0, out);
}

// Sums are kept in double for floats; integers wrap as 64 bits do, which is exact for the wrapped result.
template <class T>
using Wide = std::conditional_t<std::is_floating_point_v<T>, double, uint64_t>;
template <class T>
Wide<T> wide(T x) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>)
    return static_cast<uint64_t>(static_cast<int64_t>(x));
  else
    return static_cast<Wide<T>>(x);
}
template <class T>
Wide<T> magnitude(T x) {
  if constexpr (std::is_floating_point_v<T>) return std::fabs(static_cast<double>(x));
  return std::is_signed_v<T> && x < 0 ? 0 - wide(x) : wide(x);
}
// A sum as a number of its own sign.
template <class T>
double real(Wide<T> sum) {
  if constexpr (std::is_signed_v<T> && std::is_integral_v<T>) return static_cast<double>(static_cast<int64_t>(sum));
  return static_cast<double>(sum);
}
template <class T>
T from_real(double v) {
  if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(v);
  else
    return to_integer<T>(v);
}

template <class T>
struct Sum {
  using Acc = Wide<T>;
  static Acc start() { return 0; }
  static Acc fold(Acc a, T x) { return a + wide(x); }
  static Acc merge(Acc a, Acc b) { return a + b; }
  static T finish(Acc a, int64_t) { return static_cast<T>(a); }
  static constexpr RowReduce kRow = RowReduce::sum;
};
template <class T>
struct Mean : Sum<T> {
  static constexpr RowReduce kRow = RowReduce::mean;
  static T finish(Wide<T> a, int64_t n) {
    if constexpr (std::is_floating_point_v<T>) return static_cast<T>(a / static_cast<double>(n));
    if (n == 0) return 0;
    if constexpr (std::is_signed_v<T>) return static_cast<T>(static_cast<int64_t>(a) / n);
    return static_cast<T>(a / static_cast<Wide<T>>(n));
  }
};
template <class T>
struct Prod {
  using Acc = Wide<T>;
  static Acc start() { return 1; }
  static Acc fold(Acc a, T x) { return a * wide(x); }
  static Acc merge(Acc a, Acc b) { return a * b; }
  static T finish(Acc a, int64_t) { return static_cast<T>(a); }
};
template <class T>
struct L1 : Sum<T> {
  static constexpr RowReduce kRow = RowReduce::sum_abs;
  static Wide<T> fold(Wide<T> a, T x) { return a + magnitude(x); }
};
template <class T>
struct SumSquare : Sum<T> {
  static constexpr RowReduce kRow = RowReduce::sum_square;
  static Wide<T> fold(Wide<T> a, T x) { return a + wide(x) * wide(x); }
};
template <class T>
struct L2 : SumSquare<T> {
  static constexpr Unary kAfter = Unary::sqrt;
  static T finish(Wide<T> a, int64_t) { return from_real<T>(std::sqrt(static_cast<double>(a))); }
};
template <class T>
struct LogSum : Sum<T> {
  static constexpr Unary kAfter = Unary::log;
  static T finish(Wide<T> a, int64_t) { return from_real<T>(std::log(real<T>(a))); }
};

// log(sum(exp(x))) without overflow: the largest element so far and the sum relative to it.
template <class T>
struct LogSumExp {
  struct Acc {
    double most, sum;
  };
  static Acc start() { return {-std::numeric_limits<double>::infinity(), 0}; }
  static Acc fold(Acc a, T x) { return merge(a, {static_cast<double>(x), 1}); }
  static Acc merge(Acc a, Acc b) {
    if (a.most == b.most) return {a.most, a.sum + b.sum};
    if (a.most > b.most) return {a.most, a.sum + b.sum * std::exp(b.most - a.most)};
    return {b.most, a.sum * std::exp(a.most - b.most) + b.sum};
  }
  static T finish(Acc a, int64_t) { return from_real<T>(a.most + std::log(a.sum)); }
};

template <class T>
struct Max {
  using Acc = T;
  static constexpr RowReduce kRow = RowReduce::max;
  static Acc start() {
    using L = std::numeric_limits<T>;
    return L::has_infinity ? static_cast<T>(-L::infinity()) : L::lowest();
  }
  static Acc fold(Acc a, T x) { return x > a || x != x ? x : a; }
  static Acc merge(Acc a, Acc b) { return fold(a, b); }
  static T finish(Acc a, int64_t) { return a; }
};
template <class T>
struct Min {
  using Acc = T;
  static constexpr RowReduce kRow = RowReduce::min;
  static Acc start() {
    using L = std::numeric_limits<T>;
    return L::has_infinity ? L::infinity() : L::max();
  }
  static Acc fold(Acc a, T x) { return x < a || x != x ? x : a; }
  static Acc merge(Acc a, Acc b) { return fold(a, b); }
  static T finish(Acc a, int64_t) { return a; }
};

// How rows of floats are reduced with vectors, and what follows.
struct FastRows {
  std::optional<RowReduce> row;
  std::optional<Unary> after;
};
template <class F, class T>
constexpr FastRows fast_rows() {
  FastRows out;
  if constexpr (std::is_same_v<T, float> && requires { F::kRow; }) out.row = F::kRow;
  if constexpr (std::is_same_v<T, float> && requires { F::kAfter; }) out.after = F::kAfter;
  return out;
}

Status compute_any(const Params& p, Call& call, const FoldKind& kind, const FastRows& fast) {
  bool reduced[kMaxRank];
  const std::span<const int64_t> axes =
      call.has(1) ? std::span(call.in<int64_t>(1), static_cast<size_t>(call.count(1))) : std::span<const int64_t>();
  if (mark_axes(p, axes, call.shape(0).rank(), reduced) >= 0) return call.refuse(1, "axes of input 0");
  const ReductionLayout layout(call.shape(0).dims(), reduced);
  if (fast.row && layout.rows() && layout.length() > 0) {
    float* y = call.out<float>(0);
    reduce_rows(call.target(), call.threads(), *fast.row, call.in<float>(0), y, layout.outputs(), layout.length());
    if (fast.after) unary_f32(call.target(), *fast.after, y, y, layout.outputs());
    return {};
  }
  fold_into(call, layout, kind, call.in(0), call.out(0));
  return call.cancelled() ? call.stopped() : Status{};
}

template <template <class> class F, class T>
Status compute(const Params& p, Call& call) {
  static_assert(sizeof(typename F<T>::Acc) <= kMostStateBytes);
  return compute_any(p, call, kFold<F<T>, T, T>, fast_rows<F<T>, T>());
}

template <class T>
constexpr TypeRule kTypes[] = {{in_arg(0) | out_arg(0), set_of(dtype_of<T>), widened_to<T>},
                               {in_arg(1), set_of(DType::i64)}};
// Extremes of nothing depend on the very type.
template <class T>
constexpr TypeRule kOwnTypes[] = {{in_arg(0) | out_arg(0), set_of(dtype_of<T>)}, {in_arg(1), set_of(DType::i64)}};
template <>
constexpr TypeRule kOwnTypes<float>[] = {{in_arg(0) | out_arg(0), set_of(DType::f32), kHalfFloats},
                                         {in_arg(1), set_of(DType::i64)}};

template <template <class> class F, class T>
constexpr Kernel kernel{kTypes<T>, compute_with<Params, compute<F, T>>};
template <template <class> class F, class T>
constexpr Kernel own_kernel{kOwnTypes<T>, compute_with<Params, compute<F, T>>};
template <template <class> class F>
constexpr Kernel kKernels[] = {kernel<F, float>,   kernel<F, double>,   kernel<F, int32_t>,
                               kernel<F, int64_t>, kernel<F, uint32_t>, kernel<F, uint64_t>};
template <template <class> class F>
constexpr Kernel kExtremes[] = {own_kernel<F, float>,    own_kernel<F, double>,   own_kernel<F, int32_t>,
                                own_kernel<F, int64_t>,  own_kernel<F, uint32_t>, own_kernel<F, uint64_t>,
                                own_kernel<F, int8_t>,   own_kernel<F, uint8_t>,  own_kernel<F, int16_t>,
                                own_kernel<F, uint16_t>, own_kernel<F, bool>};

constexpr int16_t kSumVersions[] = {1, 11, 13};
constexpr int16_t kVersions[] = {1, 11, 13, 18};
constexpr int16_t kLogVersions[] = {1, 11, 13, 18, 28};
constexpr int16_t kExtremeVersions[] = {1, 11, 12, 13, 18, 20};

template <int AxesInput = 18>
constexpr Op reduce(const char* name, std::span<const int16_t> versions, std::span<const Kernel> kernels) {
  return {.domain = "",
          .name = name,
          .versions = versions,
          .parse = parse_params<Params, parse>,
          .shape = shape_with<Params, int64_t, shape<int64_t>>,
          .kernels = kernels,
          .shape_inputs = in_arg(1),
          .upgrade = upgrade<AxesInput>};
}
constexpr OpInference kInference{.shape = shape_with<Params, Dim, shape<Dim>>};

}  // namespace

extern constexpr Op kReduceSum = reduce<13>("ReduceSum", kSumVersions, kKernels<Sum>);
extern constexpr Op kReduceMean = reduce("ReduceMean", kVersions, kKernels<Mean>);
extern constexpr Op kReduceProd = reduce("ReduceProd", kVersions, kKernels<Prod>);
extern constexpr Op kReduceL1 = reduce("ReduceL1", kVersions, kKernels<L1>);
extern constexpr Op kReduceL2 = reduce("ReduceL2", kVersions, kKernels<L2>);
extern constexpr Op kReduceSumSquare = reduce("ReduceSumSquare", kVersions, kKernels<SumSquare>);
extern constexpr Op kReduceLogSum = reduce("ReduceLogSum", kLogVersions, kKernels<LogSum>);
extern constexpr Op kReduceLogSumExp = reduce("ReduceLogSumExp", kLogVersions, kKernels<LogSumExp>);
extern constexpr Op kReduceMax = reduce("ReduceMax", kExtremeVersions, kExtremes<Max>);
extern constexpr Op kReduceMin = reduce("ReduceMin", kExtremeVersions, kExtremes<Min>);
extern constexpr OpInference kReduceSumInference = kInference;
extern constexpr OpInference kReduceMeanInference = kInference;
extern constexpr OpInference kReduceProdInference = kInference;
extern constexpr OpInference kReduceL1Inference = kInference;
extern constexpr OpInference kReduceL2Inference = kInference;
extern constexpr OpInference kReduceSumSquareInference = kInference;
extern constexpr OpInference kReduceLogSumInference = kInference;
extern constexpr OpInference kReduceLogSumExpInference = kInference;
extern constexpr OpInference kReduceMaxInference = kInference;
extern constexpr OpInference kReduceMinInference = kInference;

}  // namespace tessera
